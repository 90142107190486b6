"""The store that keeps long-term memory in this process."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from stateroom.clock import Clock, system_clock
from stateroom.drivers.memory import MemoryItems
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import check_index_keys, parse_index_config
from stateroom.stores.base import Store
from stateroom.stores.preparing import embedder_of

__all__ = ["InMemoryStore"]


class InMemoryStore(Store):
    """Long-term memory for tests and prototypes: nothing survives the process.

    ``index`` is LangGraph's ``IndexConfig`` and more (see the documentation of settings), ``ttl`` its
    ``TTLConfig``. ``index_keys`` are the top-level keys whose filters are answered from an index from
    the start; others get one when it pays. ``clock`` returns microseconds since 1970 UTC.
    """

    def __init__(
        self,
        *,
        index: Mapping[str, Any] | None = None,
        ttl: Mapping[str, Any] | None = None,
        index_keys: Sequence[str] = (),
        clock: Clock = system_clock,
    ) -> None:
        settings = parse_index_config(index)
        super().__init__(
            MemoryItems(settings, index_keys=check_index_keys(index_keys), clock=clock),
            index=settings,
            ttl=parse_ttl_config(ttl),
            index_config=index,
            ttl_config=ttl,
            embedder=embedder_of(settings),
        )
