"""The agent server as a part of somebody else's application."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from langgraph.store.memory import InMemoryStore as LangGraphStore
from langgraph_sdk import Auth
from langgraph_sdk.client import LangGraphClient

import stateroom
from stateroom import EmbeddedGraphs, embed_in_memory_graphs, embed_postgres_graphs, embed_sqlite_graphs
from stateroom.errors import Misconfigured
from stateroom.settings import Limits
from tests.conftest import NewSchema
from tests.server.conftest import eventually
from tests.server.graphs import echo, memo, slow

GRAPHS: dict[str, Any] = {"echo": echo, "slow": slow, "memo": memo}
ECHOED = ["hi", {"role": "ai", "content": "echo: hi"}]


@asynccontextmanager
async def client_of(app: Any, path: str = "") -> AsyncIterator[Any]:
    """Return the official client of an application that is called in process."""
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url=f"http://app{path}", timeout=30) as http:
        yield LangGraphClient(http)


async def echoes(client: Any) -> bool:
    answer = await client.runs.wait(None, "echo", input={"messages": ["hi"]})
    return bool(answer["messages"] == ECHOED)


async def test_mounted_in_a_plain_application_it_begins_with_the_first_request(tmp_path: Path) -> None:
    file = tmp_path / "all.db"
    graphs = embed_sqlite_graphs(GRAPHS, file)
    app = FastAPI()
    app.mount("/agents", graphs)
    assert not file.exists(), "nothing is opened before somebody asks"
    try:
        async with client_of(app, "/agents") as client:
            assert await echoes(client)
            names = {assistant["graph_id"] for assistant in await client.assistants.search()}
            assert names == set(GRAPHS)
    finally:
        await graphs.aclose()
    assert file.exists()


async def test_many_first_requests_begin_it_once(tmp_path: Path) -> None:
    graphs = embed_sqlite_graphs(GRAPHS, tmp_path / "all.db")
    try:
        async with client_of(graphs) as client:
            assert all(await asyncio.gather(*(echoes(client) for _ in range(5))))
    finally:
        await graphs.aclose()


async def test_in_async_with_it_begins_at_once_and_ends_with_it(tmp_path: Path) -> None:
    file = tmp_path / "all.db"
    async with embed_sqlite_graphs(GRAPHS, file) as graphs:
        assert file.exists()
        async with client_of(graphs) as client:
            thread = await client.threads.create()
            assert await client.runs.wait(thread["thread_id"], "echo", input={"messages": ["hi"]})
    # What it kept is there, and the file is free for whoever comes next.
    async with embed_sqlite_graphs(GRAPHS, file) as graphs, client_of(graphs) as client:
        state = await client.threads.get_state(thread["thread_id"])
        assert state["values"]["messages"][0] == "hi"


async def test_its_end_ends_whoever_follows_a_run_that_goes_on_later() -> None:
    graphs = embed_in_memory_graphs(GRAPHS, limits=Limits(shutdown_grace=0.05))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=graphs), base_url="http://app") as http:
        body = {"assistant_id": "slow", "input": {"steps": 1, "delay": 60}}
        following = asyncio.create_task(http.post("/runs/stream", json=body))
        await graphs.server.begin()
        await eventually(lambda: graphs.server.parts.followers.following)
        await graphs.aclose()
        assert "event: end" not in (await following).text


async def test_after_its_end_it_is_unavailable(tmp_path: Path) -> None:
    graphs = embed_sqlite_graphs(GRAPHS, tmp_path / "all.db")
    await graphs.aclose()
    await graphs.aclose()
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app=graphs), base_url="http://app") as http:
        answer = await http.get("/ok")
    assert (answer.status_code, answer.json()["code"]) == (503, "unavailable")


async def test_two_of_them_in_one_application_know_nothing_of_each_other(
    postgres: str, new_schema: NewSchema
) -> None:
    app = FastAPI()
    first = embed_postgres_graphs({"echo": echo}, postgres, schema=new_schema())
    second = embed_in_memory_graphs({"memo": memo})
    app.mount("/first", first)
    app.mount("/second", second)
    try:
        async with client_of(app, "/first") as one, client_of(app, "/second") as two:
            assert await echoes(one)
            await two.runs.wait(None, "memo", input={"n": 3})
            assert (await two.store.get_item(["graph", "mem"], "k"))["value"] == {"v": 3}
            assert (await one.store.search_items([]))["items"] == []
            with pytest.raises(Exception, match="Invalid assistant"):
                await one.runs.wait(None, "memo", input={"n": 3})
    finally:
        await first.aclose()
        await second.aclose()


async def test_served_by_itself_it_lives_as_long_as_its_server() -> None:
    graphs, told = embed_in_memory_graphs(GRAPHS), []
    come = iter(["lifespan.startup", "lifespan.shutdown"])

    async def receive() -> dict[str, Any]:
        return {"type": next(come)}

    async def send(message: Any) -> None:
        told.append(message["type"])

    await graphs({"type": "lifespan"}, receive, send)
    assert told == ["lifespan.startup.complete", "lifespan.shutdown.complete"]


async def test_what_keeps_it_from_opening_is_told_to_who_asked_and_it_can_be_tried_again(
    tmp_path: Path,
) -> None:
    file = tmp_path / "all.db"
    second = embed_sqlite_graphs(GRAPHS, file)
    async with embed_sqlite_graphs(GRAPHS, file):
        with pytest.raises(Misconfigured, match="in use by this process"):
            await second.__aenter__()
    async with second:
        assert second.server.parts.graphs.ids == tuple(GRAPHS)


async def test_a_store_of_ones_own_is_the_one_in_nodes_and_behind_the_routes() -> None:
    mine = LangGraphStore()
    async with embed_in_memory_graphs(GRAPHS, store=mine) as graphs, client_of(graphs) as client:
        await client.runs.wait(None, "memo", input={"n": 7})
        assert (await client.store.get_item(["graph", "mem"], "k"))["value"] == {"v": 7}
    found = mine.get(("graph", "mem"), "k")
    assert found is not None
    assert found.value == {"v": 7}


async def test_authentication_is_asked_and_is_its_own() -> None:
    auth = Auth()

    @auth.authenticate
    async def who(authorization: str | None) -> str:
        if authorization != "Bearer me":
            raise Auth.exceptions.HTTPException(status_code=401, detail="who are you?")
        return "me"

    async with embed_in_memory_graphs(GRAPHS, auth=auth) as graphs:
        transport = httpx.ASGITransport(app=graphs)
        async with httpx.AsyncClient(transport=transport, base_url="http://app") as http:
            assert (await http.post("/threads", json={})).status_code == 401
            allowed = await http.post("/threads", json={}, headers={"authorization": "Bearer me"})
            assert allowed.status_code == 200


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"graphs": {}}, "graphs"),
        ({"synchronous": "OFF"}, "synchronous"),
        ({"thread_ttl": {"default_ttl": -1}}, "checkpointer.ttl.default_ttl"),
    ],
)
def test_what_cannot_work_is_refused_at_once(tmp_path: Path, options: dict[str, Any], field: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        embed_sqlite_graphs(**{"graphs": GRAPHS, "path": tmp_path / "all.db", **options})
    assert caught.value.field == field


@pytest.mark.parametrize(
    ("options", "field"),
    [
        ({"index": {"dims": 3}}, "store.index.embed"),
        ({"ttl": {"default_ttl": 0}}, "store.ttl.default_ttl"),
        ({"index_keys": [1]}, "index_keys[0]"),
        ({"store": LangGraphStore(), "ttl": {"default_ttl": 5}}, "store.ttl"),
        ({"auth": Auth()}, "auth.path"),
    ],
)
async def test_what_the_parts_refuse_is_refused_when_it_is_opened(
    options: dict[str, Any], field: str
) -> None:
    with pytest.raises(Misconfigured) as caught:
        await embed_in_memory_graphs(GRAPHS, **options).__aenter__()
    assert caught.value.field == field


def test_the_functions_are_there_without_being_imported_with_the_library() -> None:
    assert stateroom.EmbeddedGraphs is EmbeddedGraphs
    program = (
        "import sys, stateroom; assert 'fastapi' not in sys.modules\n"
        "sys.modules['fastapi'] = None\n"
        "try: stateroom.embed_sqlite_graphs\n"
        "except ValueError as error: print(error)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert "pip install 'stateroom[server]'" in done.stdout
