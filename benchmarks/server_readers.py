"""Readers of the server's streams: what many who are slow, or who only wait, cost it in memory."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.measure import Line, Options
from benchmarks.promises import promised
from benchmarks.servers import AgentServer, servers, tree_megabytes

__all__ = ["measure"]

FRAMES: Final = 1_000
FRAME_BYTES: Final = 10_000
SLOW: Final = 100
IDLE: Final = 1_000
SLOW_MEGABYTES: Final = 20.0
IDLE_MEGABYTES: Final = 50.0
SETTLING_SECONDS: Final = 3.0


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Hold the memory that readers take against what was promised, and count what they have read."""
    backends = options.backends or (("sqlite",) if options.quick else ())
    with servers(folder, peers=False, backends=backends) as found:
        for server in found:
            yield from asyncio.run(_measured(server, quick=options.quick))


async def _measured(server: AgentServer, *, quick: bool) -> list[Line]:
    limits = httpx.Limits(max_connections=None)
    settle = SETTLING_SECONDS / 6 if quick else SETTLING_SECONDS
    async with httpx.AsyncClient(base_url=server.url, timeout=120, limits=limits) as client:
        # Whatever the first run and the first reader load.
        await _run(client, frames=10, frame_bytes=10, seconds=0.0, wait=True)
        return [
            await _idle(server, client, IDLE // 20 if quick else IDLE, settle),
            await _slow(server, client, SLOW // 20 if quick else SLOW, settle),
        ]


async def _slow(server: AgentServer, client: httpx.AsyncClient, readers: int, settle: float) -> Line:
    """Have readers of a large stream read a little and pause, and then the rest."""
    path = await _run(client, frames=FRAMES, frame_bytes=FRAME_BYTES, seconds=0.0, wait=True)
    before = _held(server)
    async with AsyncExitStack() as stack:
        answers = [
            await stack.enter_async_context(client.stream("GET", f"{path}/stream")) for _ in range(readers)
        ]
        streams = [answer.aiter_raw() for answer in answers]
        begun = [await anext(stream) for stream in streams]
        await asyncio.sleep(settle)
        held = _held(server) - before
        rest = await asyncio.gather(*map(_rest, streams))
    seen = {(first + more).count(b"event: custom") for first, more in zip(begun, rest, strict=True)}
    verdict = "" if seen == {FRAMES} else f"WRONG: readers have seen {sorted(seen)} frames of {FRAMES}"
    return _line(server, f"{readers} slow readers of 10 MB", readers, held, SLOW_MEGABYTES, verdict)


def _held(server: AgentServer) -> float:
    """Return the memory that is the server's own: pages of the database's file are the system's."""
    return tree_megabytes(server.pid or 0, "RssAnon")


async def _rest(stream: Any) -> bytes:
    return b"".join([part async for part in stream])


async def _idle(server: AgentServer, client: httpx.AsyncClient, readers: int, settle: float) -> Line:
    """Have readers wait for the end of a run that does nothing."""
    path = await _run(client, frames=0, frame_bytes=0, seconds=2 * settle + 2.0, wait=False)
    before = _held(server)
    waiting = [asyncio.create_task(client.get(f"{path}/join")) for _ in range(readers)]
    await asyncio.sleep(settle)
    held = _held(server) - before
    statuses = {answer.status_code for answer in await asyncio.gather(*waiting)}
    verdict = "" if statuses == {200} else f"WRONG: joins answered {sorted(statuses)}"
    return _line(server, f"{readers} idle joins", readers, held, IDLE_MEGABYTES, verdict)


async def _run(client: httpx.AsyncClient, *, wait: bool, **asked: float) -> str:
    """Make a run of the graph that streams; return where it is."""
    thread = (await client.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "flood", "input": asked, "stream_mode": ["custom"]}
    run = (await client.post(f"/threads/{thread}/runs", json=body)).json()
    path = f"/threads/{thread}/runs/{run['run_id']}"
    if wait:
        await client.get(f"{path}/join")
    return path


def _line(server: AgentServer, operation: str, readers: int, held: float, limit: float, verdict: str) -> Line:
    return promised(
        operation,
        max(held, 0.1),
        at_most=limit,
        verdict=verdict,
        unit="MB",
        suite="readers",
        backend=server.name,
        n=readers,
    )
