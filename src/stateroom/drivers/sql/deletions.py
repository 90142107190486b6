"""Deletions of threads: a first transaction makes one invisible, and bounded ones erase what is left."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Final, TypeVar

from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.events import erase_thread_frames, run_topic
from stateroom.drivers.sql.queries import queries

__all__ = ["DeletionPending", "Deletions", "begin_deletion"]

T = TypeVar("T")

ERASED_AT_ONCE: Final = 1_000
"""Rows that one transaction erases of a thread that is gone, of each kind."""

TOLD_MAX: Final = 1_000
"""Waiting runs of a thread whose listeners are told that it is gone; others find out when they look."""

_SQL: Final = queries("deletions")

# What names the thread, so that nobody sees it once it is gone; runs and streams are seen through it.
_VISIBLE: Final = ("thread", "state", "terms", "cron_terms", "crons", "idempotency", "deliveries")


class DeletionPending(Exception):
    """A thread of this id has been deleted in part, which must be finished first."""

    def __init__(self, thread_id: str) -> None:
        super().__init__(thread_id)
        self.thread_id = thread_id


def begin_deletion(session: Session, thread_id: str) -> set[str]:
    """Make a locked thread invisible, and note what is still to be erased; return the topics to be sent.

    From now on nothing can be written under its id. Deliveries that are made after this, in the same
    transaction, stay.
    """
    thread = {"thread_id": thread_id}
    session.execute(_SQL["begin"], thread)
    for part in _VISIBLE:
        session.execute(_SQL[part], thread)
    executing = session.fetch(_SQL["executing"], thread)
    waiting = session.fetch(_SQL["waiting"], {**thread, "limit": TOLD_MAX})
    return {"runs", *(run_topic(run_id) for (run_id,) in [*executing, *waiting])}


class Deletions:
    """Deletions in one database, which go on after a crash where they were."""

    def __init__(self, dialect: Dialect, checkpoints: CheckpointTables) -> None:
        self._dialect = dialect
        self._checkpoints = checkpoints

    def begin(self, thread_id: str, *, if_expires_at: int | None = None) -> set[str] | None:
        """Do the first transaction; return the topics to be sent, or None when no such thread is there.

        It is as if it were not there unless it expires at ``if_expires_at``, if that is given.
        """

        def work(session: Session) -> set[str] | None:
            rows = session.fetch(_SQL["locked"], {"thread_id": thread_id})
            if not rows or if_expires_at not in (None, rows[0][0]):
                return None
            return begin_deletion(session, thread_id)

        return self._dialect.write(work)

    def finish(self, thread_id: str) -> None:
        """Erase what is left of a thread that is gone; nothing if nothing is."""
        after: int | None = 0
        while after is not None:
            after = self._dialect.write(partial(self._erase, thread_id=thread_id, after=after), repeats=True)

    def resume(self, limit: int) -> int:
        """Finish deletions of at most ``limit`` threads; return how many there were."""
        pending = self._dialect.read(lambda session: session.fetch(_SQL["pending"], {"limit": limit}))
        for (thread_id,) in pending:
            self.finish(thread_id)
        return len(pending)

    def write(self, work: Callable[[Session], T]) -> T:
        """Let ``work`` write in a transaction, again after finishing each deletion that is in its way."""
        while True:
            try:
                return self._dialect.write(work)
            except DeletionPending as pending:
                self.finish(pending.thread_id)

    def _erase(self, session: Session, *, thread_id: str, after: int) -> int | None:
        """Erase a bounded part; return where the runs go on that may be left, None when nothing is.

        Where they went on is known, so that Postgres does not look again at those that it has deleted.
        """
        thread = {"thread_id": thread_id}
        if not session.fetch(_SQL["is_begun"], thread):
            # Another has finished it meanwhile, and a new thread may be there.
            return None
        ((until,),) = session.fetch(_SQL["first_runs"], {**thread, "after": after, "limit": ERASED_AT_ONCE})
        if until is not None:
            for part in ("idempotency_of_runs", "runs"):
                session.execute(_SQL[part], {**thread, "after": after, "until": until})
            return int(until)
        for erase in (erase_thread_frames, self._checkpoints.erase):
            if not erase(session, thread_id, ERASED_AT_ONCE):
                return after
        session.execute(_SQL["end"], thread)
        return None
