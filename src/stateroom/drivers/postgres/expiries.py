"""When items expire as readers are told: as the rows say, unless a refresh is still to be written."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from uuid import UUID

from stateroom.drivers.postgres.rows import Read, address_of
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.writing import refresh
from stateroom.drivers.sql.refreshes import Refreshes
from stateroom.errors import Unavailable
from stateroom.model.item import Record
from stateroom.model.ttl import expiry

__all__ = ["Expiries"]


class Expiries:
    """The refreshes of one store; ``write`` does some work in a statement of its own."""

    def __init__(self, timing: Timing, write: Callable[[Callable[[Session], None]], None]) -> None:
        self._timing = timing
        self._write = write
        self._refreshes: Refreshes[tuple[UUID, int]] = Refreshes(self.flush, _row_of)

    def told(self, read: Read | None, writer: Session | None, *, refreshes: bool) -> Record | None:
        """Return what a reader is told of a row: None if it has expired."""
        if read is None or read.now is None:
            return None if read is None else read.record
        self._timing.observe(read.now)
        record = self._refreshes.current(read.record)
        if record.expires_at is not None and record.expires_at <= read.now:
            return None
        return self._refreshed(record, read.now, writer) if refreshes else record

    def shown(self, record: Record, writer: Session | None, *, refreshes: bool) -> Record:
        """Return a live record of a page as the one who searches is told it."""
        if refreshes:
            return self._refreshed(record, self._timing.estimate(), writer)
        return self._refreshes.current(record)

    def flush_due(self) -> None:
        """Write refreshes before a statement could take an item for expired that has been refreshed."""
        if self._refreshes and self._refreshes.is_due(self._timing.estimate()):
            # Who only reads gets an answer also where nothing can be written just now.
            with suppress(Unavailable):
                self.flush()

    def flush(self) -> None:
        """Write pending refreshes; if that fails they stay pending for the next time."""
        if self._refreshes:
            expiries = self._refreshes.pending()
            self._write(lambda session: refresh(session, expiries))
            self._refreshes.written(expiries)

    def close(self) -> None:
        """Write what is pending, and nothing any more by itself."""
        self._refreshes.stop()
        self.flush()

    def _refreshed(self, record: Record, now: int, writer: Session | None) -> Record:
        """Start a record's time to live anew: in the running write transaction, or else soon."""
        if record.ttl is None:
            return record
        expires_at = expiry(now, record.ttl)
        if writer is None:
            return self._refreshes.note(record, expires_at)
        refresh(writer, {_row_of(record): expires_at})
        return record._replace(expires_at=expires_at)


def _row_of(record: Record) -> tuple[UUID, int]:
    return address_of(record.namespace, record.key), record.revision
