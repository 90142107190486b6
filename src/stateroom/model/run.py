"""A run: one piece of work on a thread, from the queue to its end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final, NamedTuple

__all__ = [
    "ENDED",
    "RUN_MOVES",
    "Attempt",
    "CancelAction",
    "Multitask",
    "Run",
    "RunStatus",
    "may_become",
]


class RunStatus(StrEnum):
    """Where a run is. ``interrupted`` was cancelled; one that waits for an answer has ended with success."""

    PENDING = "pending"
    RUNNING = "running"
    SUCCESS = "success"
    ERROR = "error"
    TIMEOUT = "timeout"
    INTERRUPTED = "interrupted"


ENDED: Final = frozenset({RunStatus.SUCCESS, RunStatus.ERROR, RunStatus.TIMEOUT, RunStatus.INTERRUPTED})
"""The statuses that no run leaves."""

RUN_MOVES: Final[Mapping[RunStatus, frozenset[RunStatus]]] = {
    # Claimed; or cancelled, or given up, before it was.
    RunStatus.PENDING: frozenset({RunStatus.RUNNING, RunStatus.INTERRUPTED, RunStatus.ERROR}),
    # Ended; or handed back, or taken from a worker that died.
    RunStatus.RUNNING: ENDED | {RunStatus.PENDING},
    **dict.fromkeys(ENDED, frozenset()),
}
"""What each status may become."""


def may_become(before: RunStatus, after: RunStatus) -> bool:
    """Tell whether a run may go from one status to another."""
    return after in RUN_MOVES[before]


class Multitask(StrEnum):
    """What becomes of a thread's other runs that are due or executing when a new one comes."""

    REJECT = "reject"
    ENQUEUE = "enqueue"
    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class CancelAction(StrEnum):
    """How a run is stopped: what it has done stays, or goes together with the run."""

    INTERRUPT = "interrupt"
    ROLLBACK = "rollback"


class Attempt(NamedTuple):
    """What one lease covers: a run that one worker executes, under a number that no other attempt has.

    Whatever the worker writes names it. Once the run has moved on, ``fence`` is no longer the run's, and
    what is written under it is refused with ``Fenced``.
    """

    run_id: str
    thread_id: str
    fence: int


@dataclass(frozen=True, slots=True)
class Run:
    """A run. Times are microseconds since 1970 UTC.

    ``kwargs`` is a JSON object: the input, command, configuration and so on that the run is executed with.
    ``private`` is what it needs beside them and nobody may keep, such as the context and the caller's
    identity; only ``claim`` answers it, and it is erased when the run ends. ``available_at`` is when it may
    first be claimed, ``started_at`` when it first was. ``attempt`` counts its claims. ``lease_owner`` and
    ``lease_until`` say who executes it, and until when he must have renewed. ``cancel`` is what a worker has
    been asked to do with it.
    ``error`` says why it failed, with the keys ``error`` and ``message``.
    """

    run_id: str
    thread_id: str
    assistant_id: str
    assistant_version: int
    status: RunStatus
    created_at: int
    updated_at: int
    available_at: int
    started_at: int | None
    ended_at: int | None
    multitask: Multitask
    metadata: dict[str, Any]
    kwargs: dict[str, Any]
    private: dict[str, Any] | None
    attempt: int
    fence: int
    lease_owner: str | None
    lease_until: int | None
    cancel: CancelAction | None
    cancel_reason: str | None
    error: dict[str, Any] | None

    @property
    def lease(self) -> Attempt:
        """The attempt that a worker makes which has just claimed it."""
        return Attempt(self.run_id, self.thread_id, self.fence)
