"""What goes into columns and comes out: JSON as bytes, and texts and numbers that every database can hold."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from stateroom.errors import InvalidInput, InvalidValue
from stateroom.model.json_values import decode_value, encode_value
from stateroom.model.limits import (
    DURATION_MAX,
    ID_BYTES_MAX,
    METADATA_BYTES_MAX,
    TEXT_BYTES_MAX,
    check_limit,
)
from stateroom.model.state import decode_state, encode_state
from stateroom.model.text import flaw, show

__all__ = [
    "checked_duration",
    "checked_id",
    "checked_text",
    "maybe_state",
    "merged_metadata",
    "metadata_bytes",
    "object_of",
    "state_bytes",
]


def metadata_bytes(metadata: Mapping[str, Any], field: str = "metadata") -> bytes:
    """Return metadata as the column has it; raise InvalidValue for what is no JSON object, LimitExceeded."""
    if not isinstance(metadata, Mapping):
        # A list of pairs would pass for one, and an empty list for one that asks for nothing.
        raise InvalidValue(f"{field} is {show(metadata)}; pass a JSON object, that is a dict", field=field)
    raw = encode_value(dict(metadata), field=field)
    check_limit(len(raw), METADATA_BYTES_MAX, "bytes as JSON", field=field)
    return raw


def object_of(raw: bytes) -> dict[str, Any]:
    """Return the JSON object that ``metadata_bytes`` was given."""
    return decode_value(raw)


def merged_metadata(kept: bytes, change: bytes | None) -> bytes:
    """Return metadata with each key of a change in place of what is there; raise LimitExceeded."""
    return kept if change is None else metadata_bytes({**object_of(kept), **object_of(change)})


def state_bytes(value: Any, field: str) -> bytes:
    """Return what a graph takes or leaves, as the column has it; Mappings are taken for objects."""
    return encode_state(dict(value) if isinstance(value, Mapping) else value, field=field)


def maybe_state(raw: bytes | None) -> Any:
    """Return what ``state_bytes`` was given, or None for a column that is empty."""
    return None if raw is None else decode_state(raw)


def checked_id(value: object, field: str) -> str:
    """Return an id; raise InvalidInput unless it is a text that is not empty, LimitExceeded if it is long."""
    text = checked_text(value, field, most=ID_BYTES_MAX)
    if not text:
        raise InvalidInput(f"{field} is empty; pass an id", field=field)
    return text


def checked_text(value: object, field: str, *, most: int = TEXT_BYTES_MAX) -> str:
    """Return a text; raise InvalidInput for what no database can hold, LimitExceeded above ``most`` bytes."""
    if not isinstance(value, str):
        raise InvalidInput(f"{field} is {show(value)}; pass a string", field=field)
    if problem := flaw(value):
        raise InvalidInput(f"{field} {problem}; leave it out", field=field)
    check_limit(len(value.encode()), most, "bytes", field=field)
    return value


def checked_duration(value: object, field: str, *, least: int = 0) -> int:
    """Return microseconds; raise InvalidInput unless they are an integer from ``least``, LimitExceeded."""
    if not isinstance(value, int) or isinstance(value, bool) or value < least:
        raise InvalidInput(f"{field} is {show(value)}; pass microseconds from {least}", field=field)
    check_limit(value, DURATION_MAX, "microseconds", field=field)
    return value
