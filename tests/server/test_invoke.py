"""The simple doors: a graph's input for its output, and a thread's stream that starts its run."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import Auth

from stateroom.api.routes.making import LEFT
from stateroom.contract.runs import RunQuery
from stateroom.model.run import RunStatus
from tests.server.auths import as_user, owners
from tests.server.conftest import Running, StartServer, eventually

SAYING: Any = {"messages": ["a"]}
EVENTS = {"accept": "text/event-stream"}
LONG = {"steps": 1000, "delay": 0.02}


async def test_input_for_output(http: httpx.AsyncClient) -> None:
    answered = await http.post("/invoke/echo", json=SAYING)
    assert answered.status_code == 200
    assert answered.json()["messages"] == ["a", {"role": "ai", "content": "echo: a"}]
    run_id = answered.headers["content-location"].removeprefix("/runs/")
    joined = await http.get(f"/runs/{run_id}/join")
    assert joined.json() == answered.json()


async def test_events_for_who_asks_for_them(http: httpx.AsyncClient) -> None:
    answered = await http.post("/invoke/echo", json=SAYING, headers=EVENTS)
    assert answered.headers["content-type"].startswith("text/event-stream")
    assert [line for line in answered.text.splitlines() if line.startswith("event:")] == [
        "event: metadata",
        "event: values",
        "event: values",
        "event: end",
    ]


async def test_questions_are_part_of_the_output(http: httpx.AsyncClient) -> None:
    answered = (await http.post("/invoke/hitl", json={})).json()
    assert [each["value"] for each in answered["__interrupt__"]] == [{"question": "ok?"}]


async def test_a_run_that_fails_is_an_error(http: httpx.AsyncClient) -> None:
    answered = await http.post("/invoke/fail", json={})
    assert (answered.status_code, answered.json()["code"]) == (422, "run_failed")
    assert answered.json()["detail"].endswith("failed with ValueError: boom from node")


@pytest.mark.parametrize("name", ["nothing", "00000000-0000-4000-8000-000000000000"])
async def test_no_such_graph(http: httpx.AsyncClient, name: str) -> None:
    answered = await http.post(f"/invoke/{name}", json=SAYING)
    assert (answered.status_code, answered.json()["code"]) == (404, "not_found")
    assert "echo" in answered.json()["detail"]


@pytest.mark.parametrize("kind_of_text", ["application/x-www-form-urlencoded", "text/plain"])
async def test_only_json_comes_in(http: httpx.AsyncClient, kind_of_text: str) -> None:
    answered = await http.post("/invoke/echo", content=b"{}", headers={"content-type": kind_of_text})
    assert answered.status_code == 422
    assert "content-type: application/json" in answered.json()["detail"]


async def test_no_key_for_who_asks_once(http: httpx.AsyncClient) -> None:
    answered = await http.post("/invoke/echo", json=SAYING, headers={"Idempotency-Key": "k"})
    assert (answered.status_code, answered.json()["code"]) == (422, "invalid_idempotency_key")


@pytest.mark.parametrize("headers", [{}, EVENTS])
async def test_the_run_of_who_leaves_is_stopped(
    running: Running, http: httpx.AsyncClient, headers: dict[str, str]
) -> None:
    runs, mark = running.server.parts.storage.runs, {**LONG, "answer": str(uuid4())}

    def executing() -> Any:
        found = runs.search(RunQuery(statuses=[RunStatus.RUNNING])).rows
        return next((each for each in found if each.kwargs["input"] == mark), None)

    asking = asyncio.create_task(http.post("/invoke/slow", json=mark, headers=headers))
    run = await eventually(executing)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)

    def ended() -> Any:
        found = runs.get(run.run_id)
        return found if found is not None and found.status == RunStatus.INTERRUPTED else None

    assert (await eventually(ended)).cancel_reason == LEFT


async def test_a_stream_of_a_thread_starts_its_run(http: httpx.AsyncClient) -> None:
    thread = (await http.post("/threads", json={})).json()["thread_id"]
    asked = {"assistant_id": "echo", "input": SAYING, "stream_mode": "updates", "metadata": {"a": 1}}
    answered = await http.post(f"/threads/{thread}/stream", json=asked)
    assert "event: updates" in answered.text
    assert "event: end" in answered.text
    (run,) = (await http.get(f"/threads/{thread}/runs")).json()
    assert answered.headers["content-location"] == f"/threads/{thread}/runs/{run['run_id']}"
    assert (run["status"], run["metadata"]["a"]) == ("success", 1)
    missing = await http.post("/threads/nowhere/stream", json=asked)
    assert missing.status_code == 404


async def test_who_may_not_run_may_not_invoke(start_server: StartServer) -> None:
    auth = owners()

    @auth.on.threads.create_run
    async def allow(ctx: Auth.types.AuthContext, value: Auth.types.RunsCreate) -> bool:  # noqa: ARG001
        return bool(ctx.user.identity == "u1")

    running = start_server(auth=auth)
    async with httpx.AsyncClient(base_url=running.url) as http:
        assert (await http.post("/invoke/echo", json=SAYING)).status_code == 401
        assert (await http.post("/invoke/echo", json=SAYING, headers=as_user("u2"))).status_code == 403
        assert (await http.post("/invoke/echo", json=SAYING, headers=as_user("u1"))).status_code == 200
