"""The checkpointers that are measured: ours and LangGraph's, each in a file or schema of its own."""

from __future__ import annotations

import sqlite3
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from typing import Any, Final

import aiosqlite
import psycopg
from langgraph.checkpoint.postgres import PostgresSaver as LangGraphPostgresSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite import SqliteSaver as LangGraphSqliteSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from psycopg.rows import dict_row
from psycopg_pool import AsyncConnectionPool

from benchmarks.storages import Place
from stateroom.savers import PostgresSaver, SqliteSaver

__all__ = ["ASYNC_PEERS", "PEERS", "apeer", "database_bytes", "ours", "payload_bytes", "peer"]

PEERS: Final = {
    "sqlite": "LangGraph SqliteSaver, WAL, NORMAL",
    "postgres": "LangGraph PostgresSaver",
}
ASYNC_PEERS: Final = {
    "sqlite": "LangGraph AsyncSqliteSaver, WAL, NORMAL",
    "postgres": "LangGraph AsyncPostgresSaver, pool of 10",
}
PRAGMAS: Final = ("journal_mode = wal", "synchronous = normal", "cache_size = -65536")
"""How the peer's file is opened: as ours is."""

_SQLITE_BYTES: Final = """
    select (select coalesce(sum(length(checkpoint) + length(metadata)), 0) from checkpoints)
         + (select coalesce(sum(length(value)), 0) from writes)
"""
_POSTGRES_BYTES: Final = """
    select (select coalesce(sum(octet_length(checkpoint::text) + octet_length(metadata::text)), 0)
            from checkpoints)
         + (select coalesce(sum(octet_length(blob)), 0) from checkpoint_blobs)
         + (select coalesce(sum(octet_length(blob)), 0) from checkpoint_writes)
"""
_POSTGRES_RELATIONS: Final = """
    select coalesce(sum(pg_total_relation_size(c.oid)), 0)
    from pg_class c join pg_namespace n on n.oid = c.relnamespace
    where n.nspname = current_schema() and c.relkind = 'r' and c.relname like 'checkpoint%'
"""


@contextmanager
def ours(where: Place, **options: Any) -> Iterator[Any]:
    """Open our saver."""
    if where.backend == "postgres":
        with PostgresSaver(where.address, schema=where.schema, **options) as saver:
            yield saver
    else:
        with SqliteSaver(where.address, **options) as saver:
            yield saver


@contextmanager
def peer(where: Place) -> Iterator[Any]:
    """Open LangGraph's saver."""
    if where.backend == "postgres":
        with LangGraphPostgresSaver.from_conn_string(_uri(where)) as saver:
            saver.setup()
            yield saver
        return
    with closing(sqlite3.connect(where.address, check_same_thread=False)) as connection:
        for pragma in PRAGMAS:
            connection.execute(f"pragma {pragma}")
        sqlite_saver = LangGraphSqliteSaver(connection)
        sqlite_saver.setup()
        yield sqlite_saver


@asynccontextmanager
async def apeer(where: Place) -> AsyncIterator[Any]:
    """Open LangGraph's asynchronous saver."""
    if where.backend == "postgres":
        options = {"autocommit": True, "prepare_threshold": 0, "row_factory": dict_row}
        async with AsyncConnectionPool(_uri(where), max_size=10, open=False, kwargs=options) as pool:
            saver = AsyncPostgresSaver(pool)  # type: ignore[arg-type]  # the pool's rows are dictionaries
            await saver.setup()
            yield saver
        return
    async with aiosqlite.connect(where.address) as connection:
        for pragma in PRAGMAS:
            await connection.execute(f"pragma {pragma}")
        sqlite_saver = AsyncSqliteSaver(connection)
        await sqlite_saver.setup()
        yield sqlite_saver


def payload_bytes(where: Place) -> int:
    """Return the bytes of everything that LangGraph's tables hold beside keys: states, metadata, writes."""
    return int(_asked(where, _POSTGRES_BYTES if where.backend == "postgres" else _SQLITE_BYTES))


def database_bytes(where: Place) -> int:
    """Return the bytes that the tables take with their indexes: relations, or the file with its log."""
    if where.backend == "postgres":
        return int(_asked(where, _POSTGRES_RELATIONS))
    path = Path(where.address)
    return sum(file.stat().st_size for file in path.parent.glob(f"{path.name}*"))


def _asked(where: Place, statement: str) -> Any:
    """Return the one number that a statement answers, with all tables cleaned up before."""
    if where.backend == "postgres":
        with psycopg.connect(_uri(where), autocommit=True) as connection:
            for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
                connection.execute(f"vacuum {table}")
            ((number,),) = connection.execute(statement)
            return number
    with closing(sqlite3.connect(where.address)) as file:
        # What is in the log counts once, as part of the file.
        file.execute("pragma wal_checkpoint(truncate)")
        ((number,),) = file.execute(statement)
        return number


def _uri(where: Place) -> str:
    joint = "&" if "?" in where.address else "?"
    return f"{where.address}{joint}options=-csearch_path%3D{where.schema}"
