"""Streams of runs and threads through the SDK: everything once and in order, whoever comes and goes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import replace
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.faults.relay import Relay, to_port
from tests.readers.writing import rest
from tests.server.conftest import LIMITS, PATIENCE, Running, eventually, run_in_thread
from tests.server.stream_graphs import payload, reading_graphs

HEARTBEAT = 0.1

IDLE = 1.0
"""Seconds of silence after which the proxy of the tests cuts a connection."""

COUNT = 200

Part = Any


@pytest.fixture(scope="module")
def reading(kind: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """A server with graphs to be read, whose streams tell often that they live."""
    settings = new_settings(kind, limits=replace(LIMITS, heartbeat=HEARTBEAT))
    running = run_in_thread(Server(settings, graphs=reading_graphs()))
    yield running
    running.close()


@pytest.fixture
async def reader(reading: Running) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=reading.url, api_key=None) as client:
        yield client


@pytest.fixture
async def raw(reading: Running) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=reading.url, timeout=PATIENCE, verify=False) as client:  # noqa: S501
        yield client


async def start(client: LangGraphClient, graph: str, **fields: Any) -> tuple[str, str]:
    """Start a run on a thread of its own; return the ids of both."""
    thread = await client.threads.create()
    run = await client.runs.create(thread["thread_id"], graph, stream_mode=["custom"], **fields)
    return thread["thread_id"], run["run_id"]


def told(parts: list[Part]) -> list[Any]:
    """Return what custom events said."""
    return [part.data for part in parts if part.event == "custom"]


async def broken_at(client: LangGraphClient, ids: tuple[str, str], breaks: list[int]) -> list[Part]:
    """Read a run to its end, with connections that break behind so many custom events."""
    found: list[Part] = []
    last = "-1"
    for limit in [*breaks, COUNT + 1]:
        async for part in client.runs.join_stream(*ids, last_event_id=last):
            found.append(part)
            last = part.id or last
            if len(told(found)) == limit:
                break
    return found


async def test_a13_who_comes_back_gets_the_rest_once(reader: LangGraphClient) -> None:
    ids = await start(reader, "tell", input={"count": COUNT, "delay": 0.002})
    everything = [payload(number) for number in range(COUNT)]
    joiners = [broken_at(reader, ids, breaks) for breaks in ([50], [7, 133], [1, 2, 199])]
    for parts in await asyncio.gather(*joiners):
        assert told(parts) == everything
        assert parts[0].event == "metadata"
        assert [part.event for part in parts].count("end") == 1
        assert parts[-1].data == {"status": "success", "run_id": ids[1]}
        seqs = [int(part.id) for part in parts[:-1]]
        assert seqs == sorted(set(seqs))
    # After the end it is all the same.
    parts = await broken_at(reader, ids, [50])
    assert told(parts) == everything
    assert parts[-1].event == "end"


async def test_a_broken_creating_connection_is_taken_up_where_it_broke(
    reader: LangGraphClient, raw: httpx.AsyncClient
) -> None:
    thread = await reader.threads.create()
    body = {"assistant_id": "tell", "stream_mode": ["custom"], "input": {"count": COUNT, "delay": 0.002}}
    lines = []
    async with raw.stream("POST", f"/threads/{thread['thread_id']}/runs/stream", json=body) as response:
        location = response.headers["location"]
        async for line in response.aiter_lines():
            lines.append(line)
            if line == "id: 50":
                break
    async with raw.stream("GET", location, headers={"Last-Event-ID": "50"}) as response:
        lines += [line async for line in response.aiter_lines()]
    ids = [int(line.removeprefix("id: ")) for line in lines if line.startswith("id: ")]
    assert ids == [*range(1, len(ids) + 1)]
    assert lines.count("event: custom") == COUNT
    assert lines[-3:] == ["event: end", lines[-2], ""]


async def thread_events(client: LangGraphClient, thread_id: str, count: int, **options: Any) -> list[Part]:
    """Read a thread until so many runs are done."""
    found: list[Part] = []
    async for part in await client.threads.join_stream(thread_id, **options):
        found.append(part)
        if len(done(found)) == count:
            break
    return found


def done(parts: list[Part]) -> list[Part]:
    return [part for part in parts if part.event == "metadata" and part.data.get("status") == "run_done"]


async def test_a13_a_thread_is_read_while_it_is_idle_and_while_it_is_busy(reader: LangGraphClient) -> None:
    thread_id = (await reader.threads.create())["thread_id"]
    idle = asyncio.create_task(thread_events(reader, thread_id, 2))
    runs = []
    await rest(0.2)
    for _ in range(2):
        fields: Any = {"stream_mode": ["custom"], "input": {"count": 30, "delay": 0.002}}
        run = await reader.runs.create(thread_id, "tell", **fields)
        runs.append(run["run_id"])
    busy = await thread_events(reader, thread_id, 2, last_event_id="-")
    for parts in (await idle, busy):
        assert told(parts) == [payload(number) for number in range(30)] * 2
        assert [part.data["run_id"] for part in done(parts)] == runs
        ids = [int(part.id) for part in parts]
        assert ids == sorted(set(ids))
    for place in (0, 5, 17, len(busy) - 2):
        behind = await thread_events(reader, thread_id, 1, last_event_id=busy[place].id)
        assert [part.id for part in behind] == [part.id for part in busy[place + 1 : place + 1 + len(behind)]]
        assert done(behind)


async def test_a_thread_tells_what_is_asked_for(reader: LangGraphClient) -> None:
    thread_id = (await reader.threads.create())["thread_id"]
    fields: Any = {"stream_mode": ["custom", "values"], "input": {"count": 3}}
    run = await reader.runs.create(thread_id, "tell", **fields)
    await reader.runs.join(thread_id, run["run_id"])

    async def seen(**options: Any) -> list[str]:
        parts = await thread_events(reader, thread_id, 1, last_event_id="-", **options)
        return [part.event for part in parts]

    assert await seen() == ["metadata", "values", *["custom"] * 3, "values", "metadata"]
    other_name = {"stream_mode": [], "params": {"stream_modes": "lifecycle"}}
    for options in ({"stream_mode": "lifecycle"}, other_name):
        assert await seen(**options) == ["metadata", "metadata"]
    both = {"stream_mode": ["lifecycle", "state_update"]}
    assert await seen(**both) == ["metadata", "values", "values", "metadata"]


async def test_a_thread_that_is_deleted_ends_its_streams(
    reader: LangGraphClient, raw: httpx.AsyncClient
) -> None:
    thread_id = (await reader.threads.create())["thread_id"]
    async with raw.stream("GET", f"/threads/{thread_id}/stream") as response:
        await reader.threads.delete(thread_id)
        assert all(line in ("", ": heartbeat") for line in [each async for each in response.aiter_lines()])
    assert (await raw.get(f"/threads/{thread_id}/stream")).status_code == 404
    wrong = await raw.get(f"/threads/{thread_id}/stream?stream_mode=value")
    assert (wrong.status_code, wrong.json()["field"]) == (400, "stream_mode")


async def test_a14_silence_is_no_reason_to_be_cut(reader: LangGraphClient, raw: httpx.AsyncClient) -> None:
    thread_id, run_id = await start(reader, "silent", input={"delay": 4 * HEARTBEAT})
    signs = {"stream": ": heartbeat", "join": ""}

    async def lines(path: str) -> list[str]:
        async with raw.stream("GET", f"/threads/{thread_id}/runs/{run_id}/{path}") as response:
            return [line async for line in response.aiter_lines()]

    for (path, sign), found in zip(signs.items(), await asyncio.gather(*map(lines, signs)), strict=True):
        assert found.count(sign) >= 2, path
    assert (await reader.runs.get(thread_id, run_id))["status"] == "success"
    assert await reader.runs.join(thread_id, run_id) == {"delay": 4 * HEARTBEAT, "done": True}


@pytest.mark.parametrize("path", ["stream", "wait"])
async def test_a14_a_proxy_that_cuts_silent_connections_cuts_none(
    reading: Running, reader: LangGraphClient, path: str
) -> None:
    body = {"assistant_id": "silent", "input": {"delay": 3 * IDLE}, "stream_mode": "values"}
    thread_id = (await reader.threads.create())["thread_id"]
    with Relay(to_port(int(reading.url.rpartition(":")[2])), idle=IDLE) as relay:
        behind = httpx.AsyncClient(base_url=f"http://127.0.0.1:{relay.port}", timeout=PATIENCE, verify=False)  # noqa: S501
        async with behind, behind.stream("POST", f"/threads/{thread_id}/runs/{path}", json=body) as response:
            run = response.headers["content-location"]
            joined = asyncio.create_task(behind.get(f"{run}/{'join' if path == 'wait' else 'stream'}"))
            lines = [line async for line in response.aiter_lines()]
            others = (await joined).text.splitlines()
        assert relay.cut == 0
    for found in (lines, others):
        assert any('"done":true' in line for line in found), found
    assert (await reader.runs.get(thread_id, run.rpartition("/")[2]))["status"] == "success"


@pytest.mark.parametrize("path", ["stream", "wait"])
async def test_a14_only_who_said_so_takes_a_run_with_him(
    reader: LangGraphClient, raw: httpx.AsyncClient, path: str
) -> None:
    statuses = {}
    for on_disconnect in ("cancel", "continue"):
        thread_id = (await reader.threads.create())["thread_id"]
        body = {
            "assistant_id": "silent",
            "input": {"delay": 20.0 if on_disconnect == "cancel" else 0.5},
            "on_disconnect": on_disconnect,
        }
        async with raw.stream("POST", f"/threads/{thread_id}/runs/{path}", json=body) as response:
            run_id = response.headers["content-location"].rpartition("/")[2]
            joined = f"/threads/{thread_id}/runs/{run_id}"
            for other in ("stream", "join"):
                # Others leave without a word.
                async with raw.stream("GET", f"{joined}/{other}"):
                    pass
            await eventually(lambda: _status(reader, thread_id, run_id, "running"))  # noqa: B023
        await eventually(lambda: _ended(reader, thread_id, run_id))  # noqa: B023
        statuses[on_disconnect] = (await reader.runs.get(thread_id, run_id))["status"]
    assert statuses == {"cancel": "interrupted", "continue": "success"}


async def _status(client: LangGraphClient, thread_id: str, run_id: str, status: str) -> bool:
    return (await client.runs.get(thread_id, run_id))["status"] == status


async def _ended(client: LangGraphClient, thread_id: str, run_id: str) -> bool:
    return (await client.runs.get(thread_id, run_id))["status"] not in ("pending", "running")
