"""What every Stateroom store offers: LangGraph's ``BaseStore``, sync and async, and what goes beyond it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self

from langgraph.store.base import (
    NOT_PROVIDED,
    BaseStore,
    IndexConfig,
    NotProvided,
    PutOp,
    TTLConfig,
)
from typing_extensions import override

from stateroom.contract.items import Capability, Get, Items, Operation, Result
from stateroom.errors import LimitExceeded
from stateroom.model.item import Hit, Record
from stateroom.model.limits import BATCH_OPERATIONS_MAX
from stateroom.model.namespace import check_put_namespace
from stateroom.model.ttl import TTLSettings
from stateroom.search.index_config import IndexSettings
from stateroom.stores.gate import Gate
from stateroom.stores.items import Item, SearchItem
from stateroom.stores.listing import Listing
from stateroom.stores.operations import (
    ListItemKeys,
    Mode,
    SearchItems,
    StoreOperation,
    Translation,
)
from stateroom.stores.preparing import Preparing
from stateroom.stores.sweeping import Sweeping

if TYPE_CHECKING:
    from stateroom.search.embedding import Embedder

__all__ = ["Store"]


class Store(Listing, Sweeping, BaseStore):
    """Long-term memory with one meaning on every back end.

    Everything that LangGraph's ``BaseStore`` documents holds. Beyond it: ``put_item`` answers the
    stored item, writes can be conditional (``if_revision``, ``if_absent``), ``search`` works by text
    without any embedder (``mode``), ``count`` counts. Every method has a sync and an async form that
    work from any thread and any event loop, the sync one also while a loop runs in its thread.

    Errors are those of ``stateroom.errors``; a refused call changes nothing.
    """

    def __init__(
        self,
        items: Items,
        *,
        index: IndexSettings,
        ttl: TTLSettings,
        index_config: Mapping[str, Any] | None,
        ttl_config: Mapping[str, Any] | None,
        embedder: Embedder | None,
    ) -> None:
        self.supports_ttl = Capability.TTL in items.capabilities
        self._items = items
        self._gate = Gate(items)
        self._translation = Translation(index, ttl, items.capabilities, embeds=embedder is not None)
        self._preparing = Preparing(items, embedder, index.fields)
        self.index_config: IndexConfig | None = index_config  # type: ignore[assignment]
        self.ttl_config: TTLConfig | None = ttl_config  # type: ignore[assignment]
        super().__init__()

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What this store can do; whatever needs more is refused with ``NotSupported``."""
        return self._items.capabilities

    def setup(self) -> None:
        """Create or migrate the storage; also done on first use, and idempotent."""
        self._items.open()

    async def asetup(self) -> None:
        """Create or migrate the storage; also done on first use, and idempotent."""
        await self._preparing.in_thread(self.setup)

    def close(self) -> None:
        """Write out what is pending and release every resource; idempotent."""
        self.stop_ttl_sweeper()
        self._items.close()

    async def aclose(self) -> None:
        """Write out what is pending and release every resource; idempotent."""
        await self._preparing.in_thread(self.close)

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()

    @override
    def batch(self, ops: Iterable[StoreOperation]) -> list[Any]:
        """Apply operations in order as one transaction: all of them or, if one fails, none.

        Takes LangGraph's operations and ours (``PutItem``, ``GetItem``, ``DeleteItem``, ``SearchItems``,
        ``CountItems``); later ones see earlier ones. Results line up with the operations: None for
        LangGraph's ``PutOp`` and for deletions.
        """
        asked = list(ops)
        operations = self._operations(asked)
        if not operations:
            return []
        if all(type(operation) is Get for operation in operations):
            records = self._items.get_all(operations)  # type: ignore[arg-type]  # as just checked
            return [None if record is None else Item(record) for record in records]
        return _presented(asked, self._items.apply(self._preparing.complete(operations)))

    @override
    async def abatch(self, ops: Iterable[StoreOperation]) -> list[Any]:
        """Apply operations as ``batch`` does.

        Callers whose batches travel together stay apart: one bad batch fails only its own caller.
        """
        asked = list(ops)
        operations = self._operations(asked)
        if not operations:
            return []
        return _presented(asked, await self._gate.apply(await self._preparing.acomplete(operations)))

    @override
    def get(self, namespace: Sequence[str], key: str, *, refresh_ttl: bool | None = None) -> Item | None:
        """Return the item, or None when there is none or it has expired.

        ``refresh_ttl`` starts the item's time to live anew; None means as configured.
        """
        record = self._items.get(self._translation.get(namespace, key, refresh_ttl))
        return None if record is None else Item(record)

    @override
    async def aget(
        self, namespace: Sequence[str], key: str, *, refresh_ttl: bool | None = None
    ) -> Item | None:
        """Return the item as ``get`` does."""
        (record,) = await self._gate.apply([self._translation.get(namespace, key, refresh_ttl)])
        return Item(record) if isinstance(record, Record) else None

    @override
    def put(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> None:
        """Store a JSON object, replacing what is there; a ``value`` of None deletes, as LangGraph's does.

        ``index`` says what a query can find the item by: None the configured fields, False nothing, or
        a list of paths. ``ttl`` is in minutes; None never expires; not given means the configured
        default. ``if_absent`` and ``if_revision`` raise ``Conflict`` when something else is there.
        """
        if value is None:
            self.delete(namespace, key, if_revision=if_revision)
        else:
            self.put_item(namespace, key, value, index, ttl=ttl, if_revision=if_revision, if_absent=if_absent)

    @override
    async def aput(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> None:
        """Store a JSON object as ``put`` does."""
        if value is None:
            await self.adelete(namespace, key, if_revision=if_revision)
        else:
            await self.aput_item(
                namespace, key, value, index, ttl=ttl, if_revision=if_revision, if_absent=if_absent
            )

    def put_item(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> Item:
        """Do what ``put`` does, and return the stored item with its new revision."""
        labels = check_put_namespace(namespace)
        operation = self._translation.put(labels, key, value, index, ttl, if_revision, if_absent)
        return Item(self._items.put(self._preparing.complete_put(operation)))

    async def aput_item(
        self,
        namespace: Sequence[str],
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        *,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> Item:
        """Do what ``aput`` does, and return the stored item with its new revision."""
        labels = check_put_namespace(namespace)
        operation = self._translation.put(labels, key, value, index, ttl, if_revision, if_absent)
        (record,) = await self._gate.apply(await self._preparing.acomplete([operation]))
        assert isinstance(record, Record)
        return Item(record)

    @override
    def delete(self, namespace: Sequence[str], key: str, *, if_revision: int | None = None) -> None:
        """Remove the item; an absent one is fine, unless ``if_revision`` names it: ``Conflict``."""
        self._items.apply([self._translation.delete(namespace, key, if_revision)])

    @override
    async def adelete(self, namespace: Sequence[str], key: str, *, if_revision: int | None = None) -> None:
        """Remove the item as ``delete`` does."""
        await self._gate.apply([self._translation.delete(namespace, key, if_revision)])

    @override
    def search(  # type: ignore[override]  # our items add to LangGraph's, and lists are invariant
        self,
        namespace_prefix: Sequence[str],
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        mode: Mode = "auto",
        explain: bool = False,
    ) -> list[SearchItem]:
        """Find items at or below a namespace: all of them, or those that match a query, a filter or both.

        Without a query the latest put comes first and scores are None. With one, hits are ordered by
        score; ``mode`` chooses ``"text"`` (BM25), ``"vector"`` (the configured metric), ``"hybrid"``
        (both fused, 0 to 1) or ``"auto"`` (as configured). ``explain`` fills each hit's ``components``.
        """
        asked = SearchItems(namespace_prefix, query, filter, limit, offset, refresh_ttl, mode, explain)
        operation = self._preparing.complete_search(self._translation.search(asked))
        return [SearchItem(hit, explain=explain) for hit in self._items.search(operation)]

    @override
    async def asearch(  # type: ignore[override]  # our items add to LangGraph's, and lists are invariant
        self,
        namespace_prefix: Sequence[str],
        /,
        *,
        query: str | None = None,
        filter: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
        refresh_ttl: bool | None = None,
        mode: Mode = "auto",
        explain: bool = False,
    ) -> list[SearchItem]:
        """Find items as ``search`` does."""
        asked = SearchItems(namespace_prefix, query, filter, limit, offset, refresh_ttl, mode, explain)
        operation = self._translation.search(asked)
        results = await self._gate.apply(await self._preparing.acomplete([operation]))
        return _presented([asked], results)[0]  # type: ignore[no-any-return]

    def _operations(self, asked: list[StoreOperation]) -> list[Operation]:
        if len(asked) > BATCH_OPERATIONS_MAX:
            raise LimitExceeded(
                f"ops: {len(asked):,} operations in one batch; at most {BATCH_OPERATIONS_MAX:,} are "
                "allowed, so split it",
                field="ops",
            )
        return [self._translation.operation(one) for one in asked]


def _presented(asked: Sequence[StoreOperation], results: Sequence[Result]) -> list[Any]:
    return [_present(one, result) for one, result in zip(asked, results, strict=True)]


def _present(asked: StoreOperation, result: Result) -> Any:
    """Return a result in the shape that the one who asked expects."""
    if isinstance(result, Record):
        return None if isinstance(asked, PutOp) else Item(result)
    if isinstance(result, list):
        if isinstance(asked, ListItemKeys):
            return result
        explain = isinstance(asked, SearchItems) and asked.explain
        return [SearchItem(one, explain=explain) if isinstance(one, Hit) else one for one in result]
    return result
