"""Streams and waits over HTTP: their bytes, their signs of life, and what a client's leaving does."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Iterator
from typing import Any

import httpx
import orjson
import pytest
from langgraph_sdk.sse import SSEDecoder, aiter_lines_raw

from stateroom.api.filtering import run_view
from stateroom.api.outcomes import UNSAID
from stateroom.api.sse import last_event_id
from stateroom.contract.events import EventLimits
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.errors import InvalidInput
from stateroom.model.frame import NewFrame
from stateroom.model.run import CancelAction, RunStatus
from tests.readers.serving import Served, served
from tests.readers.test_following import until
from tests.readers.writing import claimed, custom, end, new_run, opened, parts_of, write

HEARTBEAT = 0.05
FIRST_AFTER = {None: 1, "-": 1, "-1": 1, "0": 1, "50": 51, "99": 100, "101": None}
SIGNS = {"stream": b": heartbeat\n\n", "join": b"\n"}


@pytest.fixture
def storage() -> Iterator[Storage]:
    with opened() as storage:
        yield storage


@pytest.fixture
async def parts(storage: Storage) -> AsyncGenerator[Any]:
    async with parts_of(storage, heartbeat=HEARTBEAT) as parts:
        yield parts


@pytest.fixture
async def server(parts: Any) -> AsyncGenerator[Served]:
    async with served(parts) as server:
        yield server


async def events(response: httpx.Response) -> list[tuple[str, Any, str | None]]:
    """Return events as the SDK understands them; the id is that of the last event that had one."""
    decoder = SSEDecoder()
    found = [decoder.decode(bytes(line)) async for line in aiter_lines_raw(response)]
    return [(part.event, part.data, part.id) for part in found if part is not None]


async def test_a_stream_byte_by_byte(storage: Storage, server: Served) -> None:
    attempt = claimed(storage, "r")
    text = "Привет 😀 中\u2028文\u0085 C:\\new \\u041f"
    write(
        storage,
        attempt,
        [
            NewFrame("metadata", b'{"run_id":"r","attempt":1}'),
            NewFrame("custom|sub:1", orjson.dumps(text)),
            NewFrame("values", b"null"),
        ],
    )
    end(storage, attempt, output=b'{"a":1}')
    async with server.client() as client:
        answer = await client.get("/runs/r/stream")
        assert answer.content == (
            b'event: metadata\ndata: {"run_id":"r","attempt":1}\nid: 1\n\n'
            b"event: custom|sub:1\ndata: " + orjson.dumps(text) + b"\nid: 2\n\n"
            b"event: values\ndata: null\nid: 3\n\n"
            b'event: end\ndata: {"status":"success","run_id":"r"}\n\n'
        )
        assert answer.headers["content-type"].startswith("text/event-stream")
        assert answer.headers["cache-control"] == "no-store"
        assert answer.headers["x-accel-buffering"] == "no"
        assert "content-length" not in answer.headers
        async with client.stream("GET", "/runs/r/stream") as response:
            assert (await events(response))[1] == ("custom|sub:1", text, "2")
        assert b"\nid:" not in (await client.get("/runs/r/stream?ids=false")).content


async def test_a_reader_gets_the_modes_that_he_asked_for(storage: Storage, server: Served) -> None:
    attempt = claimed(storage, "r")
    names = ["metadata", "values", "values|s:1", "updates", "messages", "messages|s:1", "messages/partial"]
    write(storage, attempt, [NewFrame(name, b"{}") for name in [*names, "custom", "error"]])
    write(storage, attempt, [NewFrame("protocol/lifecycle", b"{}")])
    end(storage, attempt, RunStatus.ERROR)

    async def seen(modes: str) -> list[str]:
        path = f"/runs/r/stream?stream_mode={modes}"
        async with server.client() as client, client.stream("GET", path) as response:
            found = [event for event, _, _ in await events(response)]
        assert (found[0], found[-2:]) == ("metadata", ["error", "end"])
        return found[1:-2]

    assert await seen("") == [*names[1:], "custom"]
    assert await seen("values") == ["values", "values|s:1"]
    assert await seen("messages-tuple,custom") == ["messages", "messages|s:1", "custom"]
    assert await seen("messages") == ["messages/partial"]


async def test_a_client_that_comes_back_goes_on(storage: Storage, server: Served) -> None:
    attempt = claimed(storage, "r")
    write(storage, attempt, custom(*(b"%d" % n for n in range(100))))
    end(storage, attempt)
    async with server.client() as client:
        for header, first in (
            (None, 1),
            ("-", 1),
            ("-1", 1),
            ("0", 1),
            ("50", 51),
            ("99", 100),
            ("101", None),
        ):
            headers = {} if header is None else {"Last-Event-ID": header}
            async with client.stream("GET", "/runs/r/stream", headers=headers) as response:
                found = await events(response)
            seqs = [int(one) for _, _, one in found[:-1] if one]
            assert seqs == ([] if first is None else [*range(first, 101)])
            assert found[-1][:2] == ("end", {"status": "success", "run_id": "r"})


async def test_frames_that_are_gone_are_told() -> None:
    with opened(limits=EventLimits(frames_per_run=3)) as storage:
        async with parts_of(storage) as parts, served(parts) as server, server.client() as client:
            attempt = claimed(storage, "r")
            write(storage, attempt, custom(*(b"%d" % n for n in range(10))))
            end(storage, attempt)
            found = (await client.get("/runs/r/stream")).text.split("\n\n")
            assert found[0] == 'event: gap\ndata: {"first":9}'


@pytest.mark.parametrize("path", ["stream", "join"])
async def test_silence_is_filled_with_signs_of_life(storage: Storage, server: Served, path: str) -> None:
    attempt, found, ended = claimed(storage, "r"), b"", False
    async with server.client() as client, client.stream("GET", f"/runs/r/{path}") as response:
        assert response.status_code == 200
        async for chunk in response.aiter_raw():
            found += chunk
            if found.count(SIGNS[path]) == 3 and not ended:
                end(storage, attempt, output=b'{"a":1}')
                ended = True
    if path == "stream":
        assert found.startswith(b": heartbeat\n\n: heartbeat\n\n")
        assert found.endswith(b'event: end\ndata: {"status":"success","run_id":"r"}\n\n')
    else:
        assert found.startswith(b"\n\n\n")
        assert orjson.loads(found) == {"a": 1}
    assert server.left == []


@pytest.mark.parametrize("path", ["stream", "join"])
async def test_a_client_that_leaves_is_noticed_in_silence(
    storage: Storage, server: Served, parts: Any, path: str
) -> None:
    claimed(storage, "r")
    async with server.client() as client, client.stream("GET", f"/runs/r/{path}"):
        await until(lambda: parts.followers.following)
        async with client.stream("GET", f"/runs/r/{path}"):
            pass
        await until(lambda: server.left == ["r"])
        assert parts.followers.following
    await until(lambda: server.left == ["r", "r"])
    await until(lambda: not parts.followers.following)


async def test_who_got_everything_has_not_left(storage: Storage, server: Served, parts: Any) -> None:
    end(storage, claimed(storage, "r"))
    async with server.client() as client:
        for path in ("stream", "join") * 5:
            assert (await client.get(f"/runs/r/{path}")).status_code == 200
    await until(lambda: not parts.followers.following)
    assert server.left == []


async def test_a_server_that_stops_is_no_client_that_leaves(storage: Storage, parts: Any) -> None:
    claimed(storage, "r")
    async with (
        served(parts) as server,
        server.client() as client,
        client.stream("GET", "/runs/r/stream") as stream,
        client.stream("GET", "/runs/r/join") as join,
    ):
        parts.followers.close()
        # The stream is over without an end, so that its client asks for the rest; the wait is cut.
        assert all(event != "end" for event, _, _ in await events(stream))
        with pytest.raises(httpx.RemoteProtocolError):
            await join.aread()
    assert server.left == []


async def test_a_client_that_reads_slowly_holds_up_nobody(storage: Storage, server: Served) -> None:
    attempt = claimed(storage, "r")
    writer = threading.Thread(
        target=lambda: [write(storage, attempt, custom(b'"%s"' % (b"x" * 100_000)) * 5) for _ in range(20)]
    )
    async with server.client() as client, client.stream("GET", "/runs/r/stream") as slow:
        lines = slow.aiter_lines()
        await anext(lines)
        writer.start()
        async with client.stream("GET", "/runs/r/stream") as fast:
            await asyncio.to_thread(writer.join)
            end(storage, attempt)
            assert len(await events(fast)) == 101
        rest = [line async for line in lines]
    assert len([line for line in rest if line.startswith("id:")]) == 100


async def test_runs_without_output_say_what_became_of_them(storage: Storage, server: Served) -> None:
    new_run(storage, "pending")
    cancelled = RunQuery(run_ids=["pending"])
    storage.runs.cancel(cancelled, CancelAction.INTERRUPT, reason="enough")
    for status in (RunStatus.TIMEOUT, RunStatus.ERROR, RunStatus.SUCCESS, RunStatus.INTERRUPTED):
        end(storage, claimed(storage, status), status, output=None)
    error = {"error": "abandoned", "message": "its worker died"}
    end(storage, claimed(storage, "own"), RunStatus.ERROR, output=None, run_error=error)
    async with server.client() as client:

        async def joined(run_id: str) -> Any:
            return (await client.get(f"/runs/{run_id}/join")).json()["__error__"]

        for status in (RunStatus.TIMEOUT, RunStatus.ERROR, RunStatus.SUCCESS, RunStatus.INTERRUPTED):
            assert await joined(status) == dict(zip(("error", "message"), UNSAID[status], strict=True))
        assert await joined("own") == error
        assert await joined("pending") == {
            "error": "RunCancelled",
            "message": "the run was cancelled: enough",
        }
        assert (await joined("never made"))["error"] == "RunGone"
        for run_id, before in (
            ("own", ["error"]),
            ("timeout", ["error"]),
            ("interrupted", []),
            ("pending", []),
        ):
            async with client.stream("GET", f"/runs/{run_id}/stream") as response:
                found = await events(response)
            assert [event for event, _, _ in found] == [*before, "end"]
        async with client.stream("GET", "/runs/own/stream") as response:
            assert (await events(response))[0] == ("error", error, None)


async def test_ids_that_are_none_are_refused() -> None:
    for wrong in ("x", "1.5", "-2", "1-0", "١"):
        with pytest.raises(InvalidInput) as caught:
            last_event_id(wrong)
        assert caught.value.field == "Last-Event-ID"
    with pytest.raises(InvalidInput, match="'valuess'"):
        run_view(["valuess"])
