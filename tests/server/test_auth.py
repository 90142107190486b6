"""The door: who is let in, what an authenticator is told, and what stays open."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import httpx
import pytest
import websockets
from langgraph_sdk import Auth
from langgraph_sdk.auth.types import StudioUser
from starlette.requests import Request

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.auths import as_user, beside, people, raising, rule
from tests.server.conftest import Running, run_in_thread

STUDIO = {"x-auth-scheme": "langsmith"}
OPEN = ("/ok", "/ready", "/info", "/docs", "/openapi.json")
CLOSED = (
    *(("GET", "/metrics"), ("GET", "/nowhere"), ("GET", "/okay"), ("GET", "/ok/"), ("GET", "//ok")),
    *(("POST", "/threads"), ("GET", "/threads/t"), ("PUT", "/store/items"), ("POST", "/threads/search")),
)


@pytest.fixture(scope="module")
def closed(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server that knows its callers."""
    running = run_in_thread(Server(new_settings("sqlite"), auth=people()))
    yield running
    running.close()


@pytest.fixture
async def anyone(closed: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Return a client of nobody's."""
    async with httpx.AsyncClient(base_url=closed.url) as http:
        yield http


@pytest.mark.parametrize("path", OPEN)
async def test_open_to_everybody(anyone: httpx.AsyncClient, path: str) -> None:
    assert (await anyone.get(path)).status_code == 200


@pytest.mark.parametrize(("method", "path"), CLOSED)
async def test_closed_to_nobody(anyone: httpx.AsyncClient, method: str, path: str) -> None:
    refused = await anyone.request(method, path)
    assert refused.status_code == 401
    assert refused.json() == {"detail": "say who you are", "code": "unauthenticated"}
    assert refused.headers["www-authenticate"] == "Bearer"
    assert refused.headers["x-request-id"]


async def test_every_address_is_closed(anyone: httpx.AsyncClient) -> None:
    document = (await anyone.get("/openapi.json")).json()
    for path, operations in document["paths"].items():
        for method in operations:
            answered = await anyone.request(method, path.replace("{", "").replace("}", ""))
            assert (answered.status_code == 401) == (path not in OPEN), (method, path)


async def test_somebody_is_let_in(anyone: httpx.AsyncClient) -> None:
    found = await anyone.post("/store/items/search", json={}, headers=as_user("ann"))
    assert found.json() == {"items": []}
    assert (await anyone.get("/nowhere", headers=as_user("ann"))).status_code == 404


async def test_body_of_a_stranger_is_not_read(anyone: httpx.AsyncClient) -> None:
    refused = await anyone.post("/store/items/search", content=b"{bad")
    assert refused.status_code == 401


async def test_websocket_of_a_stranger_is_closed_with_a_reason(closed: Running) -> None:
    url = closed.url.replace("http", "ws") + "/threads/t/stream/events"
    async with websockets.connect(url) as socket:
        with pytest.raises(websockets.ConnectionClosed) as caught:
            await socket.recv()
    assert caught.value.rcvd is not None
    assert caught.value.rcvd.code == 4401


# ---- Studio.


async def test_studio_is_let_in_here(anyone: httpx.AsyncClient) -> None:
    assert (await anyone.get("/metrics", headers=STUDIO)).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [{"x-auth-scheme": "other"}, STUDIO | {"x-forwarded-for": "10.0.0.1"}, STUDIO | {"forwarded": "for=x"}],
)
async def test_studio_from_elsewhere_is_not(anyone: httpx.AsyncClient, headers: dict[str, str]) -> None:
    assert (await anyone.get("/metrics", headers=headers)).status_code == 401


async def test_studio_from_another_machine_is_not(closed: Running) -> None:
    transport = httpx.ASGITransport(closed.server.app, client=("192.0.2.7", 1))
    async with httpx.AsyncClient(transport=transport, base_url="http://x") as http:
        assert (await http.get("/metrics", headers=STUDIO)).status_code == 401


async def test_studio_can_be_locked_out(closed: Running) -> None:
    async with beside(closed, auth=people(), studio_auth=False) as http:
        assert (await http.get("/metrics", headers=STUDIO)).status_code == 401


async def test_rules_know_studio(closed: Running) -> None:
    auth = people()
    auth.on(rule(lambda ctx, _: isinstance(ctx.user, StudioUser)))
    async with beside(closed, auth=auth) as http:
        asked = {"namespace_prefix": ["langgraph-studio-user"]}
        let_in = await http.post("/store/items/search", json=asked, headers=STUDIO)
        refused = await http.post("/store/items/search", json={}, headers=as_user("ann"))
    assert (let_in.status_code, refused.status_code) == (200, 403)


# ---- What an authenticator is told, and answers.


async def test_authenticator_is_told_what_it_asks_for(closed: Running) -> None:
    auth = Auth()
    told: list[Any] = []

    @auth.authenticate
    async def who(
        request: Request,
        body: Any,
        path: str,
        method: str,
        path_params: dict[str, str],
        query_params: dict[str, str],
        headers: dict[bytes, bytes],
        authorization: str | None,
        scope: Any,
    ) -> str:
        told.append((path, method, path_params, query_params, headers[b"x-a"], authorization, scope["type"]))
        told.append((body, await request.body(), request.headers["x-a"]))
        return "ann"

    async with beside(closed, auth=auth) as http:
        asked = {"namespace_prefix": ["ann"], "limit": 3}
        found = await http.post("/store/items/search?b=2", json=asked, headers={"x-a": "1"} | as_user("u"))
        assert found.json() == {"items": []}
        await http.get("/store/items", params={"namespace": "ann", "key": "k"}, headers={"x-a": "1"})
    path, query = "/store/items/search", {"b": "2"}
    assert told[0] == (path, "POST", {}, query, b"1", "Bearer u", "http")
    assert (told[1][0], json.loads(told[1][1]), told[1][2]) == (asked, asked, "1")
    assert told[2][:2] == ("/store/items", "GET")
    assert told[2][5] is None
    assert told[3][:2] == (None, b"")


async def test_authenticator_is_told_what_the_path_names(closed: Running) -> None:
    auth = Auth()
    told: list[Any] = []

    @auth.authenticate  # type: ignore[type-var]  # it need not be async
    def who(path_params: dict[str, str]) -> dict[str, str]:
        told.append(path_params)
        return {"identity": "ann"}

    async with beside(closed, auth=auth) as http:
        assert (await http.get("/threads/t-1")).status_code == 404
    assert told == [{"thread_id": "t-1"}]


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (Auth.exceptions.HTTPException(403, "no", {"x-why": "so"}), 403, "denied"),
        (Auth.exceptions.HTTPException(418, "teapot"), 418, "error"),
        (AssertionError("no token"), 401, "unauthenticated"),
        (ValueError("secret"), 500, "internal"),
    ],
)
async def test_authenticator_that_raises(closed: Running, error: Exception, status: int, code: str) -> None:
    auth = Auth()

    @auth.authenticate
    async def who() -> str:
        raise error

    async with beside(closed, auth=auth) as http:
        refused = await http.get("/metrics")
        assert (await http.get("/ok")).status_code == 200
    assert (refused.status_code, refused.json()["code"]) == (status, code)
    assert "secret" not in refused.text
    assert refused.headers.get("x-why") == ("so" if status == 403 else None)


@pytest.mark.parametrize(
    ("handler", "status", "text"),
    [
        (rule(lambda *_: False), 403, "store.search"),
        (raising(Auth.exceptions.HTTPException(409, "busy")), 409, "busy"),
        (raising(KeyError("secret")), 500, "x-request-id"),
        (rule(lambda *_: {"owner": "ann"}), 500, "store.search returned a filter"),
    ],
)
async def test_rule_that_refuses(closed: Running, handler: Any, status: int, text: str) -> None:
    auth = people()
    auth.on.store(handler)
    async with beside(closed, auth=auth) as http:
        refused = await http.post("/store/items/search", json={}, headers=as_user("ann"))
    assert refused.status_code == status
    assert text in refused.json()["detail"]
    assert "secret" not in refused.text
