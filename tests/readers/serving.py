"""A small application with streams of runs, served by the real HTTP server in the test's own loop."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import httpx
import uvicorn
from fastapi import FastAPI, Request
from starlette.responses import Response

from stateroom.api.filtering import run_view
from stateroom.api.sse import last_event_id, run_stream, sse_response
from stateroom.api.waiting import wait_response
from tests.readers.writing import rest

__all__ = ["Served", "served"]


class Served:
    """What listens at ``url``. ``left`` are the runs whose clients left early."""

    def __init__(self, url: str, server: uvicorn.Server) -> None:
        self.url = url
        self.server = server
        self.left: list[str] = []

    def client(self) -> httpx.AsyncClient:
        return httpx.AsyncClient(base_url=self.url, timeout=30)


def application(parts: Any, served: Served) -> FastAPI:
    """Return routes as a server's for runs are."""
    app = FastAPI()

    def on_disconnect(run_id: str) -> Any:
        async def left() -> None:
            served.left.append(run_id)

        return left

    @app.get("/runs/{run_id}/stream")
    async def stream(run_id: str, request: Request, stream_mode: str = "", ids: bool = True) -> Response:
        after = last_event_id(request.headers.get("last-event-id"))
        chunks = run_stream(parts, run_id, after=after, view=run_view(stream_mode.split(",")), ids=ids)
        return sse_response(
            parts, chunks, headers={"Location": str(request.url.path)}, on_disconnect=on_disconnect(run_id)
        )

    @app.get("/runs/{run_id}/join")
    async def join(run_id: str) -> Response:
        headers = {"Content-Location": f"/runs/{run_id}"}
        return wait_response(parts, run_id, headers=headers, on_disconnect=on_disconnect(run_id))

    return app


@contextlib.asynccontextmanager
async def served(parts: Any) -> AsyncIterator[Served]:
    """Serve streams of the runs of a storage until the end of the block."""
    listener = socket.create_server(("127.0.0.1", 0))
    host, port = listener.getsockname()
    config = uvicorn.Config(FastAPI(), log_level="critical", lifespan="off", timeout_graceful_shutdown=5)
    server = uvicorn.Server(config)
    found = Served(f"http://{host}:{port}", server)
    config.app = application(parts, found)
    serving = asyncio.create_task(server._serve(sockets=[listener]))
    while not server.started:
        await rest(0.005)
    try:
        yield found
    finally:
        parts.followers.close()
        server.should_exit = True
        await serving
        listener.close()
