"""A server's storage in one schema of a Postgres database, which any number of processes may share."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from psycopg_pool import ConnectionPool
from typing_extensions import override

from stateroom.clock import Clock, system_clock
from stateroom.contract.events import EventLimits
from stateroom.contract.storage import StorageCapability
from stateroom.drivers.postgres.checkpoints import PostgresCheckpoints
from stateroom.drivers.postgres.dialect import PostgresDialect
from stateroom.drivers.postgres.items import PostgresItems
from stateroom.drivers.sql.storage import MakesEvents, SqlStorage
from stateroom.search.index_config import IndexSettings

__all__ = ["PostgresStorage"]


class PostgresStorage(SqlStorage):
    """Everything of a server in one schema. The arguments are described with ``PostgresStore``."""

    def __init__(
        self,
        uri: str | None,
        settings: IndexSettings,
        *,
        index_keys: tuple[str, ...] = (),
        clock: Clock = system_clock,
        schema: str = "stateroom",
        pool: ConnectionPool[Any] | Mapping[str, Any] | None = None,
        prepares: bool = True,
        limits: EventLimits | None = None,
        events: MakesEvents | None = None,
    ) -> None:
        self._items = PostgresItems(
            uri,
            settings,
            index_keys=index_keys,
            clock=clock,
            schema=schema,
            pool=pool,
            prepares=prepares,
        )
        self.capabilities = frozenset(StorageCapability)
        dialect = PostgresDialect(self._items.database)
        super().__init__(dialect, PostgresCheckpoints(self._items.database), limits, events)

    @property
    @override
    def items(self) -> PostgresItems:
        return self._items

    @override
    def open(self) -> None:
        self._items.open()
        self.checkpoints.set_up()
        self.threads.resume_deletions()

    @override
    def close(self) -> None:
        self._items.close()
