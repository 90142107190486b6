"""Serves a server over HTTP in this process, from its first request to an orderly end."""

from __future__ import annotations

import asyncio
import logging
import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Final

import uvicorn
from typing_extensions import override

from stateroom.boot.compose import Server
from stateroom.errors import Misconfigured

__all__ = ["STREAMS_GRACE", "bind", "run", "serve"]

KEEP_ALIVE: Final = 75
"""Seconds that a connection may rest: longer than proxies let theirs, so that they never use a closed one."""

STREAMS_GRACE: Final = 2
"""Seconds that answers under way have to end by themselves, once no run is executed any more."""

BACKLOG: Final = 2_048

_ENDED_BY_A_SIGNAL: Final = 130

_log = logging.getLogger(__name__)


def bind(host: str, port: int) -> socket.socket:
    """Take an address, port 0: any that is free; raise Misconfigured if somebody else has it."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        family, kind, protocol, _, address = found[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise Misconfigured(f"host {host!r} is no address of this machine: {error}", field="host") from error
    # What the process before this one has left behind in the system's tables is no reason to wait.
    if os.name == "posix":
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind(address)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise Misconfigured(
            f"port {port} of {host} cannot be taken ({error.strerror}): stop what has it, or pass --port",
            field="port",
        ) from error
    listener.setblocking(False)
    return listener


async def serve(
    server: Server,
    listener: socket.socket,
    *,
    stop: asyncio.Event,
    request_log: bool = False,
    ready: Callable[[], object] = lambda: None,
) -> None:
    """Serve until ``stop`` is set: then accept nothing new, drain, end what is being answered, and close.

    ``ready`` is called once requests are answered and runs are executed.
    """
    http = _Http(server, request_log=request_log)
    serving = asyncio.create_task(http.serve(sockets=[listener]))
    stopping = asyncio.create_task(stop.wait())
    try:
        await http.wait_until_started(serving)
        await server.begin()
        ready()
        await asyncio.wait({serving, stopping}, return_when=asyncio.FIRST_COMPLETED)
        http.accept_no_more()
        await asyncio.to_thread(server.drain)
    finally:
        stopping.cancel()
        http.should_exit = True
        with suppress(asyncio.CancelledError):
            await serving
        await server.aclose()


def run(server: Server, listener: socket.socket, *, request_log: bool = False, ready: Any) -> None:
    """Serve in this thread, the main one, until SIGTERM or SIGINT; the second one ends the process at once.

    What was acknowledged is safe then too: the storage is made for processes that are killed.
    """
    with asyncio.Runner(loop_factory=_loop_factory()) as runner:
        stop = asyncio.Event()

        def signalled() -> None:
            if stop.is_set():
                os._exit(_ENDED_BY_A_SIGNAL)
            _log.info("stopping: runs have %g s to go on to their next step", _grace(server))
            stop.set()

        for number in (signal.SIGTERM, signal.SIGINT):
            _on_signal(runner.get_loop(), number, signalled)
        runner.run(serve(server, listener, stop=stop, request_log=request_log, ready=ready))


def _grace(server: Server) -> float:
    return server.settings.limits.shutdown_grace


def _on_signal(loop: asyncio.AbstractEventLoop, number: int, act: Callable[[], None]) -> None:
    try:
        loop.add_signal_handler(number, act)
    except NotImplementedError:  # on Windows
        signal.signal(number, lambda *_: loop.call_soon_threadsafe(act))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop


class _Http(uvicorn.Server):
    """Uvicorn, which leaves the signals and the end to whoever runs it."""

    def __init__(self, server: Server, *, request_log: bool) -> None:
        config = uvicorn.Config(
            server.app,
            lifespan="on",
            log_config=None,
            log_level="info" if request_log else "warning",
            access_log=request_log,
            ws="websockets-sansio",
            server_header=False,
            timeout_graceful_shutdown=STREAMS_GRACE,
            timeout_keep_alive=KEEP_ALIVE,
        )
        super().__init__(config)

    @contextmanager
    @override
    def capture_signals(self) -> Iterator[None]:
        yield

    async def wait_until_started(self, serving: asyncio.Task[None]) -> None:
        """Return when requests are accepted; raise Misconfigured if the application refused to start."""
        while not self.started:
            # Uvicorn tells of its start by this flag alone.
            await asyncio.wait({serving}, timeout=0.005)
            if serving.done():
                serving.result()
                raise Misconfigured("the application did not start; the log says why")

    def accept_no_more(self) -> None:
        """Close the door; those who are inside stay."""
        for each in getattr(self, "servers", []):
            each.close()
