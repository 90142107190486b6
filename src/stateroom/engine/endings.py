"""What the end of an attempt means for its run and its thread, and for those who wait for it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from enum import IntEnum
from typing import Any, Final, NamedTuple

from langgraph.errors import GraphDrained
from langgraph.types import StateSnapshot

from stateroom.contract.runs import Settlement
from stateroom.engine.encoding import encode, interrupt_json
from stateroom.engine.snapshots import mirror_of
from stateroom.model.change import UNSET
from stateroom.model.frame import NewFrame
from stateroom.model.run import RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.model.thread import Thread, ThreadStatus

__all__ = ["MESSAGE_CHARACTERS", "Ending", "Stop", "ending_of", "error_of", "kept_status", "stops_by"]

MESSAGE_CHARACTERS: Final = 16_384
"""Characters of an error's message that are kept."""


class Stop(IntEnum):
    """Why an attempt is stopped from outside; a greater one outdoes the smaller.

    ``RELEASE``: the server stops. ``CANCEL`` and ``ROLL_BACK``: somebody asked for it. ``TIMEOUT``: it took
    too long. ``LOST``: it has lost its run.
    """

    RELEASE = 1
    TIMEOUT = 2
    CANCEL = 3
    ROLL_BACK = 4
    LOST = 5


class Ending(NamedTuple):
    """How an attempt ends: the settlement, None to hand the run back; and the last frames."""

    settlement: Settlement | None
    frames: tuple[NewFrame, ...] = ()


def stops_by(failure: BaseException | None, asked: Stop | None) -> Stop | None:
    """Return what ends an attempt, None if it ends by itself, with or without a failure.

    A graph that has ended all the same has ended: only a roll-back is never too late. One that failed while
    it was to be handed back has failed.
    """
    if asked is None or asked >= Stop.ROLL_BACK:
        return asked
    if asked is Stop.RELEASE:
        return asked if isinstance(failure, asyncio.CancelledError | GraphDrained) else None
    return None if failure is None else asked


def ending_of(
    failure: BaseException | None, stop: Stop | None, state: StateSnapshot | None, thread: Thread | None
) -> Ending:
    """Return how an attempt ends. ``state`` is where its thread is now, None if that cannot be known.

    ``thread`` is needed for a roll-back, which goes back to it, and where there is no state.
    """
    if stop is Stop.RELEASE:
        return Ending(None)
    if stop is Stop.ROLL_BACK:
        return Ending(Settlement(RunStatus.INTERRUPTED, kept_status(thread), roll_back=True))
    if stop is Stop.CANCEL:
        error = {"error": "RunCancelled", "message": "the run was cancelled before it was done"}
        waits = bool(state.interrupts if state is not None else thread and thread.interrupts)
        return _ended(RunStatus.INTERRUPTED, _rests(waits), state, output=_failed(error))
    if stop is Stop.TIMEOUT:
        error = {"error": "RunTimeout", "message": "the run took longer than runs of this server may take"}
        return _ended(RunStatus.TIMEOUT, ThreadStatus.ERROR, state, error=error)
    if failure is not None:
        return _ended(RunStatus.ERROR, ThreadStatus.ERROR, state, error=error_of(failure))
    # One that stopped before or after a node waits to be told to go on.
    waits = state is not None and bool(state.interrupts or state.next)
    return _ended(RunStatus.SUCCESS, _rests(waits), state, output=_output(state))


def error_of(failure: BaseException) -> dict[str, str]:
    """Return what users learn of a failure: the name of its class, and what it says."""
    try:
        message = str(failure)
    except Exception as error:  # a class of the users' may do anything
        message = f"<no message, since {type(error).__name__} was raised for it>"
    if isinstance(failure, asyncio.CancelledError) and not message:
        message = "the graph was cancelled from inside"
    return {"error": type(failure).__name__, "message": message[:MESSAGE_CHARACTERS]}


def kept_status(thread: Thread | None) -> ThreadStatus:
    """Return the status of a thread on which nothing has happened since its last run ended."""
    if thread is not None and thread.interrupts:
        return ThreadStatus.INTERRUPTED
    return ThreadStatus.ERROR if thread is not None and thread.error else ThreadStatus.IDLE


def _ended(
    status: RunStatus,
    thread_status: ThreadStatus,
    state: StateSnapshot | None,
    *,
    error: Mapping[str, Any] | None = None,
    output: bytes | None = None,
) -> Ending:
    shown = None if state is None else mirror_of(state)
    settlement = Settlement(
        status,
        thread_status,
        values=UNSET if shown is None else shown.values,
        interrupts=UNSET if shown is None else shown.interrupts,
        error=error,
        run_error=error,
    )
    frames = [NewFrame("error", encode(error))] if error else []
    frames.append(NewFrame(OUTPUT_EVENT, _failed(error) if output is None else output))
    return Ending(settlement, tuple(frames))


def _rests(waits: bool) -> ThreadStatus:
    return ThreadStatus.INTERRUPTED if waits else ThreadStatus.IDLE


def _failed(error: Mapping[str, Any] | None) -> bytes:
    return encode({"__error__": error})


def _output(state: StateSnapshot | None) -> bytes:
    """Return the values that a run ended with, and the questions that it stopped at."""
    if state is None:
        return b"{}"
    if not state.interrupts:
        return encode(state.values)
    values = state.values if isinstance(state.values, Mapping) else {}
    return encode({**values, "__interrupt__": [interrupt_json(each) for each in state.interrupts]})
