"""Whose time it is: the database's, unless a clock is injected."""

from __future__ import annotations

import time

from stateroom.clock import Clock, system_clock

__all__ = ["Timing"]


class Timing:
    """The time that statements go by.

    Several machines share one database, so its clock rules. Between two of its answers the present
    is estimated from the last one and the time that has passed here since.
    """

    def __init__(self, clock: Clock) -> None:
        self._injected = None if clock is system_clock else clock
        self._ahead = system_clock() - _elapsed()

    @property
    def parameter(self) -> int | None:
        """What a statement is told of the time: None means the database's own."""
        return None if self._injected is None else self._injected()

    def observe(self, now: int) -> None:
        """Take note of what the database says the time is."""
        self._ahead = now - _elapsed()

    def estimate(self) -> int:
        """Return the present, as near as can be known without asking, in microseconds since 1970 UTC."""
        return self._ahead + _elapsed() if self._injected is None else self._injected()


def _elapsed() -> int:
    return time.monotonic_ns() // 1000
