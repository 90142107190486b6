"""Long-term memory in a Postgres database, which any number of processes may share."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import accumulate, pairwise
from typing import TYPE_CHECKING, Any, TypeVar

from psycopg_pool import ConnectionPool
from typing_extensions import override

from stateroom.clock import Clock
from stateroom.contract.items import (
    Capability,
    Count,
    Delete,
    Get,
    Items,
    ListKeys,
    Operation,
    Outcome,
    Put,
    Result,
    Search,
)
from stateroom.drivers.postgres.database import Database, connections_of
from stateroom.drivers.postgres.declared import DeclaredKeys
from stateroom.drivers.postgres.errors import Homeless
from stateroom.drivers.postgres.expiries import Expiries
from stateroom.drivers.postgres.finding import find, find_in_namespaces, is_simple
from stateroom.drivers.postgres.grouping import is_conditional, kind_of, trips
from stateroom.drivers.postgres.keys import list_keys
from stateroom.drivers.postgres.namespaces import list_namespaces
from stateroom.drivers.postgres.ranking import Asked, Ranking
from stateroom.drivers.postgres.rows import Changed, address_of, get_all, records_of
from stateroom.drivers.postgres.scope import Scope, Widths, count
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.text import TextIndex
from stateroom.drivers.postgres.threads import Threads
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.upkeep import ANALYZE_GROWTH, ANALYZE_LEAST, Upkeep, analyze_if_grown
from stateroom.drivers.postgres.where import Condition, where
from stateroom.drivers.postgres.writing import delete_all, forget_empty, put_all, register, sweep
from stateroom.drivers.sql.batches import runs
from stateroom.errors import StateroomError, Unavailable
from stateroom.model.filter import Filter
from stateroom.model.item import Hit, Record
from stateroom.model.namespace import Namespace
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import TextIndexing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stateroom.drivers.postgres.vectors import Vectors

__all__ = ["PostgresItems"]

T = TypeVar("T")

NAMESPACES_KNOWN = 100_000
"""Namespaces whose rows this process remembers to exist."""

HOMELESS_ATTEMPTS = 3
"""How often a put is tried whose namespace is removed by somebody else each time, as it was empty."""

SEARCH_ATTEMPTS = 20
"""How often a search is begun whose hits are changed by somebody else before they are read."""


class PostgresItems(Items):
    """Items in one schema of one database.

    Sync callers work in their own threads, async ones in a few that belong to the store, each with a
    connection from the pool; so no connection belongs to an event loop, and any loop may come and go.
    """

    def __init__(
        self,
        uri: str | None,
        settings: IndexSettings,
        *,
        index_keys: tuple[str, ...],
        clock: Clock,
        schema: str,
        pool: ConnectionPool[Any] | Mapping[str, Any] | None,
        prepares: bool,
    ) -> None:
        self.capabilities = frozenset(Capability)
        self._settings = settings
        self._timing = Timing(clock)
        self._declared = DeclaredKeys(index_keys)
        self._async_threads = connections_of(pool)
        self._begin()
        self._db = Database(
            uri,
            schema=schema,
            timing=self._timing,
            pool=pool,
            prepares=prepares,
            prepare=self._prepare,
            is_prepared=self._is_prepared,
            forked=self._begin,
        )

    def _begin(self) -> None:
        """Make what belongs to this process: after a fork, locks and threads of the parent are of no use."""
        settings = self._settings
        self._text = TextIndex(TextIndexing(settings)) if settings.text else None
        self._vectors = _vectors(settings) if settings.dims else None
        self._ranking = Ranking(self._text, self._vectors)
        self._expiries = Expiries(self._timing, self._write_expiries)
        self._upkeep = Upkeep(self._keep_up)
        self._known: set[Namespace] = set()
        self._widths = Widths()
        self._emptied: set[int] = set()
        self._latest = 0
        self._analyzed = ANALYZE_LEAST // ANALYZE_GROWTH
        self._threads = Threads(self._async_threads)

    @property
    def database(self) -> Database:
        """The database, which a storage shares with its items."""
        return self._db

    @override
    def open(self) -> None:
        self._db.open()

    @override
    def close(self) -> None:
        try:
            self._upkeep.finish()
            self._expiries.close()
        finally:
            self._threads.close()
            self._db.close()

    @override
    def trips(self, batches: Sequence[Sequence[Operation]]) -> list[list[int]]:
        return trips(batches)

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        if len(batches) > 1:
            try:
                outcomes = self._run_together(batches)
            except StateroomError:
                # Whose fault it is shows when each stands alone.
                outcomes = None
            if outcomes is not None:
                return outcomes
        return [self._outcome(batch) for batch in batches]

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return await self._threads.run(lambda: self.apply_each(batches), self._db.timeout)

    @override
    def apply(self, operations: Sequence[Operation]) -> list[Result]:
        return self._run(operations)

    @override
    def get_all(self, operations: Sequence[Get]) -> list[Record | None]:
        self._expiries.flush_due()
        found = self._db.read(lambda session: get_all(session, operations))
        return [
            self._expiries.told(read, None, refreshes=operation.refresh)
            for read, operation in zip(found, operations, strict=True)
        ]

    @override
    def get(self, operation: Get) -> Record | None:
        (record,) = self.get_all([operation])
        return record

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        return self.vectors_of([(namespace, key)])

    @override
    def vectors_of(self, addresses: Sequence[tuple[Namespace, str]]) -> dict[bytes, NDArray[np.float32]]:
        if self._vectors is None:
            return {}
        known, wanted = self._vectors.known, [address_of(*address) for address in addresses]
        return self._db.read(lambda session: known(session, wanted))

    @override
    def sweep(self, limit: int) -> int:
        self._expiries.flush()

        def work(session: Session) -> int:
            swept = sweep(session, limit)
            if self._vectors is not None:
                self._vectors.forget(session, [address for address, _ in swept])
            self._emptied.update(number for _, number in swept)
            return len(swept)

        freed = self._db.write(work, repeats=True)
        if self._vectors is not None:
            self._vectors.sweep_some(self._db)
        self._forget_emptied()
        return freed

    def _is_prepared(self, session: Session) -> bool:
        """Tell whether there is nothing that only one process at a time may do."""
        return (
            self._declared.is_prepared(session)
            and (self._text is None or self._text.is_prepared(session))
            and (self._vectors is None or self._vectors.is_prepared(session))
        )

    def _prepare(self, session: Session) -> None:
        # Only what is missing: a user who may not create tables need not, where they are there.
        if not self._declared.is_prepared(session):
            self._declared.prepare(session)
        if self._text is not None and not self._text.is_prepared(session):
            self._text.prepare(session)
        if self._vectors is not None and not self._vectors.is_prepared(session):
            self._vectors.prepare(session, self._db.session)

    def _outcome(self, batch: Sequence[Operation]) -> Outcome:
        try:
            return self._run(batch)
        except StateroomError as error:
            return error

    def _run_together(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome] | None:
        """Apply batches of one kind in one statement; None if that cannot be done."""
        kind = kind_of(batches)
        operations = [operation for batch in batches for operation in batch]
        if kind == "each alone":
            return None
        if kind == "listings":
            self._expiries.flush_due()
            return [[hits] for hits in self._listed(operations)]  # type: ignore[arg-type]  # as it is
        results = self._run(operations)
        if len(results) == len(batches):
            return [[result] for result in results]
        ends = accumulate((len(batch) for batch in batches), initial=0)
        return [results[start:end] for start, end in pairwise(ends)]

    def _run(self, batch: Sequence[Operation]) -> list[Result]:
        """Apply one batch, raising its error."""
        self._expiries.flush_due()
        if all(type(operation) is Get for operation in batch):
            return list(self.get_all(batch))  # type: ignore[arg-type]  # as just checked
        if not any(isinstance(operation, Put | Delete) for operation in batch):
            return self._read(batch)
        results = self._write_at_home(batch)
        self._upkeep.note(len(batch))
        return results

    def _read(self, batch: Sequence[Operation]) -> list[Result]:
        if len(batch) > 1:
            return self._db.read_together(
                lambda session: [self._apply(session, operation) for operation in batch]
            )
        (one,) = batch
        if isinstance(one, Search) and is_simple(one) and one.prefix not in self._widths.several:
            return [self._listed([one])[0]]
        return self._db.read(lambda session: [self._apply(session, one)])

    def _listed(self, searches: Sequence[Search]) -> list[list[Hit]]:
        """Apply searches that just list below a prefix."""

        def hits(session: Session, search: Search, page: list[Record] | None) -> list[Hit]:
            if page is None:
                self._widths.note(self._widths.several, search.prefix)
                return self._searched(session, search, None)
            return [Hit(self._expiries.shown(record, None, refreshes=search.refresh)) for record in page]

        def work(session: Session) -> list[list[Hit]]:
            pages = find_in_namespaces(session, searches)
            return [hits(session, search, page) for search, page in zip(searches, pages, strict=True)]

        return self._db.read(work)

    def _write(self, batch: Sequence[Operation], missing: Sequence[Namespace]) -> list[Result]:
        def work(session: Session) -> list[Result]:
            if missing:
                register(session, missing)
            results: list[Result] = []
            for run in runs(batch):
                results += self._apply_run(session, run)
            return results

        repeats = not any(is_conditional(operation) for operation in batch)
        alone = not missing and self._vectors is None and len(list(runs(batch))) == 1
        write = self._db.write_statement if alone else self._db.write
        return write(work, repeats=repeats)

    def _apply_run(self, session: Session, run: Sequence[Operation]) -> list[Result]:
        if isinstance(run[0], Put):
            return list(self._put(session, run))  # type: ignore[arg-type]  # a run is of one kind
        if isinstance(run[0], Delete):
            self._emptied.update(delete_all(session, run))  # type: ignore[arg-type]
            if self._vectors is not None:
                addresses = [address_of(one.namespace, one.key) for one in run]  # type: ignore[union-attr]
                self._vectors.forget(session, addresses)
            return [None] * len(run)
        return [self._apply(session, operation, writer=session) for operation in run]

    def _put(self, session: Session, operations: Sequence[Put]) -> list[Record]:
        records = put_all(session, self._text, operations)
        if self._vectors is not None:
            self._vectors.write(session, operations, records)
        self._latest = max(self._latest, records[-1].revision)
        return records

    def _write_at_home(self, batch: Sequence[Operation]) -> list[Result]:
        """Apply a batch that writes, in one transaction with the rows of namespaces that are new to it."""
        namespaces = {operation.namespace for operation in batch if isinstance(operation, Put)}
        for _ in range(HOMELESS_ATTEMPTS):
            missing = sorted(namespaces - self._known)
            try:
                results = self._write(batch, missing)
            except Homeless:
                # Somebody has removed a namespace that was empty.
                self._known.clear()
                continue
            if len(self._known) + len(missing) > NAMESPACES_KNOWN:
                self._known.clear()
            self._known.update(missing)
            return results
        raise Unavailable("the namespace kept being removed: the call may be repeated")

    def _apply(self, session: Session, operation: Operation, *, writer: Session | None = None) -> Result:
        if isinstance(operation, Get):
            (read,) = get_all(session, [operation])
            return self._expiries.told(read, writer, refreshes=operation.refresh)
        if isinstance(operation, Search):
            return self._searched(session, operation, writer)
        if isinstance(operation, Count):
            condition = self._condition(operation.filter)
            return count(session, self._scope(session, operation.prefix), condition)
        if isinstance(operation, ListKeys):
            return list_keys(session, operation)
        assert not isinstance(operation, Put | Delete)
        return list_namespaces(session, operation)

    def _searched(self, session: Session, operation: Search, writer: Session | None) -> list[Hit]:
        for _ in range(SEARCH_ATTEMPTS):
            try:
                return self._search(session, operation, writer)
            except Changed:
                continue
        raise Unavailable("what was searched kept changing: the call may be repeated")

    def _search(self, session: Session, operation: Search, writer: Session | None) -> list[Hit]:
        def shown(record: Record) -> Record:
            return self._expiries.shown(record, writer, refreshes=operation.refresh)

        limit, offset = operation.limit, operation.offset
        scope, condition = self._scope(session, operation.prefix), self._condition(operation.filter)
        if operation.query is None:
            return [Hit(shown(record)) for record in find(session, scope, condition, limit, offset)]
        if limit == 0:
            return []
        asked = Asked(scope, condition, operation.query, limit + offset)
        page = self._ranking.search(session, asked)[offset : limit + offset]
        records = records_of(session, [ranked.found for ranked in page])
        return [
            Hit(shown(record), ranked.score, ranked.text, ranked.vector)
            for record, ranked in zip(records, page, strict=True)
        ]

    def _scope(self, session: Session, prefix: Namespace) -> Scope:
        return Scope(session, prefix, self._widths)

    def _condition(self, condition: Filter | None) -> Condition | None:
        return None if condition is None else where(condition, self._declared.keys)

    def _write_expiries(self, work: Callable[[Session], None]) -> None:
        self._db.write_statement(work, repeats=True)

    def _forget_emptied(self) -> None:
        """Remove namespaces from which the last item may have gone."""
        emptied = list(self._emptied)
        if emptied:
            self._db.write(lambda session: forget_empty(session, emptied), repeats=True)
            self._emptied.difference_update(emptied)

    def _keep_up(self) -> None:
        """Do what puts and deletes leave undone."""
        self._forget_emptied()
        if self._latest > ANALYZE_GROWTH * self._analyzed:
            self._analyzed = self._latest
            self._db.read(analyze_if_grown)
        if self._vectors is not None:
            self._vectors.keep_up(self._db, lambda: self._upkeep.goes_on)


def _vectors(settings: IndexSettings) -> Vectors:
    # It brings NumPy, which only those who have vectors are to wait for.
    from stateroom.drivers.postgres.vectors import Vectors

    return Vectors(settings)
