"""Telling readers on an event loop that there may be something new, from any thread."""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress

__all__ = ["News", "Stopped", "jittered"]


class Stopped(Exception):
    """Nobody is told anything any more: the server is being stopped."""


class News:
    """Counts, in ``version``, how often there may have been something new.

    Who has looked at one version waits for a later one: what comes while he looks is not lost on him. Many
    announcements before the loop gets to them are one.
    """

    def __init__(self) -> None:
        self.version = 0
        self._loop = asyncio.get_running_loop()
        self._changed = asyncio.Event()
        self._announced = False
        self._stopped = False

    def announce(self) -> None:
        """Say, from any thread, that there may be something new."""
        if not self._announced:
            self._announced = True
            # The loop may be closed: then nobody waits.
            with suppress(RuntimeError):
                self._loop.call_soon_threadsafe(self.change)

    def change(self) -> None:
        """Say on the loop that there may be something new."""
        # In this order: whatever is announced from here on is heard of anew.
        self._announced = False
        self.version += 1
        self._changed.set()
        self._changed = asyncio.Event()

    def stop(self) -> None:
        """Have everybody who waits, or looks, from now on raise ``Stopped``; from any thread."""
        self._stopped = True
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self.change)

    def check(self) -> None:
        """Raise ``Stopped`` if that is so."""
        if self._stopped:
            raise Stopped

    async def later_than(self, version: int) -> None:
        """Return once there may be something that a look at that version did not see."""
        while self.version == version:
            self.check()
            await self._changed.wait()
        self.check()


def jittered(seconds: float) -> float:
    """Return about so many seconds, so that not all who poll do it at the same moment."""
    return seconds * random.uniform(0.75, 1.25)  # noqa: S311
