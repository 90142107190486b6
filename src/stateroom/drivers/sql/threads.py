"""Conversations in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from typing_extensions import override

from stateroom.contract.assistants import IfExists
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery, Threads
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.deletions import Deletions
from stateroom.drivers.sql.dialect import Dialect, Row, Session
from stateroom.drivers.sql.documents import checked_id, maybe_state, object_of, state_bytes
from stateroom.drivers.sql.searching import Conditions, Equal, Holds, counted, found, holds_metadata
from stateroom.drivers.sql.signals import Signals
from stateroom.drivers.sql.terms import wanted_values
from stateroom.drivers.sql.thread_changes import SQL, change_thread, insert_thread, prepare_change
from stateroom.drivers.sql.thread_rows import (
    THREADS,
    checked_status,
    checked_ttl,
    no_thread,
    thread_of,
)
from stateroom.errors import Conflict, InvalidInput, InvalidValue
from stateroom.model.metadata import contains
from stateroom.model.page import check_page
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, status_after
from stateroom.model.ttl import expiry

__all__ = ["SqlThreads"]

_FROM = f"from {THREADS.table} r {THREADS.joins}"
_GET = f"select {THREADS.columns} {_FROM} where r.thread_id = :thread_id"  # constants only
_EXPIRED = (
    f"select {THREADS.columns} {_FROM} where r.expires_at is not null and r.expires_at <= :now "
    "order by r.expires_at, r.thread_id limit :limit"
)


class SqlThreads(Threads):
    """Threads in one table, their state in a second, and what metadata and values hold in a third."""

    def __init__(self, dialect: Dialect, signals: Signals, checkpoints: CheckpointTables) -> None:
        self._dialect = dialect
        self._signals = signals
        self._checkpoints = checkpoints
        self._deletions = Deletions(dialect, checkpoints)

    @override
    def create(self, new: NewThread, *, if_exists: IfExists = "raise") -> Thread:
        if if_exists not in ("raise", "do_nothing"):
            raise InvalidInput(
                f"if_exists is {show(if_exists)}; use 'raise' or 'do_nothing'", field="if_exists"
            )
        while True:
            thread = self._deletions.write(lambda session: insert_thread(session, new))
            if thread is not None:
                return thread
            if if_exists == "raise":
                raise _taken(new.thread_id, "thread_id")
            held = self.get(new.thread_id)
            # Unless it has been deleted since.
            if held is not None:
                return held

    @override
    def get(self, thread_id: str) -> Thread | None:
        checked_id(thread_id, "thread_id")
        return self._dialect.read(lambda session: _get(session, thread_id))

    @override
    def update(self, thread_id: str, change: ThreadChange) -> Thread:
        checked_id(thread_id, "thread_id")
        prepared = prepare_change(change)

        def work(session: Session) -> Thread:
            change_thread(session, thread_id, prepared)
            thread = _get(session, thread_id)
            assert thread is not None
            return thread

        return self._dialect.write(work, repeats=True)

    @override
    def search(
        self,
        query: ThreadQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Thread]:
        conditions = _conditions(query)
        return found(self._dialect, THREADS, conditions, sort=sort, limit=limit, offset=offset, after=after)

    @override
    def count(self, query: ThreadQuery, *, at_most: int | None = None) -> int:
        return counted(self._dialect, THREADS, _conditions(query), at_most=at_most)

    @override
    def copy(self, thread_id: str, new_id: str, *, ttl: ThreadTTL | None = None) -> Thread:
        checked_id(thread_id, "thread_id")
        checked_id(new_id, "new_id")
        ttl = checked_ttl(ttl)

        def work(session: Session) -> Thread:
            return self._copied(session, thread_id, new_id, ttl)

        return self._deletions.write(work)

    def _copied(self, session: Session, thread_id: str, new_id: str, ttl: ThreadTTL | None) -> Thread:
        ids = {"thread_id": thread_id, "new_id": new_id}
        rows = session.fetch(SQL["original"], ids)
        if not rows:
            raise no_thread(thread_id)
        metadata, config = map(object_of, rows[0])
        new = NewThread(new_id, metadata, config, ttl)
        thread = insert_thread(session, new, status=_status_of_copy(session.fetch(SQL["interrupts"], ids)))
        if thread is None:
            raise _taken(new_id, "new_id")
        session.execute(SQL["copy_state"], ids)
        session.execute(SQL["copy_terms"], {**ids, "created_at": thread.created_at})
        self._checkpoints.copy(session, thread_id, new_id)
        copy = _get(session, new_id)
        assert copy is not None
        return copy

    @override
    def delete(self, thread_id: str, *, if_expires_at: int | None = None) -> bool:
        checked_id(thread_id, "thread_id")
        topics = self._deletions.begin(thread_id, if_expires_at=if_expires_at)
        if topics is not None:
            self._signals.send_all(topics)
        # Also of a thread that is gone already, of which a crash has left something.
        self._deletions.finish(thread_id)
        return topics is not None

    @override
    def resume_deletions(self, limit: int = 100) -> int:
        most, _ = check_page(limit, 0)
        return self._deletions.resume(most)

    @override
    def expired(self, limit: int = 100) -> list[Thread]:
        most, _ = check_page(limit, 0)
        rows = self._dialect.read(lambda session: session.fetch(_EXPIRED, {"limit": most}))
        return list(map(thread_of, rows))

    @override
    def rearm(self, thread_id: str, expires_at: int) -> bool:
        checked_id(thread_id, "thread_id")

        def work(session: Session) -> bool:
            expiring = {"thread_id": thread_id, "expires_at": expires_at}
            rows = session.fetch(SQL["expiring"], expiring)
            if rows:
                lifetime = expiry(0, rows[0][0])
                session.execute(SQL["rearm"], {"thread_id": thread_id, "lifetime": lifetime})
            return bool(rows)

        return self._dialect.write(work)


def _get(session: Session, thread_id: str) -> Thread | None:
    rows = session.fetch(_GET, {"thread_id": thread_id})
    return thread_of(rows[0]) if rows else None


def _taken(thread_id: str, field: str) -> Conflict:
    return Conflict(f"thread {show(thread_id)} exists already; pass another id", field=field)


def _status_of_copy(rows: list[Row]) -> ThreadStatus:
    interrupts = maybe_state(rows[0][0]) if rows else None
    return status_after(failed=False, interrupts=interrupts or {})


def _conditions(query: ThreadQuery) -> Conditions[Thread]:
    status = None if query.status is None else checked_status(query.status)
    if isinstance(query.ids, str):
        raise InvalidInput(f"ids is {show(query.ids)}; pass a list of ids", field="ids")
    return Conditions(
        equal=[] if status is None else [Equal("status", status.value, leads=True)],
        holds=[
            *holds_metadata(query.metadata, "metadata", _metadata),
            *holds_metadata(query.enforced_metadata, "enforced_metadata", _metadata),
            *_holds_values(query.values),
        ],
        ids=None if query.ids is None else [checked_id(each, "ids") for each in query.ids],
    )


def _metadata(thread: Thread) -> Mapping[str, Any]:
    return thread.metadata


def _holds_values(wanted: Mapping[str, Any] | None) -> list[Holds[Thread]]:
    if wanted is None:
        return []
    if not isinstance(wanted, Mapping):
        raise InvalidValue(f"values is {show(wanted)}; pass a JSON object, that is a dict", field="values")
    plain = maybe_state(state_bytes(wanted, "values"))
    return [
        Holds(
            wanted_values(plain),
            lambda thread: isinstance(thread.values, dict) and contains(thread.values, plain),
        )
    ]
