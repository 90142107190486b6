"""What a run can be told: where to begin, what to resume with, where to stop, how durable to be."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient

from tests.server.conftest import Running

HELLO: Any = {"messages": ["hello"]}


@pytest.fixture
async def thread_id(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def wait(client: LangGraphClient, thread_id: str | None, graph: str, **said: Any) -> Any:
    return await client.runs.wait(thread_id, graph, **said)


# ---- Interrupts and commands.


async def test_a_question_is_answered(client: LangGraphClient, thread_id: str) -> None:
    asked = await wait(client, thread_id, "hitl", input={})
    (question,) = asked["__interrupt__"]
    assert question["value"] == {"question": "ok?"}
    assert (await client.threads.get(thread_id))["status"] == "interrupted"
    answered = await wait(client, thread_id, "hitl", command={"resume": "yes"})
    assert (answered["answer"], answered["log"]) == ("yes", ["before", "answered yes"])
    assert (await client.threads.get(thread_id))["status"] == "idle"
    assert [run["status"] for run in await client.runs.list(thread_id)] == ["success"] * 2


async def test_questions_are_answered_by_their_ids(client: LangGraphClient, thread_id: str) -> None:
    asked = await wait(client, thread_id, "parallel", input={})
    answers = {each["id"]: each["value"]["question"].upper() for each in asked["__interrupt__"]}
    assert len(answers) == 2
    answered = await wait(client, thread_id, "parallel", command={"resume": answers})
    assert sorted(answered["log"]) == ["left LEFT?", "right RIGHT?"]


@pytest.mark.parametrize("resume", [0, False, "", [], {"a": 1}])
async def test_any_answer_can_be_given(client: LangGraphClient, thread_id: str, resume: Any) -> None:
    await wait(client, thread_id, "hitl", input={})
    answered = await wait(client, thread_id, "hitl", command={"resume": resume})
    assert answered["answer"] == resume


async def test_a_command_updates_and_goes_elsewhere(client: LangGraphClient, thread_id: str) -> None:
    await wait(client, thread_id, "slow", input={"steps": 1, "delay": 0.001})
    command: Any = {"update": {"steps": 4}, "goto": "tick"}
    found = await wait(client, thread_id, "slow", command=command)
    assert (found["n"], found["steps"]) == (4, 4)
    sent: Any = {"goto": {"node": "tick", "input": {"n": 90, "delay": 0.001}}}
    assert (await wait(client, thread_id, "slow", command=sent))["n"] == 91
    pairs: Any = {"update": [["n", 3], ["steps", 5]], "goto": ["tick"]}
    assert (await wait(client, thread_id, "slow", command=pairs))["n"] == 5


@pytest.mark.parametrize("when", ["interrupt_before", "interrupt_after"])
@pytest.mark.parametrize("where", [["ask"], "*"])
async def test_a_run_stops_at_nodes_and_goes_on_without_input(
    client: LangGraphClient, thread_id: str, when: str, where: Any
) -> None:
    graph = "echo" if where == "*" else "hitl"
    names = where if where == "*" else (["ask"] if when == "interrupt_before" else ["before"])
    await wait(client, thread_id, graph, input=HELLO, **{when: names})
    thread = await client.threads.get(thread_id)
    stopped = await client.threads.get_state(thread_id)
    if (graph, when) != ("echo", "interrupt_after"):
        assert stopped["next"] == (["echo"] if graph == "echo" else ["ask"])
        assert thread["status"] == "interrupted"
    going = await wait(client, thread_id, graph, input=None)
    if graph == "echo":
        assert len(going["messages"]) == 2
    else:
        assert going["__interrupt__"]


# ---- Checkpoints.


@pytest.mark.parametrize("form", ["checkpoint", "checkpoint_id", "configurable"])
async def test_a_run_can_begin_in_the_past(client: LangGraphClient, thread_id: str, form: str) -> None:
    await wait(client, thread_id, "echo", input={"messages": ["first"]})
    past = (await client.threads.get_state(thread_id))["checkpoint"]
    await wait(client, thread_id, "echo", input={"messages": ["second"]})
    if form == "checkpoint":
        said: dict[str, Any] = {"checkpoint": past}
    elif form == "checkpoint_id":
        said = {"checkpoint_id": past["checkpoint_id"]}
    else:
        said = {"config": {"configurable": {"checkpoint_id": past["checkpoint_id"]}}}
    found = await wait(client, thread_id, "echo", input={"messages": ["other"]}, **said)
    assert found["messages"][::2] == ["first", "other"]
    state: Any = await client.threads.get_state(thread_id)
    assert state["values"]["messages"][::2] == ["first", "other"]
    # The past that was left is still there.
    history: Any = await client.threads.get_history(thread_id, limit=50)
    assert any("second" in state["values"].get("messages", ()) for state in history)


async def test_a_run_from_a_checkpoint_that_is_none_does_not_begin_anew(
    client: LangGraphClient, thread_id: str
) -> None:
    await wait(client, thread_id, "echo", input=HELLO)
    gone = "1ef4f797-8335-6428-8001-8a1503f9b875"
    found = await wait(client, thread_id, "echo", input=HELLO, checkpoint_id=gone, raise_error=False)
    assert gone in found["__error__"]["message"]
    state: Any = await client.threads.get_state(thread_id)
    assert len(state["values"]["messages"]) == 2


# ---- Durability and limits.


@pytest.mark.parametrize(
    ("said", "many"),
    [
        ({"durability": "sync"}, 6),
        ({"durability": "async"}, 6),
        ({"durability": "exit"}, 1),
        ({"checkpoint_during": True}, 6),
        ({"checkpoint_during": False}, 1),
        ({}, 6),
    ],
)
@pytest.mark.filterwarnings("ignore:`checkpoint_during` is deprecated")
async def test_durability_decides_which_checkpoints_are_kept(
    client: LangGraphClient, thread_id: str, said: dict[str, Any], many: int
) -> None:
    await wait(client, thread_id, "slow", input={"steps": 4, "delay": 0.001}, **said)
    assert len(await client.threads.get_history(thread_id, limit=50)) == many


async def test_a_run_takes_no_more_steps_than_it_may(client: LangGraphClient, thread_id: str) -> None:
    given = {"steps": 50, "delay": 0.001}
    found = await wait(
        client, thread_id, "slow", input=given, config={"recursion_limit": 5}, raise_error=False
    )
    assert found["__error__"]["error"] == "GraphRecursionError"
    assert (await client.runs.list(thread_id))[0]["status"] == "error"
    assert (await client.threads.get(thread_id))["status"] == "error"
    with pytest.raises(Exception, match="GraphRecursionError"):
        await wait(client, thread_id, "slow", input=given, config={"recursion_limit": 5})


async def test_strict_answers_to_no_question_are_refused(client: LangGraphClient, thread_id: str) -> None:
    await wait(client, thread_id, "echo", input=HELLO)
    command: Any = {"resume": {"0" * 32: "yes"}}
    found = await wait(client, thread_id, "hitl", command=command, strict_resume=True, raise_error=False)
    assert found["__error__"]["error"] == "UnknownInterruptError"


# ---- Assistants and contexts.


async def test_a_run_gets_its_assistants_context_with_the_callers_over_it(
    client: LangGraphClient, thread_id: str
) -> None:
    own = await client.assistants.create("context", context={"name": "of the assistant"})
    identity = own["assistant_id"]
    assert (await wait(client, thread_id, identity, input={}))["answer"] == {"name": "of the assistant"}
    found = await wait(client, thread_id, identity, input={}, context={"name": "of the run"})
    assert found["answer"] == {"name": "of the run"}


async def test_a_run_that_waits_keeps_the_version_that_it_was_made_with(
    client: LangGraphClient, thread_id: str, running: Running
) -> None:
    own = await client.assistants.create("context", context={"name": "one"})
    later = await client.runs.create(thread_id, own["assistant_id"], input={}, after_seconds=3600)
    await client.assistants.update(own["assistant_id"], context={"name": "two"})
    run = running.server.parts.storage.runs.get(later["run_id"])
    assert run is not None
    assert run.assistant_version == 1


# ---- Streams.


async def test_a_stream_can_be_narrowed_to_namespaces(http: httpx.AsyncClient) -> None:
    body = {"assistant_id": "subgraph", "input": {}, "stream_mode": "values", "stream_subgraphs": True}
    whole = await http.post("/runs/stream", json=body)
    names = {line for line in whole.text.splitlines() if line.startswith("event: values")}
    assert len(names) == 2
    root = await http.post("/runs/stream", json=body, params={"namespace": '[""]'})
    shown = {line for line in root.text.splitlines() if line.startswith("event: ")}
    assert shown == {"event: metadata", "event: values", "event: end"}


@pytest.mark.parametrize("modes", [None, "values", ["values", "updates"]])
async def test_a_run_can_be_joined_with_any_of_its_modes(
    client: LangGraphClient, thread_id: str, modes: Any
) -> None:
    run = await client.runs.create(
        thread_id, "slow", input={"steps": 3, "delay": 0.001}, stream_mode=["values", "updates"]
    )
    found = [
        part.event async for part in client.runs.join_stream(thread_id, run["run_id"], stream_mode=modes)
    ]
    assert found.count("values") == 4
    assert found.count("updates") == (0 if modes == "values" else 3)
    assert found[-1] == "end"


async def test_who_joins_nothing_is_told(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    for tail in ("join", "stream"):
        assert (await http.get(f"/threads/{thread_id}/runs/{uuid4()}/{tail}")).status_code == 404
