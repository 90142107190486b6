"""What the routes ask of long-term memory; every Stateroom store can do it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Protocol

from stateroom.contract.items import Capability

__all__ = ["Hit", "Kept", "Memory"]


class Kept(Protocol):
    """An item as it is kept."""

    @property
    def namespace(self) -> tuple[str, ...]: ...
    @property
    def key(self) -> str: ...
    @property
    def value(self) -> dict[str, Any]: ...
    @property
    def created_at(self) -> datetime: ...
    @property
    def updated_at(self) -> datetime: ...
    @property
    def revision(self) -> int | None: ...
    @property
    def ttl(self) -> float | None: ...
    @property
    def expires_at(self) -> datetime | None: ...


class Hit(Kept, Protocol):
    """An item that was found."""

    @property
    def score(self) -> float | None: ...
    @property
    def components(self) -> Mapping[str, float | None] | None: ...


class Memory(Protocol):
    """Items by namespace and key. Errors are those of ``stateroom.errors``."""

    @property
    def capabilities(self) -> frozenset[Capability]:
        """What it can do; what it cannot is refused with ``NotSupported``."""

    async def aput_item(
        self, namespace: Sequence[str], key: str, value: Mapping[str, Any], index: Any = None, **options: Any
    ) -> Kept:
        """Store an object; ``options`` are ``ttl``, ``if_revision`` and ``if_absent``."""

    async def aget(
        self, namespace: Sequence[str], key: str, *, refresh_ttl: bool | None = None
    ) -> Kept | None:
        """Return an item, or None."""

    async def adelete(self, namespace: Sequence[str], key: str, *, if_revision: int | None = None) -> None:
        """Remove an item, if there is one."""

    async def asearch(self, namespace_prefix: Sequence[str], /, **options: Any) -> Sequence[Hit]:
        """Find items at or below a namespace, as ``Store.search`` does."""

    async def acount(
        self, namespace_prefix: Sequence[str], /, *, filter: Mapping[str, Any] | None = None
    ) -> int:
        """Count the items at or below a namespace that fit a filter."""

    async def alist_namespaces(self, **options: Any) -> Sequence[tuple[str, ...]]:
        """List namespaces, as ``Store.list_namespaces`` does."""
