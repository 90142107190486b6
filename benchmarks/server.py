"""The agent server over HTTP, beside others: latencies, rates, first events, starts and memory."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.measure import Line, Options
from benchmarks.server_calls import CALLS, Load, Wrong, first_event, prepare
from benchmarks.servers import AgentServer, servers, tree_megabytes

__all__ = ["measure"]

CONCURRENCIES: Final = (1, 32)
ROUNDS: Final = 3
ITEMS: Final = 1_000
THREADS: Final = 2_000
RUNS_AHEAD: Final = 400
"""Threads that are made before runs are timed, so that only the runs are."""

FIRST_EVENTS: Final = 40
QUICKER: Final = 10
"""How much less a quick run makes of all of these."""

TARGETS: Final[Mapping[str, float]] = {
    "GET /info": 1 / 1.2,
    "store put": 1.0,
    "store get": 1.0,
    "store search of 1,000": 1 / 0.7,
    "threads create": 1.0,
    "threads search of 2,000": 1 / 0.8,
}
"""How many times as fast as LangGraph's own server each call is to be, one at a time."""


class Figures(NamedTuple):
    """What one call costs on one server: the median in microseconds, and how many it answers a second."""

    median: float
    rate: float
    verdict: str


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Compare ours on each database with every other server that there is."""
    backends = options.backends or (("sqlite",) if options.quick else ())
    with servers(folder, peers=options.peers and not options.quick, backends=backends) as found:
        lines = [*_starts(found), *asyncio.run(_measured(found, options)), *_memory(found)]
    # As one table for each of ours, with one call's peers below each other.
    yield from sorted(lines, key=lambda line: (line.backend, line.n))


def _pairs(found: Sequence[AgentServer]) -> Iterator[tuple[AgentServer, AgentServer | None]]:
    """Return each of ours with each of the others, or alone."""
    others: list[AgentServer | None] = [server for server in found if not server.ours]
    others = others or [None]
    yield from ((ours, other) for ours in found if ours.ours for other in others)


def _starts(found: Sequence[AgentServer]) -> Iterator[Line]:
    for ours, other in _pairs(found):
        yield Line(
            suite="server",
            backend=ours.name,
            n=1,
            operation="start until /ok",
            ours=(ours.started_in or 0) * 1e6,
            peer_name=other and other.name,
            peer=(other.started_in * 1e6) if other and other.started_in else None,
            target=1.0,
        )


def _memory(found: Sequence[AgentServer]) -> Iterator[Line]:
    for ours, other in _pairs(found):
        yield Line(
            suite="server",
            backend=ours.name,
            n=1,
            operation="resident in the end",
            ours=tree_megabytes(ours.pid or 0),
            peer_name=other and other.name,
            peer=tree_megabytes(other.pid) if other and other.pid else None,
            target=1.0,
            unit="MB",
        )


async def _measured(found: Sequence[AgentServer], options: Options) -> list[Line]:
    share = QUICKER if options.quick else 1
    loads = {
        server.name: Load(
            server.url,
            f"b{time.time_ns():x}",
            max(CONCURRENCIES),
            items=ITEMS // share,
            threads=THREADS // share,
        )
        for server in found
    }
    try:
        for load in loads.values():
            await prepare(load)
        lines: list[Line] = []
        for concurrency in CONCURRENCIES:
            for name in filter(options.wants, CALLS):
                figures = await _rounds(name, loads, concurrency, options)
                lines += _lines(name, found, figures, concurrency)
        if options.wants("first event"):
            lines += await _first_events(found, loads, FIRST_EVENTS // share)
        return lines
    finally:
        for load in loads.values():
            await load.close()


def _lines(
    name: str, found: Sequence[AgentServer], figures: Mapping[str, Figures], concurrency: int
) -> Iterator[Line]:
    for ours, other in _pairs(found):
        mine, theirs = figures[ours.name], figures[other.name] if other else None
        rated = f"{mine.rate:,.0f}/s" + (f" to {theirs.rate:,.0f}/s" if theirs else "")
        yield Line(
            suite="server",
            backend=ours.name,
            n=concurrency,
            operation=name,
            ours=mine.median,
            verdict=mine.verdict or rated,
            peer_name=other and other.name,
            peer=theirs and theirs.median,
            peer_verdict=theirs.verdict if theirs else "",
            target=TARGETS.get(name, 1.0) if concurrency == 1 else 1.0,
        )


async def _rounds(
    name: str, loads: Mapping[str, Load], concurrency: int, options: Options
) -> dict[str, Figures]:
    """Time a call on every server in turn, some rounds; the order alternates."""
    rounds: dict[str, list[Figures]] = {server: [] for server in loads}
    for turn in range(1 if options.quick else ROUNDS):
        for server in list(loads)[:: 1 if turn % 2 else -1]:
            if name.startswith("runs "):
                await _fresh_threads(loads[server], RUNS_AHEAD // (QUICKER if options.quick else 1))
            rounds[server].append(await _timed(name, loads[server], concurrency, options.seconds))
    return {
        server: Figures(
            statistics.median(each.median for each in measured),
            statistics.median(each.rate for each in measured),
            next((each.verdict for each in measured if each.verdict), ""),
        )
        for server, measured in rounds.items()
    }


async def _fresh_threads(load: Load, ahead: int) -> None:
    missing = iter(range(ahead - len(load.fresh)))

    async def make(client: object) -> None:
        for _ in missing:
            load.fresh.append(await load.new_thread(client))  # type: ignore[arg-type]

    await asyncio.gather(*(make(client) for client in load.clients[:16]))


async def _timed(name: str, load: Load, concurrency: int, seconds: float) -> Figures:
    """Call without a pause from so many clients for some seconds."""
    spent: list[float] = []
    wrong: list[str] = []
    end = time.perf_counter() + seconds

    async def ask(number: int) -> None:
        while time.perf_counter() < end:
            began = time.perf_counter()
            try:
                await CALLS[name](load, load.clients[number])
            except Wrong as error:
                wrong.append(str(error))
                return
            spent.append((time.perf_counter() - began) * 1e6)

    began = time.perf_counter()
    await asyncio.gather(*map(ask, range(concurrency)))
    elapsed = time.perf_counter() - began
    median = statistics.median(spent) if spent else float("nan")
    return Figures(median, len(spent) / elapsed, f"WRONG: {wrong[0]}" if wrong else "")


async def _first_events(found: Sequence[AgentServer], loads: Mapping[str, Load], times: int) -> list[Line]:
    spent: dict[str, list[float]] = {server: [] for server in loads}
    for _ in range(times):
        for server, load in loads.items():
            spent[server].append(await first_event(load, load.clients[0]) * 1e6)
    figures = {server: Figures(statistics.median(each), 0, "") for server, each in spent.items()}
    return [
        Line(
            suite="server",
            backend=ours.name,
            n=1,
            operation="first event of a stream",
            ours=figures[ours.name].median,
            peer_name=other and other.name,
            peer=figures[other.name].median if other else None,
            target=1.0,
        )
        for ours, other in _pairs(found)
    ]
