"""Asking one of the stores that a random test compares, and taking its answer or its refusal."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from stateroom.errors import StateroomError
from stateroom.model.item import KeyEntry
from stateroom.stores.base import Store
from stateroom.stores.items import SearchItem
from stateroom.stores.operations import DeleteItem, ListItemKeys, PutItem, SearchItems, StoreOperation
from stateroom.testing import drawing
from stateroom.testing.comparing import revision_of

__all__ = [
    "EVERYTHING",
    "arguments",
    "as_put",
    "everything",
    "list_keys",
    "outcome",
    "resolved",
    "search",
]

EVERYTHING = 100_000
"""More than any history puts."""


def outcome(store: Store, call: Callable[[Store], Any]) -> Any:
    """Return what a call answers, or the error with which it refuses."""
    try:
        return call(store)
    except StateroomError as error:
        return error


def everything(store: Store) -> list[SearchItem]:
    return store.search((), limit=EVERYTHING, refresh_ttl=False)


def as_put(found: Sequence[SearchItem]) -> list[SearchItem]:
    """Return items by revision; without revisions, the reverse of how they were listed."""
    items = [*reversed(found)]
    items.sort(key=revision_of)
    return items


def search(store: Store, operation: SearchItems) -> list[SearchItem]:
    prefix, *_ = operation
    named = operation._asdict()
    del named["namespace_prefix"]
    return store.search(prefix, **named)


def list_keys(store: Store, operation: ListItemKeys) -> list[KeyEntry]:
    return store.list_keys(**operation._asdict())


def resolved(operation: StoreOperation, store: Store) -> StoreOperation:
    """Put the store's own revision in the place of what stands for it."""
    if not isinstance(operation, PutItem | DeleteItem) or operation.if_revision is None:
        return operation
    found = store.get(operation.namespace, operation.key, refresh_ttl=False)
    current = revision_of(found) if found else 1
    wanted = current if operation.if_revision == drawing.CURRENT else current - 1
    return operation._replace(if_revision=wanted)


def arguments(operation: PutItem | DeleteItem, store: Store) -> dict[str, Any]:
    return resolved(operation, store)._asdict()
