"""Crons in SQL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from typing_extensions import override

from stateroom.contract.crons import CronChange, CronQuery, Crons, NewCron
from stateroom.contract.runs import NewRun
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.cron_columns import (
    changed_columns,
    checked_moment,
    cron_of,
    merged_columns,
    new_columns,
)
from stateroom.drivers.sql.deletions import Deletions
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.documents import checked_id, checked_text, object_of
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.run_creation import columns_of, insert_runs
from stateroom.drivers.sql.run_moves import Topics, lock_thread
from stateroom.drivers.sql.searching import Conditions, Equal, Key, Listed, counted, found, holds_metadata
from stateroom.drivers.sql.signals import Signals
from stateroom.drivers.sql.terms import change_terms, metadata_terms
from stateroom.errors import Conflict, NotFound
from stateroom.model.cron import CRON_SORTS, Cron
from stateroom.model.page import check_page
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.run import Run
from stateroom.model.text import show

__all__ = ["SqlCrons"]

_SQL: Final = queries("crons")

_TERMS: Final = "stateroom.cron_term"

_CHANGEABLE: Final = (
    *("schedule", "timezone", "enabled", "payload", "metadata", "on_run_completed"),
    *("next_run_at", "end_at", "private"),
)


class SqlCrons(Crons):
    """Crons in one table, with an index on when the enabled are due."""

    def __init__(self, dialect: Dialect, signals: Signals, checkpoints: CheckpointTables) -> None:
        self._dialect = dialect
        self._signals = signals
        self._checkpoints = checkpoints
        self._deletions = Deletions(dialect, checkpoints)

    @override
    def create(self, new: NewCron) -> Cron:
        columns = new_columns(new)

        def work(session: Session) -> Cron:
            _see_what_it_names(session, new)
            rows = session.fetch(_SQL["insert"], columns)
            if not rows:
                raise Conflict(f"cron {show(new.cron_id)} exists already; pass another id", field="cron_id")
            _change_terms(session, new.cron_id, rows[0][0], b"{}", columns["metadata"])
            return _there(session, new.cron_id)

        return self._dialect.write(work)

    @override
    def get(self, cron_id: str) -> Cron | None:
        checked_id(cron_id, "cron_id")
        return self._dialect.read(lambda session: _read(session, cron_id))

    @override
    def update(self, cron_id: str, change: CronChange) -> Cron:
        named = {"cron_id": checked_id(cron_id, "cron_id")}
        changed = changed_columns(change)

        def work(session: Session) -> Cron:
            rows = session.fetch(_SQL["lock"], named)
            if not rows:
                raise NotFound(f"cron {show(cron_id)} does not exist", field="cron_id")
            *row, created_at = rows[0]
            before = dict(zip(_CHANGEABLE, row, strict=True))
            after = merged_columns(before, changed)
            session.execute(_SQL["update"], {**after, **named})
            _change_terms(session, cron_id, created_at, before["metadata"], after["metadata"])
            return _there(session, cron_id)

        return self._dialect.write(work)

    @override
    def delete(self, cron_id: str) -> bool:
        named = {"cron_id": checked_id(cron_id, "cron_id")}

        def work(session: Session) -> bool:
            if not session.execute(_SQL["delete"], named):
                return False
            session.execute(_SQL["delete_terms"], named)
            return True

        return self._dialect.write(work)

    @override
    def search(
        self,
        query: CronQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Cron]:
        conditions = _conditions(query)
        return found(self._dialect, _LISTED, conditions, sort=sort, limit=limit, offset=offset, after=after)

    @override
    def count(self, query: CronQuery, *, at_most: int | None = None) -> int:
        return counted(self._dialect, _LISTED, _conditions(query), at_most=at_most)

    @override
    def due(self, *, limit: int = 100) -> list[Cron]:
        most, _ = check_page(limit, 0)
        rows = self._dialect.read(lambda session: session.fetch(_SQL["due"], {"limit": most}))
        return [cron_of(row) for row in rows]

    @override
    def next_run_at(self) -> int | None:
        rows = self._dialect.read(lambda session: session.fetch(_SQL["next_run_at"]))
        return rows[0][0] if rows else None

    @override
    def fire(
        self, cron_id: str, occurrence: int, *, next_run_at: int | None, run: NewRun | None
    ) -> Run | None:
        moved = {
            "cron_id": checked_id(cron_id, "cron_id"),
            "occurrence": occurrence,
            "next_run_at": checked_moment(next_run_at, "next_run_at"),
        }

        rows = columns_of([] if run is None else [run])

        def work(session: Session) -> tuple[list[Run], Topics]:
            topics: Topics = set()
            for row in rows:
                # Before the cron: who deletes a thread goes from it to its crons.
                lock_thread(session, row.new.thread_id)
            if not session.execute(_SQL["move_on"], moved):
                return [], topics
            return insert_runs(session, self._checkpoints, rows, topics), topics

        runs, topics = self._deletions.write(work)
        self._signals.send_all(sorted(topics))
        return runs[0] if runs else None

    @override
    def fail(self, cron_id: str, occurrence: int, error: str, *, next_run_at: int | None) -> bool:
        failure = {
            "cron_id": checked_id(cron_id, "cron_id"),
            "occurrence": occurrence,
            "error": checked_text(error, "error"),
            "next_run_at": checked_moment(next_run_at, "next_run_at"),
        }
        return self._dialect.write(lambda session: session.execute(_SQL["fail"], failure) > 0)


_LISTED: Final[Listed[Cron]] = Listed(
    table="stateroom.cron",
    id="cron_id",
    terms=_TERMS,
    columns=(
        "r.cron_id, r.assistant_id, r.thread_id, r.schedule, r.timezone, r.enabled, r.payload, r.metadata, "
        "r.on_run_completed, r.user_id, null, r.next_run_at, r.end_at, r.occurrence, r.error, "
        "r.created_at, r.updated_at"
    ),
    joins="",
    keys={
        sort: Key(
            int if sort.endswith("_at") else str, nullable=sort in ("thread_id", "next_run_at", "end_at")
        )
        for sort in CRON_SORTS
    },
    read=cron_of,
)


def _conditions(query: CronQuery) -> Conditions[Cron]:
    equal = []
    for field in ("assistant_id", "thread_id"):
        if (id := getattr(query, field)) is not None:
            equal.append(Equal(field, checked_id(id, field), leads=True))
    if query.enabled is not None:
        equal.append(Equal("enabled", query.enabled))
    holds = [
        *holds_metadata(query.metadata, "metadata", _metadata_of),
        *holds_metadata(query.enforced_metadata, "enforced_metadata", _metadata_of),
    ]
    return Conditions(equal, holds)


def _metadata_of(cron: Cron) -> Mapping[str, Any]:
    return cron.metadata


def _see_what_it_names(session: Session, new: NewCron) -> None:
    """Raise NotFound unless a new cron's thread and assistant exist; keep them until the end."""
    for kind, id in (("thread", new.thread_id), ("assistant", new.assistant_id)):
        if id is not None and not session.fetch(_SQL[kind], {f"{kind}_id": id}):
            raise NotFound(f"{kind} {show(id)} does not exist; create it first", field=f"{kind}_id")


def _change_terms(session: Session, cron_id: str, created_at: int, old: bytes, new: bytes) -> None:
    terms = (metadata_terms(object_of(raw)) for raw in (old, new))
    change_terms(session, _TERMS, cron_id, created_at, *terms)


def _read(session: Session, cron_id: str) -> Cron | None:
    rows = session.fetch(_SQL["get"], {"cron_id": cron_id})
    return cron_of(rows[0]) if rows else None


def _there(session: Session, cron_id: str) -> Cron:
    cron = _read(session, cron_id)
    assert cron is not None, "it is locked"
    return cron
