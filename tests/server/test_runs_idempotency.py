"""Requests with an ``Idempotency-Key``: repeated, they are answered as before, and make nothing."""

from __future__ import annotations

import asyncio
from typing import Any
from uuid import uuid4

import httpx
import pytest

from stateroom.engine import leases
from tests.server.auths import as_user, owners
from tests.server.conftest import PATIENCE, Running, StartServer, eventually

HELLO: Any = {"messages": ["hello"]}


@pytest.fixture
def key() -> dict[str, str]:
    return {"Idempotency-Key": str(uuid4())}


@pytest.fixture
async def thread_id(http: httpx.AsyncClient) -> str:
    return str((await http.post("/threads", json={})).json()["thread_id"])


async def ask(http: httpx.AsyncClient, path: str, key: dict[str, str], **body: Any) -> httpx.Response:
    return await http.post(path, headers=key, json={"assistant_id": "echo", "input": HELLO, **body})


async def runs_of(http: httpx.AsyncClient, thread_id: str) -> list[Any]:
    found: list[Any] = (await http.get(f"/threads/{thread_id}/runs")).json()
    return found


def check_same(first: httpx.Response, again: httpx.Response) -> None:
    assert (first.status_code, again.status_code) == (200, 200)
    assert again.json() == first.json()
    assert first.headers.get("idempotent-replay") is None
    assert again.headers["idempotent-replay"] == "true"
    for name in ("content-location", "location"):
        assert again.headers.get(name) == first.headers.get(name)


@pytest.mark.parametrize("tail", ["", "/wait"])
async def test_a_repeated_request_makes_no_second_run(
    http: httpx.AsyncClient, thread_id: str, key: dict[str, str], tail: str
) -> None:
    path = f"/threads/{thread_id}/runs{tail}"
    first = await ask(http, path, key)
    check_same(first, await ask(http, path, key))
    (run,) = await runs_of(http, thread_id)
    assert run["run_id"] in first.headers["content-location"]
    await ask(http, path, {"Idempotency-Key": str(uuid4())})
    assert len(await runs_of(http, thread_id)) == 2


async def test_a_repeated_batch_makes_no_second_one(
    http: httpx.AsyncClient, thread_id: str, key: dict[str, str]
) -> None:
    body = [{"assistant_id": "echo", "input": HELLO, "thread_id": thread_id}] * 2
    first = await http.post("/runs/batch", headers=key, json=body)
    check_same(first, await http.post("/runs/batch", headers=key, json=body))
    assert len(await runs_of(http, thread_id)) == 2


@pytest.mark.parametrize("path", ["/runs", "/runs/wait"])
async def test_a_stateless_run_is_not_repeated_after_it_is_gone(
    http: httpx.AsyncClient,
    running: Running,
    key: dict[str, str],
    path: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(leases, "LINGER", 0.0)
    first = await ask(http, path, key)
    run_id = first.headers["content-location"].rpartition("/")[2]
    await eventually(lambda: running.server.parts.storage.runs.get(run_id) is None)
    check_same(first, await ask(http, path, key))


async def test_who_repeats_a_request_meanwhile_waits_for_the_same_run(
    http: httpx.AsyncClient, thread_id: str, key: dict[str, str]
) -> None:
    path = f"/threads/{thread_id}/runs/wait"
    body = {"assistant_id": "slow", "input": {"steps": 10, "delay": 0.03}}
    first = asyncio.create_task(ask(http, path, key, **body))
    await eventually(lambda: runs_of(http, thread_id))
    again = await ask(http, path, key, **body)
    check_same(await first, again)
    assert len(await runs_of(http, thread_id)) == 1


async def test_who_left_gets_the_answer_when_he_comes_back(
    http: httpx.AsyncClient, running: Running, key: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "LINGER", 0.0)
    body = {"assistant_id": "slow", "input": {"steps": 4, "delay": 0.03}}
    async with http.stream("POST", "/runs/wait", headers=key, json=body) as response:
        run_id = response.headers["content-location"].rpartition("/")[2]
    await eventually(lambda: running.server.parts.storage.runs.get(run_id) is None)
    again = await ask(http, "/runs/wait", key, **body)
    assert (again.json()["n"], again.headers["idempotent-replay"]) == (4, "true")


async def test_another_body_is_refused(http: httpx.AsyncClient, thread_id: str, key: dict[str, str]) -> None:
    path = f"/threads/{thread_id}/runs"
    await ask(http, path, key)
    other = await ask(http, path, key, metadata={"m": 1})
    assert (other.status_code, other.json()["code"]) == (422, "idempotency_key_reused")
    elsewhere = await ask(http, "/runs", key, metadata={"m": 1})
    assert elsewhere.status_code == 200
    assert len(await runs_of(http, thread_id)) == 1


async def test_a_request_that_failed_can_be_tried_again(http: httpx.AsyncClient, key: dict[str, str]) -> None:
    thread_id = str(uuid4())
    path = f"/threads/{thread_id}/runs"
    for _ in range(2):
        assert (await ask(http, path, key)).status_code == 404
    await http.post("/threads", json={"thread_id": thread_id})
    made = await ask(http, path, key)
    assert (made.status_code, made.headers.get("idempotent-replay")) == (200, None)


@pytest.mark.parametrize("remove", ["run", "thread"])
async def test_an_answer_goes_with_its_run_and_its_thread(
    http: httpx.AsyncClient, thread_id: str, key: dict[str, str], remove: str
) -> None:
    path = f"/threads/{thread_id}/runs"
    first = await ask(http, f"{path}/wait", key)
    place = first.headers["content-location"] if remove == "run" else f"/threads/{thread_id}"
    assert (await http.delete(place)).status_code == 204
    await http.post("/threads", json={"thread_id": thread_id, "if_exists": "do_nothing"})
    second = await ask(http, f"{path}/wait", key)
    assert "idempotent-replay" not in second.headers
    assert second.headers["content-location"] != first.headers["content-location"]


@pytest.mark.parametrize("key", ["a" * 256, "", "a\tb"])
async def test_a_key_that_is_none_is_refused(http: httpx.AsyncClient, key: str) -> None:
    response = await ask(http, "/runs", {"Idempotency-Key": key})
    assert (response.status_code, response.json()["code"]) == (422, "invalid_idempotency_key")


@pytest.mark.parametrize("path", ["/runs/stream", "/threads/t/runs/stream"])
async def test_a_stream_takes_no_key(http: httpx.AsyncClient, key: dict[str, str], path: str) -> None:
    response = await ask(http, path, key)
    assert (response.status_code, response.json()["code"]) == (422, "invalid_idempotency_key")


async def test_a_key_is_the_callers_own(start_server: StartServer, key: dict[str, str]) -> None:
    url = start_server(auth=owners()).url
    async with (
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, headers=as_user("ann")) as ann,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, headers=as_user("bob")) as bob,
    ):
        made = await ask(ann, "/runs", key)
        assert (await ask(ann, "/runs", key)).json() == made.json()
        assert (await ask(bob, "/runs", key)).json()["run_id"] != made.json()["run_id"]
