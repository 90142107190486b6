"""Which frames of a run a reader asked for, and under which names he gets them."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import Final

from stateroom.engine.frame_names import mode_of, v1_frame
from stateroom.errors import InvalidInput
from stateroom.model.frame import Frame
from stateroom.model.run_kwargs import OUTPUT_EVENT, PROTOCOL_PREFIX, STREAM_MODES
from stateroom.model.text import show

__all__ = ["ALWAYS", "View", "narrowed", "run_view", "shown"]

ALWAYS: Final = frozenset({"metadata", "error", "command"})
"""What every reader gets, whatever modes he asked for."""

View = Callable[[Frame], Frame | None]
"""Returns a frame as a reader gets it, None if he does not."""


def run_view(modes: Iterable[str] | None = None) -> View:
    """Return what shows the frames of some stream modes, of all without any; otherwise InvalidInput."""
    asked = frozenset(mode for mode in modes or () if mode)
    for mode in sorted(asked):
        if mode not in STREAM_MODES:
            raise InvalidInput(
                f"stream_mode holds {show(mode)}; pass some of {', '.join(STREAM_MODES)}", field="stream_mode"
            )
    if not asked:
        return shown
    wanted = ALWAYS | asked
    return lambda frame: shown(frame) if mode_of(frame.event) in wanted else None


def narrowed(view: View, namespaces: Collection[str] | None) -> View:
    """Return what shows of a view only some namespaces, ``""`` for the graph itself; None: all of them."""
    if namespaces is None:
        return view

    def see(frame: Frame) -> Frame | None:
        seen = view(frame)
        if seen is None or seen.event in ALWAYS:
            return seen
        return seen if seen.event.partition("|")[2] in namespaces else None

    return see


def shown(frame: Frame) -> Frame | None:
    """Return a frame as the streams of runs show it: one of the thread protocol under the name of a mode."""
    if frame.event == OUTPUT_EVENT:
        return None
    if not frame.event.startswith(PROTOCOL_PREFIX):
        return frame
    found = v1_frame(frame.event, frame.data)
    return None if found is None else Frame(frame.seq, *found)
