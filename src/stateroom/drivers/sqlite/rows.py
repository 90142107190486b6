"""Rows of the item table as records, and the SQL that reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from stateroom.model.item import Record
from stateroom.model.namespace import Namespace, decode

__all__ = ["COLUMNS", "FROM", "LIVE", "ids", "records_of", "to_record"]

COLUMNS = "n.path, i.key, i.value, i.revision, i.created_at, i.updated_at, i.ttl, i.expires_at"
"""What ``to_record`` reads, from ``stateroom_item i`` joined with ``stateroom_namespace n``."""

FROM = "stateroom_item i join stateroom_namespace n on n.id = i.namespace_id"

LIVE = "(i.expires_at is null or i.expires_at > ?)"
"""The condition that an item has not expired; its parameter is the present."""

_PATHS_MAX = 10_000
_paths: dict[bytes, Namespace] = {}


def to_record(row: Sequence[Any]) -> Record:
    """Return the record of a row of ``COLUMNS``."""
    path, key, value, *rest = row
    namespace = _paths.get(path)
    if namespace is None:
        if len(_paths) >= _PATHS_MAX:
            _paths.clear()
        namespace = _paths[path] = decode(path)
    return Record(namespace, key.decode(), value, *rest)


def ids(numbers: Iterable[int]) -> str:
    """Return numbers as the JSON array that ``json_each`` reads: a list of any length in one parameter."""
    return orjson.dumps(list(numbers)).decode()


def records_of(connection: sqlite3.Connection, revisions: Sequence[int]) -> list[Record]:
    """Return the records of revisions that exist, in the given order."""
    if not revisions:
        return []
    rows = connection.execute(
        f"select {COLUMNS} from json_each(?) wanted "  # noqa: S608  # constants only
        "cross join stateroom_item i on i.revision = wanted.value "
        "join stateroom_namespace n on n.id = i.namespace_id order by wanted.key",
        (ids(revisions),),
    )
    return [to_record(row) for row in rows]
