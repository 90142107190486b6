"""Runs that are stopped: by request, with others, or because the client that waits for them leaves."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.graph import START, StateGraph
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.server.conftest import PATIENCE, StartServer, eventually
from tests.server.graphs import State

KEPT: Any = {"messages": ["kept"]}
ENDLESS: Any = {"steps": 1000, "delay": 0.02}


@pytest.fixture
async def thread_id(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def started(client: LangGraphClient, thread_id: str, log: Path) -> str:
    """Start a run that goes on, and return its id once it has taken a step."""
    run = await client.runs.create(thread_id, "slow", input={**ENDLESS, "log_file": str(log)})
    await eventually(lambda: log.exists() and log.read_text().count("\n") > 1)
    return run["run_id"]


async def status(client: LangGraphClient, thread_id: str, run_id: str) -> str:
    return (await client.runs.get(thread_id, run_id))["status"]


# ---- One.


async def test_a_run_that_is_stopped_keeps_what_it_did(
    client: LangGraphClient, thread_id: str, tmp_path: Path
) -> None:
    run_id = await started(client, thread_id, tmp_path / "log")
    await client.runs.cancel(thread_id, run_id, wait=True)
    assert await status(client, thread_id, run_id) == "interrupted"
    thread = await client.threads.get(thread_id)
    assert thread["status"] in ("idle", "interrupted")
    found: Any = await client.threads.get_state(thread_id)
    assert found["values"]["log"][0] == "tick1"
    with pytest.raises(NotFoundError, match="No matching runs to cancel"):
        await client.runs.cancel(thread_id, run_id)


async def test_a_run_that_is_rolled_back_is_gone_with_what_it_did(
    client: LangGraphClient, thread_id: str, tmp_path: Path
) -> None:
    await client.runs.wait(thread_id, "echo", input=KEPT)
    before = await client.threads.get_history(thread_id)
    run_id = await started(client, thread_id, tmp_path / "log")
    await client.runs.cancel(thread_id, run_id, wait=True, action="rollback")
    with pytest.raises(NotFoundError):
        await client.runs.get(thread_id, run_id)
    assert await client.threads.get_history(thread_id) == before
    found: Any = await client.threads.get(thread_id)
    assert (found["status"], len(found["values"]["messages"])) == ("idle", 2)


@pytest.mark.parametrize("path", ["/threads/{thread_id}/runs/{run_id}/cancel", "/runs/cancel"])
async def test_who_stops_a_run_can_wait_for_its_end(start_server: StartServer, path: str) -> None:
    release = threading.Event()

    async def cling(state: State) -> dict[str, Any]:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.to_thread(release.wait, PATIENCE)
        return {"n": state["n"]}

    graph = StateGraph(State).add_node("cling", cling).add_edge(START, "cling").compile()
    url = start_server(objects={"g": graph}).url
    async with get_client(url=url, api_key=None) as client, httpx.AsyncClient(base_url=url) as http:
        thread_id = (await client.threads.create())["thread_id"]
        run_id = (await client.runs.create(thread_id, "g", input={"n": 1}))["run_id"]
        await eventually(lambda: _is(client, thread_id, run_id, "running"))
        place = path.format(thread_id=thread_id, run_id=run_id)
        asked = await http.post(place, params={"wait": "0"}, json={"run_ids": [run_id]})
        assert asked.status_code == 200
        assert await status(client, thread_id, run_id) == "running"
        waiting = asyncio.create_task(http.post(place, params={"wait": "1"}, json={"run_ids": [run_id]}))
        assert not (await asyncio.wait([waiting], timeout=0.2))[0]
        release.set()
        assert (await waiting).status_code == 200
        assert await status(client, thread_id, run_id) == "interrupted"


async def _is(client: LangGraphClient, thread_id: str, run_id: str, expected: str) -> bool:
    return await status(client, thread_id, run_id) == expected


async def test_a_pending_run_is_stopped_at_once(client: LangGraphClient, thread_id: str) -> None:
    run = await client.runs.create(thread_id, "echo", input={}, after_seconds=3600)
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    assert await status(client, thread_id, run["run_id"]) == "interrupted"
    answer: Any = await client.runs.join(thread_id, run["run_id"])
    assert answer["__error__"]["error"] == "RunCancelled"


async def test_a_reason_can_be_given(
    client: LangGraphClient, http: httpx.AsyncClient, thread_id: str
) -> None:
    run = await client.runs.create(thread_id, "echo", input={}, after_seconds=3600)
    path = f"/threads/{thread_id}/runs/{run['run_id']}/cancel"
    assert (await http.post(path, params={"action": "kill"})).status_code == 422
    assert (await http.post(path, params={"reason": "no more", "wait": "1"})).json() == {}
    found: Any = await client.runs.get(thread_id, run["run_id"])
    assert found["cancel_reason"] == "no more"


async def test_whoever_waits_learns_that_a_run_was_stopped(
    client: LangGraphClient, http: httpx.AsyncClient, thread_id: str, tmp_path: Path
) -> None:
    run_id = await started(client, thread_id, tmp_path / "log")
    await client.runs.cancel(thread_id, run_id)
    stream = await http.get(f"/threads/{thread_id}/runs/{run_id}/stream")
    assert stream.text.rstrip().rpartition("event: ")[2].startswith("end")
    assert '"status":"interrupted"' in stream.text


# ---- Many.


async def test_many_runs_can_be_stopped_together(
    client: LangGraphClient, http: httpx.AsyncClient, thread_id: str, tmp_path: Path
) -> None:
    executing = await started(client, thread_id, tmp_path / "log")
    pending = [(await client.runs.create(thread_id, "echo", input={}))["run_id"] for _ in range(2)]
    none = await http.post("/runs/cancel", json={"thread_id": thread_id, "run_ids": []})
    assert none.json() == {"cancelled_count": 0, "cancelled_run_ids": [], "truncated": False}
    some = await http.post("/runs/cancel", json={"thread_id": thread_id, "status": "pending"})
    assert some.json() == {"cancelled_count": 2, "cancelled_run_ids": pending, "truncated": False}
    assert await status(client, thread_id, executing) == "running"
    rest = await http.post("/runs/cancel", params={"wait": "true"}, json={"run_ids": [executing, *pending]})
    assert rest.json()["cancelled_run_ids"] == [executing]
    assert await status(client, thread_id, executing) == "interrupted"


async def test_the_client_stops_many_runs_too(
    client: LangGraphClient, thread_id: str, tmp_path: Path
) -> None:
    executing = await started(client, thread_id, tmp_path / "log")
    await client.runs.create(thread_id, "echo", input={})
    await client.runs.cancel_many(thread_id=thread_id, status="all", action="rollback")
    await eventually(lambda: _none_left(client, thread_id))
    assert (await client.threads.get(thread_id))["status"] == "idle"
    assert executing


async def _none_left(client: LangGraphClient, thread_id: str) -> bool:
    return not await client.runs.list(thread_id)


@pytest.mark.parametrize("body", [{"status": "done"}, {"colour": 1}, {"run_ids": "x"}, {"thread_id": "a b"}])
async def test_a_selection_that_is_none_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await http.post("/runs/cancel", json=body)).status_code == 422


# ---- Clients that leave.


@pytest.mark.parametrize("route", ["wait", "stream"])
@pytest.mark.parametrize("choice", ["cancel", "continue", None])
async def test_a_client_that_leaves_stops_its_run_if_it_said_so(
    client: LangGraphClient, http: httpx.AsyncClient, thread_id: str, route: str, choice: str | None
) -> None:
    given = ENDLESS if choice == "cancel" else {**ENDLESS, "steps": 8}
    body = {"assistant_id": "slow", "input": given, "on_disconnect": choice}
    async with http.stream("POST", f"/threads/{thread_id}/runs/{route}", json=body) as response:
        assert response.status_code == 200
    (run,) = await client.runs.list(thread_id)
    await client.runs.join(thread_id, run["run_id"])
    found: Any = await client.runs.get(thread_id, run["run_id"])
    expected = ("interrupted", "the client disconnected") if choice == "cancel" else ("success", None)
    assert (found["status"], found["cancel_reason"]) == expected


@pytest.mark.parametrize("route", ["join", "stream"])
@pytest.mark.parametrize("choice", ["1", "true", "0", "false", None])
async def test_a_client_that_joined_and_leaves_stops_the_run_if_it_said_so(
    client: LangGraphClient,
    http: httpx.AsyncClient,
    thread_id: str,
    route: str,
    choice: str | None,
) -> None:
    stops = choice in ("1", "true")
    given = ENDLESS if stops else {**ENDLESS, "steps": 8}
    run = await client.runs.create(thread_id, "slow", input=given)
    params = {} if choice is None else {"cancel_on_disconnect": choice}
    path = f"/threads/{thread_id}/runs/{run['run_id']}/{route}"
    async with http.stream("GET", path, params=params) as response:
        assert response.status_code == 200
    await client.runs.join(thread_id, run["run_id"])
    expected = "interrupted" if stops else "success"
    assert await status(client, thread_id, run["run_id"]) == expected
