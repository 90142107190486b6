"""Work for a client who is answered with a status, and may leave before."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, TypeVar

from starlette.types import Receive

from stateroom.api.live import left

__all__ = ["unless_left"]

T = TypeVar("T")


async def unless_left(receive: Receive, work: Coroutine[Any, Any, T]) -> T | None:
    """Return what some work does; None, with the work given up, when the client leaves before."""
    working = asyncio.create_task(work)
    leaving = asyncio.create_task(left(receive))
    try:
        await asyncio.wait((working, leaving), return_when=asyncio.FIRST_COMPLETED)
        return working.result() if working.done() else None
    finally:
        for task in (working, leaving):
            task.cancel()
        await asyncio.gather(working, leaving, return_exceptions=True)
