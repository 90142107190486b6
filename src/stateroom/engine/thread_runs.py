"""Which of a thread's runs a reader gets next: those that have begun, in the order in which they did."""

from __future__ import annotations

from typing import Final, Literal, NamedTuple

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.engine.thread_news import OVERLAP
from stateroom.model.run import ENDED, Run, RunStatus
from stateroom.offload import Offload

__all__ = ["From", "NextRun", "ThreadRuns"]

Beginning = Literal["now", "new", "latest"]

From = int | Beginning
"""Where a reader begins: behind a number of the thread's order, or with what comes ``now``. ``latest``: with
the runs that wait or are executed, if there are none with the latest. ``new``: with those that wait or are
executed, if there are none with what comes; a thread's only run is new."""

ACTIVE: Final = (RunStatus.PENDING, RunStatus.RUNNING)

RUNS_AT_ONCE: Final = 100

LATEST_AMONG: Final = 10
"""Of so many of the newest runs, the one that began last is the latest."""


class NextRun(NamedTuple):
    """A run to be read behind number ``after``; a frame's number in the thread is ``began`` and its own."""

    began: int
    run_id: str
    after: int


class ThreadRuns:
    """A reader's view of the runs of a thread: what he has not had, and what may come."""

    def __init__(self, thread_id: str, storage: Storage, offload: Offload) -> None:
        self._thread_id = thread_id
        self._storage = storage
        self._offload = offload
        self._ready: dict[str, NextRun] = {}
        self._waiting: dict[str, tuple[int, int]] = {}
        # What he has had or need not have, of those that another look may find again.
        self._passed: dict[str, int] = {}
        self._horizon: int | None = None

    @property
    def waiting(self) -> list[str]:
        """The runs that have not begun, those that will do so first in front."""
        return sorted(self._waiting, key=lambda run_id: self._waiting[run_id])

    def next(self) -> NextRun | None:
        """Return the run that is to be read next, if one has begun; it is not returned again."""
        if not self._ready:
            return None
        found = min(self._ready.values())
        del self._ready[found.run_id]
        return found

    async def look(self, begin: From) -> None:
        """See which runs there are: the first time from where the reader begins, and then those that came."""
        if self._horizon is None:
            now = await self._offload(self._storage.now)
            await (self._begin_behind(begin) if isinstance(begin, int) else self._begin(begin, now))
            self._horizon = now
            return
        came = await self._search(RunQuery(self._thread_id), since=self._horizon - OVERLAP)
        for run in [*came, *await self._of_ids(list(self._waiting))]:
            self._horizon = max(self._horizon, run.created_at)
            self._add(run)
        forgotten = self._horizon - 2 * OVERLAP
        self._passed = {run_id: at for run_id, at in self._passed.items() if at >= forgotten}

    async def _begin(self, begin: Beginning, now: int) -> None:
        # In this order: a run that comes meanwhile, and may have ended already, is found by the next look.
        recent = await self._search(RunQuery(self._thread_id), since=now - 2 * OVERLAP)
        passed = [run for run in recent if run.status in ENDED and run.created_at < now]
        self._passed = {run.run_id: run.created_at for run in passed}
        found = {run.run_id: run for run in recent if run.run_id not in self._passed}
        active = await self._search(RunQuery(self._thread_id, statuses=ACTIVE))
        found.update((run.run_id, run) for run in active)
        if begin != "now" and not found:
            for run in await self._latest(only=begin == "new"):
                self._passed.pop(run.run_id, None)
                self._add(run)
        for run in found.values():
            last = None
            if begin == "now" and run.status is RunStatus.RUNNING:
                last = await self._offload(self._storage.events.last, run.run_id)
            self._add(run, last.seq if last else 0)

    async def _latest(self, *, only: bool) -> list[Run]:
        """Return the run that began last, if there is one, and if it has to be the only one."""
        newest = await self._page(RunQuery(self._thread_id), LATEST_AMONG)
        if only and len(newest) > 1:
            return []
        return sorted(newest, key=lambda run: began(run) or 0)[-1:]

    async def _begin_behind(self, number: int) -> None:
        runs = await self._search(RunQuery(self._thread_id))
        before = [run for run in runs if (start := began(run)) is not None and start <= number]
        for run in runs:
            if run not in before:
                self._add(run)
        for run in before:
            self._passed[run.run_id] = run.created_at
        if before:
            last = max(before, key=lambda run: began(run) or 0)
            await self._resume(last, number - (began(last) or 0))

    async def _resume(self, run: Run, after: int) -> None:
        """Go on with a run behind one of its frames, unless the reader has had its end as well."""
        if run.status in ENDED:
            last = await self._offload(self._storage.events.last, run.run_id)
            if last is None:
                gone = await self._offload(self._storage.events.read, run.run_id, limit=0)
            if after > (gone.first - 1 if last is None else last.seq):
                return
        del self._passed[run.run_id]
        self._add(run, after)

    def _add(self, run: Run, after: int = 0) -> None:
        """Note a run: it has begun, or waits."""
        if run.run_id in self._passed or run.run_id in self._ready:
            return
        start = began(run)
        if start is None:
            self._waiting[run.run_id] = (run.available_at, run.created_at)
        else:
            self._waiting.pop(run.run_id, None)
            self._ready[run.run_id] = NextRun(start, run.run_id, after)
            self._passed[run.run_id] = run.created_at

    async def _of_ids(self, run_ids: list[str]) -> list[Run]:
        """Return those of some runs that are there, and stop waiting for the others."""
        found: list[Run] = []
        for start in range(0, len(run_ids), RUNS_AT_ONCE):
            chunk = run_ids[start : start + RUNS_AT_ONCE]
            rows = await self._page(RunQuery(self._thread_id, run_ids=chunk), len(chunk))
            for run_id in set(chunk).difference(run.run_id for run in rows):
                self._waiting.pop(run_id, None)
            found += rows
        return found

    async def _page(self, query: RunQuery, limit: int) -> list[Run]:
        return (await self._offload(self._storage.runs.search, query, limit=limit)).rows

    async def _search(self, query: RunQuery, since: int | None = None) -> list[Run]:
        """Return the runs that fit, the newest first, as far back as they were made."""
        found: list[Run] = []
        place = None
        while True:
            page = await self._offload(self._storage.runs.search, query, limit=RUNS_AT_ONCE, after=place)
            found += [run for run in page.rows if since is None or run.created_at >= since]
            place = page.next
            if place is None or (since is not None and page.rows[-1].created_at < since):
                return found


def began(run: Run) -> int | None:
    """Return when a run began; one that was cancelled while it waited has begun when it ended."""
    if run.started_at is None and run.status in ENDED:
        return run.ended_at
    return run.started_at
