"""Giving drafted operations the vectors they lack, before any storage is locked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from stateroom.contract.items import Embedded, Items, Operation, Put, Search
from stateroom.search.embedding import Embedder, digest
from stateroom.stores.operations import Draft

__all__ = ["Preparing"]

T = TypeVar("T")
Vector = NDArray[np.float32]


class Preparing:
    """Completes the drafts of one store.

    All documents of a batch are embedded in one call, without those whose text the item had before.
    """

    def __init__(self, items: Items, embedder: Embedder | None) -> None:
        self._items = items
        self._embedder = embedder

    def complete(self, drafts: Sequence[Draft]) -> list[Operation]:
        """Return the operations with their vectors."""
        if self._embedder is None or not any(draft.texts for draft in drafts):
            return [draft.operation for draft in drafts]
        known = self._known(drafts)
        documents, queries = _missing(drafts, known)
        known |= zip(map(digest, documents), self._embedder.embed_documents(documents), strict=True)
        asked = {text: self._embedder.embed_query(text) for text in queries}
        return [_completed(draft, known, asked) for draft in drafts]

    async def acomplete(self, drafts: Sequence[Draft]) -> list[Operation]:
        """Return the operations with their vectors, without blocking the event loop."""
        if self._embedder is None or not any(draft.texts for draft in drafts):
            return [draft.operation for draft in drafts]
        known: dict[bytes, Vector] = {}
        if any(draft.texts and isinstance(draft.operation, Put) for draft in drafts):
            known = await self.in_thread(lambda: self._known(drafts))
        documents, queries = _missing(drafts, known)
        known |= zip(map(digest, documents), await self._embedder.aembed_documents(documents), strict=True)
        asked = {text: await self._embedder.aembed_query(text) for text in queries}
        return [_completed(draft, known, asked) for draft in drafts]

    async def in_thread(self, act: Callable[[], T]) -> T:
        """Run something that may wait for a disk outside the event loop."""
        return await asyncio.to_thread(act)

    def _known(self, drafts: Sequence[Draft]) -> dict[bytes, Vector]:
        """Return the vectors that the items about to be replaced have, by the digest of their text."""
        known: dict[bytes, Vector] = {}
        for draft in drafts:
            if draft.texts and isinstance(draft.operation, Put):
                known |= self._items.vectors(draft.operation.namespace, draft.operation.key)
        return known


def _missing(drafts: Sequence[Draft], known: dict[bytes, Vector]) -> tuple[list[str], list[str]]:
    """Return the distinct texts of documents and of queries that have no vector yet."""
    documents: dict[str, None] = {}
    queries: dict[str, None] = {}
    for draft in drafts:
        if isinstance(draft.operation, Search):
            queries |= dict.fromkeys(draft.texts)
        else:
            documents |= dict.fromkeys(text for text in draft.texts if digest(text) not in known)
    return list(documents), list(queries)


def _completed(draft: Draft, known: dict[bytes, Vector], asked: dict[str, Vector]) -> Operation:
    operation = draft.operation
    if isinstance(operation, Put) and draft.texts:
        digests = dict.fromkeys(map(digest, draft.texts))
        return operation._replace(vectors=tuple(Embedded(key, known[key]) for key in digests))
    if isinstance(operation, Search) and operation.query is not None and draft.texts:
        return operation._replace(query=operation.query._replace(vector=asked[draft.texts[0]]))
    return operation
