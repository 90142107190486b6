"""How workers come by runs, keep them, hand them back, and lose them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from stateroom.contract.runs import Renewal
from stateroom.contract.threads import ThreadChange
from stateroom.drivers.sql.dialect import Row, Session
from stateroom.drivers.sql.documents import state_bytes
from stateroom.drivers.sql.events import run_topic
from stateroom.drivers.sql.run_moves import (
    Topics,
    fenced,
    free,
    lock_thread,
    lock_threads,
    queue,
    status_without_run,
)
from stateroom.drivers.sql.run_rows import SQL, run_of
from stateroom.drivers.sql.thread_changes import change_thread, prepare_change
from stateroom.model.run import ENDED, Attempt, CancelAction, Run, RunStatus

__all__ = ["claim", "reap", "release", "renew"]

ABANDONED: Final = {
    "error": "abandoned",
    "message": "whoever executed this run stopped without a word, such as a process that was killed",
}
"""The error of a run that was executed when its worker died, and is not to be tried again."""

_THREAD_ABANDONED: Final = prepare_change(ThreadChange(error=ABANDONED))


def claim(session: Session, owner: str, lease: int, limit: int) -> list[Run]:
    """Take runs of threads that nobody has locked; who has one locked tells workers when he has done."""
    threads = session.fetch(SQL["claimable"], {"most": limit})
    claimed = [_claim_first(session, thread_id, owner, lease) for (thread_id,) in threads]
    return [run for run in claimed if run is not None]


def _claim_first(session: Session, thread_id: str, owner: str, lease: int) -> Run | None:
    rows = session.fetch(SQL["claim"], {"thread_id": thread_id, "owner": owner, "lease": lease})
    if not rows:
        # Only when another program has changed the tables: do not find the thread again and again.
        queue(session, [thread_id], set())
        return None
    session.execute(SQL["occupy"], {"thread_id": thread_id})
    *row, private = rows[0]
    return run_of(tuple(row), private)


def renew(session: Session, attempts: Sequence[Attempt], lease: int) -> list[Renewal]:
    """Prolong the leases of attempts that still have their runs; answer in their order."""
    ids = sorted({attempt.run_id for attempt in attempts})
    leased: dict[Attempt, str | None] = {
        Attempt(run_id, thread_id, fence): cancel
        for run_id, thread_id, fence, cancel in session.fetch(SQL["leased"], {"run_ids": ids})
    }
    alive = [attempt.run_id for attempt in attempts if attempt in leased]
    if alive:
        session.execute(SQL["renew"], {"run_ids": alive, "lease": lease})
    return [_renewal(attempt, attempt in leased, leased.get(attempt)) for attempt in attempts]


def _renewal(attempt: Attempt, alive: bool, cancel: str | None) -> Renewal:
    return Renewal(attempt, alive, None if cancel is None else CancelAction(cancel))


def release(session: Session, attempt: Attempt, topics: Topics) -> Run:
    """Hand a run back; one that was asked to stop has stopped."""
    if lock_thread(session, attempt.thread_id) is None:
        raise fenced(attempt)
    rows = session.fetch(SQL["release"], attempt._asdict())
    if not rows:
        raise fenced(attempt)
    run = run_of(rows[0])
    if run.status in ENDED:
        topics.add(run_topic(run.run_id))
    free(session, run.thread_id, status_without_run(session, run.thread_id), topics)
    return run


def reap(session: Session, limit: int, max_attempts: int, everybody: bool, topics: Topics) -> list[Run]:
    """Free runs that nobody executes any more."""
    found = session.fetch(SQL["executed" if everybody else "overdue"], {"most": limit}, planned=True)
    if not found:
        return []
    there = lock_threads(session, {thread_id for _, thread_id in found})
    ids = sorted(run_id for run_id, _ in found)
    lost = session.fetch(SQL["lost"], {"run_ids": ids, "everybody": everybody})
    return [_free_lost(session, row, max_attempts, there, topics) for row in lost]


def _free_lost(session: Session, row: Row, max_attempts: int, there: set[str], topics: Topics) -> Run:
    run_id, thread_id, cancel, attempt = row
    is_there = thread_id in there
    if cancel is None and is_there and attempt < max_attempts:
        run = run_of(session.fetch(SQL["hand_back"], {"run_id": run_id})[0])
    else:
        run = _give_up(session, run_id, RunStatus.ERROR if cancel is None else RunStatus.INTERRUPTED)
        topics.add(run_topic(run_id))
    if is_there:
        failed = run.status is RunStatus.ERROR
        if failed:
            change_thread(session, thread_id, _THREAD_ABANDONED)
        free(session, thread_id, status_without_run(session, thread_id, failed=failed), topics)
    return run


def _give_up(session: Session, run_id: str, status: RunStatus) -> Run:
    error = state_bytes(ABANDONED, "error") if status is RunStatus.ERROR else None
    (row,) = session.fetch(SQL["give_up"], {"run_id": run_id, "status": status, "error": error})
    return run_of(row)
