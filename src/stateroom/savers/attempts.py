"""On whose behalf a saver writes: an attempt at a run that a worker executes, or a user between two runs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, NamedTuple

from stateroom.model.run import Attempt

__all__ = ["ATTEMPT_KEY", "Resting", "attempt_of", "bound", "resting_in"]

ATTEMPT_KEY: Final = "__stateroom_attempt"
"""The key of ``config["configurable"]`` that holds an ``Attempt``; LangGraph hands it down to every subgraph.

What begins with two underscores goes into no checkpoint's metadata.
"""


class Resting(NamedTuple):
    """A thread whose checkpoints are changed by its users, which they may only while no run executes."""

    thread_id: str


_bound: ContextVar[Attempt | Resting | None] = ContextVar("stateroom_attempt", default=None)


@contextmanager
def bound(writer: Attempt | Resting) -> Iterator[None]:
    """Let everything within be written on behalf of somebody, also by graphs with a config of their own."""
    token = _bound.set(writer)
    try:
        yield
    finally:
        _bound.reset(token)


def attempt_of(config: Mapping[str, Any] | None) -> Attempt | None:
    """Return the attempt that a config names, or else the one that is bound, or None."""
    named = ((config or {}).get("configurable") or {}).get(ATTEMPT_KEY)
    if isinstance(named, Attempt):
        return named
    found = _bound.get()
    return found if isinstance(found, Attempt) else None


def resting_in(thread_id: str) -> Resting | None:
    """Return what is bound for a user who changes this thread, or None."""
    found = _bound.get()
    return found if isinstance(found, Resting) and found.thread_id == thread_id else None
