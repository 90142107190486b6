"""Time as something that is passed in, so that tests own it."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

__all__ = ["Clock", "ManualClock", "microseconds_to_datetime", "system_clock"]

Clock = Callable[[], int]
"""Returns the present as whole microseconds since 1970-01-01 UTC."""

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def system_clock() -> int:
    """Return the machine's wall clock."""
    return time.time_ns() // 1000


def microseconds_to_datetime(microseconds: int) -> datetime:
    """Return the aware UTC datetime of a clock reading."""
    return _EPOCH + timedelta(microseconds=microseconds)


class ManualClock:
    """A clock that stands still until a test moves it."""

    def __init__(self, start: int = 1_800_000_000_000_000) -> None:
        self.microseconds = start

    def __call__(self) -> int:
        return self.microseconds

    def advance(self, *, minutes: float = 0.0, seconds: float = 0.0) -> None:
        """Move on by the given time."""
        self.microseconds += round((minutes * 60 + seconds) * 1_000_000)
