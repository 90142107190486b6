"""The Agent2Agent protocol to plain messages: cards, what is refused, and in which words."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any, Final
from uuid import uuid4

import httpx
import orjson
import pytest
from a2a.compat.v0_3 import types as wire
from langgraph.func import entrypoint
from langgraph.graph import START, StateGraph
from langgraph.types import interrupt

from stateroom.api import a2a
from stateroom.api.a2a_tasks import Waiting
from stateroom.boot.compose import Server
from stateroom.settings import HttpSettings, Settings
from tests.server.auths import beside
from tests.server.conftest import PATIENCE, Running, StartServer, run_in_thread
from tests.server.graphs import State

CARD: Final = "/.well-known/agent-card.json"
HELLO: Final[dict[str, Any]] = {"kind": "text", "text": "Hello"}


@entrypoint()
async def shout(words: str) -> str:
    return words.upper()


@entrypoint()
async def count(given: dict[str, Any]) -> dict[str, Any]:
    return {"messages": [{"role": "ai", "content": f"{len(given['messages'])} message"}]}


go_on = threading.Event()


async def dawdle(_: State) -> dict[str, Any]:
    found = interrupt("ok?")
    if not go_on.is_set():
        await asyncio.get_running_loop().create_future()
    return {"answer": found}


# LangGraph's types want a node's state to be called so.
dawdling: Any = dawdle
stubborn = StateGraph(State).add_node("dawdle", dawdling).add_edge(START, "dawdle").compile()


@pytest.fixture(scope="module")
def agents(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server for what no storage makes a difference to."""
    settings = new_settings("sqlite", descriptions={"echo": "Says it again."})
    running = run_in_thread(Server(settings, graphs={"shout": shout, "count": count, "stubborn": stubborn}))
    yield running
    running.close()


@pytest.fixture
async def http(agents: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client that sends what it is given."""
    async with httpx.AsyncClient(base_url=agents.url, timeout=PATIENCE) as http:
        yield http


def message(*parts: Any, **fields: Any) -> dict[str, Any]:
    found = {"messageId": "1", "role": "user", "parts": list(parts) or [HELLO], **fields}
    return {"message": found}


async def ask(http: httpx.AsyncClient, agent: str, method: str, params: Any, **headers: str) -> Any:
    body = {"jsonrpc": "2.0", "id": "7", "method": method, "params": params}
    answered = await http.post(f"/a2a/{agent}", json=body, headers=headers)
    assert answered.status_code == 200, answered.text
    found = answered.json()
    assert (found["jsonrpc"], found["id"]) == ("2.0", "7")
    return found


async def sent(http: httpx.AsyncClient, agent: str, params: Any) -> dict[str, Any]:
    """Send a message; return the task, which fits the protocol's own schema."""
    found = await ask(http, agent, "message/send", params)
    task: dict[str, Any] = found["result"]
    wire.Task.model_validate(task)
    return task


# ---- Cards.


async def test_card(http: httpx.AsyncClient, agents: Running) -> None:
    card = (await http.get(CARD, params={"assistant_id": "echo"})).json()
    wire.AgentCard.model_validate(card)
    assert card["url"] == f"{agents.url}/a2a/echo"
    assert (card["name"], card["description"], card["version"]) == ("echo", "Says it again.", "1")
    assert (card["protocolVersion"], card["preferredTransport"]) == ("0.3.0", "JSONRPC")
    assert card["capabilities"]["streaming"] is True
    assert [skill["id"] for skill in card["skills"]] == ["echo"]
    assert (await http.get(f"/a2a/echo{CARD}")).json() == card


async def test_card_of_an_assistant(http: httpx.AsyncClient) -> None:
    made = {"graph_id": "echo", "name": "Ecco", "description": "Says it in Italian."}
    assistant = (await http.post("/assistants", json=made)).json()["assistant_id"]
    card = (await http.get(CARD, params={"assistant_id": assistant})).json()
    assert (card["name"], card["description"]) == ("Ecco", "Says it in Italian.")
    assert card["url"].endswith(f"/a2a/{assistant}")
    task = await sent(http, assistant, message())
    assert task["status"]["state"] == "completed"


async def test_card_of_nobody(http: httpx.AsyncClient) -> None:
    missing = await http.get(CARD)
    assert (missing.status_code, missing.json()["field"]) == (400, "assistant_id")
    assert (await http.get(CARD, params={"assistant_id": str(uuid4())})).status_code == 404
    assert (await http.get(f"/a2a/nobody{CARD}")).status_code == 404
    assert (await http.post("/a2a/nobody", json={})).status_code == 404


async def test_card_below_a_prefix(agents: Running) -> None:
    settings = HttpSettings(mount_prefix="/agents")
    async with beside(agents, http=settings) as http:
        card = (await http.get(f"/agents{CARD}", params={"assistant_id": "echo"})).json()
        assert card["url"] == "http://x/agents/a2a/echo"


async def test_disabled(agents: Running) -> None:
    async with beside(agents, http=HttpSettings(disabled=frozenset({"a2a"}))) as http:
        assert (await http.post("/a2a/echo", json={})).status_code == 404
        assert (await http.get(CARD, params={"assistant_id": "echo"})).status_code == 404
        assert (await http.get("/info")).json()["flags"]["a2a"] is False


# ---- Messages.


async def test_texts_are_one_message(http: httpx.AsyncClient) -> None:
    task = await sent(http, "echo", message(HELLO, {"kind": "text", "text": "World"}))
    assert task["history"][0]["parts"] == [{"kind": "text", "text": "Hello\nWorld"}]
    assert "'content': 'Hello\\nWorld'" in task["artifacts"][0]["parts"][0]["text"]


async def test_messages_of_one_id_stay_two(http: httpx.AsyncClient) -> None:
    first = await sent(http, "chat", message(contextId=(context := str(uuid4()))))
    second = await sent(http, "chat", message(contextId=context))
    assert first["contextId"] == second["contextId"] == context
    state = (await http.get(f"/threads/{context}/state")).json()
    assert len(state["values"]["messages"]) == 4


async def test_graph_that_does_not_say_what_it_takes(http: httpx.AsyncClient) -> None:
    task = await sent(http, "count", message())
    assert task["artifacts"][0]["parts"] == [{"kind": "text", "text": "1 message"}]


async def test_metadata_is_the_runs(http: httpx.AsyncClient) -> None:
    params = {**message(metadata={"b": 2, "a2a_task_id": "x"}), "metadata": {"a": 1}}
    task = await sent(http, "echo", params)
    run = (await http.get(f"/threads/{task['contextId']}/runs/{task['id']}")).json()
    assert run["metadata"] == {"a": 1, "b": 2}


async def test_run_of_elsewhere_is_a_task(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    body = {"assistant_id": "hitl", "input": {"messages": [{"role": "user", "content": "Hi"}]}}
    await http.post(f"/threads/{thread}/runs/wait", json=body)
    (run,) = (await http.get(f"/threads/{thread}/runs")).json()
    task = (await ask(http, "hitl", "tasks/get", {"id": run["run_id"]}))["result"]
    assert (task["status"]["state"], task["contextId"]) == ("input-required", thread)
    answered = await sent(http, "hitl", message(taskId=task["id"]))
    assert (answered["id"], answered["status"]["state"]) == (task["id"], "completed")


async def test_run_that_is_due_later_hides_no_question(http: httpx.AsyncClient) -> None:
    asked = await sent(http, "hitl", message())
    runs = f"/threads/{asked['contextId']}/runs"
    body = {"assistant_id": "hitl", "input": {}, "after_seconds": 3600}
    assert (await http.post(runs, json=body)).status_code == 200
    answered = await sent(http, "hitl", message(contextId=asked["contextId"]))
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], "completed")


async def test_answer_that_was_stopped_is_given_again(http: httpx.AsyncClient) -> None:
    asked = await sent(http, "stubborn", message())
    where = {"contextId": asked["contextId"]}
    later = {**message(**where), "configuration": {"blocking": False}}
    first = (await ask(http, "stubborn", "message/send", later))["result"]
    stopped = (await ask(http, "stubborn", "tasks/cancel", {"id": first["id"]}))["result"]
    assert (stopped["id"], stopped["status"]["state"]) == (asked["id"], "canceled")
    go_on.set()
    again = await sent(http, "stubborn", message(**where))
    assert (again["id"] != asked["id"], again["status"]["state"]) == (True, "completed")


# ---- Streams.


async def test_events_are_the_protocols_own(http: httpx.AsyncClient) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": message()}
    answered = await http.post("/a2a/chat", json=body)
    assert answered.headers["content-type"].startswith("text/event-stream")
    blocks = [block for block in answered.text.split("\n\n") if block and not block.startswith(":")]
    found = [orjson.loads(block.removeprefix("data: ")) for block in blocks]
    for each in found:
        wire.SendStreamingMessageSuccessResponse.model_validate(each)
    results = [each["result"] for each in found]
    assert [each["kind"] for each in results[:2]] == ["task", "status-update"]
    assert [each.get("final") for each in results if each["kind"] == "status-update"] == [False, True]
    assert results[-1]["final"] is True


async def test_stream_is_cut_when_the_server_stops(start_server: StartServer) -> None:
    server = start_server()
    part = {"kind": "data", "data": {"steps": 1000, "delay": 0.02}}
    body = {"jsonrpc": "2.0", "id": 1, "method": "message/stream", "params": message(part)}
    async with (
        httpx.AsyncClient(base_url=server.url, timeout=PATIENCE) as http,
        http.stream("POST", "/a2a/slow", json=body) as answered,
    ):
        stream = answered.aiter_bytes()
        assert b'"kind":"task"' in await anext(stream)
        stopping = asyncio.create_task(asyncio.to_thread(server.close))
        with pytest.raises(httpx.RemoteProtocolError):
            assert [chunk async for chunk in stream] == []
        await stopping


# ---- What is refused.

OF_PARTS: Final[list[tuple[Any, int, str]]] = [
    ({"kind": "text"}, -32602, "message.parts[0].text"),
    ({"kind": "data", "text": "x"}, -32602, "message.parts[0].data"),
    ({"kind": "sound"}, -32602, "message.parts[0].kind"),
    ({"kind": "file", "file": {"uri": "https://example.com/x.pdf"}}, -32005, "message.parts[0]"),
    ({"kind": "data", "data": {"messages": []}}, -32602, "message.parts[0].data.messages"),
    ({"kind": "data", "data": {"colour": "red"}}, -32602, "message.parts[0].data.colour"),
]


@pytest.mark.parametrize(("part", "code", "field"), OF_PARTS)
async def test_parts(http: httpx.AsyncClient, part: Any, code: int, field: str) -> None:
    error = (await ask(http, "echo", "message/send", message(part)))["error"]
    assert (error["code"], error["data"]) == (code, {"field": field})
    assert field in error["message"]


async def test_data_that_is_given_twice(http: httpx.AsyncClient) -> None:
    part = {"kind": "data", "data": {"n": 1}}
    error = (await ask(http, "echo", "message/send", message(part, part)))["error"]
    assert (error["code"], error["data"]["field"]) == (-32602, "message.parts[1].data.n")


NOBODYS: Final = str(uuid4())
PUSH: Final = {"pushNotificationConfig": {"url": "https://example.com"}}

OF_METHODS: Final[list[tuple[str, Any, int, str | None]]] = [
    ("message/send", {}, -32602, "message"),
    ("message/send", {"message": {"role": "user", "parts": [HELLO]}}, -32602, "message.messageId"),
    ("message/send", message(role="agent"), -32602, "message.role"),
    ("message/send", message(colour="red"), -32602, "message.colour"),
    ("message/send", message(contextId="a/b"), -32602, "message.contextId"),
    ("message/send", message(taskId=NOBODYS), -32001, "message.taskId"),
    ("message/stream", message(taskId="x"), -32001, "message.taskId"),
    ("message/send", {**message(), "configuration": PUSH}, -32003, "configuration.pushNotificationConfig"),
    (
        "message/send",
        {**message(), "configuration": {"acceptedOutputModes": ["image/png"]}},
        -32005,
        "configuration.acceptedOutputModes",
    ),
    (
        "message/send",
        {**message(), "configuration": {"historyLength": -1}},
        -32602,
        "configuration.historyLength",
    ),
    ("tasks/get", {}, -32602, "id"),
    ("tasks/get", {"id": NOBODYS}, -32001, "id"),
    ("tasks/get", {"id": "x\x00y"}, -32001, "id"),
    ("tasks/cancel", {"id": NOBODYS}, -32001, "id"),
    ("tasks/resubscribe", {"id": NOBODYS}, -32001, "id"),
    ("tasks/pushNotificationConfig/set", {}, -32003, None),
    ("agent/getAuthenticatedExtendedCard", {}, -32007, None),
    ("SendMessage", {}, -32601, None),
]


@pytest.mark.parametrize(("method", "params", "code", "field"), OF_METHODS)
async def test_requests(
    http: httpx.AsyncClient, method: str, params: Any, code: int, field: str | None
) -> None:
    error = (await ask(http, "echo", method, params))["error"]
    wire.JSONRPCError.model_validate(error)
    assert (error["code"], (error.get("data") or {}).get("field")) == (code, field), error
    assert field is None or field in error["message"] or code == -32001


@pytest.mark.parametrize(
    ("body", "code"),
    [
        (b"{", -32700),
        (b"[" * 100_000, -32700),
        (b"[]", -32600),
        (b'{"jsonrpc": "1.0", "id": 1, "method": "tasks/get"}', -32600),
        (b'{"jsonrpc": "2.0", "id": true, "method": "tasks/get"}', -32600),
        (b'{"jsonrpc": "2.0", "id": 1, "method": "tasks/get", "params": []}', -32600),
    ],
)
async def test_what_is_no_request(http: httpx.AsyncClient, body: bytes, code: int) -> None:
    answered = await http.post("/a2a/echo", content=body, headers={"content-type": "application/json"})
    assert answered.status_code == 200
    found = answered.json()
    assert (found["id"], found["error"]["code"]) == (None, code)


async def test_what_a_page_sends_unasked(http: httpx.AsyncClient) -> None:
    answered = await http.post("/a2a/echo", content=b"{}", headers={"content-type": "text/plain"})
    error = answered.json()["error"]
    assert (error["code"], error["data"]["field"]) == (-32600, "content-type")


@pytest.mark.parametrize(
    ("version", "code"), [("1.0", -32009), ("0.30", -32009), ("0.3", None), ("0.3.1", None)]
)
async def test_versions(http: httpx.AsyncClient, version: str, code: int | None) -> None:
    found = await ask(http, "echo", "message/send", message(), **{"A2A-Version": version})
    assert found.get("error", {}).get("code") == code


async def test_graph_without_messages(http: httpx.AsyncClient) -> None:
    error = (await ask(http, "shout", "message/send", message()))["error"]
    assert (error["code"], "messages" in error["message"]) == (-32004, True)


async def test_answers_that_do_not_fit(http: httpx.AsyncClient) -> None:
    asked = await sent(http, "parallel", message())
    where = {"contextId": asked["contextId"]}
    one, two = (part["metadata"]["interruptId"] for part in asked["status"]["message"]["parts"])
    for parts in (
        [HELLO],
        [{"kind": "data", "data": {}}],
        [{"kind": "data", "data": {one: 1, "x": 2}}],
        [HELLO, {"kind": "data", "data": {one: 1, two: 2}}],
    ):
        error = (await ask(http, "parallel", "message/send", message(*parts, **where)))["error"]
        assert (error["code"], error["data"]["field"]) == (-32602, "message.parts")
    answered = await sent(http, "parallel", message({"kind": "data", "data": {one: 1, two: 2}}, **where))
    assert (answered["id"], answered["status"]["state"]) == (asked["id"], "completed")


async def test_answer_of_another_task(http: httpx.AsyncClient) -> None:
    done = await sent(http, "echo", message())
    asked = await sent(http, "hitl", message(contextId=done["contextId"]))
    elsewhere = await sent(http, "echo", message())
    error = (await ask(http, "echo", "message/send", message(taskId=done["id"])))["error"]
    assert (error["code"], error["data"]["field"]) == (-32602, "message.taskId")
    assert asked["id"] in error["message"]
    mixed = message(taskId=done["id"], contextId=elsewhere["contextId"])
    error = (await ask(http, "echo", "message/send", mixed))["error"]
    assert (error["code"], error["data"]["field"]) == (-32602, "message.contextId")


async def test_answer_to_what_was_answered_meanwhile(
    http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = await sent(http, "hitl", message(contextId=(await sent(http, "hitl", message()))["contextId"]))

    async def before(*_: Any) -> Waiting:
        return Waiting(done["id"], ["x"])

    monkeypatch.setattr(a2a, "waiting_at", before)
    error = (await ask(http, "hitl", "message/send", message(taskId=done["id"])))["error"]
    assert (error["code"], error["data"]["field"]) == (-32602, "message.taskId")
    assert "answered" in error["message"]


async def test_task_that_is_gone(http: httpx.AsyncClient) -> None:
    task = await sent(http, "echo", message())
    await http.delete(f"/threads/{task['contextId']}/runs/{task['id']}")
    assert (await ask(http, "echo", "tasks/get", {"id": task["id"]}))["error"]["code"] == -32001
