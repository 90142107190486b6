"""Threads made under an id that is taken, by many at once, and with the steps of another conversation."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError

from stateroom.engine.states import States
from stateroom.errors import Unavailable
from tests.server.auths import as_user, owners
from tests.server.conftest import StartServer

ASKED: Any = {"log": ["before"]}


async def test_a36_a_taken_id_is_a_conflict_and_nothing_changes(client: LangGraphClient) -> None:
    identity = str(uuid4())
    await client.threads.create(thread_id=identity, metadata={"a": 1})
    await client.runs.wait(identity, "hitl", input={})
    before = await client.threads.get(identity)
    assert before["status"] == "interrupted"
    with pytest.raises(ConflictError, match="exists already"):
        await client.threads.create(thread_id=identity, metadata={"a": 2})
    assert await client.threads.get(identity) == before
    again = await client.threads.create(
        thread_id=identity, metadata={"a": 2}, ttl=1, graph_id="echo", if_exists="do_nothing"
    )
    assert again == before
    assert again["metadata"]["a"] == 1  # type: ignore[index]
    assert await client.threads.get(identity, include=["ttl"]) == {**before, "ttl": None}


async def test_a36_of_twenty_who_create_at_once_one_does(client: LangGraphClient) -> None:
    if_exists: Any
    for if_exists in ("raise", "do_nothing"):
        identity = str(uuid4())
        made = await asyncio.gather(
            *(
                client.threads.create(thread_id=identity, metadata={"n": n}, if_exists=if_exists)
                for n in range(20)
            ),
            return_exceptions=True,
        )
        answered = [each for each in made if isinstance(each, dict)]
        refused = [each for each in made if isinstance(each, ConflictError)]
        assert len(answered) + len(refused) == 20
        assert len(answered) == (1 if if_exists == "raise" else 20)
        stored = await client.threads.get(identity)
        assert all(each == stored for each in answered)


async def test_a36_somebody_elses_thread_is_no_more_than_a_taken_id(
    kind: str, start_server: StartServer
) -> None:
    server = start_server(kind, auth=owners())
    owner = get_client(url=server.url, api_key=None, headers=as_user("ann"))
    stranger = get_client(url=server.url, api_key=None, headers=as_user("bob"))
    identity = str(uuid4())
    made = await owner.threads.create(thread_id=identity, metadata={"secret": 1})
    told = set()
    for client, options in ((owner, {}), (stranger, {}), (stranger, {"if_exists": "do_nothing"})):
        with pytest.raises(ConflictError) as error:
            await client.threads.create(thread_id=identity, **options)  # type: ignore[arg-type]
        told.add(str(error.value))
        assert "secret" not in str(error.value)
    assert len(told) == 1
    assert await owner.threads.create(thread_id=identity, if_exists="do_nothing") == made
    assert await owner.threads.get(identity) == made
    for client in (owner, stranger):
        await client.aclose()


@pytest.mark.parametrize("if_exists", ["replace", "", 1])
async def test_if_exists_is_one_of_two(http: httpx.AsyncClient, if_exists: Any) -> None:
    answer = await http.post("/threads", json={"if_exists": if_exists})
    assert (answer.status_code, answer.json()["field"]) == (422, "if_exists")


# ---- supersteps


def step(*updates: Any) -> dict[str, Any]:
    """Return a superstep in which nodes did something."""
    return {"updates": [{"values": values, "as_node": as_node} for values, as_node in updates]}


async def test_supersteps_make_a_thread_with_a_history(client: LangGraphClient) -> None:
    made: Any = await client.threads.create(
        graph_id="slow",
        metadata={"m": 1},
        supersteps=[
            step(({"steps": 3, "log": ["in"]}, "__start__")),
            step(({"n": 1, "log": ["one"]}, "tick")),
            step(({"n": 2, "log": ["two"]}, "tick")),
        ],
    )
    identity = made["thread_id"]
    assert made["metadata"] == {"m": 1, "graph_id": "slow"}
    assert made["values"] == {"n": 2, "steps": 3, "log": ["in", "one", "two"], "messages": []}
    history: Any = await client.threads.get_history(identity)
    assert [each["values"].get("n") for each in history] == [2, 1, None]
    state = await client.threads.get_state(identity)
    assert state["values"] == made["values"]
    assert state["next"] == ["tick"]
    # It waits for somebody to go on.
    assert made["status"] == "interrupted"
    final: Any = await client.runs.wait(identity, "slow", input=None)
    assert final["n"] == 3


async def test_supersteps_may_be_commands_and_several_nodes_at_once(client: LangGraphClient) -> None:
    together: Any = [
        {"updates": [{"values": {"log": ["in"]}, "command": None, "as_node": "__start__"}]},
        {
            "updates": [
                {"values": None, "command": {"update": {"log": ["left"]}}, "as_node": "left"},
                {"values": {"log": ["right"]}, "command": None, "as_node": "right"},
            ]
        },
    ]
    made: Any = await client.threads.create(graph_id="parallel", supersteps=together)
    assert sorted(made["values"]["log"]) == ["in", "left", "right"]
    assert made["status"] == "idle"


@pytest.mark.parametrize(
    ("changes", "status", "field"),
    [
        ({"metadata": {}}, 400, "metadata.graph_id"),
        ({"metadata": {"graph_id": "nope"}}, 404, "graph_id"),
        ({"supersteps": [{"updates": []}]}, 422, "supersteps[0].updates"),
        ({"supersteps": [step(({"n": 1}, "tick"))] * 101}, 422, "supersteps"),
        ({"supersteps": [step(*[({"n": 1}, "tick")] * 101)]}, 422, "supersteps[0].updates"),
        ({"supersteps": [step(({"n": 1}, "nope"))]}, 400, "supersteps[0].updates[0].as_node"),
        (
            {"supersteps": [step(({"n": 1}, "tick")), step(({"n": 1}, "tick"), ({"n": 2}, None))]},
            400,
            "supersteps[1].updates[1].as_node",
        ),
        (
            {"supersteps": [{"updates": [{"values": {}, "command": {}, "as_node": "tick"}]}]},
            400,
            "supersteps[0].updates[0]",
        ),
        ({"supersteps": [step(({"n": 1, "nope": 1}, "tick"))]}, 200, None),
        ({"supersteps": [step(("no object", "tick"))]}, 400, "values"),
        ({"supersteps": [step(({"n": 1}, "tick")), step(("no object", "tick"))]}, 400, "values"),
        (
            {"supersteps": [{"updates": [{"values": {}, "unknown": 1}]}]},
            422,
            "supersteps[0].updates[0].unknown",
        ),
    ],
)
async def test_supersteps_that_cannot_be_applied_leave_nothing_behind(
    http: httpx.AsyncClient, changes: dict[str, Any], status: int, field: str | None
) -> None:
    identity = str(uuid4())
    body = {"thread_id": identity, "metadata": {"graph_id": "slow"}, **changes}
    body.setdefault("supersteps", [step(({"n": 1}, "tick"))])
    answer = await http.post("/threads", json=body)
    assert answer.status_code == status, answer.text
    assert answer.json().get("field") == field
    there = await http.get(f"/threads/{identity}")
    assert there.status_code == (200 if status == 200 else 404)


async def test_the_most_supersteps_are_applied(client: LangGraphClient) -> None:
    steps = [step(({"n": n, "log": ["x"]}, "tick")) for n in range(100)]
    made: Any = await client.threads.create(graph_id="slow", supersteps=steps)
    assert len(made["values"]["log"]) == 100


async def test_supersteps_are_not_applied_to_a_thread_that_is_there(client: LangGraphClient) -> None:
    identity = str(uuid4())
    options: Any = {"thread_id": identity, "graph_id": "slow", "supersteps": [step(({"n": 1}, "tick"))]}
    made = await client.threads.create(**options)
    assert await client.threads.create(**options, if_exists="do_nothing") == made
    with pytest.raises(ConflictError):
        await client.threads.create(**options)
    assert len(await client.threads.get_history(identity)) == 1


async def test_a_thread_whose_steps_nobody_lived_to_apply_goes_by_itself(
    url: str, http: httpx.AsyncClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: dict[str, Any] = {}

    async def cut_short(_: States, thread: Any, *__: Any, **___: Any) -> None:
        async with httpx.AsyncClient(base_url=url) as other:
            seen["while"] = (await other.get(f"/threads/{thread.thread_id}?include=ttl")).json()["ttl"]
        raise Unavailable("the storage went away")

    monkeypatch.setattr(States, "apply", cut_short)
    body = {"metadata": {"graph_id": "slow"}, "supersteps": [step(({"n": 1}, "tick"))], "ttl": None}
    answer = await http.post("/threads", json=body)
    assert answer.status_code == 503
    assert seen["while"]["strategy"] == "delete"
    assert 0 < seen["while"]["ttl"] <= 60
