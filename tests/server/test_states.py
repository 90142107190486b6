"""The states of threads through LangGraph's own client: read, in parts, at a checkpoint, and changed."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, ConflictError, NotFoundError

from stateroom.contract.threads import ThreadChange
from stateroom.drivers.sql.threads import SqlThreads
from tests.server.conftest import PATIENCE, Running, eventually

EMPTY: Any = {
    "values": {},
    "next": [],
    "tasks": [],
    "metadata": None,
    "created_at": None,
    "checkpoint": None,
    "parent_checkpoint": None,
    "interrupts": [],
    "checkpoint_id": None,
    "parent_checkpoint_id": None,
}


LOGGED: Any = {"log": ["in"]}


async def make(client: LangGraphClient, graph_id: str | None = "slow", **fields: Any) -> str:
    """Make a thread of a graph; return its id."""
    return str((await client.threads.create(graph_id=graph_id, **fields))["thread_id"])


async def ticked(client: LangGraphClient, *numbers: int) -> str:
    """Make a thread with one checkpoint for each number."""
    identity = await make(client)
    for n in numbers:
        values: Any = {"n": n, "log": [str(n)]}
        await client.threads.update_state(identity, values, as_node="tick")
    return identity


async def test_a_thread_on_which_nothing_was_done_has_an_empty_state(client: LangGraphClient) -> None:
    for graph_id in (None, "slow"):
        identity = await make(client, graph_id)
        assert await client.threads.get_state(identity) == EMPTY
        assert await client.threads.get_state(identity, subgraphs=True) == EMPTY
        nothing: Any = await client.threads.get_state(identity, select=["values"])
        assert nothing == {"values": {}}
        assert await client.threads.get_history(identity) == []


async def test_a_state_has_all_that_the_client_declares(client: LangGraphClient) -> None:
    identity = await make(client, None)
    run: Any = await client.runs.create(identity, "slow", input={"steps": 2, **LOGGED})
    await client.runs.join(identity, run["run_id"])
    state: Any = await client.threads.get_state(identity)
    assert set(state) == set(EMPTY)
    assert state["values"] == {"messages": [], "n": 2, "steps": 2, "log": ["in", "tick1", "tick2"]}
    assert (state["next"], state["tasks"], state["interrupts"]) == ([], [], [])
    assert set(state["checkpoint"]) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert (state["checkpoint"]["thread_id"], state["checkpoint"]["checkpoint_ns"]) == (identity, "")
    assert state["checkpoint_id"] == state["checkpoint"]["checkpoint_id"]
    assert state["parent_checkpoint_id"] == state["parent_checkpoint"]["checkpoint_id"]
    assert state["metadata"]["source"] == "loop"
    assert state["metadata"]["step"] == 2
    assert state["metadata"]["run_id"] == run["run_id"]
    assert state["created_at"]
    thread = await client.threads.get(identity)
    assert thread["values"] == state["values"]
    assert thread["metadata"]["graph_id"] == "slow"  # type: ignore[index]


@pytest.mark.parametrize(
    ("select", "wanted"),
    [
        (["values"], {"values": {"messages": [], "n": 2, "log": ["1", "2"]}}),
        (["next", "interrupts"], {"next": ["tick"], "interrupts": []}),
        (["values.n"], {"values": {"n": 2}}),
        (["values.n", "values.log"], {"values": {"n": 2, "log": ["1", "2"]}}),
        (["values.nope"], {"values": {}}),
        (["values.n", "values"], {"values": {"messages": [], "n": 2, "log": ["1", "2"]}}),
        (["values.n", "next"], {"values": {"n": 2}, "next": ["tick"]}),
    ],
)
async def test_parts_of_a_state_can_be_selected_everywhere(
    client: LangGraphClient, http: httpx.AsyncClient, select: list[str], wanted: dict[str, Any]
) -> None:
    identity = await ticked(client, 1, 2)
    here: Any = (await client.threads.get_state(identity))["checkpoint"]
    at = here["checkpoint_id"]
    assert await client.threads.get_state(identity, select=select) == wanted
    assert await client.threads.get_state(identity, checkpoint_id=at, select=select) == wanted
    assert await client.threads.get_state(identity, checkpoint=here, select=select) == wanted
    assert (await client.threads.get_history(identity, select=select))[0] == wanted
    # As JavaScript's client and others spell it.
    spelled = ",".join(select)
    listed = '["' + '","'.join(select) + '"]'
    for query in (spelled, listed):
        answer = await http.get(f"/threads/{identity}/state", params={"select": query})
        assert answer.json() == wanted, query


async def test_what_is_no_part_of_a_state_is_refused(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = await ticked(client, 1)
    for name in ("nope", "values.", "valuesn", "tasks.id"):
        for path in ("state", "history"):
            answer = await http.get(f"/threads/{identity}/{path}", params={"select": name})
            assert (answer.status_code, answer.json()["field"]) == (422, "select"), name
        for path in ("state/checkpoint", "history"):
            answer = await http.post(f"/threads/{identity}/{path}", json={"select": [name]})
            assert (answer.status_code, answer.json()["field"]) == (422, "select"), name


# ---- at a checkpoint


async def test_a_checkpoint_can_be_named_in_every_form(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = await ticked(client, 1, 2, 3)
    wanted = (await client.threads.get_history(identity))[1]
    assert wanted["values"]["n"] == 2  # type: ignore[call-overload]
    here = wanted["checkpoint"]
    at = {"checkpoint_id": here["checkpoint_id"]}
    assert await client.threads.get_state(identity, checkpoint_id=at["checkpoint_id"]) == wanted
    form: Any
    for form in (
        here,
        at,
        {**at, "checkpoint_ns": "", "checkpoint_map": None},
        {**at, "checkpoint_map": {}},
        {"configurable": {"thread_id": identity, **at, "user": "x"}, "tags": []},
        at["checkpoint_id"],
    ):
        answer = await http.post(f"/threads/{identity}/state/checkpoint", json={"checkpoint": form})
        assert answer.json() == wanted, form
    now = await client.threads.get_state(identity)
    for form in (None, {}, {"checkpoint_ns": ""}, {"thread_id": identity}):
        answer = await http.post(f"/threads/{identity}/state/checkpoint", json={"checkpoint": form})
        assert answer.json() == now, form


async def test_a_checkpoint_of_another_thread_is_not_shown(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity, other = await ticked(client, 1), await ticked(client, 2)
    theirs = (await client.threads.get_state(other))["checkpoint"]
    with pytest.raises(BadRequestError, match="thread_id"):
        await client.threads.get_state(identity, checkpoint=theirs)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.get_state(identity, checkpoint_id=theirs["checkpoint_id"])
    with pytest.raises(BadRequestError, match="thread_id"):
        await client.threads.update_state(identity, {"n": 9}, as_node="tick", checkpoint=theirs)
    with pytest.raises(NotFoundError, match="no checkpoint"):
        await client.threads.update_state(
            identity, {"n": 9}, as_node="tick", checkpoint_id=theirs["checkpoint_id"]
        )
    assert len(await client.threads.get_history(identity)) == 1
    for form in ({"unknown": 1}, {"checkpoint_id": 1}, {"checkpoint_map": "x"}):
        answer = await http.post(f"/threads/{identity}/state/checkpoint", json={"checkpoint": form})
        assert (answer.status_code, answer.json()["field"]) == (400, f"checkpoint.{next(iter(form))}")


async def test_a_checkpoint_that_is_not_there_is_not_found(client: LangGraphClient) -> None:
    for identity in (await ticked(client, 1), await make(client), await make(client, None)):
        with pytest.raises(NotFoundError, match="no checkpoint"):
            await client.threads.get_state(identity, checkpoint_id=str(uuid4()))


# ---- changed


async def test_a_change_is_a_checkpoint_and_shows_on_the_thread(client: LangGraphClient) -> None:
    identity = await make(client)
    before = await client.threads.get(identity)
    updated: Any = await client.threads.update_state(identity, {"n": 5, "log": ["x"]}, as_node="tick")
    assert updated["checkpoint"] == updated["configurable"]
    assert updated["checkpoint"]["thread_id"] == identity
    assert updated["checkpoint_id"] == updated["checkpoint"]["checkpoint_id"]
    state = await client.threads.get_state(identity)
    assert state["checkpoint"] == updated["checkpoint"]
    assert state["metadata"]["source"] == "update"  # type: ignore[index]
    after = await client.threads.get(identity)
    assert after["values"] == state["values"] == {"messages": [], "n": 5, "log": ["x"]}
    assert after["state_updated_at"] > before["state_updated_at"]  # type: ignore[typeddict-item]
    # Reducers have their say.
    await client.threads.update_state(identity, {"log": ["y"], "n": 6}, as_node="tick")
    assert (await client.threads.get_state(identity))["values"]["log"] == ["x", "y"]  # type: ignore[call-overload]


async def test_a_change_belongs_to_no_run(client: LangGraphClient) -> None:
    identity = await make(client, None)
    run: Any = await client.runs.create(identity, "slow", input={"steps": 1})
    await client.runs.join(identity, run["run_id"])
    before: Any = await client.threads.get_state(identity)
    assert before["metadata"]["run_id"] == run["run_id"]
    await client.threads.update_state(identity, {"n": 5}, as_node="tick")
    after: Any = await client.threads.get_state(identity)
    assert "run_id" not in after["metadata"]
    assert after["metadata"]["graph_id"] == "slow"


async def test_a_change_of_nothing_runs_on_from_the_node(client: LangGraphClient) -> None:
    identity = await make(client, None)
    await client.runs.wait(identity, "hitl", input={}, interrupt_before=["before"])
    assert (await client.threads.get_state(identity))["next"] == ["before"]
    await client.threads.update_state(identity, None, as_node="before")
    assert (await client.threads.get_state(identity))["next"] == ["ask"]
    assert (await client.threads.get(identity))["status"] == "interrupted"
    # As the end, whatever waits is let go.
    await client.threads.update_state(identity, None, as_node="__end__")
    assert (await client.threads.get_state(identity))["next"] == []
    assert (await client.threads.get(identity))["status"] == "idle"


async def test_a_change_can_branch_off_and_becomes_the_latest(client: LangGraphClient) -> None:
    identity = await ticked(client, 1, 2, 3)
    first: Any = (await client.threads.get_history(identity))[-1]["checkpoint"]
    for number, named in enumerate(({"checkpoint": first}, {"checkpoint_id": first["checkpoint_id"]})):
        await client.threads.update_state(
            identity, {"n": 10 + number, "log": ["fork"]}, as_node="tick", **named
        )
        state = await client.threads.get_state(identity)
        assert state["values"] == {"messages": [], "n": 10 + number, "log": ["1", "fork"]}
        assert state["parent_checkpoint"] == first
        assert (await client.threads.get(identity))["values"] == state["values"]
    assert len(await client.threads.get_history(identity)) == 5


async def test_a_change_answers_no_failure_any_more(client: LangGraphClient) -> None:
    identity = await make(client, None)
    await client.runs.wait(identity, "fail", input={}, raise_error=False)
    failed: Any = await client.threads.get(identity)
    assert (failed["status"], failed["error"]["error"]) == ("error", "ValueError")
    await client.threads.update_state(identity, {"log": ["mended"]}, as_node="boom")
    after: Any = await client.threads.get(identity)
    assert (after["status"], after["error"], after["interrupts"]) == ("idle", None, {})


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ({"values": {"n": 1}, "as_node": "nope"}, "nope"),
        ({"values": "text", "as_node": "tick"}, "text"),
        ({"values": {"log": 5, "n": 1}, "as_node": "tick"}, "TypeError"),
        ({"values": {"n": 1}, "as_node": "tick", "checkpoint": {"checkpoint_ns": "nope:1"}}, "nope"),
    ],
)
async def test_what_the_graph_does_not_take_is_refused_and_changes_nothing(
    client: LangGraphClient, http: httpx.AsyncClient, body: dict[str, Any], word: str
) -> None:
    identity = await make(client)
    answer = await http.post(f"/threads/{identity}/state", json=body)
    assert answer.status_code == 400, answer.text
    assert word in answer.json()["detail"]
    assert await client.threads.get_history(identity) == []
    assert (await client.threads.get(identity))["values"] is None


async def test_who_did_it_must_be_said_where_two_may_have(client: LangGraphClient) -> None:
    identity = await make(client, None)
    await client.runs.wait(identity, "parallel", input=LOGGED)
    asked = (await client.threads.get_state(identity))["interrupts"]
    await client.runs.wait(identity, "parallel", command={"resume": {each["id"]: "x" for each in asked}})
    with pytest.raises(BadRequestError, match="as_node"):
        await client.threads.update_state(identity, {"log": ["last"]})
    await client.threads.update_state(identity, {"log": ["last"]}, as_node="left")


async def test_a_thread_without_a_graph_says_what_to_do(client: LangGraphClient) -> None:
    identity = await make(client, None)
    with pytest.raises(BadRequestError, match="graph_id in its metadata"):
        await client.threads.update_state(identity, {"n": 1})
    await client.threads.update(identity, metadata={"graph_id": "slow"})
    await client.threads.update_state(identity, {"n": 1}, as_node="tick")
    # With a past, it is not taken for an empty one.
    await client.threads.update(identity, metadata={"graph_id": None})
    for call in (client.threads.get_state(identity), client.threads.get_history(identity)):
        with pytest.raises(BadRequestError, match="graph_id in its metadata"):
            await call
    await client.threads.update(identity, metadata={"graph_id": "gone"})
    with pytest.raises(NotFoundError, match="gone"):
        await client.threads.get_state(identity)


async def test_a_thread_cannot_be_changed_while_a_run_executes(client: LangGraphClient) -> None:
    identity = await make(client, None)
    run = await client.runs.create(identity, "slow", input={"steps": 10_000, "delay": 0.02})

    async def is_walking() -> bool:
        state: Any = await client.threads.get_state(identity)
        return "n" in state["values"]

    await eventually(is_walking)
    assert (await client.threads.get(identity))["status"] == "busy"
    with pytest.raises(ConflictError, match="executes") as error:
        await client.threads.update_state(identity, {"n": 1}, as_node="tick")
    assert error.value.body["code"] == "thread_busy"  # type: ignore[index]
    assert (await client.threads.get_state(identity))["values"]["steps"] == 10_000  # type: ignore[call-overload]
    await client.runs.cancel(identity, run["run_id"], wait=True)
    await client.threads.update_state(identity, {"n": 99}, as_node="tick")
    assert (await client.threads.get(identity))["values"]["n"] == 99  # type: ignore[index]


async def test_a_run_that_begins_meanwhile_wins_over_a_change(running: Running) -> None:
    parts = running.server.parts
    http = httpx.AsyncClient(base_url=running.url, verify=False)  # noqa: S501
    identity = (await http.post("/threads", json={"metadata": {"graph_id": "slow"}})).json()["thread_id"]
    # As the thread was before anybody claimed its run.
    before = parts.storage.threads.get(identity)
    assert before is not None
    body = {"assistant_id": "slow", "input": {"steps": 10_000, "delay": 0.02}}
    run = (await http.post(f"/threads/{identity}/runs", json=body)).json()["run_id"]

    async def is_walking() -> bool:
        return "n" in (await http.get(f"/threads/{identity}/state")).json()["values"]

    await eventually(is_walking)
    with pytest.raises(Exception, match="executes"):
        await parts.states.update(before, values={"n": -1}, as_node="tick")
    await http.post(f"/threads/{identity}/runs/{run}/cancel?wait=1")
    states = (await http.post(f"/threads/{identity}/history", json={"limit": 1000})).json()
    assert {each["metadata"]["source"] for each in states} == {"input", "loop"}
    await http.aclose()


async def test_changes_at_once_are_all_there(client: LangGraphClient) -> None:
    identity = await make(client)
    await asyncio.gather(
        *(client.threads.update_state(identity, {"n": n, "log": [str(n)]}, as_node="tick") for n in range(8))
    )
    history = await client.threads.get_history(identity, limit=100)
    assert len(history) == 8
    # Whichever is the latest, the thread shows it.
    thread = await client.threads.get(identity)
    assert thread["values"] == history[0]["values"]


async def test_a_thread_shows_its_latest_state_however_late_a_change_is_shown(
    client: LangGraphClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    identity = await make(client)
    overtaken, update = threading.Event(), SqlThreads.update
    begun = threading.Event()

    def late(self: SqlThreads, thread_id: str, change: ThreadChange) -> Any:
        if isinstance(change.values, dict) and change.values.get("n") == 1:
            begun.set()
            assert overtaken.wait(PATIENCE)
        return update(self, thread_id, change)

    monkeypatch.setattr(SqlThreads, "update", late)
    slow = asyncio.create_task(client.threads.update_state(identity, {"n": 1}, as_node="tick"))
    await eventually(begun.is_set)
    await client.threads.update_state(identity, {"n": 2}, as_node="tick")
    overtaken.set()
    await slow
    assert (await client.threads.get(identity))["values"]["n"] == 2  # type: ignore[index]
