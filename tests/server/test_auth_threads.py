"""Nobody reaches anybody else's threads, runs and crons: A11, over every address that takes an id of one."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any, Final

import httpx
import pytest

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.auths import as_user, owners
from tests.server.conftest import PATIENCE, Running, run_in_thread

RUN: Final = {"assistant_id": "echo", "input": {"messages": ["of u2"]}}
MISSING: Final = "00000000-0000-4000-8000-000000000000"

BODIES: Final[dict[str, Any]] = {
    "create_cron_for_thread": {"assistant_id": "echo", "schedule": "* * * * *"},
    "update_cron": {"enabled": False},
    "command": {"id": 1, "method": "run.start", "params": RUN},
    "stream_events": {"channels": ["values"]},
    "create_run": RUN,
    "wait_for_new_run": RUN,
    "stream_new_run": RUN,
    "stream_new_run_on_thread": RUN,
    "update_thread": {"metadata": {"owner": "u2"}},
    "update_state": {"values": {"messages": ["of u2"]}},
    "patch_state": {"metadata": {"x": 1}},
    "read_state": {"checkpoint": {"checkpoint_id": MISSING}},
    "list_history": {},
}
"""What the operations of the document are sent that need a body."""

PLACES: Final = ("{thread_id}", "{run_id}", "{cron_id}")

# These make the thread if there is none, so that their answers differ for what is somebody else's.
MAKING: Final = ("command", "stream_events")


@pytest.fixture(scope="module")
def owned(kind: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server where everything has an owner."""
    running = run_in_thread(Server(new_settings(kind), auth=owners()))
    yield running
    running.close()


def client(running: Running, user: str) -> httpx.Client:
    return httpx.Client(base_url=running.url, headers=as_user(user), timeout=PATIENCE)


@pytest.fixture(scope="module")
def owner(owned: Running) -> Iterator[httpx.Client]:
    """Return the client of u1, whose everything is."""
    with client(owned, "u1") as http:
        yield http


@pytest.fixture(scope="module")
def other(owned: Running) -> Iterator[httpx.Client]:
    """Return the client of u2, who tries."""
    with client(owned, "u2") as http:
        yield http


@pytest.fixture(scope="module")
def ids(owner: httpx.Client) -> dict[str, str]:
    """Return the ids of a thread with two runs, of one of these, and of a cron on the thread."""
    thread = owner.post("/threads", json={}).json()["thread_id"]
    owner.post(f"/threads/{thread}/runs/wait", json=RUN).raise_for_status()
    owner.post(f"/threads/{thread}/runs/wait", json=RUN | {"assistant_id": "hitl"}).raise_for_status()
    run = owner.get(f"/threads/{thread}/runs").json()[0]["run_id"]
    # It is for a day that is far away.
    cron = owner.post(
        f"/threads/{thread}/runs/crons", json={"assistant_id": "echo", "schedule": "0 0 29 2 *"}
    )
    checkpoint = owner.get(f"/threads/{thread}/state").json()["checkpoint"]["checkpoint_id"]
    named = {"thread_id": thread, "run_id": run, "cron_id": cron.json()["cron_id"]}
    return named | {"checkpoint_id": checkpoint, "delivery_id": MISSING}


def everything(owner: httpx.Client, ids: dict[str, str]) -> Any:
    """Return all that could have been changed."""
    thread = f"/threads/{ids['thread_id']}"
    seen = [owner.get(f"{thread}{rest}") for rest in ("", "/state", "/history?limit=100", "/runs")]
    seen += [owner.get(f"{thread}/runs/{ids['run_id']}"), owner.get(f"/runs/crons/{ids['cron_id']}")]
    assert [one.status_code for one in seen] == [200] * len(seen), [one.text for one in seen]
    return [one.json() for one in seen]


def operations(running: Running) -> list[tuple[str, str, str]]:
    """Return the method, the path and the name of every operation that is about one thread, run or cron."""
    document = running.server.app.openapi()
    return [
        (method.upper(), path, operation["operationId"])
        for path, named in document["paths"].items()
        for method, operation in named.items()
        if any(place in path for place in PLACES)
    ]


def ask(http: httpx.Client, method: str, path: str, name: str, ids: dict[str, str]) -> tuple[int, str]:
    """Return the status and the detail of an answer, without what it calls the thing that is not there."""
    with http.stream(method, path.format(**ids), json=BODIES.get(name)) as answered:
        if answered.status_code == 200:
            return 200, ""
        detail = str(json.loads(answered.read())["detail"])
    for identity in ids.values():
        detail = detail.replace(identity, "...")
    return answered.status_code, detail


def test_nobody_else_comes_near(
    owned: Running, owner: httpx.Client, other: httpx.Client, ids: dict[str, str]
) -> None:
    before = everything(owner, ids)
    missing = dict.fromkeys(ids, MISSING)
    asked = [one for one in operations(owned) if one[2] not in MAKING]
    assert len(asked) >= 25
    for method, path, name in asked:
        found = ask(other, method, path, name, ids)
        assert found[0] == 404, (method, path, found)
        assert found == ask(other, method, path, name, missing), (method, path)
    assert everything(owner, ids) == before


def test_protocol_does_not_come_near(owner: httpx.Client, other: httpx.Client, ids: dict[str, str]) -> None:
    before = everything(owner, ids)
    thread = f"/threads/{ids['thread_id']}"
    for method, params in (
        ("run.start", RUN),
        ("input.respond", {"namespace": [], "interrupt_id": "x", "response": 1}),
        ("agent.getTree", {}),
    ):
        answered = other.post(f"{thread}/commands", json={"id": 1, "method": method, "params": params})
        assert answered.status_code == 404 or answered.json()["type"] == "error", answered.text
    with other.stream("POST", f"{thread}/stream/events", json=BODIES["stream_events"]) as answered:
        assert answered.status_code == 404
    assert everything(owner, ids) == before


@pytest.mark.parametrize("path", ["", "/wait", "/stream"])
def test_thread_that_is_there_is_not_made(
    owner: httpx.Client, other: httpx.Client, ids: dict[str, str], path: str
) -> None:
    before = everything(owner, ids)
    body = RUN | {"if_not_exists": "create"}
    refused = other.post(f"/threads/{ids['thread_id']}/runs{path}", json=body)
    assert refused.status_code in (404, 409)
    assert everything(owner, ids) == before


def test_ids_in_bodies(owner: httpx.Client, other: httpx.Client, ids: dict[str, str]) -> None:
    before = everything(owner, ids)
    thread, run = ids["thread_id"], ids["run_id"]
    for if_exists in ("raise", "do_nothing"):
        made = other.post("/threads", json={"thread_id": thread, "if_exists": if_exists})
        assert made.status_code in (404, 409), made.text
    assert other.post("/threads/search", json={"ids": [thread]}).json() == []
    assert other.post("/threads/search", json={"metadata": {"owner": "u1"}}).json() == []
    assert other.post("/threads/count", json={}).json() == 0
    assert other.post("/runs/crons/search", json={"thread_id": thread}).json() == []
    assert other.post("/runs/crons/count", json={}).json() == 0
    pruned = other.post("/threads/prune", json={"thread_ids": [thread]})
    assert pruned.status_code == 404 or pruned.json() == {"pruned_count": 0}
    cancelled = other.post("/runs/cancel", json={"thread_id": thread, "run_ids": [run]})
    assert cancelled.status_code in (204, 404)
    batch = other.post("/runs/batch", json=[RUN, RUN | {"thread_id": thread}])
    assert 400 <= batch.status_code < 500
    assert everything(owner, ids) == before


def test_owner_is_let_in(owned: Running, owner: httpx.Client, ids: dict[str, str]) -> None:
    """What the tests above send is in order, but for who sends it."""
    read_only = [one for one in operations(owned) if one[0] == "GET"]
    for method, path, name in read_only:
        assert ask(owner, method, path, name, ids)[0] == 200, (method, path)


def test_new_operations_are_tried(owned: Running) -> None:
    document = owned.server.app.openapi()
    for method, path, name in operations(owned):
        operation = document["paths"][path][method.lower()]
        assert not operation.get("requestBody", {}).get("required") or name in BODIES, name
