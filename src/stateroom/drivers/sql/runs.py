"""Runs in SQL, which are their own queue."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final, TypeVar

from typing_extensions import override

from stateroom.contract.runs import Cancelled, NewRun, Renewal, RunQuery, Runs, Settlement, Woken
from stateroom.drivers.sql import queue_leases, run_ending, run_reading
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.deletions import Deletions
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.documents import checked_duration, checked_id, checked_text
from stateroom.drivers.sql.run_creation import columns_of, insert_runs
from stateroom.drivers.sql.run_moves import (
    QUEUE,
    Stoppable,
    Topics,
    lock_thread,
    lock_threads,
    queue,
    remove,
    stop,
)
from stateroom.drivers.sql.run_rows import SQL, run_of
from stateroom.drivers.sql.signals import Signals
from stateroom.errors import Conflict, Unavailable
from stateroom.model.page import check_page
from stateroom.model.paging import Page
from stateroom.model.run import Attempt, CancelAction, Run, RunStatus
from stateroom.model.text import show

__all__ = ["SqlRuns"]

T = TypeVar("T")

_STOPPABLE: Final = (RunStatus.PENDING, RunStatus.RUNNING)


class SqlRuns(Runs):
    """Runs in one table, and on each thread when the next of its runs can be claimed."""

    def __init__(self, dialect: Dialect, signals: Signals, checkpoints: CheckpointTables) -> None:
        self._dialect = dialect
        self._signals = signals
        self._checkpoints = checkpoints
        self._deletions = Deletions(dialect, checkpoints)

    @override
    def create(self, new: Sequence[NewRun]) -> list[Run]:
        rows = columns_of(new)
        return self._change(lambda session, topics: insert_runs(session, self._checkpoints, rows, topics))

    @override
    def get(self, run_id: str) -> Run | None:
        asked = {"run_id": checked_id(run_id, "run_id")}
        rows = self._dialect.read(lambda session: session.fetch(SQL["get"], asked))
        return run_of(rows[0]) if rows else None

    @override
    def search(
        self, query: RunQuery, *, limit: int = 100, offset: int = 0, after: str | None = None
    ) -> Page[Run]:
        most, skipped = check_page(limit, offset)
        asked, before = run_reading.walk(query), run_reading.before(after)
        return self._dialect.read_together(
            lambda session: run_reading.page(session, asked, before, most, skipped)
        )

    @override
    def count(self, query: RunQuery, *, at_most: int | None = None) -> int:
        most = None if at_most is None else check_page(at_most, 0)[0]
        asked = run_reading.walk(query)
        return self._dialect.read(lambda session: run_reading.count(session, asked, most))

    @override
    def delete(self, run_id: str) -> bool:
        asked = {"run_id": checked_id(run_id, "run_id")}

        def work(session: Session, topics: Topics) -> bool:
            rows = session.fetch(SQL["thread_of"], asked)
            if not rows or lock_thread(session, rows[0][0]) is None:
                return False
            if session.fetch(SQL["status_of"], asked) == [(RunStatus.RUNNING,)]:
                raise Conflict(f"run {show(run_id)} is executing; cancel it first", field="run_id")
            removed = remove(session, [run_id], topics)
            queue(session, [rows[0][0]], topics)
            return removed > 0

        return self._change(work)

    @override
    def claim(self, owner: str, *, lease: int, limit: int = 1) -> list[Run]:
        who, until = checked_id(owner, "owner"), checked_duration(lease, "lease", least=1)
        most, _ = check_page(limit, 0)
        return self._dialect.write(lambda session: queue_leases.claim(session, who, until, most))

    @override
    def renew(self, attempts: Sequence[Attempt], *, lease: int) -> list[Renewal]:
        until = checked_duration(lease, "lease", least=1)
        if not attempts:
            return []
        return self._dialect.write(lambda session: queue_leases.renew(session, attempts, until), repeats=True)

    @override
    def is_current(self, attempt: Attempt) -> bool:
        asked = attempt._asdict()
        return bool(self._dialect.read(lambda session: session.fetch(SQL["is_current"], asked)))

    @override
    def mark(self, attempt: Attempt, checkpoint_id: str | None = None) -> bool:
        start = None if checkpoint_id is None else checked_id(checkpoint_id, "checkpoint_id")
        return self._dialect.write(
            lambda session: run_ending.mark(session, self._checkpoints, attempt, start)
        )

    @override
    def settle(self, attempt: Attempt, settlement: Settlement) -> Run:
        ending = run_ending.ending(settlement)
        run = self._change(
            lambda session, topics: run_ending.settle(session, self._checkpoints, attempt, ending, topics)
        )
        if settlement.delete_thread:
            # The run has ended and the thread is gone; what cannot be erased now is erased by
            # ``resume_deletions``.
            with suppress(Unavailable):
                self._deletions.finish(run.thread_id)
        return run

    @override
    def release(self, attempt: Attempt) -> Run:
        return self._change(lambda session, topics: queue_leases.release(session, attempt, topics))

    @override
    def cancel(
        self, query: RunQuery, action: CancelAction, *, reason: str | None = None, limit: int = 1000
    ) -> list[Cancelled]:
        why = None if reason is None else checked_text(reason, "reason")
        most, _ = check_page(limit, 0)
        walk = run_reading.walk(query, _STOPPABLE)

        def work(session: Session, topics: Topics) -> list[Cancelled]:
            found = run_reading.oldest(session, walk, most)
            if not found:
                return []
            threads = lock_threads(session, {thread_id for *_, thread_id in found})
            # What has moved on meanwhile is passed over.
            asked = {"run_ids": [run_id for _, run_id, _ in found], "statuses": list(walk.statuses)}
            rows = [Stoppable.of(row) for row in session.fetch(SQL["stoppable"], asked)]
            there = [row for row in rows if row.thread_id in threads]
            cancelled = stop(session, self._checkpoints, there, action, why, topics)
            queue(session, {run.thread_id for run in there}, topics)
            return cancelled

        return self._change(work)

    @override
    def reap(self, *, limit: int = 100, max_attempts: int = 0, everybody: bool = False) -> list[Run]:
        most, _ = check_page(limit, 0)
        return self._change(
            lambda session, topics: queue_leases.reap(session, most, max_attempts, everybody, topics)
        )

    @override
    def next_available_at(self) -> int | None:
        rows = self._dialect.read(lambda session: session.fetch(SQL["next_available_at"]))
        return rows[0][0] if rows else None

    @override
    def subscribe(self, woken: Woken) -> Callable[[], None]:
        return self._signals.subscribe(QUEUE, woken)

    def _change(self, work: Callable[[Session, Topics], T]) -> T:
        """Let ``work`` write, and tell the others once that is committed."""

        def noting(session: Session) -> tuple[T, Topics]:
            # New topics each time: what is undone and done again may come out differently.
            topics: Topics = set()
            return work(session, topics), topics

        result, topics = self._deletions.write(noting)
        self._signals.send_all(sorted(topics))
        return result
