"""Counting items, and listing keys and namespaces, sync and async."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langgraph.store.base import BaseStore, ListNamespacesOp, MatchCondition, NamespacePath
from typing_extensions import override

from stateroom.model.item import KeyEntry
from stateroom.stores.operations import CountItems, ListItemKeys

__all__ = ["KEYS_LIMIT", "Listing"]

KEYS_LIMIT = 1000
"""Keys that a listing answers unless told otherwise."""


class Listing(BaseStore):
    """The part of a store that says how much it holds, and under which names."""

    def count(self, namespace_prefix: Sequence[str], /, *, filter: Mapping[str, Any] | None = None) -> int:
        """Count the items at or below a namespace that match the filter."""
        (number,) = self.batch([CountItems(namespace_prefix, filter)])  # type: ignore[list-item]  # ours
        return number  # type: ignore[return-value]

    async def acount(
        self, namespace_prefix: Sequence[str], /, *, filter: Mapping[str, Any] | None = None
    ) -> int:
        """Count items as ``count`` does."""
        (number,) = await self.abatch([CountItems(namespace_prefix, filter)])  # type: ignore[list-item]
        return number  # type: ignore[return-value]

    def list_keys(
        self,
        namespace: Sequence[str],
        *,
        prefix: str = "",
        suffix: str = "",
        delimiter: str | None = None,
        after: str | None = None,
        limit: int = KEYS_LIMIT,
        containing: str | None = None,
        values: bool = False,
    ) -> list[KeyEntry]:
        """List the keys in exactly one namespace, in code-point order.

        ``prefix`` and ``suffix`` say how keys begin and end. ``containing`` asks for items whose JSON holds
        a text: every item that has it in one of its strings, and some that have it elsewhere. With a
        ``delimiter`` keys are rolled up into one entry for all that begin alike up to the first delimiter
        behind the prefix, as directories are; its ``is_prefix`` is true. Pages go on with ``after``: the
        last key of the page before. ``values`` brings the values along. No time to live is refreshed.
        """
        asked = ListItemKeys(namespace, prefix, suffix, delimiter, after, limit, containing, values)
        (entries,) = self.batch([asked])  # type: ignore[list-item]
        return entries  # type: ignore[return-value]

    async def alist_keys(
        self,
        namespace: Sequence[str],
        *,
        prefix: str = "",
        suffix: str = "",
        delimiter: str | None = None,
        after: str | None = None,
        limit: int = KEYS_LIMIT,
        containing: str | None = None,
        values: bool = False,
    ) -> list[KeyEntry]:
        """List keys as ``list_keys`` does."""
        asked = ListItemKeys(namespace, prefix, suffix, delimiter, after, limit, containing, values)
        (entries,) = await self.abatch([asked])  # type: ignore[list-item]
        return entries  # type: ignore[return-value]

    @override
    def list_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """List the namespaces that hold items, in code-point order label by label, shorter first.

        ``*`` in ``prefix`` and ``suffix`` stands for exactly one label. ``max_depth`` cuts namespaces to
        that many labels before duplicates are dropped and pages are cut.
        """
        (found,) = self.batch([_namespaces(prefix, suffix, max_depth, limit, offset)])
        return found  # type: ignore[return-value]

    @override
    async def alist_namespaces(
        self,
        *,
        prefix: NamespacePath | None = None,
        suffix: NamespacePath | None = None,
        max_depth: int | None = None,
        limit: int = 100,
        offset: int = 0,
    ) -> list[tuple[str, ...]]:
        """List namespaces as ``list_namespaces`` does."""
        (found,) = await self.abatch([_namespaces(prefix, suffix, max_depth, limit, offset)])
        return found  # type: ignore[return-value]


def _namespaces(
    prefix: NamespacePath | None,
    suffix: NamespacePath | None,
    max_depth: int | None,
    limit: int,
    offset: int,
) -> ListNamespacesOp:
    conditions = []
    if prefix is not None:
        conditions.append(MatchCondition("prefix", prefix))
    if suffix is not None:
        conditions.append(MatchCondition("suffix", suffix))
    return ListNamespacesOp(tuple(conditions), max_depth, limit, offset)
