"""How values are spelled for jsonb, whose numbers are decimal, so that it compares them as Python does.

A float is written as the shortest decimal that reads back as it. That keeps the order among floats, and
against integers as long as every integer near it is a float too; from 10**16 on the decimal may be another
integer than the float is (1e23 is 99999999999999991611392), and so those floats are written as integers.
"""

from __future__ import annotations

import json
import re
from typing import Final

from stateroom.model.json_values import Json

__all__ = ["exact_json", "spelled"]

_SHORTEST_MAX: Final = 1e16

# Encoders write an exponent from there on, in one of two ways. A pattern that begins with one character is
# looked for several times as fast as one that begins with a class of them.
_LARGE: Final = re.compile(rb"e(?<=[0-9]e)\+?[0-9]")


def exact_json(raw: bytes) -> bytes | None:
    """Return JSON with its large floats written as integers, or None where there is none to rewrite."""
    if _LARGE.search(raw) is None:
        return None
    return _written(json.loads(raw, parse_float=_exact))


def spelled(value: Json) -> str:
    """Return a value as JSON text for jsonb."""
    raw = _written(value)
    return (exact_json(raw) or raw).decode()


def _exact(text: str) -> Json:
    number = float(text)
    return int(number) if abs(number) >= _SHORTEST_MAX else number


def _written(value: Json) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
