"""Long-term memory in one SQLite file, which several processes may open."""

from __future__ import annotations

import asyncio
import sqlite3
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, nullcontext
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray
from typing_extensions import override

from stateroom.clock import Clock
from stateroom.contract.items import (
    Capability,
    Count,
    Delete,
    Get,
    Items,
    ListNamespaces,
    Operation,
    Outcome,
    Put,
    Result,
    Search,
)
from stateroom.drivers.sqlite.database import Database
from stateroom.drivers.sqlite.finding import Scope, count, find
from stateroom.drivers.sqlite.namespaces import Namespaces
from stateroom.drivers.sqlite.ranking import Asked, Ranking
from stateroom.drivers.sqlite.refreshes import Refreshes
from stateroom.drivers.sqlite.rows import COLUMNS, FROM, records_of, to_record
from stateroom.drivers.sqlite.text import TextIndex
from stateroom.drivers.sqlite.upkeep import Upkeep
from stateroom.drivers.sqlite.vectors import Vectors
from stateroom.drivers.sqlite.where import Condition, KeyIndex, Matchers, key_index, where
from stateroom.drivers.sqlite.writing import delete, put, refresh, sweep
from stateroom.errors import Misconfigured, StateroomError
from stateroom.model.filter import Filter
from stateroom.model.item import Hit, Record
from stateroom.model.namespace import Namespace, encode
from stateroom.model.ttl import expiry
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import TextIndexing

__all__ = ["SqliteItems"]

_GET = f"select {COLUMNS} from {FROM} where n.path = ? and i.key = ?"  # noqa: S608  # constants only

_VECTORS = """
select v.digest, v.embedding from stateroom_namespace n
cross join stateroom_item i on i.namespace_id = n.id and i.key = ?
cross join stateroom_vector v on v.id between i.revision << 16 and (i.revision << 16) + 65535
where n.path = ?
"""

ASYNC_THREADS = 4
"""Threads that serve a store's async calls."""


class _Ticket:
    """What one thread wants written, and what came of it."""

    __slots__ = ("batches", "failure", "outcomes")

    def __init__(self, batches: Sequence[Sequence[Operation]]) -> None:
        self.batches = batches
        self.outcomes: list[Outcome] | None = None
        self.failure: BaseException | None = None


class SqliteItems(Items):
    """Items in one file: any number of readers beside one writer, in this process and in others.

    Threads that write at the same time share a commit: whoever gets the lock writes for all that wait.
    """

    capabilities: ClassVar[frozenset[Capability]] = frozenset(Capability)

    def __init__(
        self,
        path: str,
        settings: IndexSettings,
        *,
        index_keys: tuple[str, ...],
        clock: Clock,
        synchronous: str,
    ) -> None:
        self._clock = clock
        self._matchers = Matchers()
        self._declared = _declared(index_keys)
        self._text = TextIndex(TextIndexing(settings)) if settings.text else None
        self._vectors = Vectors(settings) if settings.dims else None
        self._ranking = Ranking(self._text, self._vectors)
        self._namespaces = Namespaces()
        self._refreshes = Refreshes(self._flush)
        self._upkeep = Upkeep(self._text)
        self._queue: deque[_Ticket] = deque()
        self._threads = ThreadPoolExecutor(ASYNC_THREADS, thread_name_prefix="stateroom-sqlite")
        self._db = Database(
            path, synchronous=synchronous, equip=self._matchers.install, prepare=self._prepare
        )

    @override
    def open(self) -> None:
        self._db.open()

    @override
    def close(self) -> None:
        self._flush()
        self._db.close()
        self._threads.shutdown()
        self._threads = ThreadPoolExecutor(ASYNC_THREADS, thread_name_prefix="stateroom-sqlite")

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        if not any(isinstance(operation, Put | Delete) for batch in batches for operation in batch):
            return [self._read(batch) for batch in batches]
        ticket = _Ticket(batches)
        self._queue.append(ticket)
        with self._db.lock:
            if ticket.outcomes is None and ticket.failure is None:
                self._serve([self._queue.popleft() for _ in range(len(self._queue))])
        if ticket.failure is not None:
            raise ticket.failure
        assert ticket.outcomes is not None
        return ticket.outcomes

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, self.apply_each, batches)

    @override
    def get(self, operation: Get) -> Record | None:
        row = self._db.row(_GET, (encode(operation.namespace), operation.key))
        return None if row is None else self._seen(to_record(row), refreshed=operation.refresh)

    @override
    def search(self, operation: Search) -> list[Hit]:
        self._make_ready([operation])
        with self._snapshot([operation]) as connection:
            return self._search(connection, operation, self._clock(), uncommitted=False)

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        with self._db.reading() as connection:
            rows = connection.execute(_VECTORS, (key, encode(namespace))).fetchall()
        return {digest: np.frombuffer(embedding, np.float32) for digest, embedding in rows}

    @override
    def sweep(self, limit: int) -> int:
        with self._writing() as connection:
            freed = sweep(connection, self._clock(), limit)
            self._upkeep.note(connection, freed)
        return freed

    def _prepare(self, connection: sqlite3.Connection) -> None:
        for index in self._declared.values():
            connection.execute(index.create)
        if self._text is not None:
            self._text.prepare(connection)
        if self._vectors is not None:
            self._vectors.prepare(connection)

    @contextmanager
    def _writing(self) -> Iterator[sqlite3.Connection]:
        """Begin a write transaction, in which the refreshes that were answered come first."""
        expiries = self._refreshes.pending()
        with self._db.writing() as connection:
            if expiries:
                refresh(connection, expiries)
            yield connection
        self._refreshes.written(expiries)

    def _flush(self) -> None:
        """Write pending refreshes; if that fails they stay pending for the next write."""
        if self._refreshes:
            with self._writing():
                pass

    def _serve(self, tickets: list[_Ticket]) -> None:
        """Write what several threads want in one commit; if that fails, each on its own."""
        try:
            self._commit(tickets)
        except Exception as failure:  # it is raised in the thread that it belongs to
            if len(tickets) == 1 and len(tickets[0].batches) == 1:
                self._settle_failure(tickets[0], failure)
                return
            for ticket in tickets:
                self._serve_alone(ticket)

    def _serve_alone(self, ticket: _Ticket) -> None:
        outcomes: list[Outcome] = []
        for batch in ticket.batches:
            single = _Ticket([batch])
            self._serve([single])
            if single.failure is not None:
                ticket.failure = single.failure
                return
            assert single.outcomes is not None
            outcomes += single.outcomes
        ticket.outcomes = outcomes

    def _settle_failure(self, ticket: _Ticket, failure: Exception) -> None:
        if isinstance(failure, StateroomError):
            ticket.outcomes = [failure]
        else:
            ticket.failure = failure

    def _commit(self, tickets: list[_Ticket]) -> None:
        batches = [batch for ticket in tickets for batch in ticket.batches]
        with self._writing() as connection:
            if len(batches) == 1:
                outcomes: list[Outcome] = [self._run(connection, batches[0])]
            else:
                outcomes = [self._isolated(connection, batch) for batch in batches]
            self._upkeep.note(connection, sum(map(len, batches)))
        remaining = iter(outcomes)
        for ticket in tickets:
            ticket.outcomes = [next(remaining) for _ in ticket.batches]

    def _isolated(self, connection: sqlite3.Connection, batch: Sequence[Operation]) -> Outcome:
        connection.execute("savepoint batch")
        try:
            results: Outcome = self._run(connection, batch)
        except StateroomError as error:
            connection.execute("rollback to batch")
            results = error
        connection.execute("release batch")
        return results

    def _run(self, connection: sqlite3.Connection, batch: Sequence[Operation]) -> list[Result]:
        now = self._clock()
        return [self._apply(connection, operation, now, uncommitted=True) for operation in batch]

    def _read(self, batch: Sequence[Operation]) -> Outcome:
        try:
            self._make_ready(batch)
            with self._snapshot(batch) as connection:
                now = self._clock()
                return [self._apply(connection, operation, now, uncommitted=False) for operation in batch]
        except StateroomError as error:
            return error

    def _make_ready(self, batch: Sequence[Operation]) -> None:
        """Bring up to date what a read relies on, as far as nobody has to wait for it."""
        if self._refreshes and self._refreshes.is_due(self._clock()):
            self._flush()
        if any(isinstance(op, Search) and op.query and op.query.mode != "vector" for op in batch):
            self._upkeep.freshen(self._db)

    @contextmanager
    def _snapshot(self, batch: Sequence[Operation]) -> Iterator[sqlite3.Connection]:
        """Lend a connection that sees one moment, and the vectors of that moment where they are needed."""
        searches = [op for op in batch if isinstance(op, Search) and op.query]
        by_vector = any(op.query and op.query.mode != "text" for op in searches)
        lock = self._vectors.lock if self._vectors is not None and by_vector else nullcontext()
        with lock, self._db.reading() as connection:
            if len(batch) == 1 and isinstance(batch[0], Get | Count):
                yield connection
                return
            connection.execute("begin")
            yield connection
            connection.execute("commit")

    def _apply(
        self, connection: sqlite3.Connection, operation: Operation, now: int, *, uncommitted: bool
    ) -> Result:
        match operation:
            case Get(namespace, key, refreshed):
                row = connection.execute(_GET, (encode(namespace), key)).fetchone()
                return None if row is None else self._seen(to_record(row), refreshed=refreshed)
            case Put():
                return put(connection, operation, now)
            case Delete():
                delete(connection, operation, now)
                return None
            case Search():
                return self._search(connection, operation, now, uncommitted=uncommitted)
            case Count(prefix, condition):
                sql = self._condition(connection, condition)
                return count(connection, Scope(connection, prefix), sql, now)
            case ListNamespaces():
                return self._namespaces.select(connection, operation, now, uncommitted=uncommitted)

    def _search(
        self, connection: sqlite3.Connection, operation: Search, now: int, *, uncommitted: bool
    ) -> list[Hit]:
        scope = Scope(connection, operation.prefix)
        condition = self._condition(connection, operation.filter)
        limit, offset = operation.limit, operation.offset
        if operation.query is None:
            records = find(connection, scope, condition, now, limit, offset)
            return [Hit(self._hit(record, operation)) for record in records]
        if limit == 0:
            return []
        need = limit + offset
        asked = Asked(operation.prefix, scope, condition, operation.query, now, need, uncommitted)
        page = self._ranking.search(connection, asked)[offset:need]
        records = records_of(connection, [revision for revision, *_ in page])
        scores = {revision: rest for revision, *rest in page}
        return [Hit(self._hit(record, operation), *scores[record.revision]) for record in records]

    def _condition(self, connection: sqlite3.Connection, condition: Filter | None) -> Condition | None:
        if condition is None:
            return None
        exotic = connection.execute("select 1 from stateroom_item where exotic = 1 limit 1").fetchone()
        return where(condition, self._matchers, self._declared, exotic=exotic is not None)

    def _hit(self, record: Record, operation: Search) -> Record:
        seen = self._seen(record, refreshed=operation.refresh)
        return record if seen is None else seen

    def _seen(self, record: Record, *, refreshed: bool) -> Record | None:
        """Return a record as a reader is told it: None if expired, with a new expiry if ``refreshed``."""
        if record.expires_at is None:
            return record
        now = self._clock()
        current = self._refreshes.current(record)
        assert current.expires_at is not None
        if current.expires_at <= now:
            return None
        if refreshed and record.ttl is not None:
            return self._refreshes.note(record, expiry(now, record.ttl))
        return current


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
