"""Refreshed expiries that have been answered and are about to be written."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from stateroom.errors import StateroomError
from stateroom.model.item import Record

__all__ = ["Refreshes"]

K = TypeVar("K", bound=Hashable)

FLUSH_SECONDS = 0.5
"""How long refreshes are gathered before they are written: what a crash can lose."""


class Refreshes(Generic[K]):
    """Gathers the expiries of many reads into one write, made by ``flush`` soon after the first.

    ``key`` says what the driver finds a record's row by; it must change with every put.
    """

    def __init__(self, flush: Callable[[], None], key: Callable[[Record], K]) -> None:
        self._flush = flush
        self._key = key
        self._lock = threading.Lock()
        self._ringing = threading.Lock()
        self._pending: dict[K, int] = {}
        self._earliest: int | None = None
        self._timer: threading.Timer | None = None

    def __bool__(self) -> bool:
        return bool(self._pending)

    def note(self, record: Record, expires_at: int) -> Record:
        """Remember when a record, as the file has it, expires from now on; return it so."""
        assert record.expires_at is not None
        with self._lock:
            if self._earliest is None or record.expires_at < self._earliest:
                self._earliest = record.expires_at
            self._pending[self._key(record)] = expires_at
            self._wind()
        return record._replace(expires_at=expires_at)

    def _wind(self) -> None:
        if self._timer is None:
            self._timer = threading.Timer(FLUSH_SECONDS, self._ring)
            self._timer.daemon = True
            self._timer.start()

    def _unwind(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ring(self) -> None:
        with self._ringing:
            with self._lock:
                if self._timer is not threading.current_thread():
                    # Somebody else has written them meanwhile, or does so now.
                    return
                self._timer = None
            try:
                self._flush()
            except StateroomError:
                # Nobody waits for this thread: what could not be written now is written later.
                with self._lock:
                    if self._pending:
                        self._wind()

    def stop(self) -> None:
        """Have no write begun until the next ``note``, after waiting for one that has begun."""
        with self._ringing, self._lock:
            self._unwind()

    def current(self, record: Record) -> Record:
        """Return a record with the expiry that readers have been told."""
        if not self._pending or record.expires_at is None:
            return record
        expires_at = self._pending.get(self._key(record))
        if expires_at is None or expires_at <= record.expires_at:
            return record
        return record._replace(expires_at=expires_at)

    def is_due(self, now: int) -> bool:
        """Tell whether the file may take an item for expired that has been refreshed."""
        return self._earliest is not None and self._earliest <= now

    def pending(self) -> dict[K, int]:
        """Return what is to be written; readers are told so until ``written`` says that it is."""
        with self._lock:
            self._unwind()
            return dict(self._pending)

    def written(self, expiries: dict[K, int]) -> None:
        """Forget what has been committed, unless it was refreshed again meanwhile."""
        with self._lock:
            self._pending = {
                key: expires_at
                for key, expires_at in self._pending.items()
                if expiries.get(key) != expires_at
            }
            if self._pending:
                self._wind()
            else:
                self._earliest = None
