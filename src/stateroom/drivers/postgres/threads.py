"""The threads in which a store does what async callers ask for."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

from stateroom.drivers.postgres.errors import NO_CONNECTION
from stateroom.errors import Unavailable

__all__ = ["Threads"]

T = TypeVar("T")


class Threads:
    """A thread for each connection, so that who waits for a thread waits for a connection."""

    def __init__(self, number: int) -> None:
        self._number = number
        self._executor = self._new()

    def close(self) -> None:
        """Wait for what is being done; later calls have new threads."""
        self._executor.shutdown()
        self._executor = self._new()

    async def run(self, work: Callable[[], T], seconds: float) -> T:
        """Do ``work`` without blocking the event loop; raise Unavailable if it has not begun by then."""
        waiting = self._executor.submit(work)
        patience = asyncio.get_running_loop().call_later(seconds, waiting.cancel)
        try:
            return await asyncio.wrap_future(waiting)
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if waiting.cancelled() and not (task and task.cancelling()):
                raise Unavailable(NO_CONNECTION) from None
            raise
        finally:
            patience.cancel()

    def _new(self) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(self._number, thread_name_prefix="stateroom-postgres")
