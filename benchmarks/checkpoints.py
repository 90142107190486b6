"""The suite of checkpointers: what each call costs beside LangGraph's savers, and how much they store."""

from __future__ import annotations

import asyncio
import statistics
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.asynchronous import WINDOWS, window
from benchmarks.checkpoint_data import SIZES, Talk
from benchmarks.checkpoint_growth import measure_growth
from benchmarks.contenders import analyze
from benchmarks.measure import WRONG, Case, Contender, Line, Options, interleave, lines_of, settle
from benchmarks.savers import ASYNC_PEERS, PEERS, apeer, ours, peer
from benchmarks.storages import Place, backends, place

__all__ = ["measure"]

BEFORE, QUICK_BEFORE = 50, 3
"""Checkpoints that a thread has already."""

TASKS, QUICK_TASKS = (1, 16), (3,)
"""Threads that are written and read at the same time, each by a task of its own."""

EVEN: Final = 1.0

Talks = dict[int, Talk]


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for backend in backends():
        if options.wants_backend(backend):
            yield from measure_growth(options, backend, folder)
            yield from _measure_calls(options, backend, folder)
            yield from asyncio.run(_measure_tasks(options, backend, folder))


def _measure_calls(options: Options, backend: str, folder: Path) -> Iterator[Line]:
    before = QUICK_BEFORE if options.quick else BEFORE
    with ExitStack() as stack:
        opened = [("ours", ours(stack.enter_context(place(backend, folder, "saver"))), "Stateroom")]
        if options.peers:
            where = stack.enter_context(place(backend, folder, "saver_peer"))
            opened.append(("peer", peer(where), PEERS[backend]))
        contenders = [
            Contender(role, name, _talks(stack.enter_context(saver), before), ours=role == "ours")
            for role, saver, name in opened
        ]
        analyze(backend)
        settle()
        for case in _cases():
            if options.wants(case.operation):
                samples = interleave(contenders, case, options.seconds)
                yield from lines_of(
                    case,
                    contenders,
                    samples,
                    lambda _one, _other: EVEN,
                    suite="checkpoints",
                    backend=backend,
                    n=before,
                )


def _talks(saver: Any, before: int) -> Talks:
    """Return a thread for each size of state, with checkpoints in it."""
    talks = {size: Talk(saver, f"talk-{size}", size) for size in SIZES}
    for talk in talks.values():
        for _ in range(before):
            talk.prepare()
            talk.put()
    return talks


def _cases() -> Iterator[Case]:
    for size, name in SIZES.items():
        yield from _cases_of(size, name)


def _cases_of(size: int, name: str) -> list[Case]:
    def prepare(talks: Talks, _turn: Any) -> None:
        talks[size].prepare()

    def put(talks: Talks, _turn: Any) -> Talk:
        talks[size].put()
        return talks[size]

    def put_writes(talks: Talks, _turn: Any) -> None:
        talk = talks[size]
        talk.saver.put_writes(*talk.writes())

    def get_tuple(talks: Talks, _turn: Any) -> Any:
        return talks[size].saver.get_tuple(talks[size].thread)

    def newest_10(talks: Talks, _turn: Any) -> Any:
        return list(talks[size].saver.list(talks[size].thread, limit=10))

    def is_stored(_talks: Talks, _turn: Any, talk: Talk, _ours: bool) -> str | None:
        return None if talk.is_latest(talk.saver.get_tuple(talk.config)) else f"{WRONG}: not what was put"

    def is_latest(talks: Talks, _turn: Any, got: Any, _ours: bool) -> str | None:
        return None if talks[size].is_latest(got) else f"{WRONG}: not the latest"

    def is_newest(talks: Talks, _turn: Any, got: Any, _ours: bool) -> str | None:
        ids = [each.checkpoint["id"] for each in got]
        right = ids == sorted(ids, reverse=True) and talks[size].is_latest(got[0])
        return None if right else f"{WRONG}: {ids}"

    return [
        Case(f"get_tuple, {name}", get_tuple, check=is_latest),
        Case(f"list 10, {name}", newest_10, check=is_newest),
        Case(f"put, {name}", put, before=prepare, check=is_stored),
        # The last one, since each makes one more pending write of the latest checkpoint.
        Case(f"put_writes, {name}", put_writes, most=500),
    ]


async def _measure_tasks(options: Options, backend: str, folder: Path) -> list[Line]:
    """Let tasks call the asynchronous methods, ours and the peer's in turn."""
    tasks = QUICK_TASKS if options.quick else TASKS
    lines: list[Line] = []
    async with AsyncExitStack() as stack:
        where = stack.enter_context(place(backend, folder, "saver_async"))
        contenders = [
            Contender("ours", "Stateroom", await stack.enter_async_context(_aours(where)), ours=True)
        ]
        if options.peers:
            other = stack.enter_context(place(backend, folder, "saver_async_peer"))
            saver = await stack.enter_async_context(apeer(other))
            contenders.append(Contender("peer", ASYNC_PEERS[backend], saver, ours=False))
        for size, name in SIZES.items():
            threads = {one.role: await _started(one.store, size, max(tasks)) for one in contenders}
            analyze(backend)
            settle()
            for operation, act in ACTS.items():
                for number in tasks:
                    title = f"{operation}, {name}, {number} task{'s' if number > 1 else ''}"
                    if options.wants(title):
                        lines.append(
                            await _compare(options, backend, contenders, threads, title, act, number)
                        )
    return lines


def _aours(where: Place) -> Any:
    """Return our saver, which is one for both kinds of calls, to be opened by ``async with``."""
    from stateroom.savers import PostgresSaver, SqliteSaver

    if where.backend == "postgres":
        return PostgresSaver(where.address, schema=where.schema)
    return SqliteSaver(where.address)


async def _started(saver: Any, size: int, tasks: int) -> list[Talk]:
    talks = [Talk(saver, f"talk-{size}-{task}", size) for task in range(tasks)]
    for talk in talks:
        talk.prepare()
        await talk.aput()
    return talks


async def _aput(talk: Talk) -> None:
    talk.prepare()
    await talk.aput()


async def _aget_tuple(talk: Talk) -> Any:
    return await talk.saver.aget_tuple(talk.thread)


async def _step(talk: Talk) -> None:
    """Do what a step of a graph does: read at its beginning, store writes, store what they lead to."""
    await talk.saver.aget_tuple(talk.thread)
    await talk.saver.aput_writes(*talk.writes())
    await _aput(talk)


ACTS: Final[dict[str, Callable[[Talk], Any]]] = {
    "aget_tuple": _aget_tuple,
    "aput": _aput,
    "a step": _step,
}


async def _compare(
    options: Options,
    backend: str,
    contenders: Sequence[Contender],
    threads: dict[str, list[Talk]],
    operation: str,
    act: Callable[[Talk], Any],
    tasks: int,
) -> Line:
    async def one(talks: list[Talk], task: int, _turn: int) -> Any:
        return await act(talks[task])

    spent: dict[str, list[float]] = {contender.role: [] for contender in contenders}
    for stretch in range(2 if options.quick else WINDOWS):
        for contender in contenders if stretch % 2 else reversed(contenders):
            micros, _ = await window(threads[contender.role], one, tasks, 0, options.seconds / 2)
            spent[contender.role].append(micros)
    verdicts = {role: await _verdict(talks[:tasks]) for role, talks in threads.items()}
    ours_spent, *others = [statistics.median(spent[contender.role]) for contender in contenders]
    return Line(
        suite="checkpoints",
        backend=backend,
        n=tasks,
        operation=operation,
        ours=ours_spent,
        verdict=verdicts["ours"],
        peer_name=contenders[-1].name if others else None,
        peer=others[0] if others else None,
        peer_verdict=verdicts.get("peer", ""),
        target=EVEN if others else None,
    )


async def _verdict(talks: Sequence[Talk]) -> str:
    """Say whether every thread has, last, what was put last."""
    for talk in talks:
        if not talk.is_latest(await talk.saver.aget_tuple(talk.thread)):
            return f"{WRONG}: not what was put last"
    return ""
