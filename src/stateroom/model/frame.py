"""A frame: one event of a run's stream."""

from __future__ import annotations

from typing import NamedTuple

from stateroom.model.run import RunStatus

__all__ = ["Frame", "FramePage", "NewFrame"]


class NewFrame(NamedTuple):
    """An event that a run streams: its name, and its data as JSON bytes."""

    event: str
    data: bytes


class Frame(NamedTuple):
    """A frame as it is kept. ``seq`` counts a run's frames from 1 without a gap, over all its attempts."""

    seq: int
    event: str
    data: bytes


class FramePage(NamedTuple):
    """What a reader gets.

    ``status`` is the run's at that moment, None when the run is gone; once it has ended and ``frames`` is
    empty, there is nothing more. ``first`` is the least number that is still kept, or that will come next:
    when it is above the one that the reader asked for, the frames between are lost to him. ``last`` is the
    number of the run's last frame, 0 before the first.
    """

    frames: list[Frame]
    first: int
    status: RunStatus | None
    last: int = 0
