"""A cron: a run that is made again and again by the clock."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

__all__ = ["CRON_SORTS", "Completion", "Cron"]

CRON_SORTS: Final = (
    "cron_id",
    "assistant_id",
    "thread_id",
    "created_at",
    "updated_at",
    "next_run_at",
    "end_at",
)
"""What crons can be sorted by; those without a value come last in either order."""


class Completion(StrEnum):
    """What becomes of a thread that was made for one run alone, when the run has ended."""

    DELETE = "delete"
    KEEP = "keep"


@dataclass(frozen=True, slots=True)
class Cron:
    """A cron. Times are microseconds since 1970 UTC.

    ``schedule`` has five fields, in the IANA zone ``timezone`` (None: UTC). Without ``thread_id`` each run
    gets a thread of its own, of which ``on_run_completed`` decides. ``payload`` is the JSON object that each
    run is made with. ``next_run_at`` is when it is due, None when it never is again; ``end_at`` the last
    moment at which it may be. ``occurrence`` grows with each run made and with each change, so that of
    several who fire it only one succeeds. ``user_id`` and ``private`` are who made it, ``private`` never
    shown. ``error`` is what went wrong the last time.
    """

    cron_id: str
    assistant_id: str
    thread_id: str | None
    schedule: str
    timezone: str | None
    enabled: bool
    payload: dict[str, Any]
    metadata: dict[str, Any]
    on_run_completed: Completion
    user_id: str | None
    private: dict[str, Any] | None
    next_run_at: int | None
    end_at: int | None
    occurrence: int
    error: str | None
    created_at: int
    updated_at: int
