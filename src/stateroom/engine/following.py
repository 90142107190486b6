"""Following the streams of runs from an event loop: many readers, who hold nothing while they wait."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing
from typing import Final, NamedTuple

from stateroom.contract.events import Events
from stateroom.engine.news import News, jittered
from stateroom.errors import Unavailable
from stateroom.model.frame import Frame, FramePage
from stateroom.model.page import ROWS_MAX
from stateroom.model.run import ENDED, RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.offload import Offload

__all__ = ["PAGE_BYTES", "PAGE_FRAMES", "Ended", "Followers", "Gap", "Part"]

PAGE_BYTES: Final = 16 * 1024
"""What is enough for one page: it ends with the frame that makes it so much."""

PAGE_FRAMES: Final = 256
"""Frames of one page at most."""


class Gap(NamedTuple):
    """Frames that the reader should have got are gone: the next one's number is ``first``."""

    first: int


class Ended(NamedTuple):
    """The run has ended, with this status, None when it is gone; ``last`` is the last frame's number."""

    status: RunStatus | None
    last: int


class Part(NamedTuple):
    """What was read at once: frames that are gone, frames, the end; each may be missing.

    ``last`` is the number of the last frame that the reader has got or lost. ``complete`` says that there
    was nothing behind it at that moment.
    """

    gap: Gap | None
    frames: list[Frame]
    ended: Ended | None
    last: int
    complete: bool


class _Followed:
    """A run that somebody follows, for its frames or for its end alone: one subscription and one poll.

    Readers at the same place share a read that was begun at the same version of the news, so that many of
    them cost hardly more than one.
    """

    def __init__(self, run_id: str, events: Events, offload: Offload, poll: float, *, frames: bool) -> None:
        self.readers = 0
        self.news = News()
        self._run_id = run_id
        self._events = events
        self._offload = offload
        self._poll = poll
        self._loop = asyncio.get_running_loop()
        self._reads: dict[tuple[int, int, int], asyncio.Task[FramePage]] = {}
        self._stop = events.subscribe(run_id, self.news.announce, frames=frames)
        self._timer = self._set_timer()

    def close(self) -> None:
        self._stop()
        self._timer.cancel()

    async def page(self, after: int, limit: int) -> FramePage:
        """Return the frames behind a number."""
        self.news.check()
        key = (after, limit, self.news.version)
        if (task := self._reads.get(key)) is None:
            read = self._offload(
                self._events.read, self._run_id, after=after, limit=limit, enough_bytes=PAGE_BYTES
            )
            task = self._reads[key] = self._loop.create_task(read)
            task.add_done_callback(lambda done: self._finish(key, done))
        # A reader that leaves takes nothing from the others.
        return await asyncio.shield(task)

    def _finish(self, key: tuple[int, int, int], done: asyncio.Task[FramePage]) -> None:
        del self._reads[key]
        if not done.cancelled():
            # Looked at, so that nobody is told of an error that all of the readers left behind.
            done.exception()

    def _look_again(self) -> None:
        self.news.change()
        self._timer = self._set_timer()

    def _set_timer(self) -> asyncio.TimerHandle:
        return self._loop.call_later(jittered(self._poll), self._look_again)


class Followers:
    """The readers of runs, on one event loop.

    They hold no thread and no connection while they wait. A reader is told by the storage when there may be
    more, and looks again every ``poll`` seconds anyhow; a storage that cannot be reached is asked again then.
    """

    def __init__(self, events: Events, offload: Offload, *, poll: float) -> None:
        self._events = events
        self._offload = offload
        self._poll = poll
        self._followed: dict[tuple[str, bool], _Followed] = {}
        self._closed = False
        self._closers: list[Callable[[], None]] = []

    @property
    def following(self) -> int:
        """How many runs somebody follows at this moment."""
        return len({run_id for run_id, _ in self._followed})

    def close(self) -> None:
        """Have every reader, and every later one, raise ``Stopped``; from any thread."""
        self._closed = True
        for followed in list(self._followed.values()):
            followed.news.stop()
        for close in self._closers:
            close()

    def on_close(self, close: Callable[[], None]) -> None:
        """Have ``close`` called, from any thread, when the readers are let go."""
        self._closers.append(close)

    async def follow(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Frame | Gap | Ended]:
        """Yield the frames of a run behind number ``after``, as they come, and last exactly one ``Ended``."""
        async with aclosing(self.parts(run_id, after=after)) as parts:
            async for part in parts:
                if part.gap:
                    yield part.gap
                for frame in part.frames:
                    yield frame
                if part.ended:
                    yield part.ended

    async def parts(self, run_id: str, *, after: int = 0) -> AsyncGenerator[Part]:
        """Yield what ``follow`` yields, in parts read at once: at most ``PAGE_BYTES`` and a frame."""
        followed = self._join(run_id, frames=True)
        try:
            while True:
                version = followed.news.version
                part = await _part(followed, after)
                after = part.last
                if part.gap or part.frames or part.ended:
                    yield part
                if part.ended:
                    return
                if part.complete:
                    # Let go of what was read: the wait may be long.
                    del part
                    await followed.news.later_than(version)
        finally:
            self._leave(run_id, followed, frames=True)

    async def ended(self, run_id: str) -> RunStatus | None:
        """Wait for the end of a run; return its status, None when the run is gone."""
        followed = self._join(run_id, frames=False)
        try:
            while True:
                version = followed.news.version
                part = await _part(followed, ROWS_MAX, limit=0)
                if part.ended:
                    return part.ended.status
                await followed.news.later_than(version)
        finally:
            self._leave(run_id, followed, frames=False)

    async def output(self, run_id: str) -> tuple[RunStatus | None, bytes | None]:
        """Wait for the end of a run; return its status and what it answers, None if it left nothing."""
        status = await self.ended(run_id)
        if status is None:
            return None, None
        last = await self._offload(self._events.last, run_id)
        return status, last.data if last is not None and last.event == OUTPUT_EVENT else None

    def _join(self, run_id: str, *, frames: bool) -> _Followed:
        followed = self._followed.get((run_id, frames))
        if followed is None:
            # Subscribing takes no more than a lock: it need not be done on another thread.
            followed = _Followed(run_id, self._events, self._offload, self._poll, frames=frames)
            self._followed[run_id, frames] = followed
            if self._closed:
                followed.news.stop()
        followed.readers += 1
        return followed

    def _leave(self, run_id: str, followed: _Followed, *, frames: bool) -> None:
        followed.readers -= 1
        if not followed.readers:
            del self._followed[run_id, frames]
            followed.close()


async def _part(followed: _Followed, after: int, limit: int = PAGE_FRAMES) -> Part:
    """Read what is behind a number; nothing while the storage cannot be reached."""
    try:
        page = await followed.page(after, limit)
    except Unavailable:
        return Part(None, [], None, after, True)
    gap = Gap(page.first) if page.first > after + 1 else None
    last = page.frames[-1].seq if page.frames else max(after, page.first - 1)
    # Nobody adds to a run that has ended: what is read up to its last frame is all of it.
    complete = not limit or last >= page.last
    over = page.status is None or page.status in ENDED
    return Part(gap, page.frames, Ended(page.status, last) if complete and over else None, last, complete)
