"""The suite of asynchronous calls: how many a second, by one task and by sixteen."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import aiosqlite
import numpy as np
from langgraph.store.sqlite.aio import AsyncSqliteStore

from benchmarks.data import Rows, row_of
from benchmarks.measure import WRONG, Contender, Line, Options, settle
from benchmarks.targets import target
from stateroom import SqliteStore

__all__ = ["SIZES", "measure", "window"]

SIZES = (10_000, 100_000)
QUICK_SIZE = 200
TASKS = (1, 16)
WINDOWS = 6
"""Stretches of time that each store gets, in turn with the other's."""

PEER = "LangGraph AsyncSqliteStore, WAL, NORMAL"

Act = Callable[[Any, int, int], Awaitable[Any]]


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for n in [QUICK_SIZE] if options.quick else options.sizes or SIZES:
        if options.wants_backend("sqlite"):
            yield from asyncio.run(_measure(options, folder, n))


async def _measure(options: Options, folder: Path, n: int) -> list[Line]:
    rows = Rows(n)
    lines = []
    place = folder / f"async-{n}"
    place.mkdir()
    async with AsyncExitStack() as stack:
        stores = [Contender("ours", "text off", await stack.enter_async_context(_ours(place)), ours=True)]
        if options.peers:
            peer = await stack.enter_async_context(_peer(place))
            stores.append(Contender("peer", PEER, peer, ours=False))
        for contender in stores:
            for operations in rows.puts(0, rows.total):
                await contender.store.abatch(operations)
        settle()
        for name, act in _acts(rows).items():
            for tasks in TASKS:
                operation = f"{name}, {tasks} task{'s' if tasks > 1 else ''}"
                if options.wants(operation):
                    lines.append(await _compare(options, rows, stores, operation, act, tasks))
    return lines


@asynccontextmanager
async def _ours(folder: Path) -> AsyncIterator[Any]:
    async with SqliteStore(folder / "ours.db", index={"text": False}) as store:
        yield store


@asynccontextmanager
async def _peer(folder: Path) -> AsyncIterator[Any]:
    async with aiosqlite.connect(str(folder / "peer.db"), isolation_level=None) as connection:
        await connection.execute("pragma journal_mode = wal")
        await connection.execute("pragma synchronous = normal")
        await connection.execute("pragma cache_size = -65536")
        async with AsyncSqliteStore(connection) as store:
            await store.setup()
            yield store


def _acts(rows: Rows) -> dict[str, Act]:
    picks = np.random.default_rng(5).integers(0, rows.n, 20_000).tolist()
    values = [rows.value(rows.total + place) for place in range(2_000)]

    def pick(task: int, turn: int) -> int:
        return int(picks[(task * 1_009 + turn) % len(picks)])

    async def aget(store: Any, task: int, turn: int) -> Any:
        row = pick(task, turn)
        return await store.aget(rows.namespace(row), rows.key(row))

    async def asearch(store: Any, task: int, turn: int) -> Any:
        return await store.asearch(rows.namespace(pick(task, turn)), limit=10)

    async def aput(store: Any, task: int, turn: int) -> Any:
        namespace = rows.namespace(pick(task, turn))
        return await store.aput(namespace, f"a{task}-{turn}", values[turn % 2_000])

    async def mixed(store: Any, task: int, turn: int) -> Any:
        return await (aput if turn % 5 == 0 else aget)(store, task, turn)

    return {"aget": aget, "asearch": asearch, "80 aget 20 aput": mixed, "aput": aput}


async def _compare(
    options: Options, rows: Rows, stores: list[Contender], operation: str, act: Act, tasks: int
) -> Line:
    verdicts = {one.role: await _verdict(rows, one.store, operation, act) for one in stores}
    spent: dict[str, list[float]] = {one.role: [] for one in stores}
    turns = dict.fromkeys(spent, 1)
    for stretch in range(WINDOWS):
        for contender in stores if stretch % 2 else reversed(stores):
            role = contender.role
            seconds = options.seconds / 2
            micros, turns[role] = await window(contender.store, act, tasks, turns[role], seconds)
            spent[role].append(micros)
    ours, *others = [statistics.median(spent[one.role]) for one in stores]
    return Line(
        suite="async",
        backend="sqlite",
        n=rows.n,
        operation=operation,
        ours=ours,
        verdict=verdicts["ours"],
        peer_name=PEER if others else None,
        peer=others[0] if others else None,
        peer_verdict=verdicts.get("peer", ""),
        target=target("sqlite", rows.n, operation) if others else None,
    )


async def window(store: Any, act: Act, tasks: int, first: int, seconds: float) -> tuple[float, int]:
    """Let tasks call for a while; return microseconds for each call, and the turn to go on from."""
    begun = time.perf_counter()
    last = first

    async def work(task: int) -> int:
        nonlocal last
        turn = first
        while time.perf_counter() - begun < seconds:
            await act(store, task, turn)
            turn += 1
        last = max(last, turn)
        return turn - first

    calls = sum(await asyncio.gather(*(work(task) for task in range(tasks))))
    return (time.perf_counter() - begun) / max(1, calls) * 1e6, last


async def _verdict(rows: Rows, store: Any, operation: str, act: Act) -> str:
    got = await act(store, 0, 0)
    if operation.startswith("aget"):
        return "" if got is not None and got.value == rows.value(row_of(got.key)) else WRONG
    if operation.startswith("asearch"):
        own = {item.namespace for item in got}
        return "" if len(got) == 10 and len(own) == 1 else f"{WRONG}: {len(got)} items"
    picked = np.random.default_rng(5).integers(0, rows.n, 20_000)[0]
    item = await store.aget(rows.namespace(int(picked)), "a0-0")
    return "" if item is not None else f"{WRONG}: not stored"
