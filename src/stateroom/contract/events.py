"""The events contract: what a driver must do with the frames that runs stream.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from stateroom.contract.runs import Woken
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.run import Attempt

__all__ = ["FRAMES_READ", "EventLimits", "Events"]

FRAMES_READ: Final = 500
"""Frames that one read answers at most, unless it asks for fewer or more."""


@dataclass(frozen=True, slots=True)
class EventLimits:
    """How much of the streams is kept: of each run the latest frames, and of ended runs the latest."""

    frames_per_run: int = 10_000
    bytes_per_run: int = 64 * 1024 * 1024
    retained_runs: int = 1_000


class Events(ABC):
    """Frames of runs. A reader holds no connection and no memory here: he says what he has seen, and asks."""

    limits: EventLimits

    @abstractmethod
    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        """Add frames to the stream of a run, all or none; answer the number of the last.

        Their numbers follow those of the run's frames so far, those of former attempts included. ``Fenced``
        when the attempt no longer has its run. When this returns, the frames are as durable as the storage,
        and readers see them. Beyond the limits the oldest frames of the run go, never the last.
        """

    @abstractmethod
    def read(
        self, run_id: str, *, after: int = 0, limit: int = FRAMES_READ, enough_bytes: int | None = None
    ) -> FramePage:
        """Return the frames behind number ``after``, in order, with what the run is at the same moment.

        At most ``limit`` frames, and none behind those whose data have ``enough_bytes`` or more (None: any
        number), so that a page holds at most that much and one frame.
        """

    @abstractmethod
    def last(self, run_id: str) -> Frame | None:
        """Return the last frame of a run, None when it has none, or none any more."""

    @abstractmethod
    def subscribe(self, run_id: str, woken: Woken, *, frames: bool = True) -> Callable[[], None]:
        """Have ``woken`` called whenever a run may have more frames or may have ended; answer what ends that.

        Without ``frames`` only when it may have ended, or been claimed, handed back or removed.

        Calls can be too many and, across processes, lost or late: look again now and then in any case. This
        method waits for no database, and may be called on an event loop.
        """

    @abstractmethod
    def sweep(self, *, limit: int = 100) -> int:
        """Free the frames of at most ``limit`` ended runs beyond ``retained_runs``; return how many runs."""
