"""How threads are made and changed within a transaction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, NamedTuple

from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.drivers.sql.deletions import DeletionPending
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.documents import (
    checked_id,
    merged_metadata,
    metadata_bytes,
    object_of,
    state_bytes,
)
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.terms import change_terms, metadata_terms, values_terms
from stateroom.drivers.sql.thread_rows import checked_status, checked_ttl, no_thread, ttl_columns, ttl_of
from stateroom.errors import InvalidInput, InvalidValue
from stateroom.model.change import UNSET, Maybe
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL

__all__ = [
    "SQL",
    "LockedThread",
    "PreparedChange",
    "change_locked",
    "change_thread",
    "insert_thread",
    "locked",
    "prepare_change",
]

SQL: Final = queries("threads")

_TERMS: Final = "stateroom.thread_term"


def insert_thread(
    session: Session, new: NewThread, *, status: ThreadStatus = ThreadStatus.IDLE
) -> Thread | None:
    """Make a thread and answer it, or None when the id is taken.

    Raises ``DeletionPending`` when a thread of that id was deleted in part: nothing of it may come back.
    """
    thread_id, ttl = checked_id(new.thread_id, "thread_id"), checked_ttl(new.ttl)
    columns = {"metadata": metadata_bytes(new.metadata), "config": metadata_bytes(new.config, "config")}
    rows = session.fetch(
        SQL["insert"], {"thread_id": thread_id, "status": status.value, **columns, **ttl_columns(ttl)}
    )
    if not rows:
        return None
    # Looked at after the row was made, for which one has waited until a deletion was begun.
    if session.fetch(SQL["is_being_deleted"], {"thread_id": thread_id}):
        raise DeletionPending(thread_id)
    ((created_at, expires_at),) = rows
    metadata = object_of(columns["metadata"])
    change_terms(session, _TERMS, thread_id, created_at, frozenset(), metadata_terms(metadata))
    return Thread(
        thread_id=thread_id,
        status=status,
        created_at=created_at,
        updated_at=created_at,
        state_updated_at=created_at,
        metadata=metadata,
        config=object_of(columns["config"]),
        values=None,
        interrupts={},
        error=None,
        ttl=ttl,
        expires_at=expires_at,
    )


class PreparedChange(NamedTuple):
    """A change that has been checked, with what goes into columns; None is what stays.

    ``error`` is set to what it is if ``sets_error``. ``terms`` are those of the values.
    """

    metadata: bytes | None
    config: bytes | None
    values: bytes | None
    terms: frozenset[int]
    interrupts: bytes | None
    error: bytes | None
    sets_error: bool
    status: ThreadStatus | None
    ttl: Maybe[ThreadTTL | None]


def prepare_change(change: ThreadChange) -> PreparedChange:
    """Check a change by its fields' names, and encode it, which is better done outside a transaction."""
    has_values = change.values is not UNSET
    status = None if change.status is UNSET else checked_status(change.status)
    if status is ThreadStatus.BUSY:
        raise InvalidInput("status is busy, which only a run makes a thread; use another", field="status")
    return PreparedChange(
        metadata=None if change.metadata is UNSET else metadata_bytes(change.metadata),
        config=None if change.config is UNSET else metadata_bytes(change.config, "config"),
        values=state_bytes(change.values, "values") if has_values else None,
        terms=values_terms(change.values) if has_values else frozenset(),
        interrupts=None if change.interrupts is UNSET else _object(change.interrupts, "interrupts"),
        error=None if change.error is UNSET or change.error is None else _object(change.error, "error"),
        sets_error=change.error is not UNSET,
        status=status,
        ttl=UNSET if change.ttl is UNSET else checked_ttl(change.ttl),
    )


def _object(value: object, field: str) -> bytes:
    if not isinstance(value, Mapping):
        raise InvalidValue(f"{field} is {show(value)}; pass a JSON object, that is a dict", field=field)
    return state_bytes(value, field)


def change_thread(
    session: Session, thread_id: str, change: PreparedChange, *, status: ThreadStatus | None = None
) -> None:
    """Change a thread, which is locked by it, and restart its clock; ``NotFound`` when it does not exist.

    ``status`` is what it becomes even when it is busy, which only the queue may say.
    """
    change_locked(session, thread_id, locked(session, thread_id), change, status=status)


class LockedThread(NamedTuple):
    """What a change builds on: columns of a thread that nobody else can change."""

    created_at: int
    status: str
    metadata: bytes
    ttl_minutes: float | None
    ttl_strategy: str | None


def locked(session: Session, thread_id: str) -> LockedThread:
    """Lock a thread and read it; ``NotFound`` when it does not exist."""
    rows = session.fetch(SQL["locked"], {"thread_id": thread_id})
    if not rows:
        raise no_thread(thread_id)
    return LockedThread(*rows[0])


def change_locked(
    session: Session,
    thread_id: str,
    thread: LockedThread,
    change: PreparedChange,
    *,
    status: ThreadStatus | None = None,
) -> None:
    """Do what ``change_thread`` does to a thread that is locked and read already."""
    merged = _change_metadata(session, thread_id, thread, change)
    ttl = ttl_of(thread.ttl_minutes, thread.ttl_strategy) if change.ttl is UNSET else change.ttl
    if status is None and thread.status != ThreadStatus.BUSY:
        status = change.status
    session.execute(
        SQL["update"],
        {
            "thread_id": thread_id,
            "status": None if status is None else status.value,
            "sets_values": int(change.values is not None),
            "metadata": merged,
            "config": change.config,
            **ttl_columns(ttl),
        },
    )
    if change.values is not None or change.interrupts is not None or change.sets_error:
        state = {
            "values": change.values,
            "interrupts": change.interrupts,
            "error": change.error,
            "sets_error": int(change.sets_error),
        }
        session.execute(SQL["set_state"], {"thread_id": thread_id, **state})


def _change_metadata(
    session: Session, thread_id: str, thread: LockedThread, change: PreparedChange
) -> bytes | None:
    """Write the terms of a thread that change; return its metadata if they do."""
    old = new = frozenset[int]()
    merged = None
    held = metadata_terms(object_of(thread.metadata))
    if change.metadata is not None:
        merged = merged_metadata(thread.metadata, change.metadata)
        old, new = held, metadata_terms(object_of(merged))
    if change.values is not None:
        all_terms = frozenset(term for (term,) in session.fetch(SQL["terms"], {"thread_id": thread_id}))
        # Without decoding the values that were there, which may be large.
        old |= all_terms - held
        new |= change.terms
    change_terms(session, _TERMS, thread_id, thread.created_at, old, new)
    return merged
