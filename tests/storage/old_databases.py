"""Databases as earlier releases left them behind, and what those releases read from them."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import psycopg

from stateroom.stores.base import Store

__all__ = ["AT", "EXPECTED", "contents", "restore"]

_DATA: Final = Path(__file__).parent / "data"
_SCHEMA: Final = "old_schema"

EXPECTED: Final[dict[str, Any]] = json.loads((_DATA / "expected.json").read_text())
"""What ``contents`` was under the old code, for each database."""

AT: Final[int] = EXPECTED["clock"]
"""When it was, in microseconds."""


def restore(*place: str) -> None:
    """Make an SQLite file, or a schema of the Postgres database at a URI, as version 2 left it."""
    if len(place) == 1:
        with closing(sqlite3.connect(*place)) as file:
            file.executescript((_DATA / "version_2.sqlite.sql").read_text())
            file.execute("pragma journal_mode = wal")
        return
    uri, schema = place
    script = (_DATA / "version_2.postgres.sql").read_text().replace(_SCHEMA, schema)
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("set client_min_messages = 'warning'")
        connection.execute("create extension if not exists vector with schema public")
        connection.execute(script.encode())


def contents(store: Store) -> dict[str, Any]:
    """Return every item with all that is known of it, and what is found by words, vectors and keys."""
    return {
        "items": [
            [
                list(item.namespace),
                item.key,
                item.value,
                item.created_at.isoformat(),
                item.updated_at.isoformat(),
                item.revision,
                item.ttl,
                item.expires_at and item.expires_at.isoformat(),
            ]
            for item in store.search((), limit=1000, refresh_ttl=False)
        ],
        "found": {
            f"{mode}: {query}": [
                [hit.key, hit.score]
                for hit in store.search((), query=query, mode=mode, limit=1000, refresh_ttl=False)
            ]
            for query in ("harbour", "tides")
            for mode in ("text", "vector", "hybrid")
        },
        "namespaces": [list(namespace) for namespace in store.list_namespaces(limit=1000)],
        "by key": [item.key for item in store.search((), filter={"n": {"$gte": 3}}, refresh_ttl=False)],
    }
