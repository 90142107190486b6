"""Whether something may be written to a thread of a storage, asked in the transaction that writes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.queries import queries
from stateroom.errors import Fenced, NotFound, StateroomError
from stateroom.model.run import Attempt
from stateroom.savers.attempts import attempt_of

__all__ = ["Guard", "admit", "guard", "refused"]

Guard = Attempt | str | None
"""What must hold when something is written: the attempt has its run, or the thread of this id exists."""


def guard(config: Mapping[str, Any] | None, thread_id: str) -> Guard:
    """Return what must hold for a write to a thread of a storage."""
    return attempt_of(config) or thread_id


def admit(session: Session, guard: Guard) -> None:
    """Raise what ``refused`` returns unless the guard holds, and see to it that it does until the commit."""
    if isinstance(guard, Attempt):
        found = session.fetch(queries("checkpoints")["running"], guard._asdict())
    elif guard is not None:
        found = session.fetch(queries("checkpoints")["thread"], {"thread_id": guard})
    else:
        return
    if not found:
        raise refused(guard)


def refused(guard: Guard) -> StateroomError:
    """Return the error for a guard that does not hold."""
    if isinstance(guard, Attempt):
        return Fenced(
            f"run {guard.run_id!r} is not executed under fence {guard.fence} any more; stop this attempt",
            field="run_id",
        )
    return NotFound(
        f"thread_id: there is no thread {guard!r}; it was deleted, or must be created first",
        field="thread_id",
    )
