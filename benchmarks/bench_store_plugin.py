"""Our stores for a stand-alone benchmark of LangGraph stores that registers more of them from a file."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any

from bench_store import astore, store  # type: ignore[import-not-found]

from stateroom import InMemoryStore, SqliteStore
from stateroom.stores.postgres import PostgresStore


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

    for durability, options in (("", {}), ("_nosync", {"synchronous_commit": "off"})):

        @store(  # type: ignore[untyped-decorator]
            f"stateroom_postgres{durability}{ending}",
            note=f"PostgresStore{durability}, text index {text}",
            text=text,
            after_load=_analyze,
        )
        def _(context: Any, options: dict[str, str] = options) -> Iterator[Any]:
            with PostgresStore(context.pg(**options), index=_hnsw(_index(context, text=text))) as one:
                yield one

    @astore(  # type: ignore[untyped-decorator]
        f"stateroom_postgres_async{ending}",
        note=f"PostgresStore, async, text index {text}",
        after_load=_analyze,
    )
    async def _(context: Any) -> AsyncIterator[Any]:
        async with PostgresStore(context.pg(), index=_hnsw(_index(context, text=text))) as one:
            yield one


def _hnsw(index: dict[str, Any] | None) -> dict[str, Any] | None:
    return {**index, "hnsw": True, "vector_type": "halfvec"} if index and "embed" in index else index


def _analyze(context: Any) -> None:
    import psycopg

    tables = ["item", "namespace"]
    with psycopg.connect(context.uri, autocommit=True) as connection:
        if context.index and "embed" in context.index:
            # What the upkeep would do bit by bit, as the peers' index is built at once after their load, too.
            connection.execute("drop index stateroom.vector_hnsw_cosine")
            connection.execute("update stateroom.vector set indexed = true where indexed is false")
            connection.execute("set maintenance_work_mem = '1GB'")
            connection.execute(
                "create index vector_hnsw_cosine on stateroom.vector "
                "using hnsw (embedding halfvec_cosine_ops) where indexed"
            )
            tables.append("vector")
        for table in tables:
            connection.execute(f"vacuum analyze stateroom.{table}")
        connection.execute("checkpoint")


_register("", text=False)
_register("_text", text=True)
