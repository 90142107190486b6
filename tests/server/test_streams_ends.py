"""How streams end: with what the run is, told once, however it came to its end; and waiting holds nothing."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.conftest import LIMITS, Running, StartServer, eventually, run_in_thread
from tests.server.stream_graphs import GATE, reading_graphs

WAITERS = 98


@pytest.fixture(scope="module")
def hasty(kind: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """A server whose runs may take half a second."""
    settings = new_settings(kind, limits=replace(LIMITS, run_timeout=0.5))
    running = run_in_thread(Server(settings, graphs=reading_graphs()))
    yield running
    running.close()


async def read(client: LangGraphClient, thread_id: str, run_id: str) -> list[Any]:
    return [part async for part in client.runs.join_stream(thread_id, run_id, last_event_id="-1")]


@pytest.mark.parametrize(
    ("graph", "status", "thread_status"),
    [
        ("echo", "success", "idle"),
        ("fail", "error", "error"),
        ("hitl", "success", "interrupted"),
        ("cancelled", "interrupted", "idle"),
        ("waiting", "interrupted", "busy"),
    ],
)
async def test_a37_the_end_says_what_the_run_is(
    client: LangGraphClient, graph: str, status: str, thread_status: str
) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    slow = {"steps": 500, "delay": 0.02}
    if graph == "waiting":
        await client.runs.create(thread_id, "slow", input=slow)
    name = "slow" if graph in ("cancelled", "waiting") else graph
    run = await client.runs.create(thread_id, name, input=slow, stream_mode=["values"])
    ids = (thread_id, run["run_id"])
    reading = asyncio.create_task(read(client, *ids))
    if name == "slow":
        if graph == "cancelled":
            await eventually(lambda: _has_begun(client, *ids))
        await client.runs.cancel(*ids, wait=True)
    parts = await reading
    end = {"status": status, "run_id": run["run_id"]}
    assert [part.data for part in parts if part.event == "end"] == [end]
    assert parts[-1].event == "end"
    errors = [part.data for part in parts if part.event == "error"]
    assert errors == ([{"error": "ValueError", "message": "boom from node"}] if graph == "fail" else [])
    assert (await client.runs.get(*ids))["status"] == status
    assert (await client.threads.get(thread_id))["status"] == thread_status
    again = await read(client, *ids)
    assert [(part.event, part.data, part.id) for part in again] == [
        (part.event, part.data, part.id) for part in parts
    ]


async def _has_begun(client: LangGraphClient, thread_id: str, run_id: str) -> bool:
    return (await client.runs.get(thread_id, run_id))["status"] != "pending"


async def test_a_run_that_is_rolled_back_ends_without_a_status(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    run = await client.runs.create(thread_id, "slow", input={"steps": 500, "delay": 0.02})
    ids = (thread_id, run["run_id"])
    reading = asyncio.create_task(read(client, *ids))
    waiting = asyncio.create_task(client.runs.join(*ids))
    await eventually(lambda: _has_begun(client, *ids))
    await client.runs.cancel(*ids, wait=True, action="rollback")
    parts = await reading
    assert [part.data for part in parts if part.event == "end"] == [{"status": None, "run_id": run["run_id"]}]
    assert (await waiting)["__error__"]["error"] == "RunGone"
    with pytest.raises(NotFoundError):
        await client.runs.get(*ids)
    with pytest.raises(NotFoundError):
        await read(client, *ids)


async def test_a_run_that_takes_too_long_ends_so(hasty: Running) -> None:
    async with get_client(url=hasty.url, api_key=None) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "silent", input={"delay": 30.0})
        waiting = asyncio.create_task(client.runs.join(thread_id, run["run_id"]))
        parts = await read(client, thread_id, run["run_id"])
        assert [part.event for part in parts[-2:]] == ["error", "end"]
        assert parts[-2].data["error"] == "RunTimeout"
        assert parts[-1].data["status"] == "timeout"
        assert (await client.runs.get(thread_id, run["run_id"]))["status"] == "timeout"
        assert (await client.threads.get(thread_id))["status"] == "error"
        assert (await waiting)["__error__"]["error"] == "RunTimeout"
        assert (await read(client, thread_id, run["run_id"]))[-1].data["status"] == "timeout"


async def test_a38_who_waits_holds_no_connection_to_the_database(start_server: StartServer) -> None:
    running = start_server("postgres", objects=reading_graphs(), postgres_pool={"min_size": 1, "max_size": 2})
    # A client has a hundred connections, which those who wait take.
    connect = partial(get_client, url=running.url, api_key=None)
    async with connect() as client, connect() as other:
        thread_id = (await client.threads.create())["thread_id"]
        GATE.clear()
        run = await client.runs.create(thread_id, "gated", input={"count": 0})
        ids = (thread_id, run["run_id"])
        waiting = [asyncio.create_task(client.runs.join(*ids)) for _ in range(WAITERS // 2)]
        reading = [asyncio.create_task(read(client, *ids)) for _ in range(WAITERS // 2)]
        leaving = asyncio.create_task(client.runs.join(*ids))
        await eventually(lambda: running.server.parts.followers.following == 1)
        for number in range(5):
            await other.store.put_item(["waiting"], str(number), {"number": number})
            assert (await other.store.get_item(["waiting"], key=str(number)))["value"] == {"number": number}
            assert await other.runs.wait(None, "tell", input={"count": 3}) == {"count": 3, "done": True}
        leaving.cancel()
        assert not any(each.done() for each in waiting + reading)
        GATE.set()
        for output in await asyncio.gather(*waiting):
            assert output == {"count": 0, "done": True}
        for parts in await asyncio.gather(*reading):
            assert parts[-1].data == {"status": "success", "run_id": run["run_id"]}
        await eventually(lambda: running.server.parts.followers.following == 0)


async def test_a39_text_arrives_as_it_is(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    text = "Привет 😀 中\u2028文\u2029\u0085 C:\\new \\u041f"
    asked: Any = {"messages": [{"role": "user", "content": text}]}
    thread = await client.threads.create()
    parts = [part async for part in client.runs.stream(thread["thread_id"], "echo", input=asked)]
    shown = [part.data["messages"][0]["content"] for part in parts if part.event == "values"]
    assert shown
    assert set(shown) == {text}
    body = {"assistant_id": "echo", "input": asked}
    raw = (await http.post("/runs/stream", json=body)).content
    assert "Привет 😀 中\u2028文\u2029\u0085 C:\\\\new \\\\u041f".encode() in raw
    assert b"\n\n" in raw
    assert all(
        line[:6] in (b"event:", b"data: ") or line[:1] in (b"i", b":") for line in raw.split(b"\n") if line
    )
    answer = await client.runs.wait(None, "echo", input=asked)
    assert isinstance(answer, dict)
    assert answer["messages"][0]["content"] == text
