"""Whether something may be written to a thread of a storage, asked in the transaction that writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.queries import queries
from stateroom.errors import Fenced, NotFound, StateroomError, ThreadBusy
from stateroom.model.run import Attempt
from stateroom.savers.attempts import Resting, attempt_of, resting_in

__all__ = ["Guard", "admit", "guard", "query_of", "refused"]

Guard = Attempt | Resting | str | None
"""What must hold when something is written: the attempt has its run, or the thread of this id exists, or it
exists and no run of it executes."""


def guard(config: Mapping[str, Any] | None, thread_id: str) -> Guard:
    """Return what must hold for a write to a thread of a storage."""
    return attempt_of(config) or resting_in(thread_id) or thread_id


def query_of(guard: Attempt | Resting | str) -> tuple[str, dict[str, Any]]:
    """Return the name of the query that has a row if a guard holds, and its parameters."""
    if isinstance(guard, str):
        return "thread", {"thread_id": guard}
    return "running" if isinstance(guard, Attempt) else "resting", guard._asdict()


def admit(session: Session, guard: Guard) -> None:
    """Raise what ``refused`` returns unless the guard holds, and see to it that it does until the commit."""
    if guard is None:
        return
    name, parameters = query_of(guard)
    if not session.fetch(queries("checkpoints")[name], parameters):
        raise refused(guard)


def refused(guard: Guard) -> StateroomError:
    """Return the error for a guard that does not hold."""
    if isinstance(guard, Attempt):
        return Fenced(
            f"run {guard.run_id!r} is not executed under fence {guard.fence} any more; stop this attempt",
            field="run_id",
        )
    if isinstance(guard, Resting):
        return ThreadBusy(
            f"thread {guard.thread_id!r} has a run that executes, or is gone; wait for its end, or cancel it",
            field="thread_id",
        )
    return NotFound(
        f"thread_id: there is no thread {guard!r}; it was deleted, or must be created first",
        field="thread_id",
    )
