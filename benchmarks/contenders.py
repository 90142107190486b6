"""The stores that are measured: ours with and without the text index, and LangGraph's."""

from __future__ import annotations

import importlib
import os
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

import psycopg
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from langgraph.store.postgres import PostgresStore as LangGraphPostgresStore
from langgraph.store.sqlite import SqliteStore as LangGraphSqliteStore

from benchmarks.measure import Contender
from stateroom import InMemoryStore, PostgresStore, SqliteStore

__all__ = ["BACKENDS", "PEER_NAMES", "analyze", "contenders", "extension_sqlite", "new_schema"]

POSTGRES = os.environ.get("STATEROOM_TEST_POSTGRES", "")
"""The address of a server whose schemas ``bench_ours``, ``bench_peer`` and the like are made anew."""

BACKENDS = ("memory", "sqlite", "durable", "postgres") if POSTGRES else ("memory", "sqlite", "durable")
"""``sqlite`` is WAL and NORMAL on both sides; ``durable`` is FULL against what the peer sets by itself."""

PEER_NAMES = {
    "memory": "LangGraph InMemoryStore",
    "sqlite": "LangGraph SqliteStore, WAL, NORMAL",
    "durable": "LangGraph SqliteStore as it opens itself",
    "postgres": "LangGraph PostgresStore",
}
NAMES = {"ours": "text off", "text": "text index on", "declared": "declared key"}
DECLARED = ("rare",)

Index = Mapping[str, Any] | None


def extension_sqlite() -> Any:
    """Return an ``sqlite3`` module that can load extensions, as the peer's vectors need, or None."""
    for name in ("sqlite3", "pysqlite3"):
        try:
            module = importlib.import_module(name)
        except ImportError:
            continue
        if hasattr(module.Connection, "enable_load_extension"):
            return module
    return None


@contextmanager
def contenders(
    backend: str, folder: Path, roles: tuple[str, ...], *, index: Index = None
) -> Iterator[list[Contender]]:
    """Open the stores of a back end by role: ``ours`` (text off), ``text``, ``declared``, ``peer``."""
    with ExitStack() as stack:
        opened = []
        for role in roles:
            store = _peer(backend, folder, index) if role == "peer" else _ours(backend, folder, role, index)
            name = PEER_NAMES[backend] if role == "peer" else NAMES[role]
            opened.append(Contender(role, name, stack.enter_context(store), ours=role != "peer"))
        yield opened


@contextmanager
def _ours(backend: str, folder: Path, role: str, index: Index) -> Iterator[Any]:
    keys = DECLARED if role == "declared" else ()
    settings = dict(index or {}) if role == "text" else {**(index or {}), "text": False}
    if backend == "memory":
        with InMemoryStore(index=settings, index_keys=keys) as memory:
            yield memory
        return
    if backend == "postgres":
        hnsw = {"hnsw": True, "vector_type": "halfvec"} if "embed" in settings else {}
        with (
            new_schema(f"bench_{role}") as schema,
            PostgresStore(POSTGRES, schema=schema, index={**settings, **hnsw}, index_keys=keys) as store,
        ):
            yield store
        return
    synchronous: Literal["FULL", "NORMAL"] = "FULL" if backend == "durable" else "NORMAL"
    path = folder / f"{role}.db"
    with SqliteStore(path, index=settings, index_keys=keys, synchronous=synchronous) as store:
        yield store


@contextmanager
def _peer(backend: str, folder: Path, index: Index) -> Iterator[Any]:
    if backend == "memory":
        yield LangGraphInMemoryStore(index=index)  # type: ignore[arg-type]
        return
    if backend == "postgres":
        with new_schema("bench_peer") as schema:
            uri = f"{POSTGRES}{'&' if '?' in POSTGRES else '?'}options=-csearch_path%3D{schema},public"
            with LangGraphPostgresStore.from_conn_string(uri, index=index) as peer:  # type: ignore[arg-type]
                peer.setup()
                yield peer
        return
    # Without vectors the peer gets the very SQLite that we use.
    module = extension_sqlite() if index else sqlite3
    connection = module.connect(str(folder / "peer.db"), check_same_thread=False, isolation_level=None)
    if backend == "sqlite":
        connection.execute("pragma journal_mode = wal")
        connection.execute("pragma synchronous = normal")
        connection.execute("pragma cache_size = -65536")
    # It ignores the documented "fields" and reads "text_fields".
    settings: Any = {**index, "text_fields": index["fields"]} if index else None
    try:
        store = LangGraphSqliteStore(connection, index=settings)
        store.setup()
        yield store
    finally:
        connection.close()


@contextmanager
def new_schema(name: str) -> Iterator[str]:
    """Make an empty schema, and drop it in the end."""
    with psycopg.connect(POSTGRES, autocommit=True) as connection:
        connection.execute(f"drop schema if exists {name} cascade")
        connection.execute(f"create schema {name}")
        yield name
        connection.execute(f"drop schema {name} cascade")


def analyze(backend: str) -> None:
    """Have Postgres do what it does by itself within some minutes: no store is measured before that."""
    if backend == "postgres":
        with psycopg.connect(POSTGRES, autocommit=True) as connection:
            connection.execute("vacuum analyze")
            connection.execute("checkpoint")
