"""Answers that go on for as long as there is something to tell and somebody listens, with signs of life."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping

from starlette.responses import Response
from starlette.types import Receive, Scope, Send
from typing_extensions import override

from stateroom.engine.news import Stopped

__all__ = ["LiveResponse", "OnDisconnect", "left"]

OnDisconnect = Callable[[], Awaitable[None]]
"""What is done when the client has left before the end; not when the server is being stopped."""

_log = logging.getLogger(__name__)


class LiveResponse(Response):
    """Sends ``chunks`` as they come, and ``sign`` after each ``heartbeat`` seconds without any.

    The headers go out at once. When the client leaves, also while nothing is sent, ``chunks`` is closed and
    ``on_disconnect`` called. When the server stops, the answer ends where it is: as if it were complete if
    ``resumable``, since the client asks then for the rest; otherwise it is cut, so that the client sees it.
    """

    def __init__(
        self,
        chunks: AsyncGenerator[bytes],
        *,
        sign: bytes,
        heartbeat: float,
        media_type: str,
        headers: Mapping[str, str],
        resumable: bool,
        on_disconnect: OnDisconnect | None = None,
    ) -> None:
        self.status_code = 200
        self.media_type = media_type
        self.background = None
        self.init_headers({"Cache-Control": "no-store", "X-Accel-Buffering": "no", **headers})
        self._chunks = chunks
        self._sign = sign
        self._heartbeat = heartbeat
        self._resumable = resumable
        self._on_disconnect = on_disconnect

    @override
    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        leaving = asyncio.create_task(left(receive))
        try:
            await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
            complete = await self._send_chunks(send, leaving)
            if complete and not leaving.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except OSError:
            # So some servers say that the client is gone.
            await self._disconnected()
        else:
            if not complete and leaving.done():
                await self._disconnected()
        finally:
            leaving.cancel()
            await self._chunks.aclose()

    async def _send_chunks(self, send: Send, leaving: asyncio.Task[None]) -> bool:
        """Send what comes until its end, or until the client leaves; tell whether the answer is complete."""
        while True:
            coming = asyncio.create_task(_next(self._chunks))
            try:
                while not await self._arrived(coming, leaving):
                    if leaving.done():
                        return False
                    await send({"type": "http.response.body", "body": self._sign, "more_body": True})
                chunk = coming.result()
            except Stopped:
                return self._resumable
            finally:
                await _cancelled(coming)
            if chunk is None:
                return True
            await send({"type": "http.response.body", "body": chunk, "more_body": True})

    async def _arrived(self, coming: asyncio.Task[bytes | None], leaving: asyncio.Task[None]) -> bool:
        """Wait for a chunk, the client's leaving, or the time for a sign; tell whether it was a chunk."""
        await asyncio.wait((coming, leaving), timeout=self._heartbeat, return_when=asyncio.FIRST_COMPLETED)
        return coming.done() and not leaving.done()

    async def _disconnected(self) -> None:
        if self._on_disconnect is not None:
            try:
                await self._on_disconnect()
            except Exception:
                _log.exception("what a client's leaving brings about failed")


async def left(receive: Receive) -> None:
    """Return when the client has left."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _next(chunks: AsyncGenerator[bytes]) -> bytes | None:
    return await anext(chunks, None)


async def _cancelled(coming: asyncio.Task[bytes | None]) -> None:
    """Stop waiting for what comes, and see to it that this is over."""
    if not coming.done():
        coming.cancel()
        await asyncio.wait((coming,))
        # Looked at, so that nobody is told of an error that nobody waits for.
        if not coming.cancelled():
            coming.exception()
