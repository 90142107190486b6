"""The thread protocol through the SDK, by both transports, and what it says of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.sse import SSEDecoder, aiter_lines_raw

from tests.server.conftest import PATIENCE, Running, eventually

TRANSPORTS = ("sse", "websocket")

Event = dict[str, Any]


async def soon(waiting: Any) -> Any:
    async with asyncio.timeout(PATIENCE):
        return await waiting


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_a_run_is_started_and_told_on_every_channel(client: LangGraphClient, transport: Any) -> None:
    async with client.threads.stream(assistant_id="slow", transport=transport) as thread:
        events: list[Any] = []

        async def listen() -> None:
            async for event in thread.events:
                events.append(event)

        listening = asyncio.create_task(listen())
        started = await thread.run.start(input={"steps": 2})
        assert (await soon(thread.output))["log"] == ["tick1", "tick2"]
        await eventually(lambda: events and events[-1]["event_id"].endswith(":end"))
        listening.cancel()
    events = [event for event in events if event["type"] == "event"]
    assert {event["method"] for event in events} >= {"values", "updates", "tasks", "checkpoints", "custom"}
    assert {event["event_id"].partition(":")[0] for event in events} == {started["run_id"]}
    assert len({event["event_id"] for event in events}) == len(events)
    seqs = [event["seq"] for event in events]
    assert seqs == sorted(seqs)
    lives = [event["params"]["data"] for event in events if event["method"] == "lifecycle"]
    names = ["started", "running", "completed"]
    assert lives == [{"event": name, "graph_name": "slow"} for name in names]


@pytest.mark.parametrize("transport", TRANSPORTS)
async def test_questions_are_answered(client: LangGraphClient, transport: Any) -> None:
    async with client.threads.stream(assistant_id="hitl", transport=transport) as thread:
        await thread.run.start(input={"n": 1})
        await eventually(lambda: thread.interrupted)
        (asked,) = thread.interrupts
        assert asked["value"] == {"question": "ok?"}
        # At once: the run that asks may not have come to rest.
        await thread.run.respond("yes")
        assert (await soon(thread.output))["answer"] == "yes"


async def test_a_failure_is_told(client: LangGraphClient) -> None:
    async with client.threads.stream(assistant_id="fail") as thread:
        await thread.run.start(input={"n": 1})
        with pytest.raises(RuntimeError, match="ValueError: boom from node"):
            await soon(thread.output)


async def test_messages_and_tool_calls_are_told(client: LangGraphClient) -> None:
    async with client.threads.stream(assistant_id="chat") as thread:
        texts, calls, telling = [], [], []

        async def read() -> None:
            async for message in thread.messages:
                telling.append(asyncio.create_task(_text(message)))

        async def count() -> None:
            async for call in thread.tool_calls:
                calls.append(call)

        reading = [asyncio.create_task(read()), asyncio.create_task(count())]
        await thread.run.start(input={"messages": [{"role": "user", "content": "weather"}]})
        await soon(thread.output)
        await asyncio.wait(reading, timeout=PATIENCE)
        texts = [await soon(each) for each in telling]
    assert texts == ["", "Grüße, Welt 日本語 🚢"]
    assert len(calls) == 1


async def _text(message: Any) -> str:
    return str(await message.text)


async def test_a_thread_that_has_had_runs_tells_of_the_new_one(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    for number in (1, 2, 3):
        async with client.threads.stream(thread_id, assistant_id="slow") as thread:
            await thread.run.start(input={"steps": 1, "n": 0})
            # The end of the run before is not taken for that of this one.
            assert len((await soon(thread.output))["log"]) == number


async def command(http: httpx.AsyncClient, thread_id: str, method: str, **params: Any) -> Any:
    body = {"id": 7, "method": method, "params": params}
    answer = await http.post(f"/threads/{thread_id}/commands", json=body)
    assert answer.status_code == 200
    found = answer.json()
    assert found["id"] == 7
    return found["result"] if found["type"] == "success" else (found["error"], found["message"])


async def events(http: httpx.AsyncClient, thread_id: str, ends: int = 1, **asked: Any) -> list[Event]:
    """Read events until so many runs have ended; ids and names of the frames are those of the events."""
    found: list[Event] = []
    body = {"channels": ["lifecycle"], **asked}
    async with http.stream("POST", f"/threads/{thread_id}/stream/events", json=body) as response:
        assert response.status_code == 200
        decoder = SSEDecoder()
        async for line in aiter_lines_raw(response):
            part: Any = decoder.decode(bytes(line))
            if part is not None:
                found.append(part.data)
                assert (part.event, part.id) == (part.data["method"], str(part.data["seq"]))
                if sum(event["event_id"].endswith(":end") for event in found) == ends:
                    break
    return found


async def test_events_begin_where_the_client_left_off(http: httpx.AsyncClient) -> None:
    asked = {"channels": ["values", "custom", "lifecycle"]}
    # The thread is not there yet.
    reading = asyncio.create_task(events(http, "protocol-since", 1, **asked))
    first = await command(http, "protocol-since", "run.start", assistant_id="slow", input={"steps": 2})
    seen = await reading
    assert await events(http, "protocol-since", 1, **asked) == seen
    for place in range(len(seen) - 1):
        rest = await events(http, "protocol-since", 1, **asked, since=seen[place]["seq"])
        assert rest == seen[place + 1 :]
    second = await command(http, "protocol-since", "run.start", assistant_id="echo", input={})
    latest = await events(http, "protocol-since", 1, **asked)
    assert {each["event_id"].partition(":")[0] for each in latest} == {second["run_id"]}
    both = await events(http, "protocol-since", 2, **asked, since=0)
    assert both[: len(seen)] == seen
    runs = [each["event_id"].partition(":")[0] for each in both]
    assert list(dict.fromkeys(runs)) == [first["run_id"], second["run_id"]]
    assert [each["seq"] for each in both] == sorted(each["seq"] for each in both)


async def test_runs_of_the_other_kind_are_told_too(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    modes: Any = ["values", "updates", "custom", "tasks", "checkpoints", "messages-tuple"]
    await client.runs.create(thread_id, "slow", input={"steps": 1}, stream_mode=modes)
    channels = ["values", "updates", "custom", "tasks", "checkpoints", "messages", "lifecycle", "tools"]
    told = await events(http, thread_id, channels=channels)
    methods = [event["method"] for event in told]
    assert set(methods) == {"values", "updates", "custom", "tasks", "checkpoints", "lifecycle"}
    lives = [event["params"]["data"]["event"] for event in told if event["method"] == "lifecycle"]
    assert lives == ["started", "running", "completed"]
    assert len({event["event_id"] for event in told}) == len(told)
    run = await client.runs.create(thread_id, "hitl", input={}, stream_mode=["values"])
    await client.runs.join(thread_id, run["run_id"])
    asked = await events(http, thread_id, channels=["input", "lifecycle"])
    assert [event["method"] for event in asked] == ["lifecycle", "lifecycle", "input.requested", "lifecycle"]
    assert asked[2]["params"]["data"]["value"] == asked[2]["params"]["data"]["payload"] == {"question": "ok?"}
    assert asked[3]["params"]["data"] == {"event": "interrupted", "graph_name": "hitl"}
    interrupt_id = asked[2]["params"]["data"]["interrupt_id"]
    # The answer makes a run of this protocol, which a run's stream shows as its own.
    result = await command(http, thread_id, "input.respond", interrupt_id=interrupt_id, response="so")
    parts = [part async for part in client.runs.join_stream(thread_id, result["run_id"], last_event_id="-1")]
    assert parts[-1].data["status"] == "success"
    assert [part.data for part in parts if part.event == "values"][-1]["answer"] == "so"


async def test_events_of_graphs_inside_are_asked_for_by_namespace(http: httpx.AsyncClient) -> None:
    await command(http, "protocol-ns", "run.start", assistant_id="subgraph", input={"n": 1})

    async def namespaces(**asked: Any) -> set[str]:
        everything: Any = {"channels": ["values", "updates", "lifecycle"], "since": 0}
        told = await events(http, "protocol-ns", 1, **everything, **asked)
        return {"/".join(one.partition(":")[0] for one in each["params"]["namespace"]) for each in told}

    assert await namespaces() == {"", "inner"}
    assert await namespaces(depth=0) == {""}
    assert await namespaces(namespaces=[[]], depth=0) == {""}
    assert await namespaces(namespaces=[[], ["inner"]], depth=1) == {"", "inner"}
    tree = (await command(http, "protocol-ns", "agent.getTree"))["tree"]
    assert (tree["namespace"], tree["status"], tree["graph_name"]) == ([], "completed", "subgraph")
    (child,) = tree["children"]
    assert child["namespace"][0].startswith("inner:")


async def test_state_is_read_and_forked(http: httpx.AsyncClient, client: LangGraphClient) -> None:
    thread_id = "protocol-state"
    started = await command(http, thread_id, "run.start", assistant_id="slow", input={"steps": 2})
    await client.runs.join(thread_id, started["run_id"])
    state = await command(http, thread_id, "state.get", namespace=[], keys=["n", "nothing"])
    assert state["values"] == {"n": 2}
    listed = (await command(http, thread_id, "state.listCheckpoints", limit=10))["checkpoints"]
    assert listed[0]["id"] == state["checkpoint"]["id"]
    assert [each["step"] for each in listed] == [2, 1, 0, -1]
    before = listed[1]["id"]
    assert (await command(http, thread_id, "state.listCheckpoints", before=before))["checkpoints"] == listed[
        2:
    ]
    forked = await command(http, thread_id, "state.fork", checkpoint_id=before)
    assert forked["thread_id"] == thread_id
    assert (await client.runs.join(thread_id, forked["run_id"]))["log"] == ["tick1", "tick2"]
    found = await command(http, thread_id, "state.fork", checkpoint_id="1f1ed856-4627-68c1-8000-53bcba701cbe")
    assert found[0] == "no_such_checkpoint"
    assert (await command(http, thread_id, "state.get", namespace=["nobody"]))[0] == "no_such_namespace"
    from_there = {"assistant_id": "slow", "input": None, "forkFrom": before, "multitaskStrategy": "reject"}
    again = await command(http, thread_id, "run.start", **from_there)
    assert (await client.runs.join(thread_id, again["run_id"]))["log"] == ["tick1", "tick2"]


async def test_commands_that_cannot_be_obeyed_are_refused_by_the_protocols_words(
    http: httpx.AsyncClient, client: LangGraphClient
) -> None:
    thread_id = (await client.threads.create())["thread_id"]

    async def refused(method: str, **params: Any) -> str:
        found = await command(http, thread_id, method, **params)
        assert isinstance(found, tuple)
        assert found[1]
        return str(found[0])

    assert await refused("run.stop") == "unknown_command"
    assert await refused("run.start") == "invalid_argument"
    assert await refused("run.start", assistant_id="nobody") == "invalid_argument"
    assert await refused("run.start", assistant_id="echo", inputs={}) == "invalid_argument"
    assert await refused("agent.getTree") == "no_such_run"
    assert await refused("input.respond", interrupt_id="x", response=1) == "no_such_interrupt"
    assert await refused("input.respond") == "invalid_argument"
    assert await refused("input.inject", namespace=[], message={}) == "unknown_command"
    assert await refused("subscription.subscribe", channels=["values"]) == "not_supported"
    for body in (b"", b"[]", b'{"id":1}', b'{"id":-1,"method":"x"}', b'{"id":1,"method":"x","more":1}'):
        answer = await http.post(f"/threads/{thread_id}/commands", content=body)
        assert answer.status_code == 400
        assert {**answer.json(), "message": ""} == {
            "type": "error",
            "id": None,
            "error": "invalid_argument",
            "message": "",
        }
    path = f"/threads/{thread_id}/stream/events"
    assert (await http.post(path, json={"channels": ["value"]})).json()["field"] == "channels"
    values = {"channels": ["values"]}
    wrong: Any
    for wrong in ({}, {"channels": []}, {**values, "since": -1}, {**values, "x": 1}):
        assert (await http.post(path, json=wrong)).status_code == 422


async def test_several_questions_are_answered_at_once(
    http: httpx.AsyncClient, client: LangGraphClient
) -> None:
    await command(http, "protocol-many", "run.start", assistant_id="parallel", input={})
    told = await events(http, "protocol-many", channels=["input", "lifecycle"])
    asked = [event for event in told if event["method"] == "input.requested"]
    assert len(asked) == 2
    answers = [
        {"interrupt_id": each["params"]["data"]["interrupt_id"], "response": number, "namespace": []}
        for number, each in enumerate(asked)
    ]
    found = await command(http, "protocol-many", "input.respond", responses=answers)
    assert sorted((await client.runs.join("protocol-many", found["run_id"]))["log"])[0].startswith("left")


async def test_who_comes_back_to_a_question_hears_it_again(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    for _ in range(2):
        async with client.threads.stream(thread_id, assistant_id="hitl") as thread:
            await thread.run.start(input={})
            await eventually(lambda: thread.interrupted)
        async with client.threads.stream(thread_id, assistant_id="hitl") as thread:
            thread._ensure_lifecycle_watcher_running()
            await eventually(lambda: thread.interrupted)
            await thread.run.respond("later")
            assert (await soon(thread.output))["answer"] == "later"


async def test_nobody_is_left_behind(running: Running, client: LangGraphClient) -> None:
    parts = running.server.parts
    async with client.threads.stream(assistant_id="echo") as thread:
        await thread.run.start(input={})
        await soon(thread.output)
        await eventually(lambda: parts.thread_followers.news.watching)
    await eventually(lambda: not parts.thread_followers.news.watching and not parts.followers.following)
