"""A server's storage in one SQLite file, which one process owns, or in memory."""

from __future__ import annotations

from typing_extensions import override

from stateroom.clock import Clock, system_clock
from stateroom.contract.events import EventLimits
from stateroom.contract.storage import StorageCapability
from stateroom.drivers.sql.storage import MakesEvents, SqlStorage
from stateroom.drivers.sqlite.checkpoints import SqliteCheckpoints
from stateroom.drivers.sqlite.database import MEMORY, Synchronous
from stateroom.drivers.sqlite.dialect import SqliteDialect
from stateroom.drivers.sqlite.items import SqliteItems
from stateroom.drivers.sqlite.owner import Owner
from stateroom.search.index_config import IndexSettings

__all__ = ["SqliteStorage"]


class SqliteStorage(SqlStorage):
    """Everything of one server in one file.

    One process owns it: opening it in a second one is refused. Whatever was acknowledged survives the
    death of the process; a run that was executing then is an error when the file is opened again.
    ``synchronous`` is described with ``SqliteStore``.
    """

    def __init__(
        self,
        path: str,
        settings: IndexSettings,
        *,
        index_keys: tuple[str, ...] = (),
        clock: Clock = system_clock,
        synchronous: Synchronous = "NORMAL",
        limits: EventLimits | None = None,
        events: MakesEvents | None = None,
    ) -> None:
        self._items = SqliteItems(path, settings, index_keys=index_keys, clock=clock, synchronous=synchronous)
        self._owner = Owner(path)
        in_memory = path == MEMORY
        self.capabilities = frozenset() if in_memory else frozenset({StorageCapability.DURABLE})
        dialect = SqliteDialect(self._items.database, clock, require=self._owner.require)
        super().__init__(dialect, SqliteCheckpoints(self._items.database), limits, events)

    @property
    @override
    def items(self) -> SqliteItems:
        return self._items

    @override
    def open(self) -> None:
        self._owner.acquire()
        try:
            self._items.open()
            self.checkpoints.set_up()
            self.threads.resume_deletions()
            while self.runs.reap(everybody=True):
                # Nobody else has the file, so that nobody executes what is said to be executed.
                pass
        except BaseException:
            self.close()
            raise

    @override
    def close(self) -> None:
        try:
            self._items.close()
        finally:
            self._owner.release()
