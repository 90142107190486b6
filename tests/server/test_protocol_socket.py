"""The thread protocol over one WebSocket: commands, several subscriptions, and who may connect."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any

import pytest
from langgraph_sdk import Auth
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed

from stateroom.api.sockets import SUBSCRIPTIONS_MAX
from tests.server.conftest import PATIENCE, Running, StartServer, eventually


class Talk:
    """A connection: answers by their ids, and the events that came between."""

    def __init__(self, socket: ClientConnection) -> None:
        self._socket = socket
        self._number = 0
        self.events: list[Any] = []

    async def ask(self, method: str, **params: Any) -> Any:
        """Send a command; return its result, or the word for why it is refused."""
        self._number += 1
        await self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        answer = await self.next()
        while answer["type"] == "event":
            self.events.append(answer)
            answer = await self.next()
        assert answer["id"] == self._number
        return answer["result"] if answer["type"] == "success" else answer["error"]

    async def next(self) -> Any:
        async with asyncio.timeout(PATIENCE):
            return json.loads(await self._socket.recv())

    async def until_ended(self, run_id: str, times: int = 1) -> None:
        while sum(event["event_id"] == f"{run_id}:end" for event in self.events) < times:
            self.events.append(await self.next())

    async def send(self, text: str) -> Any:
        await self._socket.send(text)
        return await self.next()

    async def closed(self) -> int:
        """Return the code with which the other side closes."""
        with suppress(ConnectionClosed):
            while True:
                await self.next()
        assert self._socket.close_code is not None
        return self._socket.close_code


@asynccontextmanager
async def talking(url: str, thread_id: str, **options: Any) -> AsyncIterator[Talk]:
    address = f"{url.replace('http', 'ws')}/threads/{thread_id}/stream/events"
    async with connect(address, **options) as socket:
        yield Talk(socket)


async def test_commands_and_events_share_a_connection(running: Running) -> None:
    async with talking(running.url, "socket-1") as talk:
        subscribed = await talk.ask("subscription.subscribe", channels=["lifecycle"])
        run = await talk.ask("run.start", assistant_id="slow", input={"steps": 1})
        await talk.until_ended(run["run_id"])
        assert {event["method"] for event in talk.events} == {"lifecycle"}
        # Each subscription brings its own events.
        await talk.ask("subscription.subscribe", channels=["values", "lifecycle"])
        await talk.until_ended(run["run_id"], times=2)
        assert {event["method"] for event in talk.events} == {"values", "lifecycle"}
        ended = {"subscription_id": subscribed["subscription_id"]}
        assert await talk.ask("subscription.unsubscribe", **ended) == {}
        assert await talk.ask("subscription.unsubscribe", **ended) == "no_such_subscription"
        talk.events.clear()
        run = await talk.ask("run.start", assistant_id="slow", input={"steps": 1})
        await talk.until_ended(run["run_id"])
        since = talk.events[-2]["seq"]
        await talk.ask("subscription.subscribe", channels=["lifecycle"], since=since)
        assert (await talk.next())["event_id"] == f"{run['run_id']}:end"
        assert await talk.ask("subscription.subscribe", channels=["value"]) == "invalid_argument"
        assert await talk.ask("agent.stop") == "unknown_command"
        for text in ("", "x", "[]", '{"id": 1}'):
            answer = await talk.send(text)
            assert (answer["type"], answer["id"], answer["error"]) == ("error", None, "invalid_argument")
    parts = running.server.parts
    await eventually(lambda: not parts.thread_followers.news.watching)


async def test_a_connection_has_so_many_subscriptions(running: Running) -> None:
    async with talking(running.url, "socket-2") as talk:
        for _ in range(SUBSCRIPTIONS_MAX):
            found = await talk.ask("subscription.subscribe", channels=["lifecycle"])
            assert found["subscription_id"]
        assert await talk.ask("subscription.subscribe", channels=["lifecycle"]) == "invalid_argument"
        await talk.ask("subscription.unsubscribe", subscription_id=found["subscription_id"])
        assert await talk.ask("subscription.subscribe", channels=["lifecycle"]) != "invalid_argument"


async def test_a_page_of_another_site_does_not_get_in(running: Running) -> None:
    async with talking(running.url, "socket-3", origin="https://elsewhere.example") as talk:
        assert await talk.closed() == 4403
    async with talking(running.url, "socket-3", origin=running.url) as talk:
        assert await talk.ask("agent.getTree") == "no_such_run"
    async with talking(running.url, "not%20an%20id") as talk:
        assert await talk.closed() == 4422


async def test_a_thread_that_is_deleted_and_a_server_that_stops_close_the_connection(
    start_server: StartServer,
) -> None:
    running = start_server()
    async with talking(running.url, "gone") as talk, talking(running.url, "stays") as other:
        for each in (talk, other):
            await each.ask("subscription.subscribe", channels=["lifecycle"])
            run = await each.ask("run.start", assistant_id="echo", input={})
            await each.until_ended(run["run_id"])
        running.server.parts.storage.threads.delete("gone")
        assert await talk.closed() == 1000
        closing = asyncio.create_task(other.closed())
        await asyncio.to_thread(running.close)
        assert await closing == 1012


auth = Auth()


@auth.authenticate
async def authenticate(headers: dict[bytes, bytes]) -> str:
    name = headers.get(b"x-name")
    if not name:
        raise Auth.exceptions.HTTPException(status_code=401, detail="who?")
    return name.decode()


@auth.on.threads
async def own(ctx: Auth.types.AuthContext, value: Any) -> Any:
    value.setdefault("metadata", {})["owner"] = ctx.user.identity
    return {"owner": ctx.user.identity}


@pytest.mark.parametrize("first", ["reader", "owner"])
async def test_a_thread_is_told_to_its_owner_alone(start_server: StartServer, first: str) -> None:
    running = start_server(auth=auth)
    mine, theirs = ({"additional_headers": {"x-name": name}} for name in ("me", "they"))
    async with talking(running.url, "t", **mine) as talk, talking(running.url, "t", **theirs) as other:
        if first == "reader":
            # He waits for a thread that becomes somebody else's.
            await other.ask("subscription.subscribe", channels=["lifecycle", "values"])
        run = await talk.ask("run.start", assistant_id="echo", input={})
        await talk.ask("subscription.subscribe", channels=["lifecycle"])
        await talk.until_ended(run["run_id"])
        if first == "owner":
            asked = await other.ask("subscription.subscribe", channels=["lifecycle", "values"])
            assert asked == "invalid_argument"
            assert await other.ask("agent.getTree") == "no_such_run"
            assert await other.ask("input.respond", interrupt_id="x") == "invalid_argument"
        else:
            assert await other.closed() == 4404
    assert not [event for event in other.events if event["type"] == "event"]
    async with talking(running.url, "t") as nobody:
        assert await nobody.closed() == 4401
