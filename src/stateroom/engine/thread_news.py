"""Telling who follows a thread that there may be a new run on it: one query for all of them at a time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Final

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadQuery
from stateroom.engine.news import News, jittered
from stateroom.errors import Unavailable
from stateroom.model.run import Run
from stateroom.offload import Offload

__all__ = ["OVERLAP", "ThreadNews"]

OVERLAP: Final = 5_000_000
"""Microseconds that each look goes back behind the newest run of the last: runs appear out of order."""

LOOK_AFTER: Final = 2.0
"""Seconds after which it looks again at the latest, since nobody tells of threads that are deleted."""

PAUSE: Final = 0.02
"""Seconds between two looks at least."""

RUNS_AT_ONCE: Final = 20
PAGES_AT_MOST: Final = 50
"""Beyond so many pages of new runs everybody is told to look for himself."""

THREADS_AT_ONCE: Final = 100


class _Watched:
    """A thread that somebody follows."""

    def __init__(self) -> None:
        self.news = News()
        self.readers = 0
        self.exists = False


class ThreadNews:
    """Who follows which thread, on one event loop. It looks only while anybody does."""

    def __init__(self, storage: Storage, offload: Offload, *, poll: float) -> None:
        self._storage = storage
        self._offload = offload
        self._poll = poll
        self._watched: dict[str, _Watched] = {}
        self._looking: asyncio.Task[None] | None = None
        self._recent: dict[str, int] = {}
        self._closed = False

    @property
    def watching(self) -> int:
        """How many threads somebody follows at this moment."""
        return len(self._watched)

    def close(self) -> None:
        """Have every reader, and every later one, raise ``Stopped``; from any thread."""
        self._closed = True
        for watched in list(self._watched.values()):
            watched.news.stop()

    @contextmanager
    def of(self, thread_id: str) -> Iterator[News]:
        """Give the news of a thread: of runs that were made on it, and of its deletion."""
        watched = self._watched.get(thread_id)
        if watched is None:
            watched = self._watched[thread_id] = _Watched()
            if self._closed:
                watched.news.stop()
        watched.readers += 1
        if self._looking is None:
            self._looking = asyncio.create_task(self._look())
        try:
            yield watched.news
        finally:
            watched.readers -= 1
            if not watched.readers:
                del self._watched[thread_id]
            if not self._watched:
                self._looking.cancel()
                self._looking = None

    def exists(self, thread_id: str) -> None:
        """Hear that a thread has been seen: from now on its deletion is news."""
        if watched := self._watched.get(thread_id):
            watched.exists = True

    async def _look(self) -> None:
        queue = News()
        unsubscribe = self._storage.runs.subscribe(queue.announce)
        try:
            horizon = await self._offload(self._storage.now)
            while True:
                version = queue.version
                with suppress(Unavailable):
                    horizon = await self._look_for_runs(horizon)
                    await self._look_for_threads()
                await asyncio.sleep(PAUSE)
                with suppress(TimeoutError):
                    async with asyncio.timeout(jittered(min(self._poll, LOOK_AFTER))):
                        await queue.later_than(version)
        finally:
            unsubscribe()

    async def _look_for_runs(self, horizon: int) -> int:
        """Tell of runs made since the horizon; return the next horizon."""
        place, newest = None, horizon
        for _ in range(PAGES_AT_MOST):
            page = await self._offload(self._storage.runs.search, RunQuery(), limit=RUNS_AT_ONCE, after=place)
            for run in page.rows:
                newest = max(newest, run.created_at)
                self._tell(run)
            place = page.next
            if place is None or page.rows[-1].created_at < horizon - OVERLAP:
                break
        else:
            for watched in self._watched.values():
                watched.news.change()
        self._recent = {key: at for key, at in self._recent.items() if at >= newest - 2 * OVERLAP}
        return newest

    def _tell(self, run: Run) -> None:
        if run.run_id not in self._recent:
            self._recent[run.run_id] = run.created_at
            if watched := self._watched.get(run.thread_id):
                watched.news.change()

    async def _look_for_threads(self) -> None:
        """Tell of threads that are gone, without reading one of those that are there."""
        existing = [thread_id for thread_id, watched in self._watched.items() if watched.exists]
        for start in range(0, len(existing), THREADS_AT_ONCE):
            chunk = existing[start : start + THREADS_AT_ONCE]
            if await self._offload(self._storage.threads.count, ThreadQuery(ids=chunk)) < len(chunk):
                for watched in (self._watched.get(thread_id) for thread_id in chunk):
                    if watched:
                        watched.news.change()
