"""Event loops on threads of their own, on which users' code runs and nothing else."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from functools import partial
from typing import Any, Final, Generic, TypeVar

from stateroom.engine.threads import DaemonThreads
from stateroom.errors import Unavailable

__all__ = ["CLOSING_SECONDS", "THREADS_PER_LOOP", "Loops"]

THREADS_PER_LOOP: Final = 64
"""Blocking calls that one loop has under way: nodes that are plain functions, and checkpoints being saved."""

CLOSING_SECONDS: Final = 2.0
"""How long closing waits for the work on the loops to be cancelled."""

T = TypeVar("T")

_log = logging.getLogger(__name__)


class Loops:
    """Loops for users' code, which may block them.

    Everything goes to the first loop, so that what this code keeps from one run to the next, such as an
    asynchronous client, stays on one. Work that a loop has not begun within ``patience`` seconds is offered
    to the next, of which there are at most ``most``; the one that begins it first has it. A loop that let
    work wait gets no more until it moves again. Their threads are named after ``name``.
    """

    def __init__(self, *, most: int = 16, patience: float = 1.0, name: str = "stateroom-graphs") -> None:
        self._most, self._patience, self._name = most, patience, name
        self._changed = threading.Condition()
        self._loops: list[_Loop] = []
        self._offered: deque[tuple[float, _Loop, _Work[Any]]] = deque()
        self._watcher: threading.Thread | None = None
        self._closed = False

    def submit(self, make: Callable[[], Coroutine[Any, Any, T]]) -> Future[T]:
        """Have what ``make`` returns awaited on a loop; cancelling the future cancels it there."""
        work = _Work(make)
        with self._changed:
            if self._closed:
                raise Unavailable("the server is stopping; try again when it is back")
            if self._watcher is None:
                self._watcher = threading.Thread(target=self._watch, name="stateroom-loops", daemon=True)
                self._watcher.start()
            self._offer(work)
        return work.future

    async def run(self, make: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Await on one of these loops what ``make`` returns, from any other loop."""
        return await asyncio.wrap_future(self.submit(make))

    def close(self) -> None:
        """Cancel what is under way and stop the loops; one that is blocked is left to itself."""
        with self._changed:
            self._closed = True
            loops = list(self._loops)
            self._changed.notify_all()
        for each in loops:
            each.stop()
        until = time.monotonic() + CLOSING_SECONDS
        for each in loops:
            each.thread.join(max(0.0, until - time.monotonic()))

    def _offer(self, work: _Work[Any]) -> None:
        """Offer work to the first loop that moves, else to a new one, or to all if there may be no more."""
        chosen = [each for each in self._loops if not each.stalled][:1]
        if not chosen and len(self._loops) < self._most:
            self._loops.append(_Loop(f"{self._name}-{len(self._loops) + 1}"))
            chosen = self._loops[-1:]
        for each in chosen or self._loops:
            each.offer(work)
        if chosen:
            self._offered.append((time.monotonic() + self._patience, chosen[0], work))
            if len(self._offered) == 1:
                self._changed.notify_all()

    def _watch(self) -> None:
        """Take back what waits for too long."""
        with self._changed:
            while not self._closed:
                if not self._offered:
                    self._changed.wait()
                    continue
                due, loop, work = self._offered[0]
                if not work.begun and (left := due - time.monotonic()) > 0:
                    self._changed.wait(left)
                    continue
                self._offered.popleft()
                if not work.begun and not work.future.done():
                    _log.warning("%s is blocked by users' code; other work goes to another loop", loop.name)
                    loop.stalled = True
                    self._offer(work)


class _Work(Generic[T]):
    """What is to be awaited, wherever it is begun first."""

    def __init__(self, make: Callable[[], Coroutine[Any, Any, T]]) -> None:
        self.future: Future[T] = Future()
        self.begun = False
        self._make: Callable[[], Coroutine[Any, Any, T]] | None = make
        self._context = contextvars.copy_context()
        self._lock = threading.Lock()

    def begin(self, loop: asyncio.AbstractEventLoop) -> asyncio.Task[T] | None:
        """Begin it on a loop, from its thread, unless another has; answer its task."""
        with self._lock:
            make, self._make, self.begun = self._make, None, True
        if make is None or self.future.cancelled():
            return None
        try:
            task = loop.create_task(self._context.run(make), context=self._context)
        except Exception as error:  # it is the caller's
            if self.future.set_running_or_notify_cancel():
                self.future.set_exception(error)
            return None
        task.add_done_callback(self._end)
        self.future.add_done_callback(partial(_pass_on, loop, task))
        return task

    def _end(self, task: asyncio.Task[T]) -> None:
        if task.cancelled():
            self.future.cancel()
        error = None if task.cancelled() else task.exception()
        if not self.future.set_running_or_notify_cancel():
            return
        if error is not None:
            self.future.set_exception(error)
        else:
            self.future.set_result(task.result())


def _pass_on(loop: asyncio.AbstractEventLoop, task: asyncio.Task[Any], future: Future[Any]) -> None:
    """Cancel a task if its future was cancelled."""
    if future.cancelled() and not task.done() and not loop.is_closed():
        loop.call_soon_threadsafe(task.cancel)


class _Loop:
    """One loop and its thread. ``stalled``: it let work wait, and has begun nothing since."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.stalled = False
        self._loop = asyncio.new_event_loop()
        self._threads = DaemonThreads(THREADS_PER_LOOP, f"{name}-sync")
        self._loop.set_default_executor(self._threads)
        # The loop itself keeps only weak references.
        self._tasks: set[asyncio.Task[Any]] = set()
        self.thread = threading.Thread(target=self._run, name=name, daemon=True)
        self.thread.start()

    def offer(self, work: _Work[Any]) -> None:
        """Have the loop begin work as soon as it moves."""
        self._loop.call_soon_threadsafe(self._begin, work)

    def stop(self) -> None:
        """Have the loop cancel its work and end."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._cancel)

    def _begin(self, work: _Work[Any]) -> None:
        self.stalled = False
        task = work.begin(self._loop)
        if task is not None:
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    def _cancel(self) -> None:
        pending = asyncio.all_tasks(self._loop)
        for task in pending:
            task.cancel()
        ending = self._loop.create_task(self._wait(pending))
        ending.add_done_callback(lambda _: self._loop.stop())

    async def _wait(self, pending: set[asyncio.Task[Any]]) -> None:
        if pending:
            await asyncio.wait(pending, timeout=CLOSING_SECONDS / 2)
        await self._loop.shutdown_asyncgens()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            self._threads.shutdown()
            self._loop.close()
