"""Idle connections, kept for whoever asks next."""

from __future__ import annotations

import os
import socket
import threading
from contextlib import suppress
from typing import Final

__all__ = ["Pool"]

IDLE_MAX: Final = 8
"""Connections kept while nobody uses them."""


class Pool:
    """Sockets that wait for their next use; methods may be called from any thread.

    A child process does not use what its parent has opened. Whoever drops a pool closes its sockets.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._idle: list[socket.socket] = []
        self._process = os.getpid()
        self._generation = 0

    @property
    def generation(self) -> int:
        """How often the pool has been emptied; a connection from before is not to be kept."""
        return self._generation

    def take(self) -> socket.socket | None:
        """Return the connection that was used last, or None."""
        with self._lock:
            if self._process != os.getpid():
                self._empty()
                self._process = os.getpid()
            return self._idle.pop() if self._idle else None

    def give(self, connection: socket.socket, generation: int) -> None:
        """Keep a connection that is good for another use, or close it."""
        with self._lock:
            if generation == self._generation and len(self._idle) < IDLE_MAX:
                self._idle.append(connection)
                return
        connection.close()

    def clear(self) -> None:
        """Close what is idle, and what is in use when it comes back."""
        with self._lock:
            self._empty()

    def _empty(self) -> None:
        self._generation += 1
        for connection in self._idle:
            connection.close()
        self._idle.clear()

    def __del__(self) -> None:
        with suppress(AttributeError):
            self._empty()
