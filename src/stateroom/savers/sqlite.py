"""The checkpointer that keeps conversations in one SQLite file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from langgraph.checkpoint.base import ChannelVersions, Checkpoint
from langgraph.checkpoint.serde.base import SerializerProtocol
from typing_extensions import override

from stateroom.clock import system_clock
from stateroom.drivers.sql.checkpoint_rows import Key, Query, Stored
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sqlite.checkpoints import SqliteCheckpoints
from stateroom.drivers.sqlite.database import Database, Synchronous
from stateroom.drivers.sqlite.dialect import SqliteDialect
from stateroom.errors import InvalidValue
from stateroom.savers.base import Saver
from stateroom.savers.unserialisable import refusal

if TYPE_CHECKING:
    from stateroom.drivers.sqlite.storage import SqliteStorage

__all__ = ["SqliteSaver"]

MEASURED_AT_ONCE = 64
"""Checkpoints whose values are measured together."""


class SqliteSaver(Saver):
    """Conversations in one SQLite file, which any number of threads and processes may share.

    ``path`` is a file, made if need be, or ``":memory:"``; LangGraph's savers may open it too. ``serde``
    is the serialiser of values, LangGraph's own by default. ``keep_last`` is described with ``Saver``,
    ``synchronous`` with ``SqliteStore``.
    """

    def __init__(
        self,
        path: str | os.PathLike[str] = ":memory:",
        *,
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
        synchronous: Synchronous = "NORMAL",
    ) -> None:
        database = Database(
            os.fspath(path),
            synchronous=synchronous,
            equip=_nothing,
            prepare=_nothing,
            forked=_nothing,
            migrates=False,
        )
        super().__init__(
            SqliteDialect(database, system_clock),
            SqliteCheckpoints(database),
            serde=serde,
            keep_last=keep_last,
            managed=False,
        )
        self._database: Database | None = database
        self._set_up = False

    @classmethod
    def from_conn_string(cls, conn_string: str, **options: Any) -> Self:
        """Make a saver as LangGraph's class of that name does; it works in ``with`` and in ``async with``."""
        return cls(conn_string, **options)

    @classmethod
    def over(
        cls,
        storage: SqliteStorage,
        *,
        serde: SerializerProtocol | None = None,
        keep_last: int | None = None,
    ) -> Self:
        """Return a managed saver on a storage's own connections, which stay the storage's."""
        saver = cls.__new__(cls)
        Saver.__init__(
            saver,
            storage.dialect,
            SqliteCheckpoints(storage.items.database),
            serde=serde,
            keep_last=keep_last,
            managed=True,
        )
        saver._database = None
        saver._set_up = False
        return saver

    @override
    def setup(self) -> None:
        if not self._set_up:
            self._tables.set_up()
            self._set_up = True

    @override
    def close(self) -> None:
        self._set_up = False
        if self._database is not None:
            self._database.close()

    @override
    def _packed(
        self, key: Key, parent_id: str | None, checkpoint: Checkpoint, metadata: bytes, new: ChannelVersions
    ) -> Stored:
        try:
            kind, blob = self.serde.dumps_typed(checkpoint)
        except Exception as error:  # serialisers raise what they like
            raise self._refusal(checkpoint, error) from error
        return Stored(key, parent_id, kind, blob, metadata)

    @override
    def _unpacked(self, stored: Stored) -> dict[str, Any]:
        # The first releases wrote JSON, and no type.
        found: dict[str, Any] = self.serde.loads_typed((stored.type or "json", stored.checkpoint))
        for part in ("channel_values", "channel_versions", "versions_seen"):
            found[part] = found.get(part) or {}
        return found

    @override
    def _channel_bytes(self, session: Session, thread_id: str) -> Mapping[str, int]:
        found: dict[str, int] = {}
        after: Key | None = None
        while True:
            page = self._tables.keys(
                session, Query(thread_id), after=after, limit=MEASURED_AT_ONCE, metadata=False
            )
            for stored, _ in self._tables.load_all(session, [key for key, _ in page]):
                for channel, value in self._unpacked(stored)["channel_values"].items():
                    found[channel] = found.get(channel, 0) + len(self.serde.dumps_typed(value)[1])
            if len(page) < MEASURED_AT_ONCE:
                return found
            after = page[-1][0]

    def _refusal(self, checkpoint: Checkpoint, error: Exception) -> InvalidValue:
        """Return the error for the first channel whose value cannot be serialised."""
        for channel, value in checkpoint["channel_values"].items():
            self._dumped(value, channel)
        return refusal(self.serde, checkpoint, "checkpoint", error)


def _nothing(*_: object) -> None:
    """Do nothing: a saver needs no functions in SQL, and keeps nothing that a fork spoils."""
