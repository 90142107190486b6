"""What surrounds every request: an id, a bound on the body, the metrics, an answer to any failure."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stateroom.api.problems import REQUEST_ID, problem
from stateroom.errors import LimitExceeded

if TYPE_CHECKING:
    from stateroom.api.metrics import Metrics
    from stateroom.api.parts import Parts

__all__ = ["Envelope"]

_ID_HEADER: Final = b"x-request-id"
_ID: Final = re.compile(rb"[\x21-\x7e]{1,128}")


class Envelope:
    """ASGI middleware of its own making, since every request pays for it."""

    def __init__(self, app: ASGIApp, *, parts: Parts, metrics: Metrics) -> None:
        self._app, self._parts, self._metrics = app, parts, metrics
        self._most = parts.settings.limits.body_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "http":
            await self._serve(scope, receive, send)
            return
        if scope["type"] == "websocket":
            await self._parts.begin()
        await self._app(scope, receive, send)

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        given, length = _headers(scope)
        identity = given or self._parts.ids().encode()
        scope[REQUEST_ID] = identity.decode()
        status, ended = 0, False

        async def send_on(message: Message) -> None:
            nonlocal status, ended
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (_ID_HEADER, identity)]
            elif message["type"] == "http.response.body":
                ended = not message.get("more_body")
            await send(message)

        began = time.monotonic()
        try:
            await self._parts.begin()
            await self._app(scope, self._bounded(receive, length), send_on)
        except Exception as error:
            response = problem(error, scope[REQUEST_ID])
            if not status:
                await response(scope, receive, send_on)
            elif not ended:
                # Too late to say so: only a broken connection tells the client.
                raise
        finally:
            self._metrics.served(scope, status, time.monotonic() - began)

    def _bounded(self, receive: Receive, length: int | None) -> Receive:
        """Return what raises LimitExceeded instead of giving more of a body than is allowed."""
        if length is not None:
            self._check(length)
            return receive
        seen = 0

        async def receive_bounded() -> Message:
            nonlocal seen
            message = await receive()
            if message["type"] == "http.request":
                seen += len(message.get("body", b""))
                self._check(seen)
            return message

        return receive_bounded

    def _check(self, size: int) -> None:
        if size > self._most:
            raise LimitExceeded(
                f"the body has more than {self._most:,} bytes; send less at once", field="body"
            )


def _headers(scope: Scope) -> tuple[bytes | None, int | None]:
    """Return the id that a request has already, and how long it says that its body is."""
    identity = length = None
    for name, value in scope["headers"]:
        if name == _ID_HEADER and _ID.fullmatch(value):
            identity = value
        elif name == b"content-length" and value.isdigit():
            length = int(value)
    return identity, length
