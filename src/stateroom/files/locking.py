"""One writer at a time, in threads and on event loops alike."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import AsyncIterator, Hashable, Iterator
from concurrent.futures import Future
from contextlib import asynccontextmanager, contextmanager

from stateroom.errors import NotSupported

__all__ = ["Locks"]


class _Turn(Future[None]):
    """One who waits for a lock or holds it; ``loop_thread`` runs the loop of one who is a task."""

    def __init__(self, loop_thread: int | None) -> None:
        super().__init__()
        self.loop_thread = loop_thread


class Locks:
    """A lock for each key, which is there as long as somebody holds it or waits for it.

    Who waits is served in the order of asking, whether it is a thread or a task of any event loop.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._lines: dict[Hashable, deque[_Turn]] = {}

    @contextmanager
    def hold(self, key: Hashable) -> Iterator[None]:
        """Hold the lock of a key, from a thread.

        Raises NotSupported in the thread of an event loop whose own tasks come first: they could not go on.
        """
        turn = self._ask(key, None)
        try:
            turn.result()
            yield
        finally:
            self._leave(key, turn)

    @asynccontextmanager
    async def ahold(self, key: Hashable) -> AsyncIterator[None]:
        """Hold the lock of a key, from an event loop."""
        turn = self._ask(key, threading.get_ident())
        try:
            await asyncio.shield(asyncio.wrap_future(turn))
            yield
        finally:
            self._leave(key, turn)

    def _ask(self, key: Hashable, loop_thread: int | None) -> _Turn:
        turn, own = _Turn(loop_thread), threading.get_ident()
        with self._guard:
            line = self._lines.get(key, deque())
            if loop_thread is None and any(other.loop_thread == own for other in line):
                raise NotSupported(
                    "tasks of this event loop are writing here, and a sync call would keep them from ending: "
                    "await the async method instead"
                )
            self._lines[key] = line
            line.append(turn)
            if len(line) == 1:
                turn.set_result(None)
        return turn

    def _leave(self, key: Hashable, turn: _Turn) -> None:
        """Give a turn back, or give up waiting for it; the next in line has it then."""
        with self._guard:
            line = self._lines[key]
            was_first = line[0] is turn
            line.remove(turn)
            if not line:
                del self._lines[key]
            elif was_first:
                line[0].set_result(None)
