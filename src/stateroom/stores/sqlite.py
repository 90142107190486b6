"""The store that keeps long-term memory in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any, Self

from stateroom.clock import Clock, system_clock
from stateroom.drivers.sqlite import SqliteItems
from stateroom.drivers.sqlite.database import Synchronous
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import check_index_keys, parse_index_config
from stateroom.stores.base import Store
from stateroom.stores.preparing import embedder_of

__all__ = ["SqliteStore"]


class SqliteStore(Store):
    """Long-term memory in one SQLite file, which any number of threads and processes may share.

    ``path`` is a file, made if need be, or ``":memory:"``. ``index`` is LangGraph's ``IndexConfig`` and
    more (see the documentation of settings), ``ttl`` its ``TTLConfig``. ``index_keys`` are the top-level
    keys whose filters are answered from an index. ``synchronous`` is ``"NORMAL"``, with which whatever
    was acknowledged survives the death of the process, or ``"FULL"``, with which it survives a power
    cut too. ``clock`` returns microseconds since 1970 UTC.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        index_keys: Sequence[str] = (),
        synchronous: Synchronous = "NORMAL",
        clock: Clock = system_clock,
    ) -> None:
        settings = parse_index_config(index, supports=frozenset({"vector_cache_mb"}))
        items = SqliteItems(
            os.fspath(path),
            settings,
            index_keys=check_index_keys(index_keys),
            clock=clock,
            synchronous=synchronous,
        )
        super().__init__(
            items,
            index=settings,
            ttl=parse_ttl_config(ttl),
            index_config=index,
            ttl_config=ttl,
            embedder=embedder_of(settings),
        )

    @classmethod
    def from_conn_string(
        cls,
        conn_string: str,
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """Make a store as LangGraph's class of that name does; it works in ``with`` and in ``async with``."""
        return cls(conn_string, index=index, ttl=ttl, **options)
