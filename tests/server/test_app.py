"""What surrounds the routes: health, metrics, ids of requests, CORS, a prefix, another application."""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client

from stateroom.api.routes import system
from stateroom.boot.compose import Server
from stateroom.errors import Misconfigured, Unavailable
from stateroom.settings import HttpSettings, Settings
from tests.server.auths import as_user, beside, people
from tests.server.conftest import Running, StartServer, run_in_thread

SAYING: Any = {"messages": ["a"]}
FEATURES = (
    *("assistants", "threads", "runs", "crons", "store", "mcp", "a2a"),
    *("strict_resume", "stream_namespaces"),
)
CUSTOM = f"{Path(__file__).with_name('custom_app.py')}:app"


@asynccontextmanager
async def asking(url: str, **options: Any) -> AsyncIterator[httpx.AsyncClient]:
    async with httpx.AsyncClient(base_url=url, **options) as http:
        yield http


@pytest.fixture(scope="module")
def alone(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server for what no storage makes a difference to."""
    running = run_in_thread(Server(new_settings("sqlite")))
    yield running
    running.close()


# ---- Health.


@pytest.mark.parametrize("path", ["/ok", "/ready"])
async def test_healthy(http: httpx.AsyncClient, path: str) -> None:
    answered = await http.get(path)
    assert (answered.status_code, answered.json()) == (200, {"ok": True})


async def test_info(http: httpx.AsyncClient, kind: str) -> None:
    told = (await http.get("/info")).json()
    assert sorted(told) == ["context", "flags", "langgraph_py_version", "metadata", "version"]
    assert told["flags"] == {
        **dict.fromkeys(FEATURES, True),
        "langsmith": False,
    }
    assert told["metadata"]["storage"] == kind


async def test_not_ready_while_the_storage_does_not_answer(
    start_server: StartServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    running = start_server()
    runs, hanging = running.server.parts.storage.runs, threading.Event()

    def fail() -> None:
        raise Unavailable("the database is gone")

    async with asking(running.url) as http:
        monkeypatch.setattr(runs, "next_available_at", fail)
        gone = await http.get("/ready")
        monkeypatch.setattr(runs, "next_available_at", hanging.wait)
        monkeypatch.setattr(system, "READY_SECONDS", 0.05)
        slow = await http.get("/ready")
        hanging.set()
        monkeypatch.undo()
        assert (await http.get("/ready")).status_code == 200
    assert (gone.status_code, gone.json()["detail"]) == (503, "the database is gone")
    assert (slow.status_code, slow.json()["code"]) == (503, "unavailable")


# ---- Metrics and ids.


async def test_metrics_count(start_server: StartServer) -> None:
    running = start_server()
    async with asking(running.url) as http:
        for path in ("/ok", "/ok", "/threads/t1", "/threads/t2", "/nowhere"):
            await http.get(path)
        await http.post("/runs/wait", json={"assistant_id": "echo", "input": {}})
        text = (await http.get("/metrics")).text
    lines = text.splitlines()
    counted = "stateroom_http_requests_total"
    assert f'{counted}{{method="GET",route="/ok",status="200"}} 2.0' in lines
    assert f'{counted}{{method="GET",route="/threads/{{thread_id}}",status="404"}} 2.0' in lines
    assert f'{counted}{{method="GET",route="other",status="404"}} 1.0' in lines
    assert 'stateroom_http_request_seconds_count{method="GET",route="/ok"} 2.0' in lines
    assert 'stateroom_runs{status="success"} 1.0' in lines
    assert 'stateroom_runs{status="running"} 0.0' in lines


@pytest.mark.parametrize(
    ("given", "kept"), [("abc-1", True), ("x" * 128, True), ("x" * 129, False), ("a b", False), ("", False)]
)
async def test_id_of_a_request(http: httpx.AsyncClient, given: str, kept: bool) -> None:
    first, second = [(await http.get("/ok", headers={"x-request-id": given})) for _ in range(2)]
    ids = (first.headers["x-request-id"], second.headers["x-request-id"])
    assert (ids == (given, given)) == kept
    assert kept or (ids[0] != ids[1] and len(ids[0]) == 36)


# ---- CORS.


async def test_no_cors_unless_asked_for(http: httpx.AsyncClient) -> None:
    answered = await http.get("/ok", headers={"origin": "http://a.example"})
    assert "access-control-allow-origin" not in answered.headers


async def test_cors(alone: Running) -> None:
    cors = {"allow_origins": ["http://a.example"], "allow_credentials": True, "expose_headers": ["X-Mine"]}
    origin = {"origin": "http://a.example"}
    wish = {"access-control-request-method": "DELETE", "access-control-request-headers": "x-api-key"}
    settings = HttpSettings(cors=cors | {"max_age": 60})
    async with beside(alone, auth=people(), http=settings) as http:
        asked = await http.options("/threads", headers=origin | wish)
        refused = await http.get("/nowhere", headers=origin)
        foreign = await http.get("/ok", headers={"origin": "http://b.example"})
    assert asked.status_code == 200
    assert asked.headers["access-control-max-age"] == "60"
    assert "DELETE" in asked.headers["access-control-allow-methods"]
    assert refused.status_code == 401
    assert refused.headers["access-control-allow-origin"] == "http://a.example"
    exposed = refused.headers["access-control-expose-headers"]
    assert all(name in exposed for name in ("X-Mine", "Content-Location", "X-Pagination-Total", "ETag"))
    assert "access-control-allow-origin" not in foreign.headers


def test_cors_that_nobody_knows(alone: Running) -> None:
    with pytest.raises(Misconfigured, match=r"http\.cors\.allow_orgins"):
        beside(alone, http=HttpSettings(cors={"allow_orgins": ["*"]}))


# ---- Groups that are off, and a prefix.


@pytest.mark.parametrize(
    ("group", "method", "path"),
    [
        ("assistants", "POST", "/assistants/search"),
        ("threads", "POST", "/threads/search"),
        ("runs", "POST", "/runs/batch"),
        ("crons", "POST", "/runs/crons/search"),
        ("store", "POST", "/store/items/search"),
        ("meta", "GET", "/info"),
    ],
)
async def test_group_that_is_off(alone: Running, group: str, method: str, path: str) -> None:
    async with beside(alone, http=HttpSettings(disabled=frozenset((group,)))) as http:
        # A name may fit the path of another group, but never its methods.
        assert (await http.request(method, path, json={})).status_code in (404, 405)
        assert (await http.get("/ok")).status_code == 200
        if group != "meta":
            assert (await http.get("/info")).json()["flags"][group] is False


async def test_prefix(start_server: StartServer) -> None:
    running = start_server(http=HttpSettings(mount_prefix="/my/api"))
    async with asking(running.url) as http:
        assert (await http.get("/my/api/ok")).json() == {"ok": True}
        for path in ("/ok", "/my/apiok", "/my/api", "/my/ap/ok"):
            assert (await http.get(path)).status_code == 404
    async with get_client(url=f"{running.url}/my/api", api_key=None) as client:
        found: Any = await client.runs.wait(None, "echo", input=SAYING)
        assert found["messages"][-1]["content"] == "echo: a"
        thread = await client.threads.create()
        streamed = client.runs.stream(thread["thread_id"], "echo", input=SAYING)
        assert [one.event async for one in streamed].index("metadata") == 0


# ---- An application beside ours.


async def test_application_beside_ours(start_server: StartServer) -> None:
    running = start_server(auth=people(), http=HttpSettings(app=CUSTOM))
    async with asking(running.url) as http:
        theirs = await http.get("/hello/ann")
        assert theirs.json() == {"hello": "ann"}
        assert (await http.get("/info")).json() == {"whose": "theirs"}
        assert (await http.get("/ok")).json() == {"ok": True}
        broken = await http.get("/broken")
        assert (broken.status_code, "secret" in broken.text) == (500, False)
        refused = await http.post("/threads", json={})
        assert (refused.status_code, refused.json()["code"]) == (401, "unauthenticated")
        made = await http.post("/threads", json={}, headers=as_user("ann"))
        assert made.json()["status"] == "idle"
        assert {theirs.headers["x-stamp"], made.headers["x-stamp"]} == {"1"}
        document = (await http.get("/openapi.json")).json()
        assert document["info"]["title"] == "Stateroom"
        assert {"/hello/{name}", "/threads"} <= set(document["paths"])
        metrics = (await http.get("/metrics", headers=as_user("ann"))).text
        assert 'route="/hello/{name}",status="200"} 1.0' in metrics


@pytest.mark.parametrize("order", ["auth_first", "middleware_first"])
@pytest.mark.parametrize("guarded", [True, False])
async def test_door_and_the_middleware(alone: Running, order: Any, guarded: bool) -> None:
    settings = HttpSettings(app=CUSTOM, custom_route_auth=guarded, middleware_order=order)
    async with beside(alone, auth=people(), http=settings) as http:
        theirs, ours = await http.get("/hello/ann"), await http.get("/threads/t")
        let_in = [await http.get(path, headers=as_user("ann")) for path in ("/hello/ann", "/threads/t")]
    assert (theirs.status_code, ours.status_code) == (401 if guarded else 200, 401)
    assert [one.status_code for one in let_in] == [200, 404]
    # Whom the door turns away, middleware behind it never sees.
    assert ("x-stamp" in ours.headers) == (order == "middleware_first")


@pytest.mark.parametrize(("name", "text"), [("not_an_app", "is a object"), ("nothing", "no attribute")])
def test_application_that_is_none(alone: Running, name: str, text: str) -> None:
    with pytest.raises(Misconfigured, match=text):
        beside(alone, http=HttpSettings(app=CUSTOM.replace(":app", f":{name}")))
