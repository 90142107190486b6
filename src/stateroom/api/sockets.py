"""A thread's protocol over a WebSocket: commands and their answers, and the events of any subscriptions."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

import orjson
from fastapi import WebSocket
from starlette.websockets import WebSocketDisconnect

from stateroom.api.access import Access
from stateroom.api.answers import encoded
from stateroom.api.commands import Commands, Refused
from stateroom.api.envelopes import answered
from stateroom.api.problems import problem
from stateroom.api.protocol_events import Wanted
from stateroom.api.protocol_streams import error_frame, events_of
from stateroom.api.thread_streams import may_follow
from stateroom.api.wire.protocol import Subscribe, Unsubscribe
from stateroom.engine.news import Stopped
from stateroom.errors import Denied, StateroomError

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["CLOSED", "SUBSCRIPTIONS_MAX", "ProtocolSocket", "is_foreign"]

SUBSCRIPTIONS_MAX: Final = 64
"""Subscriptions that one connection may have at a time."""

CLOSED: Final = 4000
"""What is added to a status when a connection is closed because of it."""

_DONE, _TOO_BIG, _FAILED, _RESTARTING = 1000, 1009, 1011, 1012


class ProtocolSocket:
    """One connection. Commands are obeyed in their order; events come between their answers."""

    def __init__(self, socket: WebSocket, parts: Parts, access: Access, thread_id: str) -> None:
        self._socket = socket
        self._parts = parts
        self._access = access
        self._thread_id = thread_id
        self._commands = Commands(parts, access, thread_id, socket.headers)
        self._commands.add("subscription.subscribe", self._subscribe)
        self._commands.add("subscription.unsubscribe", self._unsubscribe)
        self._subscriptions: dict[str, asyncio.Task[None]] = {}
        self._begun: list[asyncio.Event] = []
        self._sending = asyncio.Lock()

    async def serve(self) -> None:
        """Serve the connection to its end."""
        await self._socket.accept()
        try:
            while True:
                await self._obey(await self._received())
        except WebSocketDisconnect:
            pass
        except Denied as error:
            await self._close(CLOSED + problem(error).status_code, str(error))
        finally:
            tasks = list(self._subscriptions.values())
            for task in tasks:
                task.cancel()
            if tasks:
                await asyncio.wait(tasks)

    async def _received(self) -> bytes:
        message = await self._socket.receive()
        if message["type"] == "websocket.disconnect":
            raise WebSocketDisconnect(message.get("code", _DONE))
        text = message.get("text")
        data: bytes = text.encode("utf-8", "replace") if text is not None else message.get("bytes") or b""
        if len(data) > self._parts.settings.limits.body_bytes:
            await self._close(_TOO_BIG, "the message is larger than a body may be")
            raise WebSocketDisconnect(_TOO_BIG)
        return data

    async def _obey(self, data: bytes) -> None:
        _, answer = await answered(self._commands, data)
        await self._send(encoded(answer))
        # What was subscribed to comes behind the answer, which says what it belongs to.
        for begun in self._begun:
            begun.set()
        self._begun.clear()

    async def _subscribe(self, asked: Subscribe) -> dict[str, Any]:
        if len(self._subscriptions) >= SUBSCRIPTIONS_MAX:
            message = f"a connection has at most {SUBSCRIPTIONS_MAX} subscriptions; end one of them"
            raise Refused("invalid_argument", message)
        wanted = Wanted(asked)
        scope = await may_follow(self._parts, self._access, self._thread_id)
        identity = self._parts.ids()
        self._begun.append(begun := asyncio.Event())

        async def tell() -> None:
            await begun.wait()
            async for events in events_of(self._parts, self._thread_id, scope, asked, wanted):
                for event in events:
                    await self._send(event.json())

        self._subscriptions[identity] = task = asyncio.create_task(self._told(tell))
        task.add_done_callback(lambda _: self._subscriptions.pop(identity, None))
        return {"subscription_id": identity, "replayed_events": 0}

    async def _unsubscribe(self, asked: Unsubscribe) -> dict[str, Any]:
        task = self._subscriptions.pop(asked.subscription_id, None)
        if task is None:
            raise Refused("no_such_subscription", f"there is no subscription {asked.subscription_id!r}")
        task.cancel()
        await asyncio.wait((task,))
        return {}

    async def _told(self, tell: Callable[[], Awaitable[None]]) -> None:
        """Tell a subscription's events, and close the connection behind the last."""
        try:
            await tell()
        except Stopped:
            await self._close(_RESTARTING, "the server is being stopped")
        except (WebSocketDisconnect, OSError):
            pass
        except Exception as error:
            with suppress(WebSocketDisconnect, OSError, RuntimeError):
                await self._send(orjson.dumps(error_frame(error)))
            code = CLOSED + problem(error).status_code if isinstance(error, StateroomError) else _FAILED
            await self._close(code, "the stream failed")
        else:
            await self._close(_DONE, "the thread is deleted")

    async def _send(self, data: bytes) -> None:
        async with self._sending:
            await self._socket.send_text(data.decode())

    async def _close(self, code: int, reason: str) -> None:
        # It may have been closed already, by either side.
        with suppress(WebSocketDisconnect, OSError, RuntimeError):
            await self._socket.close(code, reason[:100])


def is_foreign(socket: WebSocket, cors: Mapping[str, Any] | None) -> bool:
    """Tell whether a page of another site connects, which browsers prevent for everything but WebSockets."""
    origin = socket.headers.get("origin")
    if origin is None or urlsplit(origin).netloc == socket.headers.get("host"):
        return False
    allowed = (cors or {}).get("allow_origins") or ()
    pattern = (cors or {}).get("allow_origin_regex")
    if "*" in allowed or origin in allowed:
        return False
    return not (pattern and re.fullmatch(pattern, origin))
