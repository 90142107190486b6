"""Calling what blocks from an event loop, on threads kept for that."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, ParamSpec, TypeVar

__all__ = ["THREADS", "Offload"]

THREADS: Final = 32
"""Calls that block at the same time; further ones wait for a thread."""

P = ParamSpec("P")
R = TypeVar("R")


class Offload:
    """Threads on which repositories and services, which block, are called from any event loop.

    A call that is cancelled meanwhile goes on to its end, unheard.
    """

    def __init__(self, threads: int = THREADS, *, name: str = "stateroom-storage") -> None:
        self._pool = ThreadPoolExecutor(threads, thread_name_prefix=name)

    async def __call__(self, call: Callable[P, R], *args: P.args, **options: P.kwargs) -> R:
        """Return what a call returns, or raise what it raises."""
        work: Callable[..., Any] = partial(call, **options) if options else call
        return await asyncio.get_running_loop().run_in_executor(self._pool, work, *args)

    def close(self) -> None:
        """Wait for the calls that are under way."""
        self._pool.shutdown(wait=True)
