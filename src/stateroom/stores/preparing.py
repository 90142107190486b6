"""Giving operations the vectors that they lack, before any storage is locked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from stateroom.contract.items import Embedded, Items, Operation, Put, Search
from stateroom.model.json_values import decode_value
from stateroom.search.digests import digest
from stateroom.search.fields import texts
from stateroom.search.index_config import IndexSettings

if TYPE_CHECKING:
    from stateroom.search.embedding import Embedder, Vector

__all__ = ["Preparing", "embedder_of"]

T = TypeVar("T")
_Wanted = dict[int, dict[bytes, str]]


def embedder_of(settings: IndexSettings) -> Embedder | None:
    """Return the embedder that the settings describe, or None; raise Misconfigured as ``make_embedder``."""
    if settings.dims is None:
        return None
    # It brings NumPy: a tenth of a second and 12 MB, which only those who have vectors are to spend.
    from stateroom.search.embedding import make_embedder

    return make_embedder(settings)


class Preparing:
    """Completes the operations of one store.

    All documents of a batch are embedded in one call, without those whose text the item had before.
    """

    def __init__(self, items: Items, embedder: Embedder | None, fields: tuple[str, ...]) -> None:
        self._items = items
        self._embedder = embedder
        self._fields = fields

    def complete_put(self, operation: Put) -> Put:
        """Return one put with its vectors."""
        if self._embedder is None:
            return operation
        (completed,) = self.complete([operation])
        assert isinstance(completed, Put)
        return completed

    def complete_search(self, operation: Search) -> Search:
        """Return one search with the vector of its query."""
        if self._embedder is None or operation.query is None:
            return operation
        (completed,) = self.complete([operation])
        assert isinstance(completed, Search)
        return completed

    def complete(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return operations with their vectors."""
        wanted = self._wanted(operations)
        if self._embedder is None or not wanted:
            return list(operations)
        known = self._known(operations, wanted)
        documents, queries = _missing(operations, wanted, known)
        known |= zip(documents, self._embedder.embed_documents([*documents.values()]), strict=True)
        asked = {text: self._embedder.embed_query(text) for text in queries}
        return _completed(operations, wanted, known, asked)

    async def acomplete(self, operations: Sequence[Operation]) -> list[Operation]:
        """Return operations with their vectors, without blocking the event loop."""
        wanted = self._wanted(operations)
        if self._embedder is None or not wanted:
            return list(operations)
        known: dict[bytes, Vector] = {}
        if any(isinstance(operations[place], Put) for place in wanted):
            known = await self.in_thread(lambda: self._known(operations, wanted))
        documents, queries = _missing(operations, wanted, known)
        vectors = await self._embedder.aembed_documents([*documents.values()])
        known |= zip(documents, vectors, strict=True)
        asked = {text: await self._embedder.aembed_query(text) for text in queries}
        return _completed(operations, wanted, known, asked)

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Run something that may wait for a disk outside the event loop."""
        return await asyncio.to_thread(act)

    def _wanted(self, operations: Sequence[Operation]) -> _Wanted:
        """Return the distinct texts that operations want embedded, by their digest, by place."""
        if self._embedder is None:
            return {}
        found = {place: self._texts(operation) for place, operation in enumerate(operations)}
        return {place: {digest(text): text for text in texts} for place, texts in found.items() if texts}

    def _texts(self, operation: Operation) -> list[str]:
        if isinstance(operation, Put) and operation.paths != ():
            paths = self._fields if operation.paths is None else operation.paths
            return texts(decode_value(operation.raw), paths)
        if isinstance(operation, Search) and operation.query and operation.query.mode != "text":
            return [operation.query.text]
        return []

    def _known(self, operations: Sequence[Operation], wanted: _Wanted) -> dict[bytes, Vector]:
        """Return the vectors that the items about to be replaced have, by the digest of their text."""
        asked = [operations[place] for place in wanted]
        addresses = [(put.namespace, put.key) for put in asked if isinstance(put, Put)]
        return self._items.vectors_of(addresses) if addresses else {}


def _missing(
    operations: Sequence[Operation], wanted: _Wanted, known: dict[bytes, Vector]
) -> tuple[dict[bytes, str], list[str]]:
    """Return the distinct texts of documents, by digest, and of queries that have no vector yet."""
    documents: dict[bytes, str] = {}
    queries: dict[str, None] = {}
    for place, found in wanted.items():
        if isinstance(operations[place], Search):
            queries |= dict.fromkeys(found.values())
        else:
            documents |= {key: text for key, text in found.items() if key not in known}
    return documents, list(queries)


def _completed(
    operations: Sequence[Operation],
    wanted: _Wanted,
    known: dict[bytes, Vector],
    asked: dict[str, Vector],
) -> list[Operation]:
    completed = list(operations)
    for place, found in wanted.items():
        operation = operations[place]
        if isinstance(operation, Put):
            vectors = tuple(Embedded(key, known[key]) for key in found)
            completed[place] = operation._replace(vectors=vectors)
        elif isinstance(operation, Search) and operation.query is not None:
            query = operation.query._replace(vector=asked[next(iter(found.values()))])
            completed[place] = operation._replace(query=query)
    return completed
