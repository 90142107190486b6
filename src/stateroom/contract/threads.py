"""The threads contract: what a driver must do with conversations.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from stateroom.contract.assistants import IfExists
from stateroom.model.change import UNSET, Maybe
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL

__all__ = ["NewThread", "ThreadChange", "ThreadQuery", "Threads"]


class NewThread(NamedTuple):
    """A thread to be made; ``ttl`` None never expires."""

    thread_id: str
    metadata: Mapping[str, Any] = {}
    config: Mapping[str, Any] = {}
    ttl: ThreadTTL | None = None


class ThreadChange(NamedTuple):
    """What becomes of a thread; what is not mentioned stays.

    ``metadata`` is merged key by key. ``values``, ``interrupts`` and ``error`` replace what is there.
    ``status`` may not be ``busy``, which is the queue's to say. ``ttl`` None pins the thread.
    """

    metadata: Maybe[Mapping[str, Any]] = UNSET
    config: Maybe[Mapping[str, Any]] = UNSET
    values: Maybe[Any] = UNSET
    interrupts: Maybe[Mapping[str, Any]] = UNSET
    error: Maybe[Mapping[str, Any] | None] = UNSET
    status: Maybe[ThreadStatus] = UNSET
    ttl: Maybe[ThreadTTL | None] = UNSET


class ThreadQuery(NamedTuple):
    """Which threads count: those that fit each condition that is not None.

    ``metadata``, ``enforced_metadata`` and ``values`` are conditions by JSON containment; a thread without
    values contains none. ``ids`` may hold ids that do not exist.
    """

    metadata: Mapping[str, Any] | None = None
    enforced_metadata: Mapping[str, Any] | None = None
    values: Mapping[str, Any] | None = None
    status: ThreadStatus | None = None
    ids: Sequence[str] | None = None


class Threads(ABC):
    """Threads. Deleting one removes everything that is known under its id."""

    @abstractmethod
    def create(self, new: NewThread, *, if_exists: IfExists = "raise") -> Thread:
        """Make an idle thread; answer it. A taken id is answered as for assistants.

        A thread of that id whose deletion was cut short is deleted first: nothing of it comes back.
        """

    @abstractmethod
    def get(self, thread_id: str) -> Thread | None:
        """Return a thread, expired or not, or None."""

    @abstractmethod
    def update(self, thread_id: str, change: ThreadChange) -> Thread:
        """Change a thread; answer it. ``NotFound`` when it does not exist.

        ``updated_at`` is set, and ``state_updated_at`` with ``values``. Every change restarts the clock of
        the time to live. While the thread is busy its ``status`` stays so.
        """

    @abstractmethod
    def search(
        self,
        query: ThreadQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Thread]:
        """Return a page of the threads that fit, by one of ``THREAD_SORTS``, paged as assistants are."""

    @abstractmethod
    def count(self, query: ThreadQuery, *, at_most: int | None = None) -> int:
        """Return how many threads fit, counting no further than ``at_most``."""

    @abstractmethod
    def copy(self, thread_id: str, new_id: str, *, ttl: ThreadTTL | None = None) -> Thread:
        """Make a thread with the metadata, config, values, interrupts and checkpoints of another; answer it.

        It is interrupted if it has interrupts and otherwise idle, whatever the other does, and has no runs.
        ``ttl`` is its own. ``NotFound`` when the other does not exist, ``Conflict`` when the id is taken. Of
        the checkpoints everything is copied as it is at one moment, with all namespaces, blobs and writes.
        """

    @abstractmethod
    def delete(self, thread_id: str, *, if_expires_at: int | None = None) -> bool:
        """Remove a thread with everything that is known under its id; tell whether it was there.

        With ``if_expires_at`` only if it still expires then, so that one that was used meanwhile stays.

        The thread with its runs, frames, crons, deliveries, idempotency records and checkpoints of every
        namespace, blobs and pending writes. At once nobody sees it, and nobody may write under its id; if
        the process dies meanwhile, ``resume_deletions`` does the rest.
        """

    @abstractmethod
    def resume_deletions(self, limit: int = 100) -> int:
        """Finish deletions of at most ``limit`` threads that were cut short; return how many there were."""

    @abstractmethod
    def expired(self, limit: int = 100) -> list[Thread]:
        """Return threads whose time has come, those that expired first in front."""

    @abstractmethod
    def rearm(self, thread_id: str, expires_at: int) -> bool:
        """Restart the clock of a thread if it still expires at ``expires_at``; tell whether it did.

        Nothing else about the thread changes.
        """
