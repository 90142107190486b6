"""Asking the server from a thread or from an event loop, over connections that are kept and renewed."""

from __future__ import annotations

import asyncio
import ipaddress
import socket
import threading
from collections.abc import Sequence
from typing import Any, TypeVar
from weakref import WeakKeyDictionary

from stateroom.drivers.aegis.pool import Pool
from stateroom.drivers.aegis.protocol import (
    Answer,
    Exchange,
    Server,
    Steps,
    no_answer,
    unreachable,
)
from stateroom.errors import Unavailable

__all__ = ["AsyncClient", "SyncClient"]

T = TypeVar("T")

CHUNK_BYTES = 256 * 1024


class SyncClient:
    """Asks from any number of threads, each over a connection of its own while it lasts."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._pool = Pool()

    def drive(self, steps: Steps[T]) -> T:
        """Do what an operation has to do, and return its result."""
        try:
            lines = next(steps)
            while True:
                try:
                    answers = self.ask(lines)
                except Unavailable as error:
                    lines = steps.throw(error)
                else:
                    lines = steps.send(answers)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    def ask(self, lines: Sequence[bytes]) -> list[Answer]:
        """Return the answers to requests, sent together over one connection.

        When the connection is lost, which is what becomes of an idle one in time, those without an
        answer are sent once more over a new one: no operation minds being done twice.
        """
        exchange = Exchange(lines)
        connection = self._pool.take() or self._connect()
        try:
            self._talk(connection, exchange)
        except TimeoutError as error:
            raise no_answer(self._server, error) from error
        except OSError:
            # The others have been idle for as long.
            self._pool.clear()
            try:
                self._talk(self._connect(), exchange)
            except OSError as error:
                raise no_answer(self._server, error) from error
        return exchange.answers

    def close(self) -> None:
        """Close the connections; the next request opens another one."""
        self._pool.clear()

    def _talk(self, connection: socket.socket, exchange: Exchange) -> None:
        generation, is_done = self._pool.generation, False
        try:
            while burst := exchange.burst():
                connection.sendall(burst)
                while not exchange.receive(connection.recv(CHUNK_BYTES)):
                    pass
            is_done = True
        finally:
            if is_done:
                self._pool.give(connection, generation)
            else:
                connection.close()

    def _connect(self) -> socket.socket:
        server = self._server
        try:
            connection = socket.create_connection((server.host, server.port), server.connect_timeout)
        except OSError as error:
            raise unreachable(server, error) from error
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.settimeout(server.read_timeout)
        return connection


class AsyncClient:
    """Asks from any number of event loops without blocking them, each over connections of its own.

    The connections are plain sockets, which know nothing of the loop: so a loop that has ended is
    forgotten, and its connections are closed.
    """

    def __init__(self, server: Server) -> None:
        self._server = server
        self._lock = threading.Lock()
        self._pools: WeakKeyDictionary[asyncio.AbstractEventLoop, Pool] = WeakKeyDictionary()

    async def drive(self, steps: Steps[T]) -> T:
        """Do what ``SyncClient.drive`` does."""
        try:
            lines = next(steps)
            while True:
                try:
                    answers = await self.ask(lines)
                except Unavailable as error:
                    lines = steps.throw(error)
                else:
                    lines = steps.send(answers)
        except StopIteration as end:
            return end.value  # type: ignore[no-any-return]

    async def ask(self, lines: Sequence[bytes]) -> list[Answer]:
        """Do what ``SyncClient.ask`` does."""
        exchange, pool = Exchange(lines), self._pool()
        connection = pool.take() or await self._connect()
        try:
            await self._talk(connection, exchange, pool)
        except TimeoutError as error:
            raise no_answer(self._server, error) from error
        except OSError:
            pool.clear()
            try:
                await self._talk(await self._connect(), exchange, pool)
            except OSError as error:
                raise no_answer(self._server, error) from error
        return exchange.answers

    def close(self) -> None:
        """Close the connections of all loops; the next request opens another one."""
        with self._lock:
            pools = [*self._pools.values()]
        for pool in pools:
            pool.clear()

    def _pool(self) -> Pool:
        """Return the pool of the running loop, having let go of those of loops that have ended."""
        loop = asyncio.get_running_loop()
        pool = self._pools.get(loop)
        if pool is None:
            with self._lock:
                for other in [other for other in self._pools if other.is_closed()]:
                    self._pools.pop(other).clear()
                pool = self._pools[loop] = Pool()
        return pool

    async def _talk(self, connection: socket.socket, exchange: Exchange, pool: Pool) -> None:
        loop, generation, is_done = asyncio.get_running_loop(), pool.generation, False
        try:
            while burst := exchange.burst():
                async with asyncio.timeout(self._server.read_timeout):
                    await loop.sock_sendall(connection, burst)
                    while not exchange.receive(await loop.sock_recv(connection, CHUNK_BYTES)):
                        pass
            is_done = True
        finally:
            if is_done:
                pool.give(connection, generation)
            else:
                connection.close()

    async def _connect(self) -> socket.socket:
        server = self._server
        try:
            async with asyncio.timeout(server.connect_timeout):
                return await _connected(server)
        except OSError as error:
            raise unreachable(server, error) from error


async def _connected(server: Server) -> socket.socket:
    loop = asyncio.get_running_loop()
    failure = OSError("the name has no address")
    for family, address in await _addresses(server):
        connection = socket.socket(family, socket.SOCK_STREAM)
        is_done = False
        try:
            connection.setblocking(False)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            await loop.sock_connect(connection, address)
            is_done = True
            return connection
        except OSError as error:
            failure = error
        finally:
            if not is_done:
                connection.close()
    raise failure


async def _addresses(server: Server) -> list[tuple[int, Any]]:
    try:
        version = ipaddress.ip_address(server.host).version
    except ValueError:
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(server.host, server.port, type=socket.SOCK_STREAM)
        return [(family, address) for family, _, _, _, address in found]
    return [(socket.AF_INET if version == 4 else socket.AF_INET6, (server.host, server.port))]
