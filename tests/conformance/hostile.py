"""A store that keeps items and is otherwise as unhelpful as a ``BaseStore`` can be."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    Item,
    ListNamespacesOp,
    Op,
    PutOp,
    Result,
    SearchItem,
    SearchOp,
)
from typing_extensions import override

__all__ = ["CappedStore", "HostileStore", "RefusingStore"]

START = datetime(2027, 1, 15, tzinfo=UTC)
GHOST = "ghost"

Address = tuple[tuple[str, ...], str]


class HostileStore(BaseStore):
    """Finds too much, in any order, twice, and hands out what it keeps itself.

    A prefix is matched by characters, with items from elsewhere among the answers. Filters, limits, offsets
    and conditions are ignored. Namespaces come as lists, and some are listed that never held anything. Reads
    of a batch come before its writes.
    """

    supports_ttl = False

    def __init__(self, seed: int = 1) -> None:
        super().__init__()
        self.kept: dict[Address, Item] = {}
        self.calls: list[Sequence[Op]] = []
        self._random = random.Random(seed)
        self._lock = threading.Lock()
        self._moment = START

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        asked = list(ops)
        with self._lock:
            self.calls.append(asked)
            read = {place: self._read(op) for place, op in enumerate(asked) if not isinstance(op, PutOp)}
            for op in asked:
                if isinstance(op, PutOp):
                    self._write(op)
        return [read.get(place) for place in range(len(asked))]

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        return self.batch(ops)

    def find(self, op: SearchOp) -> list[Item]:
        """Return what matches in the eyes of this store."""
        prefix = "/".join(op.namespace_prefix)
        found = [item for item in self.kept.values() if "/".join(item.namespace).startswith(prefix)]
        found += self._random.sample(list(self.kept.values()), min(3, len(self.kept)))
        found += self._random.sample(found, min(3, len(found)))
        self._random.shuffle(found)
        return found

    def _read(self, op: Op) -> Any:
        if isinstance(op, GetOp):
            return self.kept.get((op.namespace, op.key))
        if isinstance(op, SearchOp):
            return [_answer(item) for item in self.find(op)]
        assert isinstance(op, ListNamespacesOp)
        names = [list(namespace) for namespace, _ in self.kept]
        names += [[GHOST], [GHOST, "of", "nobody"], *names[:2]]
        self._random.shuffle(names)
        return names

    def _write(self, op: PutOp) -> None:
        address = op.namespace, op.key
        old = self.kept.get(address)
        if op.value is None:
            self.kept.pop(address, None)
            return
        self._moment += timedelta(microseconds=1)
        created_at = old.created_at if old else self._moment
        self.kept[address] = Item(
            # Whose object it is does not concern this store.
            value=op.value,  # type: ignore[arg-type]
            key=op.key,
            namespace=op.namespace,
            created_at=created_at,
            updated_at=self._moment,
        )


class RefusingStore(HostileStore):
    """Also refuses to search without a prefix."""

    @override
    def find(self, op: SearchOp) -> list[Item]:
        if not op.namespace_prefix:
            raise ValueError("a search needs a namespace")
        return super().find(op)


class CappedStore(HostileStore):
    """Keeps an order and heeds offsets, but never answers more than a few items at once."""

    CAP = 7

    @override
    def find(self, op: SearchOp) -> list[Item]:
        prefix = "/".join(op.namespace_prefix)
        found = [item for item in self.kept.values() if "/".join(item.namespace).startswith(prefix)]
        return found[op.offset :][: min(self.CAP, op.limit)]


def _answer(item: Item) -> SearchItem:
    return SearchItem(
        namespace=list(item.namespace),  # type: ignore[arg-type]
        key=item.key,
        value=item.value,
        created_at=item.created_at,
        updated_at=item.updated_at,
    )
