"""How what states and streams hold is said in JSON: all of it, strictly, without ever failing a run."""

from __future__ import annotations

import base64
import dataclasses
import json
import math
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import date, time, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import PurePath
from typing import Any, Final
from uuid import UUID

import orjson
from langgraph.types import Interrupt, Send
from pydantic import BaseModel
from pydantic.v1 import BaseModel as BaseModelV1

__all__ = ["CIRCULAR", "DEPTH_MAX", "TOO_DEEP", "Encoded", "encode", "interrupt_json", "plain"]

DEPTH_MAX: Final = 250
"""Levels of lists and objects; what is nested deeper is left out. orjson goes to 254."""

TOO_DEEP: Final = "<nested too deeply>"
"""What stands for a part below the last level."""

CIRCULAR: Final = "<circular reference>"
"""What stands for an object inside itself."""

_OPTIONS: Final = orjson.OPT_SERIALIZE_NUMPY | orjson.OPT_PASSTHROUGH_DATACLASS
_PLAIN_TYPES: Final = frozenset((dict, list, str, int, float, bool, type(None)))
_CONVERSIONS_MAX: Final = 8
"""Conversions until an object must be plain; a model whose dump is a model again would never be."""


@dataclasses.dataclass(frozen=True, slots=True)
class Encoded:
    """What ``encode`` has written, to be a part of something else."""

    json: bytes


def encode(value: Any) -> bytes:
    """Return any object as strict JSON in UTF-8, whatever it is.

    Numbers that are none become null and lone surrogates U+FFFD; integers keep all digits. A message, model
    or dataclass is an object of its fields, a named tuple one of its names, a Send ``{"node", "input"}``.
    Bytes are base64, sets lists, durations seconds, decimals text; what nothing else fits is its ``repr``.
    """
    try:
        return orjson.dumps(value, default=_default, option=_OPTIONS)
    except TypeError:
        # Integers beyond 64 bits, keys that are no text, lone surrogates, cycles and depths.
        return _encode_exactly(value)


def plain(value: Any) -> Any:
    """Return what ``encode`` writes, as plain dicts, lists, strings and numbers, where NaN stays a number."""
    return _Conversion(finite=False).convert(value, 1)


def interrupt_json(interrupt: Interrupt[Any]) -> dict[str, Any]:
    """Return an interrupt as clients read it: value, id, and the schema of an answer if it has one."""
    found = {"value": interrupt.value, "id": interrupt.id}
    if isinstance(interrupt.response_schema, Mapping):
        found["response_schema"] = interrupt.response_schema
    return found


def _encode_exactly(value: Any) -> bytes:
    converted = _Conversion(finite=True).convert(value, 1)
    try:
        return orjson.dumps(converted)
    except TypeError:
        return json.dumps(converted, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()


def _default(value: Any) -> Any:
    return orjson.Fragment(value.json) if type(value) is Encoded else _plainer(value)


class _Conversion:
    """One walk through a value, that knows the objects it is inside of."""

    def __init__(self, *, finite: bool) -> None:
        self._finite = finite
        self._open: set[int] = set()

    def convert(self, value: Any, depth: int) -> Any:
        found = value
        for _ in range(_CONVERSIONS_MAX):
            if type(found) in _PLAIN_TYPES:
                break
            found = _plainer(found)
        else:
            found = _shown(value)
        if isinstance(found, str):
            return _text(found)
        if isinstance(found, float):
            return found if math.isfinite(found) or not self._finite else None
        if isinstance(found, dict | list):
            return self._convert_parts(value, found, depth)
        return _integer(found) if isinstance(found, int) else found

    def _convert_parts(self, origin: Any, found: dict[Any, Any] | list[Any], depth: int) -> Any:
        if id(origin) in self._open:
            return CIRCULAR
        if depth > DEPTH_MAX:
            return TOO_DEEP
        self._open.add(id(origin))
        try:
            if isinstance(found, dict):
                # A copy, since another thread may be at the original.
                pairs = list(found.items())
                return {_key(key): self.convert(part, depth + 1) for key, part in pairs}
            return [self.convert(part, depth + 1) for part in list(found)]
        except RecursionError:
            # Whoever asked was deep in calls himself.
            return TOO_DEEP
        finally:
            self._open.discard(id(origin))


def _plainer(value: Any) -> Any:
    """Return something that is nearer to JSON than ``value``, which is not JSON itself."""
    try:
        if isinstance(value, type):
            return f"{value.__module__}.{value.__qualname__}"
        for kinds, conversion in _CONVERSIONS:
            if isinstance(value, kinds):
                return conversion(value)
        if dataclasses.is_dataclass(value):
            return _fields(value)
        if hasattr(value, "dtype") and callable(getattr(value, "tolist", None)):
            return value.tolist()
    except Exception:
        # The methods above are also users'; whatever they raise, the rest of the value is still good.
        if issubclass(type(value), BaseModel | BaseModelV1):
            return dict(object.__getattribute__(value, "__dict__"))
    return _shown(value)


def _shown(value: Any) -> str:
    try:
        return str.__str__(repr(value))
    except Exception:
        return f"<{type(value).__qualname__}>"


def _dumped(model: BaseModel) -> dict[str, Any]:
    # As what each part is, not as what its field is declared to be: a list of BaseMessage holds AIMessages.
    return model.model_dump(serialize_as_any=True, warnings=False)


def _fields(value: Any) -> dict[str, Any]:
    return {
        each.name: getattr(value, each.name)
        for each in dataclasses.fields(value)
        if hasattr(value, each.name)
    }


def _listed(values: Iterable[Any]) -> list[Any]:
    found = list(values)
    try:
        # The same in every process.
        return sorted(found)
    except TypeError:
        return found


def _tuple_parts(value: tuple[Any, ...]) -> Any:
    names = getattr(value, "_asdict", None)
    return names() if callable(names) else list(value)


def _base64(value: bytes | bytearray | memoryview) -> str:
    return base64.b64encode(value).decode()


# The order matters: a member of a string enumeration is both.
_CONVERSIONS: Final[tuple[tuple[type | tuple[type, ...], Callable[[Any], Any]], ...]] = (
    (Enum, lambda member: member.value),
    (str, str.__str__),
    (int, int.__int__),
    (float, float.__float__),
    (BaseModel, _dumped),
    (Interrupt, interrupt_json),
    (Send, lambda send: {"node": send.node, "input": send.arg}),
    (Encoded, lambda encoded: json.loads(encoded.json)),
    (tuple, _tuple_parts),
    (Mapping, dict),
    ((list, deque, range), list),
    ((set, frozenset), _listed),
    ((bytes, bytearray, memoryview), _base64),
    ((date, time), lambda moment: moment.isoformat()),
    (timedelta, timedelta.total_seconds),
    ((UUID, Decimal, PurePath), str),
    (BaseModelV1, lambda model: model.dict()),
)


_INTEGER_BITS_MAX: Final = 12_000
"""Bits up to which Python writes an integer in decimal, wherever it runs."""


def _integer(number: int) -> int | str:
    return number if number.bit_length() <= _INTEGER_BITS_MAX else hex(number)


def _text(text: str) -> str:
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        # Two surrogates that make a pair are one character.
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _key(key: Any) -> str:
    while isinstance(key, Enum):
        key = key.value
    if isinstance(key, str):
        return _text(str.__str__(key))
    if key is None or isinstance(key, bool):
        return {None: "null", True: "true", False: "false"}[key]
    if isinstance(key, int | float):
        return str(_integer(key)) if isinstance(key, int) else float.__repr__(key)
    found = _plainer(key)
    return _text(found if isinstance(found, str) else _shown(key))
