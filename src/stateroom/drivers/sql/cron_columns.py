"""What a cron is, as columns and back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from stateroom.contract.crons import CronChange, NewCron
from stateroom.drivers.sql.dialect import Row
from stateroom.drivers.sql.documents import (
    checked_id,
    checked_text,
    maybe_state,
    merged_metadata,
    metadata_bytes,
    object_of,
    state_bytes,
)
from stateroom.errors import InvalidInput
from stateroom.model.change import UNSET
from stateroom.model.cron import Completion, Cron
from stateroom.model.text import show

__all__ = ["changed_columns", "checked_moment", "cron_of", "merged_columns", "new_columns"]

T = TypeVar("T")

_INT64: Final = range(-(2**63), 2**63)


def new_columns(new: NewCron) -> dict[str, Any]:
    """Return the columns of a new cron; raise InvalidInput or LimitExceeded naming the field."""
    return {field: _CHECKS[field](value, field) for field, value in new._asdict().items()}


def changed_columns(change: CronChange) -> dict[str, Any]:
    """Return the columns that a change mentions; raise InvalidInput or LimitExceeded naming the field."""
    given = {field: value for field, value in change._asdict().items() if value is not UNSET}
    return {field: _CHECKS[field](value, field) for field, value in given.items()}


def merged_columns(before: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of a cron after a change; raise LimitExceeded for metadata too large."""
    metadata = merged_metadata(before["metadata"], changed.get("metadata"))
    return {**before, **changed, "metadata": metadata, "private": _merged_private(before, changed)}


def _merged_private(before: Mapping[str, Any], changed: Mapping[str, Any]) -> bytes | None:
    kept: bytes | None = before["private"]
    if "private" not in changed:
        return kept
    change = maybe_state(changed["private"]) or {}
    return state_bytes({**(maybe_state(kept) or {}), **change}, "private")


def cron_of(row: Row) -> Cron:
    """Return the cron that a row has, whose columns are in the order of the fields."""
    columns = list(row)
    for place, reading in _READINGS.items():
        columns[place] = reading(columns[place])
    return Cron(*columns)


def checked_moment(value: object, field: str) -> int | None:
    """Return a time or None; raise InvalidInput for what no database could compare with the present."""
    if value is not None and (not isinstance(value, int) or isinstance(value, bool) or value not in _INT64):
        raise InvalidInput(
            f"{field} is {show(value)}; pass microseconds since 1970 UTC, or None", field=field
        )
    return value


def _checked_flag(value: object, field: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidInput(f"{field} is {show(value)}; pass True or False", field=field)
    return value


def _checked_completion(value: object, field: str) -> str:
    if value not in tuple(Completion):
        raise InvalidInput(f"{field} is {show(value)}; use one of {', '.join(Completion)}", field=field)
    return str(value)


def _or_none(check: Callable[[Any, str], T]) -> Callable[[Any, str], T | None]:
    return lambda value, field: None if value is None else check(value, field)


_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "cron_id": checked_id,
    "assistant_id": checked_id,
    "thread_id": _or_none(checked_id),
    "schedule": checked_text,
    "timezone": _or_none(checked_text),
    "enabled": _checked_flag,
    "payload": state_bytes,
    "metadata": metadata_bytes,
    "on_run_completed": _checked_completion,
    "user_id": _or_none(checked_text),
    "private": _or_none(state_bytes),
    "next_run_at": checked_moment,
    "end_at": checked_moment,
}

_READINGS: Final[Mapping[int, Callable[[Any], Any]]] = {
    5: bool,
    6: maybe_state,
    7: object_of,
    8: Completion,
    10: maybe_state,
}
"""What columns become, by their places."""
