"""The stores that are measured: ours with and without the text index, and LangGraph's."""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Literal

from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from langgraph.store.sqlite import SqliteStore as LangGraphSqliteStore

from benchmarks.measure import Contender
from stateroom import InMemoryStore, SqliteStore

__all__ = ["BACKENDS", "PEER_NAMES", "contenders", "extension_sqlite"]

BACKENDS = ("memory", "sqlite", "durable")
"""``sqlite`` is WAL and NORMAL on both sides; ``durable`` is FULL against what the peer sets by itself."""

PEER_NAMES = {
    "memory": "LangGraph InMemoryStore",
    "sqlite": "LangGraph SqliteStore, WAL, NORMAL",
    "durable": "LangGraph SqliteStore as it opens itself",
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
    settings = index if role == "text" else {**(index or {}), "text": False}
    if backend == "memory":
        with InMemoryStore(index=settings, index_keys=keys) as memory:
            yield memory
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
