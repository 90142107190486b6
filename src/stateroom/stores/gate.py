"""Gathering what the tasks of an event loop ask in one tick, so that they share one trip to storage."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from weakref import WeakKeyDictionary

from stateroom.contract.items import Items, Operation, Outcome, Result
from stateroom.errors import StateroomError

__all__ = ["Gate"]


class Gate:
    """Passes batches to a driver; those of one tick go together, and each gets an outcome of its own."""

    def __init__(self, items: Items) -> None:
        self._items = items
        self._waiting: WeakKeyDictionary[
            asyncio.AbstractEventLoop, list[tuple[Sequence[Operation], asyncio.Future[list[Result]]]]
        ] = WeakKeyDictionary()
        self._running: set[asyncio.Task[None]] = set()

    async def apply(self, operations: Sequence[Operation]) -> list[Result]:
        """Apply one batch and return its results, or raise its error."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[list[Result]] = loop.create_future()
        waiting = self._waiting.get(loop)
        if waiting is None:
            waiting = self._waiting[loop] = []
        if not waiting:
            loop.call_soon(self._depart, loop)
        waiting.append((operations, future))
        return await future

    def _depart(self, loop: asyncio.AbstractEventLoop) -> None:
        waiting = self._waiting[loop]
        callers, waiting[:] = list(waiting), []
        trips = self._items.trips([operations for operations, _ in callers]) if len(callers) > 1 else [[0]]
        for trip in trips:
            task = loop.create_task(self._run([callers[place] for place in trip]))
            # The loop itself keeps only a weak reference to a task.
            self._running.add(task)
            task.add_done_callback(self._running.discard)

    async def _run(self, group: list[tuple[Sequence[Operation], asyncio.Future[list[Result]]]]) -> None:
        try:
            outcomes: Sequence[Outcome | BaseException] = await self._items.aapply_each(
                [operations for operations, _ in group]
            )
        except BaseException as error:  # every caller must hear of it, whatever it is
            outcomes = [error] * len(group)
            if isinstance(error, asyncio.CancelledError):
                for _, future in group:
                    future.cancel()
                raise
        for (_, future), outcome in zip(group, outcomes, strict=True):
            if future.done():
                continue
            if isinstance(outcome, StateroomError | BaseException):
                future.set_exception(outcome)
            else:
                future.set_result(outcome)
