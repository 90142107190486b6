"""Long-term memory in one SQLite file, which several processes may open."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from operator import attrgetter
from typing import TYPE_CHECKING, TypeVar

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
from stateroom.drivers.sql.batches import kinds_of_search, runs
from stateroom.drivers.sql.refreshes import Refreshes
from stateroom.drivers.sqlite.committing import Commits
from stateroom.drivers.sqlite.database import MEMORY, Database, Synchronous
from stateroom.drivers.sqlite.finding import Wanted, find
from stateroom.drivers.sqlite.keys import list_keys
from stateroom.drivers.sqlite.namespaces import Namespaces
from stateroom.drivers.sqlite.ranking import Asked, Ranking
from stateroom.drivers.sqlite.rows import get, get_all, records_of
from stateroom.drivers.sqlite.scope import Scope, count
from stateroom.drivers.sqlite.text import TextIndex
from stateroom.drivers.sqlite.upkeep import Upkeep
from stateroom.drivers.sqlite.where import Condition, KeyIndex, Matchers, key_index, where
from stateroom.drivers.sqlite.writing import delete, delete_all, put, put_all, refresh, sweep
from stateroom.errors import Misconfigured, StateroomError
from stateroom.model.filter import Filter
from stateroom.model.item import Hit, Record
from stateroom.model.namespace import Namespace
from stateroom.model.ttl import expiry
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import TextIndexing

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from stateroom.drivers.sqlite.vectors import Vectors

__all__ = ["SqliteItems"]

T = TypeVar("T")

GETS_JOINED = 4
"""Gets from which on one statement reads them all."""

ASYNC_THREADS = 4
"""Threads that serve a store's async calls."""


class SqliteItems(Items):
    """Items in one file: any number of readers beside one writer, in this process and in others.

    Threads that write at the same time share a commit: whoever gets the lock writes for all that wait.
    """

    def __init__(
        self,
        path: str,
        settings: IndexSettings,
        *,
        index_keys: tuple[str, ...],
        clock: Clock,
        synchronous: Synchronous,
    ) -> None:
        self.capabilities = frozenset(Capability)
        if path == MEMORY:
            self.capabilities -= {Capability.DURABLE, Capability.MULTI_PROCESS}
        self._clock = clock
        self._matchers = Matchers()
        self._declared = _declared(index_keys)
        self._settings = settings
        self._begin()
        self._db = Database(
            path,
            synchronous=synchronous,
            equip=self._matchers.install,
            prepare=self._prepare,
            forked=self._begin,
        )

    def _begin(self) -> None:
        """Make what belongs to this process: after a fork, locks and threads of the parent are of no use."""
        settings = self._settings
        self._text = TextIndex(TextIndexing(settings)) if settings.text else None
        self._vectors = _vectors(settings) if settings.dims else None
        self._ranking = Ranking(self._text, self._vectors)
        self._namespaces = Namespaces()
        self._refreshes = Refreshes(self._flush, attrgetter("revision"))
        self._upkeep = Upkeep(self._text)
        self._commits = Commits(lambda: self._db.lock, self._write, self._run, self._upkeep.note)
        self._threads = ThreadPoolExecutor(ASYNC_THREADS, thread_name_prefix="stateroom-sqlite")

    @property
    def database(self) -> Database:
        """The file, which a storage shares with its items."""
        return self._db

    @override
    def open(self) -> None:
        self._db.open()

    @override
    def close(self) -> None:
        try:
            self._flush()
        finally:
            self._db.close()
            self._threads.shutdown()
            self._threads = ThreadPoolExecutor(ASYNC_THREADS, thread_name_prefix="stateroom-sqlite")

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        if not any(isinstance(operation, Put | Delete) for batch in batches for operation in batch):
            return [self._read(batch) for batch in batches]
        return self._commits.apply_each(batches)

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.apply_each, batches)

    @override
    def put(self, operation: Put) -> Record:
        lock = self._db.lock
        if not lock.acquire(blocking=False):
            return super().put(operation)
        try:
            return self._write(lambda connection: self._put(connection, operation))
        finally:
            lock.release()

    @override
    def get(self, operation: Get) -> Record | None:
        return self._db.read(lambda connection: self._get(connection, operation))

    @override
    def get_all(self, operations: Sequence[Get]) -> list[Record | None]:
        if len(operations) < GETS_JOINED:
            return super().get_all(operations)
        found = self._db.read(lambda connection: get_all(connection, operations))
        seen = [None if record is None else self._seen(record) for record in found]
        return [
            record if record is None or not operation.refresh else self._refreshed(record, None)
            for record, operation in zip(seen, operations, strict=True)
        ]

    @override
    def search(self, operation: Search) -> list[Hit]:
        (hits,) = self._read_all([operation])
        return hits  # type: ignore[return-value]  # a Search answers hits

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        from stateroom.drivers.sqlite.vectors import known

        return self._db.read(lambda connection: known(connection, namespace, key))

    @override
    def sweep(self, limit: int) -> int:
        def work(connection: sqlite3.Connection) -> int:
            freed = sweep(connection, self._clock(), limit)
            self._upkeep.note(connection, freed)
            return freed

        return self._write(work)

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for index in self._declared.values():
            connection.execute(index.create)
        if self._text is not None:
            self._text.prepare(connection)
        if self._vectors is not None:
            self._vectors.prepare(connection)

    def _write(self, work: Callable[[sqlite3.Connection], T]) -> T:
        """Do some work in a write transaction, in which the refreshes that were answered come first."""
        if not self._refreshes:
            return self._db.write(work)
        expiries = self._refreshes.pending()

        def refresh_and_work(connection: sqlite3.Connection) -> T:
            refresh(connection, expiries)
            return work(connection)

        result = self._db.write(refresh_and_work)
        self._refreshes.written(expiries)
        return result

    def _flush(self) -> None:
        """Write pending refreshes; if that fails they stay pending for the next write."""
        if self._refreshes:
            self._write(lambda _: None)

    def _put(self, connection: sqlite3.Connection, operation: Put) -> Record:
        record = put(connection, operation, self._clock())
        self._upkeep.note(connection, 1)
        return record

    def _run(self, connection: sqlite3.Connection, batch: Sequence[Operation]) -> list[Result]:
        """Apply the operations of a batch that writes."""
        now = self._clock()
        if len(batch) == 1:
            return [self._apply(connection, batch[0], now, uncommitted=True)]
        results: list[Result] = []
        for run in runs(batch):
            if len(run) == 1:
                results.append(self._apply(connection, run[0], now, uncommitted=True))
            elif isinstance(run[0], Put):
                results += put_all(connection, run, now)  # type: ignore[arg-type]  # a run is of one kind
            else:
                delete_all(connection, run)  # type: ignore[arg-type]
                results += [None] * len(run)
        return results

    def _read(self, batch: Sequence[Operation]) -> Outcome:
        try:
            return self._read_all(batch)
        except StateroomError as error:
            return error

    def _read_all(self, batch: Sequence[Operation]) -> list[Result]:
        """Apply the operations of a batch that only reads, all to one snapshot."""
        by_text, by_vector = kinds_of_search(batch)
        if self._refreshes and self._refreshes.is_due(self._clock()):
            self._flush()
        if by_text:
            self._upkeep.freshen(self._db)

        def work(connection: sqlite3.Connection) -> list[Result]:
            connection.execute("begin")
            now = self._clock()
            results = [self._apply(connection, operation, now, uncommitted=False) for operation in batch]
            connection.execute("commit")
            return results

        if by_vector and self._vectors is not None:
            with self._vectors.lock:
                return self._db.read(work)
        return self._db.read(work)

    def _apply(
        self, connection: sqlite3.Connection, operation: Operation, now: int, *, uncommitted: bool
    ) -> Result:
        if isinstance(operation, Put):
            return put(connection, operation, now)
        if isinstance(operation, Get):
            return self._get(connection, operation, uncommitted=uncommitted)
        if isinstance(operation, Search):
            return self._search(connection, operation, now, uncommitted=uncommitted)
        if isinstance(operation, Delete):
            delete(connection, operation, now)
            return None
        if isinstance(operation, Count):
            condition = self._condition(connection, operation.filter)
            return count(connection, Scope(connection, operation.prefix), condition, now)
        if isinstance(operation, ListKeys):
            return list_keys(connection, operation, now)
        return self._namespaces.select(connection, operation, now, uncommitted=uncommitted)

    def _get(
        self, connection: sqlite3.Connection, operation: Get, *, uncommitted: bool = False
    ) -> Record | None:
        found = get(connection, operation)
        record = None if found is None else self._seen(found)
        if record is None or not operation.refresh:
            return record
        return self._refreshed(record, connection if uncommitted else None)

    def _search(
        self, connection: sqlite3.Connection, operation: Search, now: int, *, uncommitted: bool
    ) -> list[Hit]:
        scope = Scope(connection, operation.prefix)
        condition = self._condition(connection, operation.filter)
        limit, offset = operation.limit, operation.offset
        writer = connection if uncommitted else None
        if operation.query is None:
            records = find(connection, Wanted(scope, condition, now, limit, offset))
            return [Hit(record) for record in self._told(records, operation, writer)]
        if limit == 0:
            return []
        need = limit + offset
        asked = Asked(operation.prefix, scope, condition, operation.query, now, need, uncommitted)
        page = self._ranking.search(connection, asked)[offset:need]
        records = records_of(connection, [revision for revision, *_ in page])
        scores = {revision: rest for revision, *rest in page}
        told = self._told(records, operation, writer)
        return [Hit(record, *scores[record.revision]) for record in told]

    def _told(
        self, records: list[Record], operation: Search, writer: sqlite3.Connection | None
    ) -> list[Record]:
        """Return the records of a page as the one who searches is told them."""
        if operation.refresh:
            return [self._refreshed(record, writer) for record in records]
        return [self._refreshes.current(record) for record in records]

    def _condition(self, connection: sqlite3.Connection, condition: Filter | None) -> Condition | None:
        if condition is None:
            return None
        exotic = connection.execute("select 1 from stateroom_item where exotic = 1 limit 1").fetchone()
        return where(condition, self._matchers, self._declared, exotic=exotic is not None)

    def _seen(self, record: Record) -> Record | None:
        """Return a record as a reader is told it: None if it has expired."""
        if record.expires_at is None:
            return record
        current = self._refreshes.current(record)
        assert current.expires_at is not None
        return current if current.expires_at > self._clock() else None

    def _refreshed(self, record: Record, writer: sqlite3.Connection | None) -> Record:
        """Start a record's time to live anew: in the running write transaction, or else soon."""
        if record.ttl is None:
            return record
        expires_at = expiry(self._clock(), record.ttl)
        if writer is None:
            return self._refreshes.note(record, expires_at)
        refresh(writer, {record.revision: expires_at})
        return record._replace(expires_at=expires_at)


def _vectors(settings: IndexSettings) -> Vectors:
    # It brings NumPy, which only those who have vectors are to wait for.
    from stateroom.drivers.sqlite.vectors import Vectors

    return Vectors(settings)


def _declared(index_keys: tuple[str, ...]) -> dict[str, KeyIndex]:
    declared = {}
    for key in index_keys:
        index = key_index(key)
        if index is None:
            raise Misconfigured(
                f"index_keys: SQLite cannot index the key {key!r}; keys with quotes, backslashes or "
                "control characters can still be filtered on, without an index",
                field="index_keys",
            )
        declared[key] = index
    return declared
