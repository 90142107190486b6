"""On whose behalf a saver writes: the attempt of a run that a worker executes, if it is one."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final

from stateroom.model.run import Attempt

__all__ = ["ATTEMPT_KEY", "attempt_of", "bound"]

ATTEMPT_KEY: Final = "__stateroom_attempt"
"""The key of ``config["configurable"]`` that holds an ``Attempt``; LangGraph hands it down to every subgraph.

What begins with two underscores goes into no checkpoint's metadata.
"""

_bound: ContextVar[Attempt | None] = ContextVar("stateroom_attempt", default=None)


@contextmanager
def bound(attempt: Attempt) -> Iterator[None]:
    """Let everything within be written on behalf of an attempt, also by graphs with a config of their own."""
    token = _bound.set(attempt)
    try:
        yield
    finally:
        _bound.reset(token)


def attempt_of(config: Mapping[str, Any] | None) -> Attempt | None:
    """Return the attempt that a config names, or else the one that is bound, or None."""
    named = ((config or {}).get("configurable") or {}).get(ATTEMPT_KEY)
    return named if isinstance(named, Attempt) else _bound.get()
