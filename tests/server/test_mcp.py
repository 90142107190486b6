"""The Model Context Protocol: assistants as tools, to the official client and to plain messages."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, Final

import httpx
import httpx2
import pytest
from langgraph.func import entrypoint
from langgraph_sdk import Auth
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client
from pydantic import BaseModel

from stateroom.api import mcp_tools
from stateroom.api.mcp_tools import NAME_LENGTH, graph_names
from stateroom.api.routes.making import LEFT
from stateroom.api.spoken import last_words
from stateroom.api.wire.mcp import VERSIONS
from stateroom.boot.compose import Server
from stateroom.contract.runs import RunQuery
from stateroom.model.run import RunStatus
from stateroom.settings import HttpSettings, Settings
from tests.server.auths import as_user, beside, people
from tests.server.conftest import PATIENCE, Running, StartServer, eventually, run_in_thread
from tests.server.graphs import echo

SAYING: Final[dict[str, Any]] = {"messages": [{"role": "user", "content": "Hello"}]}
WORDS: Final = "Grüße, Welt 日本語 🚢"


class Tree(BaseModel):
    """A type that holds itself."""

    children: list[Tree] = []


@asynccontextmanager
async def speaking(url: str, *, mode: str = "auto", headers: Any = None) -> AsyncIterator[Client]:
    """Yield the official client; ``auto`` asks first for a newer protocol than is spoken here."""
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PATIENCE) as http,
        Client(streamable_http_client(f"{url}/mcp", http_client=http), mode=mode) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def alone(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server for what no storage makes a difference to, and whose assistants are counted."""
    running = run_in_thread(Server(new_settings("sqlite", descriptions={"echo": "Says it again."})))
    yield running
    running.close()


@pytest.fixture
async def plain(alone: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that sends what it is given."""
    async with httpx.AsyncClient(base_url=alone.url, timeout=PATIENCE) as http:
        yield http


def message(method: str, params: Any = None, *, identity: Any = 1) -> dict[str, Any]:
    found = {"jsonrpc": "2.0", "id": identity, "method": method, "params": params or {}}
    return {key: value for key, value in found.items() if value is not None}


async def ask(http: httpx.AsyncClient, method: str, params: Any = None, **headers: str) -> Any:
    answered = await http.post("/mcp", json=message(method, params), headers=headers)
    assert answered.status_code == 200
    found = answered.json()
    assert (found["jsonrpc"], found["id"]) == ("2.0", 1)
    return found


# ---- The official client.


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_hello(alone: Running, mode: str) -> None:
    async with speaking(alone.url, mode=mode) as client:
        assert client.protocol_version == VERSIONS[-1]
        assert client.server_info is not None
        assert (client.server_info.name, client.server_info.version) == (
            "stateroom",
            alone.server.parts.version,
        )
        assert client.server_capabilities.tools is not None
        assert client.server_capabilities.resources is None


async def test_graphs_are_tools(alone: Running) -> None:
    async with speaking(alone.url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
    assert set(tools) == set(alone.server.parts.graphs.ids)
    assert tools["echo"].description == "Says it again."
    assert tools["chat"].description == "What the graphs with a model work on."
    assert tools["chat"].input_schema["required"] == ["messages"]
    assert {tool.input_schema["type"] for tool in tools.values()} == {"object"}


async def test_a_call_runs_the_graph(running: Running) -> None:
    async with speaking(running.url) as client:
        found = await client.call_tool("chat", SAYING)
    assert not found.is_error
    assert [block.model_dump(include={"type", "text"}) for block in found.content] == [
        {"type": "text", "text": WORDS}
    ]
    assert found.structured_content is not None
    assert [each["type"] for each in found.structured_content["messages"]] == ["human", "ai"]


async def test_a_state_without_messages_is_told_as_json(alone: Running) -> None:
    async with speaking(alone.url) as client:
        found = await client.call_tool("memo", {"n": 7})
    assert found.structured_content is not None
    assert found.structured_content["answer"] == {"v": 7}
    assert json.loads(text(found)) == found.structured_content


async def test_a_failure_is_the_tools(alone: Running) -> None:
    async with speaking(alone.url) as client:
        found = await client.call_tool("fail", {})
    assert found.is_error
    assert text(found) == "ValueError: boom from node"


async def test_a_question_is_told(alone: Running) -> None:
    async with speaking(alone.url) as client:
        found = await client.call_tool("hitl", {})
    assert not found.is_error
    assert text(found).endswith('cannot be answered here: {"question":"ok?"}')
    assert found.structured_content is not None
    assert found.structured_content["__interrupt__"][0]["value"] == {"question": "ok?"}


@pytest.mark.parametrize("name", ["nothing", "00000000-0000-0000-0000-000000000000", "no such"])
async def test_no_such_tool(alone: Running, name: str) -> None:
    async with speaking(alone.url) as client:
        with pytest.raises(MCPError, match="there is no tool") as caught:
            await client.call_tool(name, {})
    assert caught.value.error.code == -32602


def text(found: Any) -> str:
    (block,) = found.content
    return str(block.text)


@pytest.mark.parametrize(
    ("messages", "words"),
    [
        ([{"role": "assistant", "content": "a"}, {"role": "user", "content": "b"}], "a"),
        (
            [
                {"type": "ai", "content": "a"},
                {"type": "ai", "content": "b"},
                {"type": "tool", "content": "c"},
            ],
            "b",
        ),
        ([{"type": "ai", "content": [{"type": "text", "text": "a"}, {"type": "image"}, "b"]}], "ab"),
        ([{"type": "ai", "content": "a"}, {"type": "ai", "content": ""}], None),
        ([{"type": "human", "content": "a"}, "b", 1], None),
        ([{"type": "ai"}], None),
        ("a", None),
    ],
)
def test_the_last_words_of_an_agent(messages: Any, words: str | None) -> None:
    assert last_words({"messages": messages}) == words
    assert last_words(messages) is None


# ---- Which tools there are, and what they are called.


async def test_an_assistant_is_a_tool_by_its_id(start_server: StartServer, monkeypatch: Any) -> None:
    monkeypatch.setattr(mcp_tools, "PAGE", 2)
    running = start_server()
    make = running.client.assistants.create
    for number in range(3):
        made = make("context", assistant_id=f"by-{number}", context={"name": f"n{number}"}, name="Same")
    make("context", assistant_id="no:tool")
    make("context", assistant_id="a" * (NAME_LENGTH + 1), description="Too long a name.")
    async with speaking(running.url) as client:
        found: list[Any] = []
        cursor, pages = None, 0
        while pages == 0 or cursor:
            page = await client.list_tools(cursor=cursor)
            found, cursor, pages = [*found, *page.tools], page.next_cursor, pages + 1
        called = await client.call_tool("by-2", {})
    assert pages > 2
    names = [tool.name for tool in found]
    assert sorted(names) == sorted([*running.server.parts.graphs.ids, "by-0", "by-1", "by-2"])
    by = next(tool for tool in found if tool.name == made["assistant_id"])
    assert (by.title, by.description) == ("Same", "What most of the graphs work on.")
    assert called.structured_content is not None
    assert called.structured_content["answer"] == {"name": "n2"}


def test_names_fit_the_protocol() -> None:
    long = "x" * (NAME_LENGTH + 1)
    names = graph_names(["plain", "x" * NAME_LENGTH, long, "with space", "with/space"])
    assert names["plain"] == "plain"
    assert names["x" * NAME_LENGTH] == "x" * NAME_LENGTH
    assert len(names) == 5
    assert all(len(name) <= NAME_LENGTH and not set(name) & set(" /") for name in names)


async def test_graphs_of_any_name_and_input(start_server: StartServer) -> None:
    @entrypoint()
    def text_only(given: str) -> str:
        return given

    @entrypoint()
    def anything(given: Any) -> Any:
        return f"{sorted(given)}"

    def count(given: Any) -> int:
        return len(dict(given)["children"])

    # As it is without annotations that are texts.
    count.__annotations__["given"] = Tree

    def broken(config: Any) -> Any:
        raise ValueError(f"not now: {sorted(config)[:0]}")

    graphs = {"my agent": echo, "text_only": text_only, "anything": anything, "tree": entrypoint()(count)}
    running = start_server(objects={**graphs, "broken": broken}, graphs={})
    async with speaking(running.url) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        (mine,) = set(tools) - {"anything", "tree", "broken"}
        said = await client.call_tool(mine, {"messages": ["x"]})
        counted = await client.call_tool("tree", {"children": [{}, {}]})
        other = await client.call_tool("anything", {"b": 1, "a": 2})
    assert mine.startswith("my_agent_")
    assert text(said) == "echo: x"
    assert tools["broken"].input_schema == {"type": "object"}
    assert tools["tree"].input_schema["properties"]["children"]["items"] == {"$ref": "#/$defs/Tree"}
    assert text(counted) == "2"
    assert (text(other), other.structured_content) == ("['a', 'b']", None)


# ---- Messages that the client does not send.


@pytest.mark.parametrize(
    ("asked", "answered"), [*zip(VERSIONS, VERSIONS, strict=True), ("1999-01-01", VERSIONS[-1])]
)
async def test_the_version_that_both_speak(plain: httpx.AsyncClient, asked: str, answered: str) -> None:
    params = {"protocolVersion": asked, "capabilities": {}, "clientInfo": {"name": "x", "version": "1"}}
    found = await ask(plain, "initialize", params)
    assert found["result"]["protocolVersion"] == answered


@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_ping(plain: httpx.AsyncClient, path: str) -> None:
    answered = await plain.post(path, json=message("ping", identity="an id"))
    assert answered.json() == {"jsonrpc": "2.0", "id": "an id", "result": {}}
    assert answered.headers["content-type"] == "application/json"
    assert "mcp-session-id" not in answered.headers


@pytest.mark.parametrize(
    "sent",
    [
        {"jsonrpc": "2.0", "method": "notifications/initialized"},
        {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}},
        {"jsonrpc": "2.0", "id": 1, "result": {}},
        {"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "no"}},
    ],
)
async def test_what_is_not_answered(plain: httpx.AsyncClient, sent: Any) -> None:
    answered = await plain.post("/mcp", json=sent)
    assert (answered.status_code, answered.content) == (202, b"")


@pytest.mark.parametrize("method", ["GET", "DELETE"])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/"])
async def test_neither_streams_nor_sessions(plain: httpx.AsyncClient, method: str, path: str) -> None:
    answered = await plain.request(method, path)
    assert (answered.status_code, answered.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("sent", "code"),
    [
        (b"{", -32700),
        (b"\xff", -32700),
        (b"[" * 100_000, -32700),
        (b"1", -32600),
        (b"[]", -32600),
        (json.dumps([message("ping")]).encode(), -32600),
        (b'{"method": "ping", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": null, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "ping"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": 1}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "ping", "params": []}', -32600),
    ],
)
async def test_what_is_no_message(plain: httpx.AsyncClient, sent: bytes, code: int) -> None:
    answered = await plain.post("/mcp", content=sent)
    found = answered.json()
    assert (answered.status_code, found["id"], found["error"]["code"]) == (400, None, code)


@pytest.mark.parametrize(
    ("method", "params", "code"),
    [
        ("resources/list", {}, -32601),
        ("initialize", {}, -32602),
        ("tools/list", {"cursor": 1}, -32602),
        ("tools/list", {"cursor": "nonsense"}, -32602),
        ("tools/call", {}, -32602),
        ("tools/call", {"name": 1}, -32602),
        ("tools/call", {"name": "echo", "arguments": []}, -32602),
        ("tools/call", {"name": ""}, -32602),
    ],
)
async def test_what_cannot_be_done(plain: httpx.AsyncClient, method: str, params: Any, code: int) -> None:
    found = await ask(plain, method, params)
    assert found["error"]["code"] == code


async def test_a_version_that_is_not_spoken(plain: httpx.AsyncClient) -> None:
    spoken = await ask(plain, "ping", **{"MCP-Protocol-Version": VERSIONS[0]})
    assert spoken["result"] == {}
    other = await plain.post("/mcp", json=message("ping"), headers={"MCP-Protocol-Version": "2026-07-28"})
    assert (other.status_code, other.json()["error"]["code"]) == (400, -32000)
    assert other.json()["error"]["data"]["supported"] == list(VERSIONS)


# ---- Who may come in.


async def test_only_pages_that_are_let_in(alone: Running, plain: httpx.AsyncClient) -> None:
    cors = {"allow_origins": ["https://mine.example"], "allow_origin_regex": r"http://localhost:\d+"}

    async def come(http: httpx.AsyncClient, origin: str) -> tuple[int, str | None]:
        answered = await http.post("/mcp", json=message("ping"), headers={"origin": origin})
        return answered.status_code, answered.json().get("code")

    async with beside(alone, http=HttpSettings(cors=cors)) as http:
        for origin in ("https://mine.example", "http://localhost:3000"):
            assert await come(http, origin) == (200, None)
            assert await come(plain, origin) == (403, "denied")
        for origin in ("https://other.example", "http://localhost.example:3000", "null", "http://x"):
            assert await come(http, origin) == (403, "denied")


async def test_without_it_there_is_nothing(alone: Running) -> None:
    async with beside(alone, http=HttpSettings(disabled=frozenset({"mcp"}))) as http:
        assert (await http.post("/mcp", json=message("ping"))).status_code == 404
        assert (await http.get("/info")).json()["flags"]["mcp"] is False


async def test_callers_see_and_run_what_they_may(start_server: StartServer) -> None:
    auth = people()

    @auth.on.assistants
    async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
        if ctx.action == "create":
            value["metadata"] = {**(value.get("metadata") or {}), "owner": ctx.user.identity}
        return {"owner": ctx.user.identity}

    @auth.on.threads.create_run
    async def some(ctx: Auth.types.AuthContext, value: Auth.types.RunsCreate) -> bool:
        return ctx.user.identity != "u3" or value["assistant_id"] != "echo"

    running = start_server(auth=auth)
    async with httpx.AsyncClient(base_url=running.url, headers=as_user("u1")) as http:
        body = {"graph_id": "context", "assistant_id": "of-u1", "context": {"name": "u1"}}
        assert (await http.post("/assistants", json=body)).status_code == 200
    seen = {}
    for user in ("u1", "u2", "u3"):
        async with speaking(running.url, headers=as_user(user)) as client:
            seen[user] = {tool.name for tool in (await client.list_tools()).tools}
            if user == "u1":
                assert text(await client.call_tool("of-u1", {})).count("u1") == 1
            else:
                with pytest.raises(MCPError, match="there is no tool"):
                    await client.call_tool("of-u1", {})
            if user == "u3":
                with pytest.raises(MCPError) as caught:
                    await client.call_tool("echo", SAYING)
                assert (caught.value.error.code, caught.value.error.data["code"]) == (-32000, "denied")
    assert seen["u1"] - seen["u2"] == {"of-u1"}
    assert "echo" in seen["u2"]
    async with httpx.AsyncClient(base_url=running.url) as http:
        assert (await http.post("/mcp", json=message("ping"))).status_code == 401


# ---- Clients that wait, and clients that leave.


async def test_signs_of_life_while_it_runs(start_server: StartServer, alone: Running) -> None:
    limits = replace(alone.server.parts.settings.limits, heartbeat=0.1)
    running = start_server(limits=limits)
    call = message("tools/call", {"name": "slow", "arguments": {"steps": 1, "delay": 0.25}})
    async with httpx.AsyncClient(base_url=running.url, timeout=PATIENCE) as http:
        answered = await http.post("/mcp", json=call)
    assert answered.text.startswith("\n")
    assert answered.json()["result"]["structuredContent"]["n"] == 1


async def test_the_run_of_who_leaves_is_stopped(alone: Running, plain: httpx.AsyncClient) -> None:
    runs = alone.server.parts.storage.runs
    call = message("tools/call", {"name": "slow", "arguments": {"steps": 1000}})
    asking = asyncio.create_task(plain.post("/mcp", json=call))
    (run,) = await eventually(lambda: runs.search(RunQuery(statuses=[RunStatus.RUNNING])).rows)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    def ended() -> Any:
        found = runs.get(run.run_id)
        return found if found is not None and found.status == RunStatus.INTERRUPTED else None

    assert (await eventually(ended)).cancel_reason == LEFT
