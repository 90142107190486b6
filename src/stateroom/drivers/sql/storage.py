"""The repositories of one SQL database, put together."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from typing_extensions import override

from stateroom.contract.events import EventLimits, Events
from stateroom.contract.runs import Runs
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.assistants import SqlAssistants
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.crons import SqlCrons
from stateroom.drivers.sql.deliveries import SqlDeliveries
from stateroom.drivers.sql.dialect import Dialect
from stateroom.drivers.sql.events import SqlEvents
from stateroom.drivers.sql.idempotency import SqlIdempotency
from stateroom.drivers.sql.runs import SqlRuns
from stateroom.drivers.sql.signals import Signals
from stateroom.drivers.sql.threads import SqlThreads

__all__ = ["MakesEvents", "SqlStorage"]

MakesEvents: TypeAlias = Callable[[Runs, Signals, EventLimits], Events]
"""Makes what keeps frames, given whose they are, by what runs tell of their ends, and how much to keep."""


class SqlStorage(Storage):
    """Repositories that are written once, over a ``Dialect``."""

    def __init__(
        self,
        dialect: Dialect,
        checkpoints: CheckpointTables,
        limits: EventLimits | None,
        events: MakesEvents | None,
    ) -> None:
        """``events`` makes the keeper of frames, None: they are kept in the database, with all else."""
        self.dialect = dialect
        self.checkpoints = checkpoints
        self.signals = Signals()
        self._assistants = SqlAssistants(dialect)
        self._threads = SqlThreads(dialect, self.signals, checkpoints)
        self._runs = SqlRuns(dialect, self.signals, checkpoints)
        self._crons = SqlCrons(dialect, self.signals, checkpoints)
        self._idempotency = SqlIdempotency(dialect)
        self._deliveries = SqlDeliveries(dialect)
        keep = events or (lambda _, signals, limits: SqlEvents(dialect, signals, limits))
        self._events: Events = keep(self._runs, self.signals, limits or EventLimits())

    @property
    @override
    def assistants(self) -> SqlAssistants:
        return self._assistants

    @property
    @override
    def threads(self) -> SqlThreads:
        return self._threads

    @property
    @override
    def runs(self) -> SqlRuns:
        return self._runs

    @property
    @override
    def crons(self) -> SqlCrons:
        return self._crons

    @property
    @override
    def idempotency(self) -> SqlIdempotency:
        return self._idempotency

    @property
    @override
    def deliveries(self) -> SqlDeliveries:
        return self._deliveries

    @property
    @override
    def events(self) -> Events:
        return self._events

    @override
    def now(self) -> int:
        return self.dialect.read(lambda session: session.now())
