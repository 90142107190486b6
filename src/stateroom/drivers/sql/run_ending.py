"""How an attempt ends its run, with everything that this changes."""

from __future__ import annotations

from typing import Any, NamedTuple

from stateroom.contract.runs import Settlement
from stateroom.contract.threads import ThreadChange
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.deletions import begin_deletion
from stateroom.drivers.sql.deliveries import insert_deliveries
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.documents import checked_text, state_bytes
from stateroom.drivers.sql.events import run_topic
from stateroom.drivers.sql.run_moves import Topics, fenced, free, lock_thread, remove
from stateroom.drivers.sql.run_rows import SQL, run_of
from stateroom.drivers.sql.thread_changes import PreparedChange, change_thread, prepare_change
from stateroom.errors import InvalidInput
from stateroom.model.run import ENDED, Attempt, Run
from stateroom.model.text import show
from stateroom.model.thread import ThreadStatus

__all__ = ["Ending", "ending", "mark", "settle"]


class Ending(NamedTuple):
    """A settlement, with what goes into the run's columns and to its thread; None when nothing does."""

    settlement: Settlement
    columns: dict[str, Any]
    change: PreparedChange | None


def ending(settlement: Settlement) -> Ending:
    """Check and encode a settlement; raise InvalidInput for what no end of a run is."""
    if settlement.status not in ENDED:
        raise InvalidInput(
            f"status is {show(str(settlement.status))}; pass one of {', '.join(sorted(ENDED))}",
            field="status",
        )
    if settlement.thread_status is ThreadStatus.BUSY:
        raise InvalidInput(
            "thread_status is busy, which a thread without an executing run is not; pass another",
            field="thread_status",
        )
    reason, error = settlement.cancel_reason, settlement.run_error
    columns = {
        "status": settlement.status,
        "reason": None if reason is None else checked_text(reason, "cancel_reason"),
        "error": None if error is None else state_bytes(error, "run_error"),
    }
    change = ThreadChange(
        metadata=settlement.thread_metadata,
        config=settlement.config,
        values=settlement.values,
        interrupts=settlement.interrupts,
        error=settlement.error,
    )
    return Ending(settlement, columns, None if change == ThreadChange() else prepare_change(change))


def settle(
    session: Session, checkpoints: CheckpointTables, attempt: Attempt, ending: Ending, topics: Topics
) -> Run:
    """End the run of an attempt that still has it."""
    settlement = ending.settlement
    if lock_thread(session, attempt.thread_id) is None:
        raise fenced(attempt)
    if settlement.roll_back:
        checkpoints.roll_back(session, attempt.thread_id, attempt.run_id, marked(session, attempt))
    rows = session.fetch(SQL["settle"], {**attempt._asdict(), **ending.columns})
    if not rows:
        raise fenced(attempt)
    run = run_of(rows[0])
    topics.add(run_topic(run.run_id))
    if settlement.roll_back:
        remove(session, [run.run_id], topics)
    if settlement.delete_thread:
        topics |= begin_deletion(session, run.thread_id)
    else:
        _change_thread(session, run.thread_id, ending, topics)
    # Made last: the deletion removes those of before, and leaves those that tell of this run.
    insert_deliveries(session, run, settlement.deliveries)
    return run


def _change_thread(session: Session, thread_id: str, ending: Ending, topics: Topics) -> None:
    if ending.change is not None:
        change_thread(session, thread_id, ending.change)
    free(session, thread_id, ending.settlement.thread_status, topics)


def marked(session: Session, attempt: Attempt) -> bytes | None:
    """Lock the run of an attempt that still has it, and return its mark."""
    rows = session.fetch(SQL["marked"], attempt._asdict())
    if not rows:
        raise fenced(attempt)
    mark: bytes | None = rows[0][0]
    return mark


def mark(
    session: Session, checkpoints: CheckpointTables, attempt: Attempt, checkpoint_id: str | None
) -> bool:
    """Note what rolling the run back returns to, unless a former attempt has."""
    if marked(session, attempt) is not None:
        return False
    noted = checkpoints.mark(session, attempt.thread_id, checkpoint_id)
    return session.execute(SQL["mark"], {**attempt._asdict(), "mark": noted}) > 0
