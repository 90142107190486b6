"""An application such as users add to a server: routes, middleware and a lifespan of their own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[dict[str, Any]]:
    yield {"greeting": "hello"}


app = FastAPI(title="theirs", lifespan=lifespan)


@app.get("/hello/{name}")
async def hello(request: Request, name: str) -> dict[str, str]:
    # Without the lifespan there is no greeting.
    return {getattr(request.state, "greeting", "hi"): name}


@app.get("/info")
async def info() -> dict[str, str]:
    return {"whose": "theirs"}


@app.get("/broken")
async def broken() -> None:
    raise RuntimeError("secret")


class Stamp:
    """Middleware that marks every answer."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def stamped(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], (b"x-stamp", b"1")]
            await send(message)

        await self._app(scope, receive, stamped)


app.add_middleware(Stamp)

not_an_app = object()
