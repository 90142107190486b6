"""The door: whoever comes has to say who he is, before anything else is done with his request."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from stateroom.api.access import ACCESS, OPEN, Access
from stateroom.api.problems import REQUEST_ID, problem

if TYPE_CHECKING:
    from stateroom.api.rules import Rules

__all__ = ["CLOSED", "OPEN_PATHS", "Door"]

OPEN_PATHS: Final = frozenset(("/ok", "/ready", "/info", "/docs", "/docs/oauth2-redirect", "/openapi.json"))
"""Where nobody is asked."""

CLOSED: Final = 4000
"""What is added to a status when a WebSocket is closed because of it."""


class Door:
    """ASGI middleware that leaves a request's ``Access`` in its scope, or answers the request itself.

    ``unguarded`` tells which requests come in unasked, beside those to ``OPEN_PATHS``. A request that has
    come through one door is not asked at the next.
    """

    def __init__(
        self, app: ASGIApp, *, rules: Rules | None, unguarded: Callable[[Scope], bool] | None = None
    ) -> None:
        self._app, self._rules, self._unguarded = app, rules, unguarded

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] in ("http", "websocket") and ACCESS not in scope:
            if self._rules is None or _path(scope) in OPEN_PATHS:
                scope[ACCESS] = OPEN
            elif self._unguarded is None or not self._unguarded(scope):
                again = _Again(receive)
                try:
                    scope[ACCESS] = await _ask(self._rules, scope, again)
                except Exception as error:
                    await _turn_away(error, scope, again.from_the_start(), send)
                    return
                receive = again.from_the_start()
        await self._app(scope, receive, send)


async def _ask(rules: Rules, scope: Scope, again: _Again) -> Access:
    return Access(await rules.authenticate(scope, again.from_the_start), rules)


async def _turn_away(error: Exception, scope: Scope, receive: Receive, send: Send) -> None:
    """Answer whoever may not come in, before any middleware of the user's makes something else of it."""
    response = problem(error, scope.get(REQUEST_ID))
    if scope["type"] == "http":
        await response(scope, receive, send)
        return
    # Only once it is accepted does a WebSocket's client learn why it is closed.
    with suppress(OSError):
        await receive()
        await send({"type": "websocket.accept"})
        await send({"type": "websocket.close", "code": CLOSED + response.status_code})


def _path(scope: Scope) -> str:
    """Return a request's path within this application, wherever that is mounted."""
    path, root = scope["path"], scope.get("root_path", "")
    return str(path[len(root) :] if root and path.startswith(root) else path)


class _Again:
    """A request's body, for whoever reads it first and for all who read it after him."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._seen: list[Message] = []

    def from_the_start(self) -> Receive:
        """Return what reads it from its beginning."""
        place = 0

        async def receive() -> Message:
            nonlocal place
            while place >= len(self._seen):
                self._seen.append(await self._receive())
            place += 1
            return self._seen[place - 1]

        return receive
