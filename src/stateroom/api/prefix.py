"""Serves an application below a prefix, and nothing outside of it."""

from __future__ import annotations

from starlette.exceptions import HTTPException
from starlette.types import ASGIApp, Receive, Scope, Send

from stateroom.api.problems import problem

__all__ = ["Prefix"]


class Prefix:
    """ASGI middleware: paths that do not begin with the prefix lead nowhere."""

    def __init__(self, app: ASGIApp, *, prefix: str) -> None:
        self._app = app
        self._prefix = "/" + prefix.strip("/")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] != "lifespan":
            root = scope.get("root_path", "") + self._prefix
            if not f"{scope['path']}/".startswith(f"{root}/"):
                await self._nowhere(scope, receive, send)
                return
            scope["root_path"] = root
        await self._app(scope, receive, send)

    async def _nowhere(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            await send({"type": "websocket.close"})
            return
        await problem(HTTPException(404))(scope, receive, send)
