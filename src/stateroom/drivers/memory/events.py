"""Streams of runs in this process, for storages whose streams need not survive it."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Final

from typing_extensions import override

from stateroom.contract.events import FRAMES_READ, EventLimits, Events
from stateroom.contract.runs import RunQuery, Runs, Woken
from stateroom.drivers.sql.documents import checked_id
from stateroom.drivers.sql.events import (
    checked_bytes,
    checked_frames,
    checked_place,
    frames_topic,
    subscribed,
)
from stateroom.drivers.sql.signals import Signals
from stateroom.errors import Fenced
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.page import check_page
from stateroom.model.run import ENDED, Attempt, RunStatus

__all__ = ["MemoryEvents"]

LOCKS: Final = 64
"""Locks that the runs share."""

ASKED_AT_ONCE: Final = 100
"""Runs whose statuses are asked for in one call."""


class _Stream:
    """The frames of a run that are kept: those behind number ``gone``."""

    __slots__ = ("bytes", "frames", "gone")

    def __init__(self) -> None:
        self.frames: deque[Frame] = deque()
        self.gone = 0
        self.bytes = 0

    @property
    def last(self) -> int:
        return self.gone + len(self.frames)

    def add(self, frame: NewFrame) -> None:
        self.frames.append(Frame(self.last + 1, frame.event, frame.data))
        self.bytes += len(frame.data)

    def trim(self, limits: EventLimits) -> None:
        """Drop the oldest frames beyond the limits, never the last."""
        while len(self.frames) > 1 and (
            len(self.frames) > limits.frames_per_run or self.bytes > limits.bytes_per_run
        ):
            self.bytes -= len(self.frames.popleft().data)
            self.gone += 1

    def clear(self) -> None:
        """Drop every frame for good, and remember that they were there."""
        self.gone = self.last
        self.frames.clear()


class MemoryEvents(Events):
    """Frames of the runs that ``runs`` has.

    What a run is and what is done to its stream happen under one lock, so that whoever reads that it has
    ended has seen whatever was added before. ``signals`` are those by which ``runs`` tells that one ended.
    """

    def __init__(self, runs: Runs, signals: Signals, limits: EventLimits) -> None:
        self.limits = limits
        self._runs = runs
        self._signals = signals
        self._locks = [threading.Lock() for _ in range(LOCKS)]
        self._order = threading.Lock()
        # In the order of their last frames; streams that were swept have none, and lie anywhere.
        self._streams: dict[str, _Stream] = {}

    @override
    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        run_id = checked_id(attempt.run_id, "run_id")
        frames = checked_frames(frames)
        with self._locked(run_id):
            if not self._runs.is_current(attempt):
                raise Fenced(f"run {run_id!r} is no longer this attempt's: stop executing it")
            stream = self._streams.get(run_id) or _Stream()
            for frame in frames:
                stream.add(frame)
            stream.trim(self.limits)
            self._put_last(run_id, stream)
            number = stream.last
        self._signals.send(frames_topic(run_id))
        return number

    @override
    def read(
        self, run_id: str, *, after: int = 0, limit: int = FRAMES_READ, enough_bytes: int | None = None
    ) -> FramePage:
        checked_id(run_id, "run_id")
        after, limit = checked_place(after, limit)
        enough = None if enough_bytes is None else checked_bytes(enough_bytes)
        with self._locked(run_id):
            run = self._runs.get(run_id)
            if run is None:
                self._forget(run_id)
                return FramePage([], 1, None)
            stream = self._streams.get(run_id) or _Stream()
            start = max(after - stream.gone, 0)
            frames = _enough(islice(stream.frames, start, start + limit), enough)
            return FramePage(frames, stream.gone + 1, run.status, stream.last)

    @override
    def last(self, run_id: str) -> Frame | None:
        with self._locked(checked_id(run_id, "run_id")):
            if self._runs.get(run_id) is None:
                self._forget(run_id)
                return None
            stream = self._streams.get(run_id)
            return stream.frames[-1] if stream and stream.frames else None

    @override
    def subscribe(self, run_id: str, woken: Woken, *, frames: bool = True) -> Callable[[], None]:
        return subscribed(self._signals, run_id, woken, frames=frames)

    @override
    def sweep(self, *, limit: int = 100) -> int:
        limit, _ = check_page(limit, 0)
        with self._order:
            streams = list(self._streams.items())
        kept = [run_id for run_id, stream in streams if stream.frames]
        statuses = self._statuses(kept)
        ended = [run_id for run_id in kept if statuses.get(run_id) in ENDED]
        beyond = ended[: max(len(ended) - self.limits.retained_runs, 0)]
        gone = [run_id for run_id in kept if run_id not in statuses]
        self._look_after([run_id for run_id, stream in streams if not stream.frames][:limit])
        return sum(map(self._free, (beyond + gone)[:limit]))

    def _free(self, run_id: str) -> bool:
        with self._locked(run_id):
            stream = self._streams.get(run_id)
            if stream is None or not stream.frames:
                return False
            stream.clear()
        self._look_after([run_id])
        return True

    def _look_after(self, run_ids: Sequence[str]) -> None:
        """Forget streams that were swept and whose runs are gone; look at the others last the next time."""
        statuses = self._statuses(run_ids)
        for run_id in run_ids:
            with self._locked(run_id):
                if run_id not in statuses:
                    self._forget(run_id)
                elif stream := self._streams.get(run_id):
                    self._put_last(run_id, stream)

    def _statuses(self, run_ids: Sequence[str]) -> dict[str, RunStatus]:
        """Return the statuses of those runs that are there."""
        statuses: dict[str, RunStatus] = {}
        for start in range(0, len(run_ids), ASKED_AT_ONCE):
            chunk = run_ids[start : start + ASKED_AT_ONCE]
            rows = self._runs.search(RunQuery(run_ids=chunk), limit=len(chunk)).rows
            statuses.update((run.run_id, run.status) for run in rows)
        return statuses

    def _locked(self, run_id: str) -> threading.Lock:
        return self._locks[hash(run_id) % LOCKS]

    def _put_last(self, run_id: str, stream: _Stream) -> None:
        with self._order:
            self._streams.pop(run_id, None)
            self._streams[run_id] = stream

    def _forget(self, run_id: str) -> None:
        with self._order:
            self._streams.pop(run_id, None)


def _enough(frames: Iterable[Frame], enough_bytes: int | None) -> list[Frame]:
    """Return frames up to the one with which there is enough."""
    found, size = [], 0
    for frame in frames:
        found.append(frame)
        size += len(frame.data)
        if enough_bytes is not None and size >= enough_bytes:
            break
    return found
