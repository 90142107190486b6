"""What a value is, and that it comes out as it went in."""

from __future__ import annotations

import copy
import math
import pickle
from collections import OrderedDict
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from types import MappingProxyType
from typing import Any, NamedTuple
from uuid import UUID

import numpy as np
import pytest
from langgraph.store.base import BaseStore
from langgraph.store.base import Item as LangGraphItem
from langgraph.store.base import SearchItem as LangGraphSearchItem
from pydantic import BaseModel

from stateroom.contract.items import Capability
from stateroom.errors import InvalidValue, LimitExceeded
from stateroom.model.limits import INTEGER_DIGITS_MAX, VALUE_BYTES_MAX, VALUE_DEPTH_MAX
from stateroom.stores.operations import PutItem
from stateroom.testing.harness import Harness, Memory
from stateroom.testing.needs import needs
from stateroom.testing.snapshot import snapshot, spelled

__all__ = ["ValuesSuite"]


class Colour(Enum):
    """An enumeration of texts."""

    RED = "red"


class Level(IntEnum):
    """An enumeration of numbers."""

    HIGH = 3


@dataclass
class Point:
    """A dataclass."""

    x: int
    label: Colour


class Profile(BaseModel):
    """A pydantic model."""

    name: str
    born: date
    tags: set[str] = set()


class Pair(NamedTuple):
    """A named tuple."""

    left: int
    right: int


ROUND_TRIPS: dict[str, Any] = {
    "empty object": {},
    "every kind": {
        "s": "x",
        "i": 1,
        "f": 1.5,
        "t": True,
        "f2": False,
        "n": None,
        "l": [1, "x", None],
        "o": {},
    },
    "nested": {"a": {"b": [{"c": [[[]]]}, {}]}},
    "empty strings": {"": "", "k": ""},
    "64 bits": {"n": [2**63 - 1, -(2**63), 2**63, 2**64 - 1, 2**64, -(2**64)]},
    "2**53 and neighbours": {"n": [2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1]},
    "most digits": {"n": 10**INTEGER_DIGITS_MAX - 1, "m": -(10**INTEGER_DIGITS_MAX - 1)},
    "floats": {"n": [0.1, 1e300, 5e-324, 1.7976931348623157e308, -0.0, 0.0, 1.0, 1e16, 2**53 + 0.0, 1 / 3]},
    "odd keys": {"a.b": 1, "$eq": 2, "'": 3, '"': 4, "\\": 5, " ": 6, "": 7, "a[0]": 8, "*": 9, "日": 10},
    "unicode": {"t": "ÄÖ 日本語 👩‍👩‍👧‍👦 e\u0301 \u200b \ufeff \U0010ffff \u2028"},
    "control characters": {"t": "\x01\x08\t\n\x0b\r\x1f\x7f\x80\x9f"},
    "backslashes": {"t": "\\u0000 \\n \\\\", "\\u0000": 1},
    "long text": {"t": "lorem ipsum " * 20_000},
    "wide": {f"key {number}": number for number in range(2_000)},
    "json in a string": {"t": '{"a": [1, 2]}'},
    "numbers as keys": {"1": "a", "01": "b", "1.0": "c"},
}

CONVERTED: dict[str, tuple[Any, Any]] = {
    "aware datetime": (
        datetime(2026, 5, 17, 12, 30, 1, 5, timezone(timedelta(hours=2))),
        "2026-05-17T12:30:01.000005+02:00",
    ),
    "datetime in utc": (datetime(2026, 5, 17, tzinfo=UTC), "2026-05-17T00:00:00+00:00"),
    "naive datetime": (datetime(2026, 5, 17, 12, 30), "2026-05-17T12:30:00"),
    "date": (date(2026, 5, 17), "2026-05-17"),
    "time": (time(12, 30), "12:30:00"),
    "uuid": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "enum of texts": (Colour.RED, "red"),
    "enum of numbers": (Level.HIGH, 3),
    "dataclass": (Point(1, Colour.RED), {"x": 1, "label": "red"}),
    "pydantic model": (
        Profile(name="Ada", born=date(1815, 12, 10)),
        {"name": "Ada", "born": "1815-12-10", "tags": []},
    ),
    "tuple": ((1, (2, 3)), [1, [2, 3]]),
    "named tuple": (Pair(1, 2), [1, 2]),
    "mapping": (MappingProxyType({"a": 1}), {"a": 1}),
    "ordered dict": (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
    "numpy's float": (np.float64(0.5), 0.5),
}

_CYCLE: dict[str, Any] = {}
_CYCLE["self"] = _CYCLE

REFUSED: dict[str, tuple[Any, str]] = {
    "nan": ({"a": {"b": [1, math.nan]}}, "value.a.b[1]"),
    "infinity": ({"a": math.inf}, "value.a"),
    "minus infinity": ({"a": [-math.inf]}, "value.a[0]"),
    "bytes": ({"a": b"x"}, "value.a"),
    "bytearray": ({"a": bytearray(b"x")}, "value.a"),
    "set": ({"tags": {1}}, "value.tags"),
    "decimal": ({"a": Decimal("1.5")}, "value.a"),
    "time difference": ({"a": timedelta(1)}, "value.a"),
    "complex": ({"a": 1j}, "value.a"),
    "object": ({"a": object()}, "value.a"),
    "class": ({"a": Point}, "value.a"),
    "function": ({"a": len}, "value.a"),
    "numpy array": ({"a": np.zeros(2)}, "value.a"),
    "nul in a string": ({"a": {"b c": "x\0y"}}, "value.a['b c']"),
    "nul in a key": ({"a": {"x\0": 1}}, "value.a"),
    "lone surrogate": ({"a": ["\ud800"]}, "value.a[0]"),
    "lone surrogate in a key": ({"\udfff": 1}, "value"),
    "number as key": ({"a": {1: "x"}}, "value.a"),
    "none as key": ({None: 1}, "value"),
    "tuple as key": ({(1, 2): 1}, "value"),
    "cycle": (_CYCLE, "value.self"),
    "list as value": ([1], "value"),
    "string as value": ("text", "value"),
    "number as value": (1, "value"),
    "true as value": (True, "value"),
}


class ValuesSuite(Harness):
    """Values are JSON objects: what comes out equals what went in, and nobody shares it."""

    def test_a_value_comes_out_as_it_went_in(self, memory: Memory) -> None:
        for name, value in ROUND_TRIPS.items():
            memory.put(("a", name), name, value)
        found = {hit.key: hit.value for hit in memory.search(("a",), limit=100)}
        for name, value in ROUND_TRIPS.items():
            told = spelled(value, memory.capabilities)
            assert spelled(memory.read(("a", name), name).value, memory.capabilities) == told, name
            assert spelled(found[name], memory.capabilities) == told, name

    @needs(Capability.KEY_ORDER)
    def test_the_order_of_keys_is_kept_at_every_level(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"z": 1, "a": {"y": 1, "b": 2, "10": 3, "9": 4}, "m": [{"q": 1, "c": 2}]})
        value = memory.read(("a",), "k").value
        assert list(value) == ["z", "a", "m"]
        assert list(value["a"]) == ["y", "b", "10", "9"]
        assert list(value["m"][0]) == ["q", "c"]

    def test_what_the_caller_does_to_its_object_afterwards_is_not_seen(self, memory: Memory) -> None:
        value = {"list": [1], "object": {"a": 1}}
        memory.put(("a",), "k", value)
        value["list"].append(2)  # type: ignore[attr-defined]
        value["new"] = {}
        assert memory.read(("a",), "k").value == {"list": [1], "object": {"a": 1}}

    def test_what_a_reader_does_to_its_object_is_not_seen(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"list": [1]})
        first = memory.read(("a",), "k")
        first.value["list"].append(2)
        memory.search(("a",))[0].value["new"] = 1
        stored = memory.put_item(("a",), "k2", {"list": [1]})
        stored.value["list"].append(2)
        assert memory.read(("a",), "k").value == {"list": [1]}
        assert memory.read(("a",), "k2").value == {"list": [1]}
        assert memory.search(("a",))[0].value == {"list": [1]}

    def test_putting_does_not_change_the_callers_object(self, memory: Memory) -> None:
        value = {"when": date(2026, 1, 1), "pair": (1, 2), "more": {"b": 1, "a": 2}}
        before = copy.deepcopy(value)
        memory.put(("a",), "k", value)
        assert value == before

    def test_what_is_not_json_is_converted_as_documented(self, memory: Memory) -> None:
        for name, (given, stored) in CONVERTED.items():
            item = memory.put_item(("a",), "k", {"v": given, "in": [{"v": given}]})
            expected = spelled({"v": stored, "in": [{"v": stored}]}, memory.capabilities)
            assert spelled(item.value, memory.capabilities) == expected, name
            assert spelled(memory.read(("a",), "k").value, memory.capabilities) == expected, name

    @pytest.mark.parametrize("given", [Point(1, Colour.RED), MappingProxyType({"x": 1, "label": "red"})])
    def test_a_whole_value_is_converted_too(self, memory: Memory, given: object) -> None:
        memory.put(("a",), "k", given)
        assert memory.read(("a",), "k").value == {"x": 1, "label": "red"}

    @pytest.mark.parametrize("method", ["put", "put_item", "batch"])
    def test_what_cannot_be_json_is_refused_by_its_path(self, memory: Memory, method: str) -> None:
        memory.put(("a",), "k", {"n": 1})
        before = snapshot(memory)
        for name, (value, field) in REFUSED.items():
            arguments: tuple[Any, ...] = ("a",), "k", value
            if method == "batch":
                arguments = ([PutItem(("a",), "other", {}), PutItem(*arguments)],)
            with pytest.raises(InvalidValue) as caught:
                memory.call(method, *arguments)
            assert (caught.value.code, caught.value.field) == ("invalid_value", field), name
            assert field in str(caught.value)
        assert snapshot(memory) == before

    def test_an_integer_of_too_many_digits_is_refused(self, memory: Memory) -> None:
        for number in (10**INTEGER_DIGITS_MAX, -(10**INTEGER_DIGITS_MAX), 10**10_000):
            with pytest.raises(LimitExceeded) as caught:
                memory.put(("a",), "k", {"a": [number]})
            assert caught.value.field == "value.a[0]"
        assert memory.count(()) == 0

    def test_the_deepest_value_is_kept_and_one_level_more_refused(self, memory: Memory) -> None:
        value: Any = {}
        for _ in range(VALUE_DEPTH_MAX - 1):
            value = {"a": value}
        memory.put(("a",), "k", value)
        assert memory.read(("a",), "k").value == value
        with pytest.raises(LimitExceeded) as caught:
            memory.put(("a",), "k", {"a": value})
        assert caught.value.field == "value"
        assert memory.read(("a",), "k").value == value

    @needs(Capability.FULL_LIMITS)
    def test_the_largest_value_is_kept_and_one_byte_more_refused(self, memory: Memory) -> None:
        text = "x" * (VALUE_BYTES_MAX - len('{"t":""}'))
        memory.put(("a",), "k", {"t": text}, index=False)
        assert memory.read(("a",), "k").value["t"] == text
        with pytest.raises(LimitExceeded) as caught:
            memory.put(("a",), "k", {"t": text + "x"}, index=False)
        assert (caught.value.code, caught.value.field) == ("limit_exceeded", "value")
        assert len(memory.read(("a",), "k").value["t"]) == len(text)

    def test_stores_and_items_are_langgraphs(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        assert isinstance(memory.store, BaseStore)
        assert memory.store.supports_ttl is (Capability.TTL in memory.capabilities)
        assert isinstance(memory.read(("a",), "k"), LangGraphItem)
        assert isinstance(memory.search(("a",))[0], LangGraphSearchItem)
        assert {type(capability) for capability in memory.capabilities} <= {Capability}

    def test_items_can_be_pickled_copied_and_made_into_dicts(self, memory: Memory) -> None:
        memory.put(("a", "b"), "k", {"n": 1})
        found = memory.search(("a",))[0]
        for item in (memory.read(("a", "b"), "k"), found):
            for other in (pickle.loads(pickle.dumps(item)), copy.deepcopy(item)):  # noqa: S301  # our own bytes
                assert (other.namespace, other.key, other.value) == (("a", "b"), "k", {"n": 1})
                assert (other.created_at, other.updated_at) == (item.created_at, item.updated_at)
            assert item.dict()["value"] == {"n": 1}
            assert tuple(item.dict()["namespace"]) == ("a", "b")
