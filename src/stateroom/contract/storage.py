"""Storage: everything that a server keeps, as one thing that is opened and closed."""

from __future__ import annotations

from abc import ABC, abstractmethod
from enum import StrEnum

from stateroom.contract.assistants import Assistants
from stateroom.contract.crons import Crons
from stateroom.contract.deliveries import Deliveries
from stateroom.contract.events import Events
from stateroom.contract.idempotency import Idempotency
from stateroom.contract.items import Items
from stateroom.contract.runs import Runs
from stateroom.contract.threads import Threads

__all__ = ["Storage", "StorageCapability"]


class StorageCapability(StrEnum):
    """What a storage may lack.

    ``DURABLE``: what was acknowledged survives the death of the process. ``TAKE_OVER``: a run whose worker
    died is executed again by another, from its last checkpoint; without it, it ends with an error.
    ``MULTI_PROCESS``: several processes may open it at once; without it, a second one is refused.
    """

    DURABLE = "durable"
    TAKE_OVER = "take_over"
    MULTI_PROCESS = "multi_process"


class Storage(ABC):
    """The repositories of one server, on one database.

    Their methods may be called from any thread; they block. They raise ``NotFound``, ``Conflict`` and those
    of its kind, ``InvalidInput`` and those of its kind, ``LimitExceeded`` and ``Unavailable``.
    """

    capabilities: frozenset[StorageCapability]

    @property
    @abstractmethod
    def assistants(self) -> Assistants:
        """See ``Assistants``."""

    @property
    @abstractmethod
    def threads(self) -> Threads:
        """See ``Threads``."""

    @property
    @abstractmethod
    def runs(self) -> Runs:
        """See ``Runs``."""

    @property
    @abstractmethod
    def crons(self) -> Crons:
        """See ``Crons``."""

    @property
    @abstractmethod
    def idempotency(self) -> Idempotency:
        """See ``Idempotency``."""

    @property
    @abstractmethod
    def deliveries(self) -> Deliveries:
        """See ``Deliveries``."""

    @property
    @abstractmethod
    def events(self) -> Events:
        """See ``Events``."""

    @property
    @abstractmethod
    def items(self) -> Items:
        """See ``Items``."""

    @abstractmethod
    def open(self) -> None:
        """Make the storage ready, creating or migrating its schema; doing so again changes nothing.

        ``Misconfigured`` when another process has it and may not be joined; the message says which.
        """

    @abstractmethod
    def close(self) -> None:
        """Write out what is pending and let go of every resource; doing so again changes nothing."""

    @abstractmethod
    def now(self) -> int:
        """Return the time that the storage goes by, in microseconds since 1970 UTC."""
