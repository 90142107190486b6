"""Freeing the space of expired items, on request or from a thread that sweeps at intervals."""

from __future__ import annotations

import asyncio
import logging
import threading
from concurrent.futures import Future

from stateroom.contract.items import Items
from stateroom.errors import StateroomError
from stateroom.model.ttl import TTLSettings
from stateroom.stores.operations import Translation

__all__ = ["Sweeping"]

SWEEP_BATCH = 1_000
"""Expired items freed in one transaction, so that a large sweep does not keep writers waiting."""

_log = logging.getLogger(__name__)


class Sweeping:
    """The sweeping part of a store; expired items are absent whether or not anybody sweeps."""

    _items: Items
    _translation: Translation
    _sweeper: tuple[threading.Event, Future[None]] | None = None

    def sweep_ttl(self) -> int:
        """Free the space of all items that have expired, in bounded batches; return how many they were."""
        total = 0
        while freed := self._items.sweep(SWEEP_BATCH):
            total += freed
        return total

    async def asweep_ttl(self) -> int:
        """Sweep as ``sweep_ttl`` does, without blocking the event loop."""
        return await asyncio.to_thread(self.sweep_ttl)

    def start_ttl_sweeper(self, sweep_interval_minutes: float | None = None) -> Future[None]:
        """Sweep every so many minutes (default: as configured) from a daemon thread.

        A sweeper that is running already goes on as it is. The future is done when the sweeper stops.
        """
        if self._sweeper is not None and not self._sweeper[1].done():
            return self._sweeper[1]
        settings: TTLSettings = self._translation.ttl
        minutes = sweep_interval_minutes or settings.sweep_interval_minutes
        stopped, future = threading.Event(), Future[None]()
        if minutes is None:
            future.set_result(None)
            return future
        self._sweeper = stopped, future
        threading.Thread(
            target=self._sweep_until,
            args=(stopped, minutes * 60, future),
            name="stateroom-sweeper",
            daemon=True,
        ).start()
        return future

    def stop_ttl_sweeper(self, timeout: float | None = None) -> bool:
        """Stop the sweeper, waiting at most ``timeout`` seconds; return whether it has stopped."""
        if self._sweeper is None:
            return True
        stopped, future = self._sweeper
        stopped.set()
        try:
            future.result(timeout)
        except TimeoutError:
            return False
        self._sweeper = None
        return True

    def _sweep_until(self, stopped: threading.Event, seconds: float, future: Future[None]) -> None:
        try:
            while not stopped.wait(seconds):
                try:
                    self.sweep_ttl()
                except StateroomError:
                    # The next round tries again; expired items stay hidden meanwhile.
                    _log.warning("sweeping expired items failed", exc_info=True)
        finally:
            future.set_result(None)
