"""Which Python values are JSON here, what others become, and how an object is written as bytes and read back.

What is not JSON by itself is converted when it is put, on every back end alike:

=============================================  =================================================
given                                          stored
=============================================  =================================================
``datetime`` (aware or naive), date and time   its ``isoformat()``
``UUID``                                       its text
``Enum`` member                                its value
dataclass instance                             an object of its fields
pydantic ``BaseModel``                         ``model_dump(mode="json")``
tuple (also a named one)                       an array
any other ``Mapping``                          an object
subclass of str, int, float, dict or list      the plain value (so NumPy's ``float64`` is a number)
=============================================  =================================================

Everything else is refused with the path to it: NaN and infinities, bytes, sets, ``Decimal``, paths, NumPy's
other scalars and arrays, keys that are not strings, NUL and lone surrogates, cycles.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import date, time
from enum import Enum
from typing import Any, Final
from uuid import UUID

import orjson
from pydantic import BaseModel

from stateroom.errors import InvalidInput, InvalidValue, LimitExceeded
from stateroom.model.limits import INTEGER_DIGITS_MAX, VALUE_BYTES_MAX, VALUE_DEPTH_MAX, check_limit
from stateroom.model.text import flaw, path_step, show

__all__ = ["Json", "decode_value", "encode_value", "equal", "is_exotic", "json_spelling", "to_json"]

Json = dict[str, Any] | list[Any] | str | int | float | bool | None


def encode_value(value: object, *, field: str = "value") -> bytes:
    """Return a JSON object as compact UTF-8 JSON, order of keys kept.

    Raises InvalidValue whose ``field`` is the path to what is not JSON (``value.tags[2].score``), and
    LimitExceeded above VALUE_BYTES_MAX, VALUE_DEPTH_MAX and INTEGER_DIGITS_MAX.
    """
    raw = _encode_fast(value) if isinstance(value, dict) else None
    if raw is None:
        raw = _encode_exactly(value, field)
    if len(raw) > VALUE_BYTES_MAX:
        check_limit(len(raw), VALUE_BYTES_MAX, "bytes as JSON", field=field)
    return raw


def decode_value(raw: bytes) -> dict[str, Any]:
    """Return a new object equal to the one that ``encode_value`` was given."""
    decoded: dict[str, Any] = json.loads(raw) if is_exotic(raw) else orjson.loads(raw)
    return decoded


def is_exotic(raw: bytes) -> bool:
    """Tell whether ``raw`` holds integers outside 64 bits, which most JSON readers silently round.

    Such values begin with one space, so that nobody has to look for the integers.
    """
    return raw.startswith(b" ")


def json_spelling(text: str) -> bytes:
    """Return how ``encode_value`` spells a text within a string, which each value that has it thus holds."""
    return orjson.dumps(text)[1:-1]


def to_json(value: object, *, field: str, error: type[InvalidInput] = InvalidValue) -> Json:
    """Return a copy of ``value`` of plain dicts, lists, strings, numbers, booleans and None.

    Raises ``error`` whose ``field`` is the path to what is not JSON, and LimitExceeded.
    """
    return _Conversion(field, error).convert(value, (), 1)


def equal(left: Json, right: Json) -> bool:
    """Tell whether two plain JSON values are the same: 1 is 1.0 but not true, order of keys is nothing."""
    if isinstance(left, dict):
        if not isinstance(right, dict) or len(left) != len(right):
            return False
        return all(key in right and equal(part, right[key]) for key, part in left.items())
    if isinstance(left, list):
        if not isinstance(right, list) or len(left) != len(right):
            return False
        return all(equal(part, other) for part, other in zip(left, right, strict=True))
    if isinstance(left, bool) or isinstance(right, bool):
        return left is right
    return left == right


_ORJSON_OPTIONS: Final = orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_DATACLASS
_ORJSON_DEPTH_MAX: Final = 254


def _encode_fast(value: dict[Any, Any]) -> bytes | None:
    """Return what orjson makes of ``value``, or None where only the exact conversion can tell."""
    try:
        raw = orjson.dumps(value, option=_ORJSON_OPTIONS)
        # Each look costs half with `find` of what it would with `in`, which first tries for an integer.
        if raw.find(b"\\u0000") >= 0:
            return None
        # orjson writes NaN and the infinities as null; then what it wrote is not what it was given.
        if raw.find(b"null") >= 0 and orjson.loads(raw) != value:
            return None
        # A value that is too deep has at least so many bytes and opening brackets; few that have them are.
        if len(raw) > 2 * VALUE_DEPTH_MAX and raw.count(b"{") + raw.count(b"[") > VALUE_DEPTH_MAX:
            orjson.dumps(_wrapped(value, _ORJSON_DEPTH_MAX - VALUE_DEPTH_MAX), option=_ORJSON_OPTIONS)
    except TypeError:
        return None
    return raw


def _wrapped(value: object, levels: int) -> object:
    for _ in range(levels):
        value = [value]
    return value


def _encode_exactly(value: object, field: str) -> bytes:
    plain = to_json(value, field=field)
    if not isinstance(plain, dict):
        raise InvalidValue(f"{field} is {show(value)}; pass a JSON object, that is a dict", field=field)
    try:
        return orjson.dumps(plain)
    except TypeError:
        # All that orjson refuses in plain JSON is an integer outside 64 bits.
        return b" " + json.dumps(plain, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


_PLAIN_TYPES: Final = frozenset((dict, list, str, int, float, bool, type(None)))
_INTEGER_MAX: Final = 10**INTEGER_DIGITS_MAX
_BITS_PER_DIGIT: Final = math.log2(10)

# The order matters: a member of a string enumeration is both.
_CONVERSIONS: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], object]], ...]] = (
    (Enum, lambda member: member.value),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    ((date, time), lambda moment: moment.isoformat()),
    (UUID, str),
    (BaseModel, lambda model: model.model_dump(mode="json")),
    (Mapping, dict),
    ((list, tuple), list),
)

_HINTS: Final = {
    "builtins.bytes": "decode it, or encode it as base64 text",
    "builtins.bytearray": "decode it, or encode it as base64 text",
    "builtins.set": "write sorted(...) to make it a list",
    "builtins.frozenset": "write sorted(...) to make it a list",
    "decimal.Decimal": "write str(...) or float(...)",
    "datetime.timedelta": "write .total_seconds()",
}

_Path = tuple[()] | tuple["_Path", str | int]


class _Conversion:
    """One walk through a value; paths are kept as linked pairs and spelled only for an error."""

    def __init__(self, field: str, error: type[InvalidInput]) -> None:
        self._field = field
        self._error = error
        self._open: set[int] = set()

    def convert(self, value: object, path: _Path, depth: int) -> Json:
        plain = value
        while type(plain) not in _PLAIN_TYPES:
            plain = self._convert_once(plain, path)
        if isinstance(plain, str):
            if fault := flaw(plain):
                raise self._refuse(path, f"{fault}; remove it")
        elif isinstance(plain, int):
            self._check_integer(plain, path)
        elif isinstance(plain, float):
            if not math.isfinite(plain):
                raise self._refuse(path, f"is {plain}, which JSON cannot hold; use None or leave it out")
        elif isinstance(plain, (dict, list)):
            return self._convert_parts(value, plain, path, depth)
        return plain  # type: ignore[return-value]  # the loop ends at a plain type

    def _convert_once(self, value: object, path: _Path) -> object:
        try:
            for kind, conversion in _CONVERSIONS:
                if isinstance(value, kind):
                    return conversion(value)
        except ValueError as error:
            raise self._refuse(path, f"cannot be converted to JSON: {error}") from error
        if is_dataclass(value) and not isinstance(value, type):
            return {each.name: getattr(value, each.name) for each in fields(value)}
        raise self._refuse(path, f"is {show(value)}, which is not JSON; {_hint(value)}")

    def _check_integer(self, number: int, path: _Path) -> None:
        if not -_INTEGER_MAX < number < _INTEGER_MAX:
            digits = int(number.bit_length() / _BITS_PER_DIGIT) + 1
            check_limit(
                max(digits, INTEGER_DIGITS_MAX + 1), INTEGER_DIGITS_MAX, "digits", field=self._spell(path)
            )

    def _convert_parts(self, origin: object, plain: Json, path: _Path, depth: int) -> Json:
        # The identity of what the caller passed tells a cycle from a mere repetition.
        if id(origin) in self._open:
            raise self._refuse(path, "refers back to an object that holds it; JSON has no cycles")
        if depth > VALUE_DEPTH_MAX:
            raise LimitExceeded(
                f"{self._field} is nested more than {VALUE_DEPTH_MAX} levels deep; flatten it",
                field=self._field,
            )
        self._open.add(id(origin))
        result: Json
        if isinstance(plain, dict):
            result = {}
            for key, part in plain.items():
                result[self._check_key(key, path)] = self.convert(part, (path, key), depth + 1)
        else:
            result = []
            for position, part in enumerate(plain):  # type: ignore[arg-type]
                result.append(self.convert(part, (path, position), depth + 1))
        self._open.discard(id(origin))
        return result

    def _check_key(self, key: object, path: _Path) -> str:
        if not isinstance(key, str):
            raise self._refuse(path, f"has the key {show(key)}; keys must be strings, write {show(str(key))}")
        if fault := flaw(key):
            raise self._refuse(path, f"has the key {show(key)}, which {fault}; remove it")
        return str.__str__(key)

    def _refuse(self, path: _Path, fault: str) -> InvalidInput:
        spelled = self._spell(path)
        return self._error(f"{spelled} {fault}", field=spelled)

    def _spell(self, path: _Path) -> str:
        return self._field + "".join(map(path_step, reversed(list(_parts(path)))))


def _parts(path: _Path) -> Iterable[str | int]:
    while path:
        path, part = path
        yield part


def _hint(value: object) -> str:
    kind = type(value)
    if kind.__module__.partition(".")[0] == "numpy":
        return "write .item() for a number or .tolist() for an array"
    return _HINTS.get(
        f"{kind.__module__}.{kind.__qualname__}", "convert it to strings, numbers, lists and dicts first"
    )
