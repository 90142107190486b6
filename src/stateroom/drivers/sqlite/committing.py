"""Sharing commits between the threads that write at the same time."""

from __future__ import annotations

import sqlite3
from collections import deque
from collections.abc import Callable, Sequence
from threading import RLock
from typing import Any

from stateroom.contract.items import Operation, Outcome, Result
from stateroom.drivers.sqlite.database import Busy
from stateroom.errors import StateroomError

__all__ = ["Commits"]

Batch = Sequence[Operation]


class _Ticket:
    """What one thread wants written, and what came of it."""

    __slots__ = ("batches", "failure", "outcomes")

    def __init__(self, batches: Sequence[Batch]) -> None:
        self.batches = batches
        self.outcomes: list[Outcome] | None = None
        self.failure: BaseException | None = None


class Commits:
    """Applies batches that write: one at once when nobody else writes, many in one transaction otherwise.

    ``write`` does some work in a transaction of its own and may be called by the holder of ``lock``
    alone; ``run`` applies a batch in it, and ``note`` is told how many operations there were.
    """

    def __init__(
        self,
        lock: Callable[[], RLock],
        write: Callable[[Callable[[sqlite3.Connection], Any]], Any],
        run: Callable[[sqlite3.Connection, Batch], list[Result]],
        note: Callable[[sqlite3.Connection, int], None],
    ) -> None:
        self._lock = lock
        self._write = write
        self._run = run
        self._note = note
        self._queue: deque[_Ticket] = deque()

    def apply_each(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Apply batches, each on its own, and return what came of each."""
        lock = self._lock()
        if len(batches) == 1 and lock.acquire(blocking=False):
            try:
                if not self._queue:
                    return [self._write_alone(batches[0])]
            finally:
                lock.release()
        return self._write_together(batches)

    def _write_alone(self, batch: Batch) -> Outcome:
        def work(connection: sqlite3.Connection) -> list[Result]:
            results = self._run(connection, batch)
            self._note(connection, len(batch))
            return results

        try:
            return self._write(work)  # type: ignore[no-any-return]  # what work returns
        except StateroomError as error:
            return error

    def _write_together(self, batches: Sequence[Batch]) -> list[Outcome]:
        """Queue up; whoever gets the lock first writes for everybody who waits."""
        ticket = _Ticket(batches)
        self._queue.append(ticket)
        with self._lock():
            if ticket.outcomes is None and ticket.failure is None:
                tickets = [self._queue.popleft() for _ in range(len(self._queue))]
                # It is missing if a thread that took it along was interrupted.
                self._serve(tickets if ticket in tickets else [*tickets, ticket])
        if ticket.failure is not None:
            raise ticket.failure
        assert ticket.outcomes is not None
        return ticket.outcomes

    def _serve(self, tickets: list[_Ticket]) -> None:
        """Write what several threads want in one commit; if that fails, every batch on its own."""
        batches = [batch for ticket in tickets for batch in ticket.batches]
        try:
            outcomes = iter(self._write(lambda connection: self._run_isolated(connection, batches)))
        except Busy as error:
            for ticket in tickets:
                ticket.outcomes = [error] * len(ticket.batches)
            return
        except Exception:  # whose it is shows when each stands alone
            for ticket in tickets:
                try:
                    ticket.outcomes = [self._write_alone(batch) for batch in ticket.batches]
                except Exception as failure:  # it is raised in the thread that it belongs to
                    ticket.failure = failure
            return
        for ticket in tickets:
            ticket.outcomes = [next(outcomes) for _ in ticket.batches]

    def _run_isolated(self, connection: sqlite3.Connection, batches: Sequence[Batch]) -> list[Outcome]:
        outcomes: list[Outcome] = []
        for batch in batches:
            connection.execute("savepoint batch")
            try:
                outcomes.append(self._run(connection, batch))
            except StateroomError as error:
                connection.execute("rollback to batch")
                outcomes.append(error)
            connection.execute("release batch")
        self._note(connection, sum(map(len, batches)))
        return outcomes
