"""Freeing what has had its time: threads by their time to live, and the records that expire beside them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Protocol

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.errors import StateroomError
from stateroom.model.run import RunStatus
from stateroom.model.thread import Thread, ThreadStatus, TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings
from stateroom.service.elsewhere import Elsewhere, remove_thread

__all__ = ["DELIVERIES_KEPT", "Pruner", "Retention", "Swept"]

RECORDS_TOGETHER: Final = 1_000
"""Items, records, deliveries or streams that are freed in one transaction."""

DELIVERIES_KEPT: Final = 24 * 60 * 60 * 1_000_000
"""Microseconds for which a delivery can be looked at, and a dead one tried again, after it was last tried."""

_log = logging.getLogger(__name__)


class Pruner(Protocol):
    """A saver that keeps of threads nothing but their latest state."""

    def prune(self, thread_ids: list[str], *, strategy: str = "keep_latest") -> None:
        """Free the rest."""


@dataclass(frozen=True, slots=True)
class Swept:
    """How much a sweep has freed: threads removed and pruned, and records of each kind."""

    threads_deleted: int = 0
    threads_pruned: int = 0
    deletions_finished: int = 0
    items: int = 0
    idempotency_records: int = 0
    deliveries: int = 0
    streams: int = 0


class Retention:
    """Sweeps a storage: on request, or from a thread of its own at intervals.

    Everything is done in bounded pieces, each a transaction by itself, and what fails for one thread is
    logged and stops no other. Several processes may sweep one database at the same time.
    """

    def __init__(
        self,
        storage: Storage,
        saver: Pruner,
        settings: ThreadTTLSettings | None = None,
        *,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Make it; ``saver`` is the checkpointer, and ``elsewhere`` too if it is the application's own."""
        self._storage = storage
        self._elsewhere = elsewhere
        self._saver = saver
        self._settings = settings or ThreadTTLSettings()
        self._stopped = threading.Event()
        self._sweeper: threading.Thread | None = None

    def sweep(self) -> Swept:
        """Free everything whose time has come; return how much that was."""
        storage = self._storage
        deleted, pruned = self._sweep_threads()
        return Swept(
            threads_deleted=deleted,
            threads_pruned=pruned,
            deletions_finished=_exhausted(storage.threads.resume_deletions),
            items=_exhausted(storage.items.sweep),
            idempotency_records=_exhausted(storage.idempotency.sweep),
            deliveries=_exhausted(
                lambda limit: storage.deliveries.sweep(before=storage.now() - DELIVERIES_KEPT, limit=limit)
            ),
            streams=_exhausted(lambda limit: storage.events.sweep(limit=limit)),
        )

    def _sweep_threads(self) -> tuple[int, int]:
        """Apply the strategy of each expired thread; return how many were removed, and how many pruned."""
        deleted = pruned = 0
        # What expires meanwhile is the next sweep's: a short time to live could keep this one from its end.
        began = self._storage.now()
        # Threads that somebody else is busy with, or that cannot be swept: the next are behind them.
        passed: set[str] = set()
        while expired := self._expired(began, passed):
            for thread in expired:
                try:
                    removed, freed, rearmed = self._apply(thread)
                except StateroomError:
                    _log.warning("thread %s has expired and cannot be swept", thread.thread_id, exc_info=True)
                    removed = freed = rearmed = False
                deleted += removed
                pruned += freed
                if not (removed or rearmed):
                    passed.add(thread.thread_id)
        return deleted, pruned

    def _expired(self, began: int, passed: set[str]) -> list[Thread]:
        found = self._storage.threads.expired(self._settings.sweep_limit + len(passed))
        return [
            thread for thread in found if thread.thread_id not in passed and (thread.expires_at or 0) <= began
        ]

    def _apply(self, thread: Thread) -> tuple[bool, bool, bool]:
        """Remove a thread, or prune it unless it is active; tell what was done, and whether it rearmed."""
        threads = self._storage.threads
        assert thread.ttl is not None
        assert thread.expires_at is not None
        if thread.ttl.strategy is TTLStrategy.DELETE:
            removed = remove_thread(
                threads, self._elsewhere, thread.thread_id, if_expires_at=thread.expires_at
            )
            return removed, False, False
        active = self._is_active(thread)
        if not active:
            self._saver.prune([thread.thread_id], strategy="keep_latest")
        return False, not active, threads.rearm(thread.thread_id, thread.expires_at)

    def _is_active(self, thread: Thread) -> bool:
        """Tell whether a run executes, or waits, that may need more of the past than the latest state."""
        if thread.status is ThreadStatus.BUSY:
            return True
        waiting = RunQuery(thread_id=thread.thread_id, statuses=(RunStatus.PENDING, RunStatus.RUNNING))
        return bool(self._storage.runs.count(waiting, at_most=1))

    def start(self) -> None:
        """Sweep at the configured interval from a daemon thread, once at once; one that sweeps goes on."""
        if self._sweeper is not None:
            return
        self._stopped.clear()
        self._sweeper = threading.Thread(target=self._run, name="stateroom-retention", daemon=True)
        self._sweeper.start()

    def stop(self) -> None:
        """Stop sweeping, after waiting for the sweep that is under way."""
        sweeper, self._sweeper = self._sweeper, None
        if sweeper is not None:
            self._stopped.set()
            sweeper.join()

    def _run(self) -> None:
        while True:
            try:
                self.sweep()
            except StateroomError:
                # The next round tries again; nothing that was to go is needed by anybody.
                _log.warning("a sweep failed", exc_info=True)
            if self._stopped.wait(self._settings.sweep_interval_minutes * 60):
                return


def _exhausted(free: Callable[[int], int]) -> int:
    """Free in pieces until nothing is left, and return how much there was."""
    total = 0
    while freed := free(RECORDS_TOGETHER):
        total += freed
    return total
