"""Writing a run's frames while it goes on, without a transaction for each."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from typing import Final

from stateroom.contract.events import Events
from stateroom.engine.insisting import insist
from stateroom.model.frame import NewFrame
from stateroom.model.run import Attempt
from stateroom.offload import Offload

__all__ = ["BUFFERED_BYTES", "FrameWriter"]

BUFFERED_BYTES: Final = 1024 * 1024
"""Bytes of frames that wait to be written before the graph that makes them has to wait too."""

GATHERING_SECONDS: Final = 0.002
"""How long a frame waits for others before it is written, so that a quick graph takes few transactions."""

FRAME_BYTES: Final = 100
"""What a frame counts for beside its data."""


class FrameWriter:
    """Writes the frames of one attempt in order, one write at a time, each with all that came meanwhile.

    ``put`` and ``flush`` belong to the loop that the attempt runs on, and raise what a write raised: Fenced
    once the attempt has lost its run. ``finish`` blocks, and may be called from any thread.
    """

    def __init__(self, events: Events, attempt: Attempt, offload: Offload) -> None:
        self._events, self._attempt, self._offload = events, attempt, offload
        self._frames: list[NewFrame] = []
        self._bytes = 0
        self._taking = threading.Lock()
        self._writing = threading.Lock()
        self._flight: asyncio.Task[None] | None = None
        self._failure: Exception | None = None
        self._last: int | None = None

    async def put(self, frame: NewFrame) -> None:
        """Have a frame written soon; wait while too much is waiting already."""
        self._check()
        with self._taking:
            self._frames.append(frame)
            self._bytes += len(frame.data) + FRAME_BYTES
        if self._flight is None:
            self._flight = asyncio.create_task(self._write_all())
        while self._bytes > BUFFERED_BYTES and self._flight is not None:
            await asyncio.wait([self._flight])
            self._check()

    async def flush(self) -> None:
        """Wait until everything is written."""
        while self._flight is not None:
            await asyncio.wait([self._flight])
        self._check()

    def finish(self, last: Sequence[NewFrame] = ()) -> None:
        """Write what is left, and the last frames behind it."""
        with self._writing:
            if frames := [*self._taken(), *last]:
                self._append(frames)

    def _check(self) -> None:
        if self._failure is not None:
            raise self._failure

    async def _write_all(self) -> None:
        try:
            while self._frames:
                if self._bytes <= BUFFERED_BYTES:
                    await asyncio.sleep(GATHERING_SECONDS)
                await self._offload(self.finish)
        except Exception as error:  # whatever it is, whoever makes frames hears of it
            self._failure = error
        finally:
            self._flight = None

    def _taken(self) -> list[NewFrame]:
        with self._taking:
            taken, self._frames, self._bytes = self._frames, [], 0
        return taken

    def _append(self, frames: Sequence[NewFrame]) -> None:
        """Append frames, once: after a failure that leaves open whether they were, look first."""
        failed = False

        def append() -> None:
            nonlocal failed
            if failed and self._last is not None and self._is_written(self._last):
                self._last += len(frames)
                return
            failed = True
            self._last = self._events.append(self._attempt, frames)

        insist(append)

    def _is_written(self, last: int) -> bool:
        """Tell whether there is more than the last frame known, which nobody else can have written."""
        return bool(self._events.read(self._attempt.run_id, after=last, limit=1).frames)
