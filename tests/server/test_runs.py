"""Runs through the official client: made in each way, on threads and alone, listed and deleted."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError, NotFoundError, UnprocessableEntityError

from stateroom.engine import leases
from tests.server.conftest import Running, eventually

HELLO: Any = {"messages": ["hello"]}


async def new_thread(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def made(http: httpx.AsyncClient, path: str, **body: Any) -> httpx.Response:
    return await http.post(path, json={"assistant_id": "echo", **body})


# ---- What comes back.


async def test_a_run_says_what_it_was_made_with(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    run: Any = await client.runs.create(
        thread_id,
        "echo",
        input=HELLO,
        metadata={"m": 1},
        config={"tags": ["a"], "recursion_limit": 7, "configurable": {"model": "m", "token": "secret"}},
        context={"jwt": "secret"},
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        interrupt_after=["nowhere"],
        multitask_strategy="interrupt",
        durability="exit",
    )
    assert run["thread_id"] == thread_id
    assert (run["status"], run["metadata"], run["multitask_strategy"]) == ("pending", {"m": 1}, "interrupt")
    assert run["kwargs"] == {
        "input": HELLO,
        "command": None,
        "config": {"tags": ["a"], "recursion_limit": 7, "configurable": {"model": "m"}},
        "checkpoint": None,
        "stream_mode": ["values", "updates"],
        "stream_subgraphs": True,
        "interrupt_before": None,
        "interrupt_after": ["nowhere"],
        "durability": "exit",
        "strict_resume": False,
        "langsmith_tracer": None,
    }
    await client.runs.join(thread_id, run["run_id"])
    found: Any = await client.runs.get(thread_id, run["run_id"])
    assert found["status"] == "success"
    assert {**found, "status": "pending", "updated_at": run["updated_at"]} == run


async def test_the_thread_knows_its_graph_as_soon_as_the_run_is_made(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    run = await client.runs.create(thread_id, "echo", input=HELLO, after_seconds=3600)
    metadata: Any = (await client.threads.get(thread_id))["metadata"]
    assert metadata == {"graph_id": "echo", "assistant_id": run["assistant_id"]}


async def test_a_run_that_failed_says_why(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    run = await client.runs.create(thread_id, "fail", input=HELLO)
    answer: Any = await client.runs.join(thread_id, run["run_id"])
    expected = {"error": "ValueError", "message": "boom from node"}
    assert answer["__error__"] == expected
    found: Any = await client.runs.get(thread_id, run["run_id"])
    assert (found["status"], found["error"]) == ("error", expected)


async def test_headers_say_where_a_run_is(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    thread_id = await new_thread(client)
    for path, tail in [("", None), ("/wait", "join"), ("/stream", "stream")]:
        response = await made(http, f"/threads/{thread_id}/runs{path}", input=HELLO)
        (run, *_) = await client.runs.list(thread_id, limit=1)
        place = f"/threads/{thread_id}/runs/{run['run_id']}"
        assert response.headers["content-location"] == place
        assert response.headers.get("location") == (tail and f"{place}/{tail}")
        alone = await made(http, f"/runs{path}", input=HELLO, on_completion="keep")
        assert alone.headers["content-location"].startswith("/runs/")


async def test_a_stream_goes_on_as_it_was_asked_for(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    run = await client.runs.create(None, "echo", input=HELLO, on_completion="keep")
    query = "stream_mode=updates&cancel_on_disconnect=0"
    place = f"/threads/{run['thread_id']}/runs/{run['run_id']}/stream"
    for path in (place, f"/runs/{run['run_id']}/stream"):
        response = await http.get(f"{path}?{query}")
        assert response.headers["location"] == f"{place}?{query}"


async def test_the_client_learns_of_a_run_that_it_waits_for(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    told: list[Any] = []
    await client.runs.wait(thread_id, "echo", input=HELLO, on_run_created=told.append)
    (run,) = await client.runs.list(thread_id)
    assert told == [{"run_id": run["run_id"], "thread_id": thread_id}]


# ---- Threads.


async def test_a_run_on_an_unknown_thread_is_refused_or_makes_it(client: LangGraphClient) -> None:
    thread_id = str(uuid4())
    for call in (client.runs.create, client.runs.wait):
        with pytest.raises((NotFoundError, httpx.HTTPStatusError), match=r"404|there is no thread"):
            await call(thread_id, "echo", input=HELLO)
    with pytest.raises(NotFoundError):
        async for _ in client.runs.stream(thread_id, "echo", input=HELLO):
            pass
    with pytest.raises(NotFoundError):
        await client.threads.get(thread_id)
    answer: Any = await client.runs.wait(
        thread_id, "echo", input=HELLO, if_not_exists="create", metadata={"m": 1}
    )
    assert len(answer["messages"]) == 2
    assert ((await client.threads.get(thread_id))["metadata"] or {})["m"] == 1


async def test_the_status_of_the_thread_can_be_a_condition(http: httpx.AsyncClient) -> None:
    thread_id = (await http.post("/threads", json={})).json()["thread_id"]
    path = f"/threads/{thread_id}/runs/wait"
    assert (await made(http, path, input=HELLO, if_thread_status=["idle"])).status_code == 200
    refused = await made(http, path, input=HELLO, if_thread_status=["interrupted", "error"])
    assert (refused.status_code, refused.json()["code"]) == (409, "thread_status_mismatch")
    assert (await made(http, path, if_thread_status=[])).status_code == 422


async def test_a_stateless_run_leaves_nothing_unless_it_is_to_be_kept(
    client: LangGraphClient, running: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LINGER", 0.5)
    threads = running.server.parts.storage.threads
    told: list[Any] = []
    answer: Any = await client.runs.wait(None, "echo", input=HELLO, on_run_created=told.append)
    assert len(answer["messages"]) == 2
    kept = await client.runs.create(None, "echo", input=HELLO, on_completion="keep")
    gone = await client.runs.create(None, "echo", input=HELLO)
    joined: Any = await client.runs.join(gone["thread_id"], gone["run_id"])
    assert len(joined["messages"]) == 2
    await eventually(lambda: threads.get(gone["thread_id"]) is None)
    state: Any = await client.threads.get_state(kept["thread_id"])
    assert len(state["values"]["messages"]) == 2


async def test_a_stateless_run_can_be_joined_without_its_thread(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    run = await client.runs.create(None, "echo", input=HELLO, on_completion="keep")
    joined = (await http.get(f"/runs/{run['run_id']}/join")).json()
    assert len(joined["messages"]) == 2
    stream = await http.get(f"/runs/{run['run_id']}/stream", params={"stream_mode": '["values"]'})
    assert "event: values" in stream.text
    assert stream.text.count("event: end") == 1
    assert (await http.get(f"/runs/{uuid4()}/stream")).status_code == 404


# ---- Time.


async def test_a_run_that_is_put_off_waits_for_its_time(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    later = await client.runs.create(thread_id, "echo", input=HELLO, after_seconds=3600)
    answer: Any = await client.runs.wait(thread_id, "echo", input=HELLO)
    assert len(answer["messages"]) == 2
    assert (await client.runs.get(thread_id, later["run_id"]))["status"] == "pending"


async def test_a_run_that_is_put_off_a_little_is_executed_then(http: httpx.AsyncClient) -> None:
    answer = await made(http, "/runs/wait", input=HELLO, after_seconds=0.2)
    assert len(answer.json()["messages"]) == 2


# ---- Batches.


async def test_a_batch_is_made_whole_or_not_at_all(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    payloads: Any = [
        {"assistant_id": "echo", "input": HELLO},
        {"assistant_id": "echo", "thread_id": thread_id, "input": HELLO, "metadata": {"m": 1}},
    ]
    unknown: Any = [{"assistant_id": "zzz"}]
    alone, on_thread = await client.runs.create_batch(payloads)
    assert (on_thread["thread_id"], on_thread["metadata"]) == (thread_id, {"m": 1})
    assert alone["thread_id"] != thread_id
    with pytest.raises(UnprocessableEntityError, match="zzz"):
        await client.runs.create_batch([*payloads, *unknown])
    assert len(await client.runs.list(thread_id)) == 1


async def test_a_batch_may_be_spelled_as_javascript_does(http: httpx.AsyncClient) -> None:
    one = {"assistantId": "echo", "assistant_id": "echo", "streamMode": ["updates"], "afterSeconds": 3600}
    (run,) = (await http.post("/runs/batch", json=[one])).json()
    assert (run["kwargs"]["stream_mode"], run["status"]) == (["updates"], "pending")
    await http.post("/runs/cancel", json={"run_ids": [run["run_id"]]})


@pytest.mark.parametrize(
    "body",
    [[], {}, [{"input": 1}], [{"assistant_id": "echo", "colour": 1}], [{"assistant_id": "echo"}] * 101],
)
async def test_a_batch_that_is_none_is_refused(http: httpx.AsyncClient, body: Any) -> None:
    assert (await http.post("/runs/batch", json=body)).status_code == 422


# ---- What is refused.


@pytest.mark.parametrize("path", ["/runs", "/runs/wait", "/runs/stream"])
@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"colour": "red"}, 422, "colour"),
        ({"assistant_id": "zzz"}, 422, "assistant_id"),
        ({"assistant_id": str(uuid4())}, 404, "assistant_id"),
        ({"assistant_id": None}, 422, "assistant_id"),
        ({"webhook": "https://example.org"}, 422, "webhook"),
        ({"feedback_keys": ["a"]}, 422, "feedback_keys"),
        ({"after_seconds": 86_401}, 422, "after_seconds"),
        ({"after_seconds": -1}, 422, "after_seconds"),
        ({"multitask_strategy": "both"}, 422, "multitask_strategy"),
        ({"stream_mode": "vaules"}, 400, "stream_mode"),
        ({"stream_mode": "tools"}, 422, "stream_mode"),
        ({"config": {"recursion_limit": 0}}, 400, "config.recursion_limit"),
        ({"config": {"callbacks": []}}, 400, "config.callbacks"),
        ({"command": {"go": 1}}, 400, "command.go"),
        ({"checkpoint_id": "c"}, 400, "checkpoint_id"),
        ({"durability": "exit", "checkpoint_during": True}, 400, "checkpoint_during"),
        ({"metadata": []}, 422, "metadata"),
        ({"langsmith_tracer": {"name": 1}}, 422, "langsmith_tracer.name"),
    ],
)
async def test_what_a_run_cannot_mean_is_refused_by_name(
    http: httpx.AsyncClient, path: str, body: dict[str, Any], status: int, field: str
) -> None:
    response = await made(http, path, **body)
    assert (response.status_code, response.json()["field"]) == (status, field)


async def test_nobody_can_leave_a_run_in_the_background(http: httpx.AsyncClient) -> None:
    response = await made(http, "/runs", on_disconnect="cancel")
    assert (response.status_code, response.json()["field"]) == (400, "on_disconnect")
    assert (await made(http, "/runs", on_disconnect="continue")).status_code == 200


# ---- Lists.


async def test_runs_are_listed_newest_first_page_by_page(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    thread_id = await new_thread(client)
    ids = [
        (await client.runs.create(thread_id, "echo", input=HELLO, after_seconds=3600))["run_id"]
        for _ in range(3)
    ][::-1]
    assert [run["run_id"] for run in await client.runs.list(thread_id)] == ids
    path = f"/threads/{thread_id}/runs"
    page = await http.get(path, params={"limit": 2, "select": '["run_id", "status"]'})
    assert page.json() == [{"run_id": each, "status": "pending"} for each in ids[:2]]
    assert page.headers["x-pagination-total"] == "3"
    assert page.headers["x-pagination-next"] == "2"
    after = page.headers["x-pagination-cursor"]
    rest = await http.get(path, params={"limit": 2, "after": after})
    assert [run["run_id"] for run in rest.json()] == ids[2:]
    assert "x-pagination-next" not in rest.headers
    assert [run["run_id"] for run in (await http.get(path, params={"offset": 1})).json()] == ids[1:]
    assert (await http.get(path, params={"status": "success"})).json() == []
    for wrong in ({"status": "sleepy"}, {"limit": -1}, {"limit": 1001}):
        assert (await http.get(path, params=wrong)).status_code == 422
    assert (await http.get(path, params={"select": "colour"})).status_code == 400
    assert (await http.get(f"/threads/{uuid4()}/runs")).status_code == 404


async def test_a_run_is_found_on_its_thread_alone(client: LangGraphClient) -> None:
    thread_id, other = await new_thread(client), await new_thread(client)
    run = await client.runs.create(thread_id, "echo", input=HELLO)
    for identity, run_id in [(other, run["run_id"]), (thread_id, str(uuid4()))]:
        for call in (client.runs.get, client.runs.delete, client.runs.cancel):
            with pytest.raises(NotFoundError):
                await call(identity, run_id)


# ---- Deleting.


async def test_a_run_can_be_deleted_unless_it_executes(client: LangGraphClient) -> None:
    thread_id = await new_thread(client)
    run = await client.runs.create(thread_id, "slow", input={"steps": 1000})
    await eventually(lambda: _status(client, thread_id, run["run_id"], "running"))
    with pytest.raises(ConflictError):
        await client.runs.delete(thread_id, run["run_id"])
    await client.runs.cancel(thread_id, run["run_id"], wait=True)
    await client.runs.delete(thread_id, run["run_id"])
    assert await client.runs.list(thread_id) == []


async def _status(client: LangGraphClient, thread_id: str, run_id: str, status: str) -> bool:
    return (await client.runs.get(thread_id, run_id))["status"] == status
