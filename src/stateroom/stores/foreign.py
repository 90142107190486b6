"""Stateroom's meaning over a store that the user brings: any ``BaseStore`` of LangGraph's, or a driver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Literal

from langgraph.store.base import NOT_PROVIDED, BaseStore, NotProvided, PutOp
from typing_extensions import override

from stateroom.contract.items import Capability, Items, Operation, Put
from stateroom.errors import Misconfigured, NotSupported
from stateroom.model.namespace import Namespace, check_put_namespace
from stateroom.model.text import show
from stateroom.model.ttl import TTLSettings, parse_ttl_config
from stateroom.search.fields import WHOLE_VALUE
from stateroom.search.index_config import IndexSettings
from stateroom.stores.base import Store
from stateroom.stores.foreign_items import BlindPut, ForeignItems
from stateroom.stores.operations import StoreOperation, Translation

__all__ = ["ForeignStore", "ForeignTranslation", "from_base_store"]


def from_base_store(store: BaseStore | Items, *, ttl: Mapping[str, Any] | None = None) -> Store:
    """Give a store that somebody else has written the meaning of Stateroom's stores.

    ``store`` is any LangGraph ``BaseStore``. Prefixes by label, filters, order, paging, listings of keys
    and text search are ours: a search reads every candidate below its prefix, a listing of keys all that is
    in or below its namespace, 1,000 a call. Gets, puts and deletes go straight through. Vectors, time to
    live and what survives are the store's own; what it lacks is refused with ``NotSupported`` by the call
    that asks. Close the store where you opened it.

    ``ttl`` is LangGraph's ``TTLConfig`` for a store that supports it and has ``sweep_ttl``, with
    ``refresh_on_read: False``; None leaves what the store itself was configured with.

    A driver (``Items``) needs no such care and becomes a ``Store`` over it; a Stateroom ``Store`` is
    returned as it is. Raises ``Misconfigured`` for an object that lacks a method, and for a ``ttl`` that
    could have no effect.
    """
    if isinstance(store, Store):
        if ttl is not None:
            raise Misconfigured(
                "ttl: this is a Stateroom store already; give it the ttl when you make it", field="ttl"
            )
        return store
    if isinstance(store, Items):
        return _over_driver(store, ttl)
    _check_shape(store)
    return ForeignStore(store, index=_index_settings(store), ttl=ttl)


class ForeignStore(Store):
    """A store over another one; made by ``from_base_store``."""

    _items: ForeignItems

    def __init__(self, store: Any, *, index: IndexSettings, ttl: Mapping[str, Any] | None = None) -> None:
        items, settings = ForeignItems(store, index), _ttl_settings(store, ttl)
        super().__init__(
            items,
            index=index,
            ttl=settings,
            index_config=getattr(store, "index_config", None),
            ttl_config=getattr(store, "ttl_config", None) if ttl is None else ttl,
            embedder=None,
        )
        # The store embeds by itself, so there are vectors to be searched without an embedder of ours.
        has_vectors = Capability.VECTOR in items.capabilities
        self._translation = ForeignTranslation(index, settings, items.capabilities, embeds=has_vectors)

    @override
    async def asetup(self) -> None:
        await self._items.aopen()

    @override
    async def asweep_ttl(self) -> int:
        return await self._items.asweep()

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
        if value is None:
            self.delete(namespace, key, if_revision=if_revision)
        else:
            labels = check_put_namespace(namespace)
            operation = self._translation.put(labels, key, value, index, ttl, if_revision, if_absent)
            self._items.apply([BlindPut(*operation)])

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
        if value is None:
            await self.adelete(namespace, key, if_revision=if_revision)
        else:
            labels = check_put_namespace(namespace)
            operation = self._translation.put(labels, key, value, index, ttl, if_revision, if_absent)
            await self._gate.apply([BlindPut(*operation)])

    @override
    def _operations(self, asked: list[StoreOperation]) -> list[Operation]:
        return [
            BlindPut(*operation) if isinstance(one, PutOp) and isinstance(operation, Put) else operation
            for one, operation in zip(asked, super()._operations(asked), strict=True)
        ]


class ForeignTranslation(Translation):
    """The rules of a foreign store, which cannot say later how an item was indexed."""

    @override
    def put(
        self,
        namespace: Namespace,
        key: str,
        value: Mapping[str, Any],
        index: Literal[False] | list[str] | None = None,
        ttl: float | NotProvided | None = NOT_PROVIDED,
        if_revision: int | None = None,
        if_absent: bool = False,
    ) -> Put:
        operation = super().put(namespace, key, value, index, ttl, if_revision, if_absent)
        if operation.paths is not None and not self._embeds:
            raise NotSupported(
                "index: this store has no index that could heed it, and a text query looks at every item; "
                "leave it out",
                field="index",
            )
        return operation


def _over_driver(items: Items, ttl: Mapping[str, Any] | None) -> Store:
    settings = parse_ttl_config(ttl)
    if ttl is not None and Capability.TTL not in items.capabilities:
        raise Misconfigured("ttl: this driver does not support it; leave it out", field="ttl")
    return Store(
        items,
        index=IndexSettings(text=Capability.TEXT in items.capabilities),
        ttl=settings,
        index_config=None,
        ttl_config=ttl,
        embedder=None,
    )


def _check_shape(store: object) -> None:
    if isinstance(store, type):
        raise Misconfigured(f"store is the class {store.__name__}; pass an instance of it", field="store")
    for method in ("batch", "abatch"):
        if callable(getattr(store, method, None)):
            continue
        fix = "pass a LangGraph BaseStore or a Stateroom Items driver"
        if isinstance(store, AbstractContextManager | AbstractAsyncContextManager):
            fix = "it is a context manager: enter it, and pass what it gives"
        raise Misconfigured(f"store is {show(store)}, which has no method {method!r}; {fix}", field="store")


def _index_settings(store: object) -> IndexSettings:
    """Return how to search a store: texts in its fields, and by vectors as the default where it has them."""
    config = getattr(store, "index_config", None)
    if not config:
        return IndexSettings()
    return IndexSettings(fields=tuple(config.get("fields") or [WHOLE_VALUE]), mode="vector")


def _ttl_settings(store: object, ttl: Mapping[str, Any] | None) -> TTLSettings:
    supports = bool(getattr(store, "supports_ttl", False))
    if ttl is None:
        own = (getattr(store, "ttl_config", None) or {}) if supports else {}
        return TTLSettings(
            default_ttl=own.get("default_ttl"),
            refresh_on_read=own.get("refresh_on_read", True),
            sweep_interval_minutes=own.get("sweep_interval_minutes"),
        )
    settings, name = parse_ttl_config(ttl), type(store).__name__
    if not supports:
        raise Misconfigured(f"ttl: {name} does not support it (supports_ttl is not set)", field="ttl")
    if not callable(getattr(store, "sweep_ttl", None)):
        raise Misconfigured(f"ttl: {name} has no sweep_ttl, so nothing would ever be freed", field="ttl")
    if settings.refresh_on_read:
        raise Misconfigured(
            "ttl.refresh_on_read must be False here: a search reads more than it answers, and the store "
            "does not say when an item expires",
            field="ttl.refresh_on_read",
        )
    return settings
