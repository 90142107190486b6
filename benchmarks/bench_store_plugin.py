"""Our stores for a stand-alone benchmark of LangGraph stores that registers more of them from a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench_store import astore, store  # type: ignore[import-not-found]

from stateroom import InMemoryStore, SqliteStore


def _index(context: Any, *, text: bool) -> dict[str, Any] | None:
    """Return the index settings: without our text index where the peers have none either."""
    return context.index if text else {**(context.index or {}), "text": False}


def _register(ending: str, *, text: bool) -> None:
    @store(f"stateroom_memory{ending}", note=f"InMemoryStore, text index {text}", text=text)  # type: ignore[untyped-decorator]
    def _(context: Any) -> Iterator[Any]:
        with InMemoryStore(index=_index(context, text=text)) as one:
            yield one

    @store(f"stateroom_sqlite{ending}", note=f"SqliteStore, NORMAL, text index {text}", text=text)  # type: ignore[untyped-decorator]
    def _(context: Any) -> Iterator[Any]:
        with SqliteStore(context.tmp / "s.db", index=_index(context, text=text)) as one:
            yield one

    @store(f"stateroom_sqlite_full{ending}", note=f"SqliteStore, FULL, text index {text}", text=text)  # type: ignore[untyped-decorator]
    def _(context: Any) -> Iterator[Any]:
        path = context.tmp / "s.db"
        with SqliteStore(path, index=_index(context, text=text), synchronous="FULL") as one:
            yield one

    @astore(f"stateroom_sqlite_async{ending}", note=f"SqliteStore, async, text index {text}")  # type: ignore[untyped-decorator]
    async def _(context: Any) -> AsyncIterator[Any]:
        async with SqliteStore(context.tmp / "s.db", index=_index(context, text=text)) as one:
            yield one


_register("", text=False)
_register("_text", text=True)
