"""Deliveries over HTTP: what webhooks were to be told of a run, listed and made due again."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any
from uuid import uuid4

import httpx
import pytest

from stateroom.api.app import make_app
from stateroom.boot.compose import Server
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.model.delivery import NewDelivery
from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from tests.server.conftest import settings_of

LEASE = 60_000_000


async def nothing() -> None:
    """Execute no runs: the tests are the worker."""


@pytest.fixture
def server(tmp_path: Any) -> Any:
    server = Server(settings_of("sqlite", tmp_path, None, "stateroom"))
    server.open()
    yield server
    server.close()


@pytest.fixture
async def http(server: Server) -> AsyncIterator[httpx.AsyncClient]:
    app = make_app(replace(server.parts, begin=nothing))
    async with httpx.AsyncClient(transport=httpx.ASGITransport(app), base_url="http://test") as client:
        yield client


@pytest.fixture
async def place(http: httpx.AsyncClient, storage: Storage) -> str:
    """Return where the deliveries of a run are that has two: one to be made, and one that was."""
    run = (await http.post("/runs", json={"assistant_id": "echo"})).json()
    (claimed,) = storage.runs.claim("w", lease=LEASE)
    new = [NewDelivery(name, f"https://example.org/{name}", {"values": "secret"}) for name in ("old", "new")]
    storage.runs.settle(claimed.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, deliveries=new))
    return f"/threads/{run['thread_id']}/runs/{run['run_id']}/deliveries"


@pytest.fixture
def storage(server: Server) -> Storage:
    return server.parts.storage


def deliver(storage: Storage, name: str) -> None:
    for each in storage.deliveries.claim(lease=LEASE):
        if each.delivery_id == name:
            storage.deliveries.succeed(name, attempts=each.attempts)
        else:
            storage.deliveries.fail(each.delivery_id, attempts=each.attempts, error="502", retry_in=None)


async def listed(http: httpx.AsyncClient, place: str, **params: Any) -> list[Any]:
    found: list[Any] = (await http.get(place, params=params)).json()["deliveries"]
    return found


async def test_deliveries_are_listed_without_their_payloads(
    http: httpx.AsyncClient, storage: Storage, place: str
) -> None:
    deliver(storage, "old")
    found = {each["delivery_id"]: each for each in await listed(http, place)}
    assert (found["old"]["status"], found["old"]["replayable"]) == ("delivered", False)
    dead = found["new"]
    assert (dead["status"], dead["replayable"], dead["error"], dead["attempts"]) == ("dead", True, "502", 1)
    assert dead["url"] == "https://example.org/new"
    assert "secret" not in str(found)
    assert [each["delivery_id"] for each in await listed(http, place, status="dead")] == ["new"]
    assert len(await listed(http, place, limit=1)) == len(await listed(http, place, offset=1)) == 1
    assert await listed(http, place, limit=0) == []
    assert (await http.get(place, params={"status": "lost"})).status_code == 422


async def test_a_delivery_is_made_due_again_while_its_payload_is_there(
    http: httpx.AsyncClient, storage: Storage, place: str
) -> None:
    deliver(storage, "old")
    again = await http.post(f"{place}/new/replay")
    assert (again.status_code, again.json()["status"], again.json()["attempts"]) == (200, "pending", 0)
    (due,) = storage.deliveries.claim(lease=LEASE)
    assert due.delivery_id == "new"
    gone = await http.post(f"{place}/old/replay")
    assert (gone.status_code, gone.json()["code"]) == (409, "conflict")


async def test_deliveries_are_those_of_the_run_that_is_named(http: httpx.AsyncClient, place: str) -> None:
    run = (await http.post("/runs", json={"assistant_id": "echo"})).json()
    other = f"/threads/{run['thread_id']}/runs/{run['run_id']}/deliveries"
    assert await listed(http, other) == []
    thread_id = place.split("/")[2]
    for wrong in (
        f"{other}/new/replay",
        f"{place}/gone/replay",
        f"/threads/{thread_id}/runs/{uuid4()}/deliveries/new/replay",
    ):
        assert (await http.post(wrong)).status_code == 404
    assert (await http.get(f"/threads/{thread_id}/runs/{run['run_id']}/deliveries")).status_code == 404
