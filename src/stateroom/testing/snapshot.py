"""Everything that can be read of a store, to tell that a refused call has changed nothing."""

from __future__ import annotations

from typing import Any

from stateroom.contract.items import Capability
from stateroom.stores.items import Item, SearchItem
from stateroom.testing.harness import Memory

__all__ = ["snapshot", "spelled", "state"]

_EVERYTHING = 1_000_000


def state(item: Item | SearchItem, memory: Memory) -> tuple[Any, ...]:
    """Return all that a store keeps of an item."""
    kept: tuple[Any, ...] = (
        item.namespace,
        item.key,
        item.value,
        list(item.value),
        item.created_at,
        item.updated_at,
    )
    if Capability.CONDITIONAL in memory.capabilities:
        kept += (item.revision,)
    if Capability.TTL in memory.capabilities:
        kept += (item.ttl, item.expires_at)
    return kept


def spelled(value: Any, capabilities: frozenset[Capability]) -> str:
    """Return a text that tells apart what ``==`` takes for the same: 1, 1.0 and true, any order of keys.

    The order of keys does not count where a store does not keep it.
    """
    return repr(value if Capability.KEY_ORDER in capabilities else _sorted(value))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(each) for each in value] if isinstance(value, list) else value


def snapshot(memory: Memory, *words: str) -> list[Any]:
    """Return all items in their order, the namespaces, and what text search says of some words."""
    found = memory.search((), limit=_EVERYTHING, refresh_ttl=False)
    content: list[Any] = [state(item, memory) for item in found]
    content.append(memory.count(()))
    content.append(memory.list_namespaces(limit=_EVERYTHING))
    if Capability.TEXT in memory.capabilities:
        for word in words:
            hits = memory.search((), query=word, mode="text", limit=_EVERYTHING, refresh_ttl=False)
            content.append([(hit.namespace, hit.key, hit.score) for hit in hits])
    return content
