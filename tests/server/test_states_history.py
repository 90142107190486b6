"""The past states of threads: which, from where on, of which graph, and asked for in which words."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError

LOGGED: Any = {"log": ["in"]}


async def walked(client: LangGraphClient, steps: int = 5) -> str:
    """Run a thread for some steps; return its id."""
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "slow", input={"steps": steps, "delay": 0.001})
    return identity


def numbers(states: Any) -> list[int]:
    """Return the step of each state."""
    return [each["metadata"]["step"] for each in states]


async def test_history_is_every_step_the_newest_first(client: LangGraphClient) -> None:
    identity = await walked(client)
    history: Any = await client.threads.get_history(identity, limit=100)
    assert numbers(history) == [5, 4, 3, 2, 1, 0, -1]
    assert [each["values"].get("n") for each in history] == [5, 4, 3, 2, 1, None, None]
    for newer, older in pairwise(history):
        assert newer["parent_checkpoint"] == older["checkpoint"]
    assert history[-1]["parent_checkpoint"] is None
    assert history[0] == await client.threads.get_state(identity)
    # What each step's task left is with the state that it started from.
    assert history[1]["tasks"][0]["result"] == {"n": 5, "log": ["tick5"]}
    assert history[1]["tasks"][0]["name"] == "tick"


async def test_history_has_ten_states_or_as_many_as_are_asked_for(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = await walked(client, 12)
    assert len(await client.threads.get_history(identity)) == 10
    assert len((await http.get(f"/threads/{identity}/history")).json()) == 10
    assert numbers(await client.threads.get_history(identity, limit=1)) == [12]
    assert len(await client.threads.get_history(identity, limit=1000)) == 14
    for limit in (0, -1, 1001):
        for answer in (
            await http.post(f"/threads/{identity}/history", json={"limit": limit}),
            await http.get(f"/threads/{identity}/history", params={"limit": limit}),
        ):
            assert (answer.status_code, answer.json()["field"]) == (422, "limit")


async def test_history_goes_on_before_a_checkpoint_in_every_form(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = await walked(client)
    history: Any = await client.threads.get_history(identity, limit=100)
    third = history[2]["checkpoint"]
    at = third["checkpoint_id"]
    form: Any
    for form in (
        at,
        third,
        {"checkpoint_id": at},
        {"checkpoint_id": at, "checkpoint_ns": "", "checkpoint_map": {}},
        {"configurable": third},
        {"configurable": {"checkpoint_id": at, "thread_id": identity, "x": 1}},
    ):
        found: Any = await client.threads.get_history(identity, limit=2, before=form)
        assert found == history[3:5], form
        spelled = form if isinstance(form, str) else json.dumps(form)
        answer = await http.get(f"/threads/{identity}/history", params={"limit": 2, "before": spelled})
        assert answer.json() == history[3:5], form
    pages = []
    before = None
    while page := await client.threads.get_history(identity, limit=3, before=before):
        pages += page
        before = page[-1]["checkpoint"]
    assert pages == history


async def test_before_must_name_a_checkpoint(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    identity = await walked(client, 1)
    for form in ({"checkpoint_ns": "x"}, {"thread_id": "another", "checkpoint_id": "x"}, {"nope": 1}):
        answer = await http.post(f"/threads/{identity}/history", json={"before": form})
        assert answer.status_code == 400
        assert answer.json()["field"].startswith("before")
    assert (await http.get(f"/threads/{identity}/history?before={{x")).json()["field"] == "before"


async def test_history_can_be_filtered_by_metadata(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    identity = await walked(client)
    await client.threads.update_state(identity, {"n": 9}, as_node="tick")
    for wanted, steps in (
        ({"source": "input"}, [-1]),
        ({"source": "update"}, [6]),
        ({"source": "loop", "step": 3}, [3]),
        ({"step": "3"}, []),
        ({"nope": 1}, []),
    ):
        assert numbers(await client.threads.get_history(identity, metadata=wanted)) == steps, wanted
        spelled = json.dumps(wanted)
        answer = await http.get(f"/threads/{identity}/history", params={"metadata": spelled})
        assert numbers(answer.json()) == steps
    two = await client.threads.get_history(identity, metadata={"source": "loop"}, limit=2)
    assert numbers(two) == [5, 4]
    assert (await http.get(f"/threads/{identity}/history?metadata=x")).json()["field"] == "metadata"


async def test_a_subgraph_has_a_history_of_its_own(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "subgraph", input=LOGGED)
    state: Any = await client.threads.get_state(identity, subgraphs=True)
    (task,) = state["tasks"]
    assert task["name"] == "inner"
    inner = task["state"]
    assert inner["next"] == ["ask"]
    assert inner["values"]["log"] == ["in", "before"]
    ns = inner["checkpoint"]["checkpoint_ns"]
    assert ns == f"inner:{task['id']}"
    assert inner["checkpoint"]["checkpoint_map"]

    # Without subgraphs, where it is can be read.
    (shallow,) = (await client.threads.get_state(identity))["tasks"]
    assert shallow["state"] is None
    assert shallow["checkpoint"] == {"thread_id": identity, "checkpoint_ns": ns}
    for named in (shallow["checkpoint"], inner["checkpoint"]):
        found = await client.threads.get_state(identity, checkpoint=named)
        assert found["values"] == inner["values"]
        assert found["checkpoint"]["checkpoint_ns"] == ns
        history: Any = await client.threads.get_history(identity, checkpoint=named)
        assert {each["checkpoint"]["checkpoint_ns"] for each in history} == {ns}
        assert history[0]["values"] == inner["values"]
    assert (await http.get(f"/threads/{identity}/state", params={"checkpoint_ns": ns})).json()[
        "checkpoint"
    ] == inner["checkpoint"]
    answer = await http.get(f"/threads/{identity}/history", params={"checkpoint_ns": ns})
    assert len(answer.json()) == len(history)
    roots: Any = await client.threads.get_history(identity)
    assert {each["checkpoint"]["checkpoint_ns"] for each in roots} == {""}


async def test_a_subgraphs_state_can_be_changed(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "subgraph", input={})
    state: Any = await client.threads.get_state(identity, subgraphs=True)
    inner = state["tasks"][0]["state"]["checkpoint"]
    updated = await client.threads.update_state(
        identity, {"answer": "given", "log": ["by hand"]}, as_node="ask", checkpoint=inner
    )
    assert updated["checkpoint"]["checkpoint_ns"] == inner["checkpoint_ns"]
    assert "checkpoint_map" in updated["checkpoint"]
    found: Any = await client.threads.get_state(identity, checkpoint=updated["checkpoint"])
    assert found["values"]["answer"] == "given"
    with pytest.raises(BadRequestError, match="nope"):
        await client.threads.update_state(identity, {}, as_node="nope", checkpoint=inner)


async def test_a_state_at_a_checkpoint_of_a_run_can_be_run_again(client: LangGraphClient) -> None:
    identity = await walked(client, 3)
    history: Any = await client.threads.get_history(identity)
    second = next(each for each in history if each["values"].get("n") == 1)
    final: Any = await client.runs.wait(identity, "slow", input=None, checkpoint=second["checkpoint"])
    assert final["log"] == ["tick1", "tick2", "tick3"]
    assert len(await client.threads.get_history(identity, limit=100)) > len(history)
