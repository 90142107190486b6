"""How what a graph takes and leaves behind, its input and its values, is kept as JSON.

It comes from models and tools, so that nothing that JSON can say in any way is refused: NUL, lone surrogates,
integers of any size, NaN and infinities come back as they were. What is no JSON has been converted above.
"""

from __future__ import annotations

import json
from typing import Any, Final

import orjson

from stateroom.errors import InvalidValue

__all__ = ["decode_state", "encode_state"]

_EXOTIC: Final = b" "
"""What JSON begins with that only Python's own reader gives back as it was."""


def encode_state(value: Any, *, field: str) -> bytes:
    """Return a value as JSON; raise InvalidValue naming ``field`` for what is not JSON at all."""
    try:
        raw = orjson.dumps(value)
    except TypeError:
        return _EXOTIC + _encoded_exactly(value, field)
    if b"null" in raw and not _is_finite(value):
        # It has written numbers that are none as null.
        return _EXOTIC + _encoded_exactly(value, field)
    return raw


def _is_finite(value: Any) -> bool:
    try:
        json.dumps(value, allow_nan=False, default=str)
    except ValueError:
        return False
    return True


def _encoded_exactly(value: Any, field: str) -> bytes:
    try:
        return json.dumps(value, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise InvalidValue(f"{field} is not JSON: {error}", field=field) from error


def decode_state(raw: bytes) -> Any:
    """Return a value equal to the one that ``encode_state`` was given."""
    return json.loads(raw) if raw.startswith(_EXOTIC) else orjson.loads(raw)
