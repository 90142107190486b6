"""Long-term memory in this process: nothing survives it."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from heapq import heappop, heappush
from itertools import islice
from typing import TYPE_CHECKING

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
    check_condition,
)
from stateroom.contract.keys import list_keys
from stateroom.drivers.memory.finding import Finder
from stateroom.drivers.memory.ranking import Ranking
from stateroom.drivers.memory.tree import Entry, Node, Tree
from stateroom.errors import StateroomError
from stateroom.model.item import Hit, Record
from stateroom.model.namespace import Namespace
from stateroom.model.ttl import expiry
from stateroom.search.index_config import IndexSettings

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["MemoryItems"]


class MemoryItems(Items):
    """Items in dictionaries under one lock.

    Expired items are dropped by whatever operation comes first after their time, so no other code
    has to think of them.
    """

    capabilities = frozenset(
        {
            Capability.ATOMIC_BATCH,
            Capability.CONDITIONAL,
            Capability.TTL,
            Capability.TEXT,
            Capability.VECTOR,
            Capability.ANALYSIS,
            Capability.EXACT_TIMES,
            Capability.KEY_ORDER,
            Capability.FULL_LIMITS,
            Capability.KEY_INDEX,
        }
    )

    def __init__(self, settings: IndexSettings, *, index_keys: tuple[str, ...], clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._tree = Tree()
        self._ranking = Ranking(settings)
        self._finder = Finder(self._tree.root, index_keys)
        self._expiries: list[tuple[int, int, Entry]] = []
        self._revision = 0
        self._updated_at = 0
        self._freed = 0

    @override
    def open(self) -> None:
        pass

    @override
    def close(self) -> None:
        pass

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        with self._lock:
            now = self._now()
            return [self._outcome(batch, now) for batch in batches]

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return self.apply_each(batches)

    @override
    def put(self, operation: Put) -> Record:
        with self._lock:
            return self._put(operation, self._now())

    @override
    def get(self, operation: Get) -> Record | None:
        if self._expiries:
            with self._lock:
                return self._get(operation, self._now())
        node = self._tree.find(operation.namespace)
        entry = node.items.get(operation.key) if node else None
        return entry.record if entry else None

    @override
    def get_all(self, operations: Sequence[Get]) -> list[Record | None]:
        with self._lock:
            now = self._now()
            return [self._get(operation, now) for operation in operations]

    @override
    def search(self, operation: Search) -> list[Hit]:
        with self._lock:
            return self._search(operation, self._now())

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        with self._lock:
            node = self._tree.find(namespace)
            entry = node.items.get(key) if node else None
            return {e.digest: e.vector for e in entry.vectors} if entry else {}

    @override
    def sweep(self, limit: int) -> int:
        with self._lock:
            self._now()
            freed, self._freed = min(self._freed, limit), max(0, self._freed - limit)
            return freed

    def _now(self) -> int:
        """Return the present, having dropped what has expired by then."""
        now = self._clock()
        while self._expiries and self._expiries[0][0] <= now:
            due, _, entry = heappop(self._expiries)
            if entry.alive and entry.record.expires_at == due:
                self._remove(entry)
                self._freed += 1
        return now

    def _outcome(self, batch: Sequence[Operation], now: int) -> Outcome:
        try:
            if len(batch) > 1:
                self._rehearse(batch)
            return [self._apply(operation, now) for operation in batch]
        except StateroomError as error:
            return error

    def _rehearse(self, batch: Sequence[Operation]) -> None:
        """Raise the conflict that a batch would run into half-way; nothing else can stop it."""
        if not any(_is_conditional(operation) for operation in batch):
            return
        revision = self._revision
        present: dict[tuple[Namespace, str], int | None] = {}
        for operation in batch:
            if isinstance(operation, Put | Delete):
                address = operation.namespace, operation.key
                found = present[address] if address in present else self._revision_of(*address)
                check_condition(operation, found)
                if isinstance(operation, Put):
                    revision += 1
                    present[address] = revision
                else:
                    present[address] = None

    def _revision_of(self, namespace: Namespace, key: str) -> int | None:
        node = self._tree.find(namespace)
        entry = node.items.get(key) if node else None
        return entry.record.revision if entry else None

    def _apply(self, operation: Operation, now: int) -> Result:
        if isinstance(operation, Put):
            return self._put(operation, now)
        if isinstance(operation, Get):
            return self._get(operation, now)
        if isinstance(operation, Delete):
            self._delete(operation)
            return None
        if isinstance(operation, Search):
            return self._search(operation, now)
        if isinstance(operation, Count):
            return self._count(operation)
        if isinstance(operation, ListKeys):
            node = self._tree.find(operation.namespace)
            return list_keys(operation, node.keys(), node.items) if node else []
        found = self._tree.namespaces(operation.matches, operation.max_depth)
        return list(islice(found, operation.offset, operation.offset + operation.limit))

    def _put(self, operation: Put, now: int) -> Record:
        namespace, key, raw, paths, vectors, ttl, if_revision, if_absent, stat = operation
        node = self._tree.find(namespace)
        old = node.items.get(key) if node else None
        if if_absent or if_revision is not None:
            check_condition(operation, old.record.revision if old else None)
        if node is None:
            node = self._tree.make(namespace)
        updated_at = created_at = max(now, self._updated_at)
        if old is not None:
            created_at = old.record.created_at
            updated_at = max(updated_at, old.record.updated_at + 1)
            self._remove(old, keep_node=True)
        self._updated_at = updated_at
        self._revision += 1
        due = None if ttl is None else expiry(now, ttl)
        record = Record(namespace, key, raw, self._revision, created_at, updated_at, ttl, due)
        entry = Entry(record, node, paths, vectors, stat)
        self._tree.insert(entry)
        self._finder.add(entry)
        self._ranking.add(entry)
        if due is not None:
            self._watch(entry)
        return record

    def _remove(self, entry: Entry, *, keep_node: bool = False) -> None:
        self._tree.remove(entry, keep_node=keep_node)
        self._finder.discard()
        self._ranking.discard(entry)

    def _watch(self, entry: Entry) -> None:
        if entry.record.expires_at is not None:
            heappush(self._expiries, (entry.record.expires_at, entry.record.revision, entry))

    def _get(self, operation: Get, now: int) -> Record | None:
        node = self._tree.find(operation.namespace)
        entry = node.items.get(operation.key) if node else None
        if entry is None:
            return None
        return self._refreshed(entry, now) if operation.refresh else entry.record

    def _refreshed(self, entry: Entry, now: int) -> Record:
        if entry.record.ttl is not None:
            entry.record = entry.record._replace(expires_at=expiry(now, entry.record.ttl))
            self._watch(entry)
        return entry.record

    def _delete(self, operation: Delete) -> None:
        node = self._tree.find(operation.namespace)
        entry = node.items.get(operation.key) if node else None
        check_condition(operation, entry.record.revision if entry else None)
        if entry is not None:
            self._remove(entry)

    def _search(self, operation: Search, now: int) -> list[Hit]:
        node = self._tree.find(operation.prefix)
        if node is None or operation.limit == 0:
            return []
        start, stop = operation.offset, operation.offset + operation.limit
        if operation.query is None:
            entries = islice(self._finder.find(node, operation.filter), start, stop)
            if not self._expiries:
                return [Hit(entry.record) for entry in entries]
            return [Hit(self._seen(entry, operation, now)) for entry in entries]
        ranked = islice(self._ranking.search(node, operation, self._tree.root, self._finder), start, stop)
        return [Hit(self._seen(entry, operation, now), *scores) for entry, *scores in ranked]

    def _seen(self, entry: Entry, operation: Search, now: int) -> Record:
        return self._refreshed(entry, now) if operation.refresh else entry.record

    def _count(self, operation: Count) -> int:
        node = self._tree.find(operation.prefix)
        if node is None:
            return 0
        return count_below(self._finder, node, operation)


def count_below(finder: Finder, node: Node, operation: Count) -> int:
    """Count the matching entries under a node."""
    if operation.filter is None:
        return len(node.recent)
    return sum(1 for _ in finder.find(node, operation.filter))


def _is_conditional(operation: Operation) -> bool:
    if isinstance(operation, Put):
        return operation.if_absent or operation.if_revision is not None
    return isinstance(operation, Delete) and operation.if_revision is not None
