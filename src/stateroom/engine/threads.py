"""Threads for code that may never come back, so that they must not keep a process alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from queue import Empty, SimpleQueue
from typing import Any, Final, NamedTuple, ParamSpec, TypeVar

from typing_extensions import override

__all__ = ["DaemonThreads"]

IDLE_SECONDS: Final = 30.0
"""How long a thread without work stays."""

P = ParamSpec("P")
T = TypeVar("T")


class _Call(NamedTuple):
    future: Future[Any]
    call: Callable[[], Any]

    def make(self) -> None:
        if not self.future.set_running_or_notify_cancel():
            return
        try:
            result = self.call()
        except BaseException as error:  # whoever waits for it gets it
            self.future.set_exception(error)
        else:
            self.future.set_result(result)


class DaemonThreads(ThreadPoolExecutor):
    """An executor of daemon threads, made when they are needed.

    The standard one's threads are joined when the interpreter ends, so that one node that sleeps for an hour
    would keep a stopped server for an hour. Event loops take no executor of another class.
    """

    def __init__(self, most: int, name: str) -> None:
        super().__init__(max_workers=most, thread_name_prefix=name)
        self._most, self._name = most, name
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._guard = threading.Lock()
        self._threads_now = self._idle = 0
        self._closed = False

    @override
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        """Have a call made on one of the threads."""
        future: Future[T] = Future()
        with self._guard:
            if self._closed:
                raise RuntimeError("these threads have been stopped")
            self._calls.put(_Call(future, lambda: fn(*args, **kwargs)))
            if self._idle > 0:
                # Taken here and not by the thread, so that two calls never count on the same one.
                self._idle -= 1
            elif self._threads_now < self._most:
                self._threads_now += 1
                threading.Thread(target=self._work, name=self._name, daemon=True).start()
        return future

    @override
    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Take no more calls; those that were taken are made. Nobody waits for them."""
        with self._guard:
            if not self._closed:
                self._closed = True
                for _ in range(self._threads_now):
                    self._calls.put(None)

    def _work(self) -> None:
        while (call := self._next()) is not None:
            call.make()
            del call
            with self._guard:
                self._idle += 1

    def _next(self) -> _Call | None:
        """Return the next call; None when this thread counts no more, since there is none."""
        while True:
            try:
                call = self._calls.get(timeout=IDLE_SECONDS)
            except Empty:
                with self._guard:
                    # A call that counts on a thread has made it one less.
                    if self._idle > 0:
                        self._idle -= 1
                        self._threads_now -= 1
                        return None
                continue
            if call is None:
                with self._guard:
                    self._threads_now -= 1
            return call
