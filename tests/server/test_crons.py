"""Crons over HTTP (A22, A40): made, found, changed and deleted by the official client; when they are due."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from typing import Any
from uuid import uuid4
from zoneinfo import ZoneInfo

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError

from tests.server.auths import as_user, owners
from tests.server.conftest import PATIENCE, StartServer

NEVER = "0 0 29 2 *"

FAR = f"1 {(datetime.now(UTC).month + 5) % 12 + 1} *"
"""The first of a month that is half a year away."""


@pytest.fixture
def team() -> dict[str, str]:
    """Return metadata by which the crons of one test are found."""
    return {"team": str(uuid4())}


async def made(client: LangGraphClient, **said: Any) -> Any:
    return await client.crons.create("echo", **{"schedule": NEVER, **said})


# ---- Making them.


async def test_a_cron_says_what_it_was_made_with(client: LangGraphClient) -> None:
    cron = await made(
        client,
        input={"messages": ["hello"]},
        metadata={"m": 1},
        config={"tags": ["a"], "configurable": {"model": "m"}},
        interrupt_before=["a"],
        interrupt_after="*",
        multitask_strategy="enqueue",
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        stream_resumable=True,
        durability="exit",
        on_run_completed="keep",
        timezone="Europe/Berlin",
        enabled=True,
    )
    assert cron["payload"] == {
        "assistant_id": cron["assistant_id"],
        "input": {"messages": ["hello"]},
        "metadata": {"m": 1},
        "config": {"tags": ["a"], "configurable": {"model": "m"}},
        "interrupt_before": ["a"],
        "interrupt_after": "*",
        "stream_mode": ["values", "updates"],
        "stream_subgraphs": True,
        "durability": "exit",
    }
    assert (
        cron.items()
        >= {
            "thread_id": None,
            "schedule": NEVER,
            "timezone": "Europe/Berlin",
            "enabled": True,
            "end_time": None,
            "on_run_completed": "keep",
            "metadata": {"m": 1},
            "user_id": None,
        }.items()
    )


async def test_a_cron_can_be_for_one_thread_or_for_none(client: LangGraphClient) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    own: Any = await client.crons.create_for_thread(thread_id, "echo", schedule=NEVER, input={})
    assert (own["thread_id"], own["on_run_completed"]) == (thread_id, None)
    alone = await made(client)
    assert (alone["thread_id"], alone["on_run_completed"]) == (None, "delete")
    with pytest.raises(NotFoundError):
        await client.crons.create_for_thread(str(uuid4()), "echo", schedule=NEVER)
    await client.threads.delete(thread_id)
    assert await client.crons.count(thread_id=thread_id) == 0


@pytest.mark.parametrize(
    ("zone", "name"),
    [("Europe/Berlin", "Europe/Berlin"), (ZoneInfo("Asia/Tokyo"), "Asia/Tokyo"), (UTC, "UTC"), (None, None)],
)
async def test_nine_is_nine_in_the_zone_of_the_cron(client: LangGraphClient, zone: Any, name: str) -> None:
    cron = await made(client, schedule="0 9 * * *", timezone=zone)
    due = datetime.fromisoformat(cron["next_run_date"]).astimezone(ZoneInfo(name or "UTC"))
    assert (cron["timezone"], due.hour, due.minute) == (name, 9, 0)
    assert timedelta(0) < due - datetime.now(UTC) < timedelta(hours=26)


@pytest.mark.parametrize(
    ("said", "status", "field"),
    [
        ({"schedule": "soon"}, 422, "schedule"),
        ({"schedule": "* * * * * *"}, 422, "schedule"),
        ({"schedule": None}, 422, "schedule"),
        ({"timezone": "Mars/Base"}, 422, "timezone"),
        ({"end_time": "soon"}, 422, "end_time"),
        ({"end_time": 5}, 422, "end_time"),
        ({"assistant_id": "zzz"}, 422, "assistant_id"),
        ({"assistant_id": str(uuid4())}, 404, "assistant_id"),
        ({"webhook": "https://example.org"}, 422, "webhook"),
        ({"colour": "red"}, 422, "colour"),
        ({"stream_mode": "vaules"}, 400, "stream_mode"),
        ({"on_run_completed": "hide"}, 422, "on_run_completed"),
    ],
)
async def test_a_cron_that_could_not_run_is_refused_by_name(
    http: httpx.AsyncClient, said: dict[str, Any], status: int, field: str
) -> None:
    response = await http.post("/runs/crons", json={"assistant_id": "echo", "schedule": NEVER, **said})
    assert (response.status_code, response.json()["field"]) == (status, field)


# ---- Ends.


@pytest.mark.parametrize(
    "zone", [UTC, timezone(timedelta(hours=5, minutes=30)), None], ids=["utc", "offset", "naive"]
)
async def test_an_end_is_understood_and_honoured_however_it_is_said(
    client: LangGraphClient, zone: Any
) -> None:
    end = datetime.now(UTC) + timedelta(minutes=30)
    said = end.astimezone(zone) if zone else end.replace(tzinfo=None)
    soon = await made(client, schedule="* * * * *", enabled=False, end_time=said)
    assert datetime.fromisoformat(soon["end_time"]) == end
    late = await made(client, schedule=f"0 0 {FAR}", end_time=said)
    assert late["next_run_date"] is None
    revived: Any = await client.crons.update(late["cron_id"], end_time=None)
    assert revived["end_time"] is None
    assert datetime.fromisoformat(revived["next_run_date"]) > end


async def test_an_end_that_is_not_mentioned_stays(client: LangGraphClient) -> None:
    end = datetime.now(UTC) + timedelta(days=3000)
    cron = await made(client, end_time=end)
    changed: Any = await client.crons.update(cron["cron_id"], metadata={"m": 1})
    assert datetime.fromisoformat(changed["end_time"]) == end


async def test_an_end_may_be_written_with_a_z(http: httpx.AsyncClient) -> None:
    body = {"assistant_id": "echo", "schedule": NEVER, "end_time": "2100-01-01T00:00:00Z"}
    found = (await http.post("/runs/crons", json=body)).json()
    assert found["end_time"] == "2100-01-01T00:00:00+00:00"
    path = f"/runs/crons/{found['cron_id']}"
    assert (await http.patch(path, json={"end_time": "soon"})).status_code == 422
    assert (await http.get(path)).json()["end_time"] == found["end_time"]


# ---- Changing and deleting.


async def test_an_update_changes_what_it_mentions(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    cron = await made(client, input={"n": 1}, metadata={"a": 1, "b": 1}, timezone="Asia/Tokyo")
    changed: Any = await client.crons.update(
        cron["cron_id"],
        schedule="0 10 * * *",
        input={"n": 2},
        metadata={"b": 2},
        config={"tags": ["a"]},
        interrupt_before=["a"],
        on_run_completed="keep",
        stream_mode=["updates"],
        durability="sync",
        enabled=False,
    )
    assert changed["payload"].items() >= {"input": {"n": 2}, "config": {"tags": ["a"]}}.items()
    assert (changed["metadata"], changed["enabled"], changed["next_run_date"]) == (
        {"a": 1, "b": 2},
        False,
        None,
    )
    assert (changed["timezone"], changed["on_run_completed"]) == ("Asia/Tokyo", "keep")
    path = f"/runs/crons/{cron['cron_id']}"
    back = (await http.patch(path, json={"timezone": None, "enabled": True})).json()
    assert back["timezone"] is None
    assert datetime.fromisoformat(back["next_run_date"]).hour == 10
    assert (await http.get(path)).json() == back
    for wrong in ({"schedule": "x"}, {"colour": 1}, {"timezone": "x"}, {"webhook": "https://x"}):
        assert (await http.patch(path, json=wrong)).status_code == 422
    assert (await http.get(path)).json() == back


async def test_a_cron_can_be_deleted(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    cron = await made(client)
    await client.crons.delete(cron["cron_id"])
    path = f"/runs/crons/{cron['cron_id']}"
    for response in (await http.get(path), await http.delete(path), await http.patch(path, json={})):
        assert (response.status_code, response.json()["field"]) == (404, "cron_id")


# ---- Finding them.


async def test_crons_are_found_by_what_they_are(client: LangGraphClient, team: dict[str, str]) -> None:
    thread_id = (await client.threads.create())["thread_id"]
    on: Any = await client.crons.create_for_thread(thread_id, "echo", schedule=NEVER, metadata=team)
    off = await made(client, enabled=False, metadata=team)

    async def found(**said: Any) -> set[str]:
        return {cron["cron_id"] for cron in await client.crons.search(metadata=team, **said)}

    both = {on["cron_id"], off["cron_id"]}
    assert await found() == both
    assert await found(assistant_id="echo") == await found(assistant_id=on["assistant_id"]) == both
    assert await found(assistant_id="slow") == await found(assistant_id="zzz") == set()
    assert await found(thread_id=thread_id) == {on["cron_id"]}
    assert await found(enabled=False) == {off["cron_id"]}
    assert await client.crons.count(metadata=team) == 2
    assert await client.crons.count(metadata=team, thread_id=thread_id) == 1


async def test_crons_are_sorted_and_paged(
    client: LangGraphClient, http: httpx.AsyncClient, team: dict[str, str]
) -> None:
    hours = {hour: await made(client, schedule=f"0 {hour} {FAR}", metadata=team) for hour in (5, 3, 4)}
    for sort_by in ("next_run_date", "created_at", "updated_at", "end_time", "cron_id", "thread_id"):
        sort: Any = {"sort_by": sort_by, "sort_order": "asc"}
        found = await client.crons.search(metadata=team, **sort)
        assert len(found) == 3
    by_date = await client.crons.search(metadata=team, sort_by="next_run_date", sort_order="asc")
    assert [cron["cron_id"] for cron in by_date] == [hours[hour]["cron_id"] for hour in (3, 4, 5)]
    newest = await client.crons.search(metadata=team)
    assert [cron["cron_id"] for cron in newest] == [hours[hour]["cron_id"] for hour in (4, 3, 5)]
    page = await http.post("/runs/crons/search", json={"metadata": team, "limit": 2})
    assert page.headers["x-pagination-total"] == "3"
    assert page.headers["x-pagination-next"] == "2"
    rest = await http.post(
        "/runs/crons/search",
        json={"metadata": team, "limit": 2, "after": page.headers["x-pagination-cursor"]},
    )
    assert [cron["cron_id"] for cron in page.json() + rest.json()] == [cron["cron_id"] for cron in newest]
    chosen: Any = await client.crons.search(metadata=team, limit=1, select=["cron_id", "now"])
    assert set(chosen[0]) == {"cron_id", "now"}
    assert "now" not in newest[0]


@pytest.mark.parametrize(
    "body", [{"limit": -1}, {"limit": 1001}, {"sort_by": "colour"}, {"select": ["colour"]}, {"colour": 1}]
)
async def test_a_search_that_is_none_is_refused(http: httpx.AsyncClient, body: dict[str, Any]) -> None:
    assert (await http.post("/runs/crons/search", json=body)).status_code == 422


# ---- Whose they are.


async def test_a_cron_and_its_thread_are_the_callers_own(start_server: StartServer) -> None:
    url = start_server(auth=owners()).url
    async with (
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, headers=as_user("ann")) as ann,
        httpx.AsyncClient(base_url=url, timeout=PATIENCE, headers=as_user("bob")) as bob,
    ):
        thread_id = (await ann.post("/threads", json={})).json()["thread_id"]
        body = {"assistant_id": "echo", "schedule": NEVER}
        path = f"/threads/{thread_id}/runs/crons"
        assert (await bob.post(path, json=body)).status_code == 404
        cron = (await ann.post(path, json=body)).json()
        assert (cron["user_id"], cron["metadata"]["owner"]) == ("ann", "ann")
        place = f"/runs/crons/{cron['cron_id']}"
        for method in ("get", "delete"):
            assert (await bob.request(method, place)).status_code == 404
        assert (await bob.patch(place, json={"enabled": False})).status_code == 404
        assert (await bob.post("/runs/crons/search", json={})).json() == []
        assert (await bob.post("/runs/crons/count", json={})).json() == 0
        assert (await ann.get(place)).json() == cron
        assert (await ann.delete(place)).status_code == 204
