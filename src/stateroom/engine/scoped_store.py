"""The store that a run is given where rules say what of it its user may touch."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Mapping
from typing import Any

from langgraph.store.base import (
    BaseStore,
    GetOp,
    ListNamespacesOp,
    MatchCondition,
    Op,
    PutOp,
    Result,
    SearchOp,
)
from typing_extensions import override

from stateroom.engine.loops import Loops
from stateroom.errors import NotSupported

__all__ = ["Ask", "ScopedStore", "ScopedStores"]

Ask = Callable[[Mapping[str, Any], str, dict[str, Any]], Awaitable[Any]]
"""Asked with a user, an action of the store and its arguments, which it may change; raises to refuse."""


class ScopedStores:
    """Stores for users, over one store, by one set of rules.

    Rules run on ``loops``, as they do for requests. Where such a loop waits for its own store, which a sync
    call in an async node makes it do, they run on another, since this one could never come to them.
    """

    def __init__(self, store: BaseStore, ask: Ask, loops: Loops) -> None:
        self._store, self._ask, self._loops = store, ask, loops
        self._aside = Loops()

    def __call__(self, user: Mapping[str, Any]) -> BaseStore:
        """Return the store of a user, as JSON."""
        return ScopedStore(self._store, lambda action, value: self._ask(user, action, value), self._wait)

    def close(self) -> None:
        """Let go of the loops aside."""
        self._aside.close()

    def _wait(self, make: Callable[[], Coroutine[Any, Any, Any]]) -> Any:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            return self._loops.submit(make).result()
        return self._aside.submit(make).result()


class ScopedStore(BaseStore):
    """A store whose every operation passes the rules first, and is done as they change it.

    It is LangGraph's ``BaseStore`` and no more: what Stateroom's stores add to that is not there.
    """

    def __init__(
        self,
        store: BaseStore,
        ask: Callable[[str, dict[str, Any]], Awaitable[Any]],
        wait: Callable[[Callable[[], Coroutine[Any, Any, Any]]], Any],
    ) -> None:
        super().__init__()
        self._store, self._ask, self._wait = store, ask, wait
        self.supports_ttl = store.supports_ttl
        self.ttl_config = store.ttl_config

    @override
    def batch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what the rules allow, all or nothing."""
        asked = list(ops)
        return self._store.batch(self._wait(lambda: self._allowed(asked)))

    @override
    async def abatch(self, ops: Iterable[Op]) -> list[Result]:
        """Do what the rules allow, all or nothing."""
        return await self._store.abatch(await self._allowed(list(ops)))

    async def _allowed(self, asked: list[Op]) -> list[Op]:
        return [await self._allow(one) for one in asked]

    async def _allow(self, asked: Op) -> Op:
        value: dict[str, Any]
        match asked:
            case GetOp(namespace, key):
                value = {"namespace": namespace, "key": key}
                await self._ask("get", value)
                return asked._replace(namespace=value["namespace"], key=value["key"])
            case PutOp(namespace, key, None):
                value = {"namespace": namespace, "key": key}
                await self._ask("delete", value)
                return asked._replace(namespace=value["namespace"], key=value["key"])
            case PutOp():
                value = {name: getattr(asked, name) for name in ("namespace", "key", "value", "index")}
                await self._ask("put", value)
                return asked._replace(**_known(asked, value))
            case SearchOp(prefix):
                value = {name: getattr(asked, name) for name in ("filter", "limit", "offset", "query")}
                value["namespace"] = prefix
                await self._ask("search", value)
                return asked._replace(namespace_prefix=value["namespace"], **_known(asked, value))
            case ListNamespacesOp():
                return await self._allow_listing(asked)
            case _:
                raise NotSupported(
                    f"ops holds a {type(asked).__name__}; where rules (@auth.on.store) are set, a graph's "
                    "store takes LangGraph's own operations alone",
                    field="ops",
                )

    async def _allow_listing(self, asked: ListNamespacesOp) -> ListNamespacesOp:
        """Ask for a listing by its first prefix and suffix; further ones narrow it, whatever is answered."""
        others = list(asked.match_conditions or ())
        prefix, suffix = _taken(others, "prefix"), _taken(others, "suffix")
        value: dict[str, Any] = {"namespace": prefix, "suffix": suffix}
        value |= {"max_depth": asked.max_depth, "limit": asked.limit, "offset": asked.offset}
        await self._ask("list_namespaces", value)
        if value["namespace"]:
            others.append(MatchCondition("prefix", value["namespace"]))
        if value.get("suffix"):
            others.append(MatchCondition("suffix", value["suffix"]))
        return asked._replace(match_conditions=tuple(others) or None, **_known(asked, value))


def _taken(conditions: list[MatchCondition], kind: str) -> tuple[str, ...] | None:
    """Remove the first condition of a kind from a list, and return its path."""
    for position, one in enumerate(conditions):
        if one.match_type == kind:
            return tuple(conditions.pop(position).path)
    return None


def _known(asked: Any, value: Mapping[str, Any]) -> dict[str, Any]:
    """Return what of a value, as the rules left it, are fields of the operation."""
    return {name: one for name, one in value.items() if name in asked._fields}
