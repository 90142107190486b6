"""Stores and writers that come in between: what a backend must hold against."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from langgraph.store.base import BaseStore, Op, Result
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import InMemoryStore
from stateroom.stores.operations import DeleteItem, PutItem, StoreOperation

__all__ = ["MeddledStore", "SlowStore"]

TURNS = 5


class SlowStore(BaseStore):
    """A store of somebody else's that answers later than it acts, as one on a network does."""

    def __init__(self) -> None:
        self.inner = LangGraphInMemoryStore()

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        return self.inner.batch(ops)

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        results = self.inner.batch(ops)
        for _ in range(TURNS):
            await asyncio.sleep(0)
        return results


class MeddledStore(InMemoryStore):
    """A store at which somebody is faster: before each batch that writes comes the next of ``meddling``."""

    def __init__(self) -> None:
        super().__init__()
        self.meddling: Iterator[Callable[[], Any]] = iter(())
        self.writes = 0

    @override
    def batch(self, ops: Iterable[StoreOperation]) -> list[Any]:
        asked = list(ops)
        self._before(asked)
        return super().batch(asked)

    @override
    async def abatch(self, ops: Iterable[StoreOperation]) -> list[Any]:
        asked = list(ops)
        self._before(asked)
        return await super().abatch(asked)

    def _before(self, asked: list[StoreOperation]) -> None:
        if not any(isinstance(each, PutItem | DeleteItem) for each in asked):
            return
        self.writes += 1
        meddling, self.meddling = self.meddling, iter(())
        try:
            for meddle in meddling:
                meddle()
                break
        finally:
            self.meddling = meddling
