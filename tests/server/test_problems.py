"""What failures look like: their status, their code, the field to blame, and a connection that lives on."""

from __future__ import annotations

import http.client
import json
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Annotated, Any

import httpx
import pytest
from fastapi import FastAPI, Query
from langgraph_sdk import Auth
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from stateroom import errors
from stateroom.api.problems import INTERNAL, problem
from stateroom.api.wire.base import Body, Texts, ThreadId
from stateroom.boot.compose import Server
from stateroom.errors import StateroomError
from stateroom.settings import Limits, Settings
from tests.server.conftest import Running, run_in_thread

BODY_BYTES = 20_000

STATUSES: list[tuple[Exception, int, str]] = [
    (errors.Unauthenticated(), 401, "unauthenticated"),
    (errors.Denied("no"), 403, "denied"),
    (errors.NotFound("no"), 404, "not_found"),
    (errors.Conflict("no"), 409, "conflict"),
    (errors.Conflict("no", field="if_revision"), 412, "conflict"),
    (errors.Conflict("no", field="if_absent"), 412, "conflict"),
    (errors.ThreadBusy("no"), 409, "thread_busy"),
    (errors.ThreadStatusMismatch("no"), 409, "thread_status_mismatch"),
    (errors.Fenced("no"), 409, "fenced"),
    (errors.InvalidInput("no"), 400, "invalid_input"),
    (errors.InvalidFilter("no"), 400, "invalid_filter"),
    (errors.LimitExceeded("no", field="value"), 413, "limit_exceeded"),
    (errors.LimitExceeded("no", field="limit"), 422, "limit_exceeded"),
    (errors.NotSupported("no"), 422, "not_supported"),
    (errors.Unavailable("no"), 503, "unavailable"),
    (errors.Misconfigured("no"), 500, "misconfigured"),
    (errors.OutsideGraph("no"), 500, "outside_graph"),
    (HTTPException(405, "no"), 405, "method_not_allowed"),
    (HTTPException(418, "no"), 418, "error"),
    (Auth.exceptions.HTTPException(403, "no"), 403, "denied"),
]


class Inner(Body):
    """A part of what is asked for below."""

    n: int = 0


class Asked(Body):
    """What the route below asks for."""

    name: str
    inner: list[Inner] = []  # noqa: RUF012 - pydantic copies it


class Answered(BaseModel):
    """What the route below answers."""

    thread: str
    ids: list[str] | None


def add_routes(app: FastAPI) -> None:
    """Add routes that fail as asked, in front of those that the server has."""

    @app.get("/raise/{number}")
    async def fail(number: int) -> None:
        raise STATUSES[number][0]

    @app.get("/boom")
    async def boom() -> None:
        raise RuntimeError("secret")

    @app.post("/asked")
    async def asked(body: Asked) -> None:
        pass

    @app.get("/texts/{thread_id}")
    async def texts(thread_id: ThreadId, ids: Annotated[Texts | None, Query()] = None) -> Answered:
        return Answered(thread=thread_id, ids=ids)

    @app.post("/body")
    async def body(body: dict[str, Any]) -> int:
        return len(body)


@pytest.fixture(scope="module")
def failing(new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server some of whose routes fail."""
    server = Server(new_settings("sqlite", limits=Limits(body_bytes=BODY_BYTES)))
    server.open()
    add_routes(server.app)
    running = run_in_thread(server)
    yield running
    running.close()


@pytest.fixture
async def asking(failing: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Return its client."""
    async with httpx.AsyncClient(base_url=failing.url) as http:
        yield http


# ---- Statuses and codes.


@pytest.mark.parametrize("number", range(len(STATUSES)))
async def test_status_and_code(asking: httpx.AsyncClient, number: int) -> None:
    error, status, code = STATUSES[number]
    answered = await asking.get(f"/raise/{number}")
    expected = {"detail": str(getattr(error, "detail", error)), "code": code}
    if field := getattr(error, "field", None):
        expected["field"] = field
    assert (answered.status_code, answered.json()) == (status, expected)
    assert ("retry-after" in answered.headers) == (status == 503)


def test_every_error_has_a_status_of_its_own() -> None:
    for name in errors.__all__:
        kind = getattr(errors, name)
        if issubclass(kind, StateroomError) and kind is not StateroomError:
            told = json.loads(bytes(problem(kind("no")).body))
            assert told == {"detail": "no", "code": kind.code}


async def test_nothing_there(asking: httpx.AsyncClient) -> None:
    answered = await asking.get("/nowhere")
    assert answered.status_code == 404
    assert answered.json() == {"detail": "there is nothing at this address", "code": "not_found"}


async def test_wrong_method(asking: httpx.AsyncClient) -> None:
    answered = await asking.delete("/ok")
    assert (answered.status_code, answered.json()["code"]) == (405, "method_not_allowed")
    assert answered.headers["allow"] == "GET"
    assert "GET" in answered.json()["detail"]


# ---- What nobody foresaw.


async def test_unforeseen_failure_is_logged_and_not_told(
    asking: httpx.AsyncClient, caplog: pytest.LogCaptureFixture
) -> None:
    answered = await asking.get("/boom", headers={"x-request-id": "my-id"})
    assert answered.status_code == 500
    assert answered.json() == {"detail": INTERNAL, "code": "internal"}
    assert answered.headers["x-request-id"] == "my-id"
    (record,) = [one for one in caplog.records if one.name == "stateroom.api.problems"]
    assert "my-id" in record.getMessage()
    assert record.exc_info is not None
    assert "secret" in str(record.exc_info[1])


def test_connection_lives_on(failing: Running) -> None:
    connection = http.client.HTTPConnection(failing.url.removeprefix("http://"))
    connection.connect()
    connection.auto_open = 0
    for path in ("/boom", "/raise/0", "/nowhere", "/ok"):
        connection.request("GET", path)
        answered = connection.getresponse()
        assert answered.read()
    assert answered.status == 200
    connection.close()


# ---- The body: its form, and its size.


@pytest.mark.parametrize(
    ("body", "field", "text"),
    [
        ({}, "name", "name is missing; give it"),
        ({"name": 5}, "name", "name is 5: input should be a valid string"),
        ({"name": "a", "nmae": 1}, "nmae", "nmae is not known here; leave it out"),
        ({"name": "a", "inner": [{"n": "x"}]}, "inner[0].n", "inner[0].n is 'x': input should be a valid"),
        ({"name": 5, "x": 1}, "name", "; x is not known here"),
        ([], "body", "body is []: input should be a valid"),
    ],
)
async def test_body_of_another_form(asking: httpx.AsyncClient, body: Any, field: str, text: str) -> None:
    answered = await asking.post("/asked", json=body)
    told = answered.json()
    assert (answered.status_code, told["code"], told["field"]) == (422, "invalid_request", field)
    assert text in told["detail"]


@pytest.mark.parametrize(
    ("content", "status"),
    [(b"", 422), (b"{", 422), (b"nope", 422), (b"\xff\xfe{", 400), (b"[" * 15_000, 400)],
    ids=["none", "cut", "word", "bytes", "deep"],
)
async def test_body_that_is_not_json(asking: httpx.AsyncClient, content: bytes, status: int) -> None:
    answered = await asking.post("/asked", content=content, headers={"content-type": "application/json"})
    assert answered.status_code == status
    assert answered.json()["detail"]


async def test_many_faults_are_cut_short(asking: httpx.AsyncClient) -> None:
    answered = await asking.post("/asked", json={f"x{number}": 1 for number in range(50)})
    assert answered.json()["detail"].endswith("and 41 more")


def sized(size: int) -> bytes:
    return b'{"a":"' + b"x" * (size - len(b'{"a":""}')) + b'"}'


async def chunks(content: bytes) -> AsyncIterator[bytes]:
    for start in range(0, len(content), 7_000):
        yield content[start : start + 7_000]


@pytest.mark.parametrize("streamed", [False, True])
@pytest.mark.parametrize(("size", "status"), [(BODY_BYTES, 200), (BODY_BYTES + 1, 413)])
async def test_body_up_to_the_limit(
    asking: httpx.AsyncClient, size: int, status: int, streamed: bool
) -> None:
    content: Any = chunks(sized(size)) if streamed else sized(size)
    answered = await asking.post("/body", content=content, headers={"content-type": "application/json"})
    assert answered.status_code == status
    if status == 413:
        assert (answered.json()["code"], answered.json()["field"]) == ("limit_exceeded", "body")


# ---- Parameters.


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("", None),
        ("?ids=a&ids=b", ["a", "b"]),
        ("?ids=a,b", ["a", "b"]),
        ('?ids=["a","b"]', ["a", "b"]),
        ("?ids=[a", ["[a"]),
        ("?ids=", []),
        ("?ids=a&ids=b,c", ["a", "b", "c"]),
    ],
)
async def test_texts_in_every_spelling(asking: httpx.AsyncClient, query: str, ids: Any) -> None:
    assert (await asking.get(f"/texts/t{query}")).json() == {"thread": "t", "ids": ids}


async def test_texts_that_are_none(asking: httpx.AsyncClient) -> None:
    answered = await asking.get("/texts/t?ids=[1]")
    assert (answered.status_code, answered.json()["field"]) == (422, "ids[0]")


@pytest.mark.parametrize(
    ("identity", "status"),
    [("a", 200), ("A.b:c@d-e_f", 200), ("x" * 255, 200), ("x" * 256, 422), ("a%20b", 422), ("a%0A", 422)],
)
async def test_id_of_a_thread(asking: httpx.AsyncClient, identity: str, status: int) -> None:
    answered = await asking.get(f"/texts/{identity}")
    assert answered.status_code == status
    assert answered.json().get("field") == (None if status == 200 else "thread_id")
