"""Following a thread: the streams of its runs, one after another, as they are executed."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import aclosing, suppress
from typing import Final, NamedTuple, Self, TypeVar

from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadQuery
from stateroom.engine.following import Followers, Part
from stateroom.engine.news import News, jittered
from stateroom.engine.thread_news import ThreadNews
from stateroom.engine.thread_runs import From, NextRun, ThreadRuns
from stateroom.errors import Unavailable
from stateroom.offload import Offload

T = TypeVar("T")

__all__ = ["SUBSCRIBED_AT_MOST", "RunPart", "ThreadFollowers"]

SUBSCRIBED_AT_MOST: Final = 16
"""Waiting runs of a thread whose beginning a reader is told of; of others he learns by looking."""


class RunPart(NamedTuple):
    """A part of a run's stream. A frame's number in its thread is ``began`` and its own together."""

    run_id: str
    began: int
    part: Part


class ThreadFollowers:
    """The readers of threads, on one event loop; they hold as little as those of runs."""

    def __init__(self, storage: Storage, followers: Followers, offload: Offload, *, poll: float) -> None:
        self._storage = storage
        self._followers = followers
        self._offload = offload
        self._poll = poll
        self.news = ThreadNews(storage, offload, poll=poll)
        followers.on_close(self.news.close)

    async def follow(self, thread_id: str, *, begin: From, existed: bool = False) -> AsyncGenerator[RunPart]:
        """Yield the streams of a thread's runs, in their order, until the thread is deleted.

        Unless it has ``existed``, which is seen at once as well, it need not be there yet.
        """
        runs = ThreadRuns(thread_id, self._storage, self._offload)
        with self.news.of(thread_id) as news, _Beginnings(self._storage, news) as beginnings:
            while True:
                version = news.version
                run, exists = await self._patiently(lambda: self._look(thread_id, runs, begin), news)
                if run is not None:
                    async with aclosing(self._followers.parts(run.run_id, after=run.after)) as parts:
                        async for part in parts:
                            yield RunPart(run.run_id, run.began, part)
                elif existed and not exists:
                    return
                elif not beginnings.hear_of(runs.waiting[:SUBSCRIBED_AT_MOST]):
                    # What began between the look and the subscription is seen by another look.
                    await self._later(news, version, soon=bool(runs.waiting))
                existed = existed or exists

    async def _look(self, thread_id: str, runs: ThreadRuns, begin: From) -> tuple[NextRun | None, bool]:
        """Return the next run to be read, if there is one, and whether the thread is there."""
        if (run := runs.next()) is None:
            await runs.look(begin)
            run = runs.next()
        if run is not None:
            return run, True
        exists = bool(await self._offload(self._storage.threads.count, ThreadQuery(ids=[thread_id])))
        if exists:
            self.news.exists(thread_id)
        return None, exists

    async def _later(self, news: News, version: int, *, soon: bool) -> None:
        """Return when there may be something new; ``soon``: look again after the usual time in any case."""
        with suppress(TimeoutError):
            async with asyncio.timeout(jittered(self._poll) if soon else None):
                await news.later_than(version)

    async def _patiently(self, act: Callable[[], Awaitable[T]], news: News) -> T:
        """Return what a look answers; while the storage cannot be reached, look again."""
        while True:
            news.check()
            try:
                return await act()
            except Unavailable:
                await self._later(news, news.version, soon=True)


class _Beginnings:
    """Subscriptions to runs that wait, so that their reader hears of their first frames."""

    def __init__(self, storage: Storage, news: News) -> None:
        self._events = storage.events
        self._news = news
        self._stops: dict[str, Callable[[], None]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.hear_of([])

    def hear_of(self, run_ids: Sequence[str]) -> bool:
        """Hear of these runs and no others; tell whether one was not among them before."""
        for run_id in self._stops.keys() - set(run_ids):
            self._stops.pop(run_id)()
        new = [run_id for run_id in run_ids if run_id not in self._stops]
        for run_id in new:
            self._stops[run_id] = self._events.subscribe(run_id, self._news.announce)
        return bool(new)
