"""A TCP relay that treats the connections through it as networks and proxies treat them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from contextlib import suppress
from types import TracebackType
from typing import Final, Self

__all__ = ["Relay", "to_port", "to_socket"]

Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]

PIECE: Final = 65_536


def to_socket(path: str) -> Callable[[], Awaitable[Connection]]:
    """Return what connects to a Unix socket."""
    return lambda: asyncio.open_unix_connection(path)


def to_port(port: int) -> Callable[[], Awaitable[Connection]]:
    """Return what connects to a port of this machine."""
    return lambda: asyncio.open_connection("127.0.0.1", port)


class Relay:
    """Passes bytes between a port of its own and what ``connect`` reaches, in a thread.

    ``idle`` is the number of seconds without a byte from behind it after which a connection is cut, as
    proxies do; ``cut`` counts them. While it is frozen no byte passes and no connection ends, as when a
    cable is drawn.
    """

    def __init__(self, connect: Callable[[], Awaitable[Connection]], *, idle: float | None = None) -> None:
        self._connect = connect
        self._idle = idle
        self._last: bytes | None = None
        self._started: Future[int] = Future()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._main()), daemon=True)
        self.cut = 0

    def __enter__(self) -> Self:
        self._thread.start()
        self.port = self._started.result()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join()

    def freeze(self) -> None:
        """Have nothing pass from now on; who waits for an answer waits on."""
        self._loop.call_soon_threadsafe(self._flows.clear)

    def freeze_before(self, said: bytes) -> None:
        """Freeze when somebody who connects here says this, which does not pass any more."""
        self._last = said

    def thaw(self) -> None:
        """Have everything pass again, also what was held back."""
        self._last = None
        self._loop.call_soon_threadsafe(self._flows.set)

    async def _main(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop, self._flows = asyncio.Event(), asyncio.Event()
        self._flows.set()
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self._started.set_result(server.sockets[0].getsockname()[1])
        await self._stop.wait()
        server.close()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        behind, towards = await self._connect()
        there = asyncio.create_task(self._pass(reader, towards, None, listens=True))
        try:
            with suppress(asyncio.CancelledError):
                await self._pass(behind, writer, self._idle)
        finally:
            there.cancel()
            for each in (writer, towards):
                each.close()

    async def _pass(
        self,
        source: asyncio.StreamReader,
        target: asyncio.StreamWriter,
        idle: float | None,
        *,
        listens: bool = False,
    ) -> None:
        with suppress(ConnectionError):
            while True:
                try:
                    piece = await asyncio.wait_for(source.read(PIECE), idle)
                except TimeoutError:
                    self.cut += 1
                    return
                if listens and self._last is not None and self._last in piece:
                    self._flows.clear()
                await self._flows.wait()
                if not piece:
                    return
                target.write(piece)
                await target.drain()
