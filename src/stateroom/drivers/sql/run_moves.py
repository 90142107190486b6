"""What happens to runs that are there: the moves of ``RUN_MOVES``, and what each means for the thread.

Whoever changes a thread's runs locks the thread first, several in the order of their ids, then the runs, and
says when the thread's next run can be claimed, in the same transaction.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from typing import Final, NamedTuple

from stateroom.contract.runs import Cancelled
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.dialect import Row, Session
from stateroom.drivers.sql.documents import maybe_state
from stateroom.drivers.sql.events import erase_frames, run_topic
from stateroom.drivers.sql.run_rows import SQL
from stateroom.errors import Fenced
from stateroom.model.run import Attempt, CancelAction, RunStatus
from stateroom.model.text import show
from stateroom.model.thread import ThreadStatus, status_after

__all__ = [
    "QUEUE",
    "Stoppable",
    "Topics",
    "fenced",
    "free",
    "lock_thread",
    "queue",
    "remove",
    "status_without_run",
    "stop",
]

Topics = set[str]
"""What is to be sent once the transaction has been committed."""

QUEUE: Final = "runs"
"""Sent when a run may be claimed, or when its worker has been asked to stop."""


def fenced(attempt: Attempt) -> Fenced:
    """Return the error for an attempt that has lost its run."""
    return Fenced(
        f"run {show(attempt.run_id)} is no longer executed under fence {attempt.fence}: stop, and write "
        "nothing in its name",
        field="attempt",
    )


def lock_thread(session: Session, thread_id: str) -> ThreadStatus | None:
    """Lock a thread until the transaction ends and return its status; None when it is not there."""
    rows = session.fetch(SQL["lock_thread"], {"thread_id": thread_id})
    return ThreadStatus(rows[0][0]) if rows else None


def lock_threads(session: Session, thread_ids: Iterable[str]) -> set[str]:
    """Lock threads in the order in which everybody does; return those that are there."""
    rows = session.fetch(SQL["lock_threads"], {"thread_ids": sorted(set(thread_ids))})
    return {thread_id for (thread_id,) in rows}


def queue(session: Session, thread_ids: Collection[str], topics: Topics) -> None:
    """Work out when the next runs of locked threads can be claimed, after runs came or went."""
    if thread_ids:
        noted(session.fetch(SQL["queue"], {"thread_ids": sorted(thread_ids)}), topics)


def noted(next_ats: Sequence[Row], topics: Topics) -> None:
    """Have workers look when a run waits: also when it did before, as they passed over the locked thread."""
    if any(next_at is not None for (next_at,) in next_ats):
        topics.add(QUEUE)


def free(session: Session, thread_id: str, status: ThreadStatus, topics: Topics) -> None:
    """Give a locked thread, whose run has stopped, its status and its next run."""
    noted(session.fetch(SQL["free"], {"thread_id": thread_id, "status": status}), topics)


def status_without_run(session: Session, thread_id: str, *, failed: bool = False) -> ThreadStatus:
    """Return the status of a thread whose run has stopped without saying what it is."""
    rows = session.fetch(SQL["interrupts"], {"thread_id": thread_id})
    interrupts = maybe_state(rows[0][0]) if rows else None
    return status_after(failed=failed, interrupts=interrupts or {})


def remove(session: Session, run_ids: Sequence[str], topics: Topics) -> int:
    """Remove runs that are not executing with what is only theirs; return how many there were."""
    gone = {"run_ids": list(run_ids)}
    removed = session.execute(SQL["remove"], gone)
    session.execute(SQL["remove_idempotency"], gone)
    erase_frames(session, run_ids)
    topics.update(map(run_topic, run_ids))
    return removed


class Stoppable(NamedTuple):
    """A locked run of a locked thread, pending or executing."""

    run_id: str
    seq: int
    thread_id: str
    status: RunStatus
    fence: int
    mark: bytes | None

    @classmethod
    def of(cls, row: Row) -> Stoppable:
        """Return what a row says."""
        run_id, seq, thread_id, status, fence, mark = row
        return cls(run_id, seq, thread_id, RunStatus(status), fence, mark)


def stop(
    session: Session,
    checkpoints: CheckpointTables,
    runs: Sequence[Stoppable],
    action: CancelAction,
    reason: str | None,
    topics: Topics,
) -> list[Cancelled]:
    """End pending runs and ask the workers of executing ones; answer in the order of their creation."""
    pending = [run for run in runs if run.status is RunStatus.PENDING]
    asked = [run.run_id for run in runs if run.status is RunStatus.RUNNING]
    if pending and action is CancelAction.ROLLBACK:
        _roll_back(session, checkpoints, pending, topics)
    elif pending:
        ids = [run.run_id for run in pending]
        session.execute(SQL["interrupt"], {"run_ids": ids, "reason": reason})
        topics.update(map(run_topic, ids))
    if asked:
        session.execute(SQL["ask"], {"run_ids": asked, "action": action, "reason": reason})
        topics.add(QUEUE)
    in_order = sorted(runs, key=lambda run: run.seq)
    return [Cancelled(run.run_id, run.thread_id, run.status is RunStatus.PENDING) for run in in_order]


def _roll_back(
    session: Session, checkpoints: CheckpointTables, pending: Sequence[Stoppable], topics: Topics
) -> None:
    for run in pending:
        if run.fence:
            # A former attempt may have left something.
            checkpoints.roll_back(session, run.thread_id, run.run_id, run.mark)
    remove(session, [run.run_id for run in pending], topics)
