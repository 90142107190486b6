"""Threads as rows: what is checked of what callers pass, what columns hold, and what is made of them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from stateroom.drivers.sql.dialect import Row
from stateroom.drivers.sql.documents import maybe_state, object_of
from stateroom.drivers.sql.searching import Key, Listed
from stateroom.errors import InvalidInput, InvalidTTL, NotFound
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.model.ttl import check_ttl, expiry

__all__ = ["THREADS", "checked_status", "checked_ttl", "no_thread", "thread_of", "ttl_columns", "ttl_of"]


def thread_of(row: Row) -> Thread:
    """Return the thread that the columns of ``THREADS`` describe."""
    thread_id, status, created_at, updated_at, state_updated_at, *rest = row
    metadata, config, minutes, strategy, expires_at, values, interrupts, error = rest
    return Thread(
        thread_id=thread_id,
        status=ThreadStatus(status),
        created_at=created_at,
        updated_at=updated_at,
        state_updated_at=state_updated_at,
        metadata=object_of(metadata),
        config=object_of(config),
        values=maybe_state(values),
        interrupts=maybe_state(interrupts) or {},
        error=maybe_state(error),
        ttl=ttl_of(minutes, strategy),
        expires_at=expires_at,
    )


THREADS: Final = Listed(
    table="stateroom.thread",
    id="thread_id",
    terms="stateroom.thread_term",
    columns="r.thread_id, r.status, r.created_at, r.updated_at, r.state_updated_at, r.metadata, r.config, "
    'r.ttl_minutes, r.ttl_strategy, r.expires_at, s."values", s.interrupts, s.error',
    joins="left join stateroom.thread_state s on s.thread_id = r.thread_id",
    keys={
        "thread_id": Key(str),
        "status": Key(str),
        "created_at": Key(int),
        "updated_at": Key(int),
        "state_updated_at": Key(int),
    },
    read=thread_of,
)
"""The table of threads with their state."""


def ttl_of(minutes: float | None, strategy: str | None) -> ThreadTTL | None:
    """Return the time to live that two columns hold."""
    return None if minutes is None else ThreadTTL(minutes, TTLStrategy(str(strategy)))


def ttl_columns(ttl: ThreadTTL | None) -> Mapping[str, Any]:
    """Return a time to live as parameters; ``lifetime`` is in microseconds."""
    if ttl is None:
        return {"minutes": None, "strategy": None, "lifetime": None}
    return {"minutes": ttl.minutes, "strategy": ttl.strategy.value, "lifetime": expiry(0, ttl.minutes)}


def checked_ttl(ttl: ThreadTTL | None) -> ThreadTTL | None:
    """Return a time to live; raise InvalidTTL, or LimitExceeded for more than a thousand years."""
    if ttl is None:
        return None
    if not isinstance(ttl, ThreadTTL):
        raise InvalidTTL(f"ttl is {show(ttl)}; pass a ThreadTTL, or None for never", field="ttl")
    minutes = check_ttl(ttl.minutes, "ttl.minutes")
    if minutes is None:
        raise InvalidTTL("ttl.minutes is None; pass a number of minutes, or None as ttl", field="ttl.minutes")
    try:
        return ThreadTTL(minutes, TTLStrategy(ttl.strategy))
    except ValueError as error:
        known = ", ".join(TTLStrategy)
        raise InvalidTTL(
            f"ttl.strategy is {show(ttl.strategy)}; use one of {known}", field="ttl.strategy"
        ) from error


def checked_status(status: object) -> ThreadStatus:
    """Return a status; raise InvalidInput for what is none."""
    try:
        return ThreadStatus(status)  # type: ignore[arg-type]  # anything but a status raises
    except ValueError as error:
        known = ", ".join(ThreadStatus)
        raise InvalidInput(f"status is {show(status)}; use one of {known}", field="status") from error


def no_thread(thread_id: str) -> NotFound:
    """Return the error for a thread that does not exist."""
    return NotFound(f"thread {show(thread_id)} does not exist; create it first", field="thread_id")
