"""A thread: a conversation, with the state that its last run left."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

__all__ = ["THREAD_SORTS", "TTLStrategy", "Thread", "ThreadStatus", "ThreadTTL", "status_after"]

THREAD_SORTS: Final = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")
"""What threads can be sorted by."""


class ThreadStatus(StrEnum):
    """What a thread is doing: ``busy`` exactly while one of its runs is executing."""

    IDLE = "idle"
    BUSY = "busy"
    INTERRUPTED = "interrupted"
    ERROR = "error"


class TTLStrategy(StrEnum):
    """What happens to a thread whose time has come: it goes, or all of its past but the latest state does."""

    DELETE = "delete"
    KEEP_LATEST = "keep_latest"


class ThreadTTL(NamedTuple):
    """How long a thread lives after it was last changed, in minutes, and what happens then."""

    minutes: float
    strategy: TTLStrategy = TTLStrategy.DELETE


@dataclass(frozen=True, slots=True)
class Thread:
    """A thread. Times are microseconds since 1970 UTC.

    ``values`` mirror the graph's state, None before the first; ``interrupts`` what it waits for, by task id;
    ``error`` why its last run failed, with the keys ``error`` and ``message``. ``state_updated_at`` is when
    ``values`` were last set. ``ttl`` is None for a thread that is pinned or never had one; ``expires_at`` is
    then None too. An expired thread stays readable until it is swept.
    """

    thread_id: str
    status: ThreadStatus
    created_at: int
    updated_at: int
    state_updated_at: int
    metadata: dict[str, Any]
    config: dict[str, Any]
    values: Any | None
    interrupts: dict[str, Any]
    error: dict[str, Any] | None
    ttl: ThreadTTL | None
    expires_at: int | None


def status_after(*, failed: bool, interrupts: dict[str, Any]) -> ThreadStatus:
    """Return the status of a thread whose run has ended: interrupted while it waits for an answer."""
    if interrupts:
        return ThreadStatus.INTERRUPTED
    return ThreadStatus.ERROR if failed else ThreadStatus.IDLE
