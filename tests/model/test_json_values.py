"""What becomes of Python values that are put, and how they come back."""

from __future__ import annotations

import json
from collections import OrderedDict, namedtuple
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import example, given
from pydantic import BaseModel

from stateroom.errors import InvalidFilter, InvalidValue, LimitExceeded
from stateroom.model import json_values as rules
from stateroom.model.json_values import decode_value, encode_value, equal, is_exotic, to_json
from stateroom.model.limits import INTEGER_DIGITS_MAX, VALUE_BYTES_MAX, VALUE_DEPTH_MAX
from tests.model.strategies import json_objects, json_values


class Text(str):
    __slots__ = ()


class Number(int):
    pass


class Colour(Enum):
    RED = "red"
    DEEP = (1, {"a": None})
    NOTHING = None


class Shade(str, Enum):  # noqa: UP042  # unlike StrEnum's, its str() is not its text
    DARK = "dark"


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: float
    _hidden: Any = None


class Model(BaseModel):
    at: datetime
    score: float = 1.0
    extra: Any = None


Named = namedtuple("Named", "a b")


@given(json_objects)
@example({"a": -0.0, "b": 0.0, "c": 2**63, "d": -(2**63) - 1, "e": 5e-324, "f": 1.7976931348623157e308})
@example({"a": 2**64 - 1, "b": -(2**63), "c": 2**53 + 1})
@example({"a": 2**64})
@example({"lit": "a\\u0000b", "null": "null", "n": None})
@example({"text": "Привет 😀 中\u2028文 C:\\new \\u041f"})
def test_what_comes_out_is_what_went_in(value: dict[str, Any]) -> None:
    raw = encode_value(value)
    # The text of Python's own writer tells what == does not: order of keys, 1 from 1.0, -0.0 from 0.0.
    assert json.dumps(decode_value(raw)) == json.dumps(value)
    assert json.loads(raw) == value


@given(json_objects)
def test_the_fast_way_and_the_exact_way_agree(value: dict[str, Any]) -> None:
    fast = rules._encode_fast(value)
    exact = rules._encode_exactly(value, "value")
    assert fast is None or fast == exact


@given(json_objects)
def test_a_copy_is_equal_and_shares_nothing(value: dict[str, Any]) -> None:
    copy = to_json(value, field="value")
    assert json.dumps(copy) == json.dumps(value)
    assert not _containers(copy) & _containers(value)


def _containers(value: Any) -> set[int]:
    if not isinstance(value, (dict, list)):
        return set()
    parts = value.values() if isinstance(value, dict) else value
    return {id(value)}.union(*map(_containers, parts))


@pytest.mark.parametrize(
    "value",
    [
        {},
        {"a": None},
        {"a": [None, 1.5]},
        {"a": Shade.DARK},
        {"a": (1, None)},
        {"a": Text("x"), "b": Level.HIGH},
    ],
)
def test_frequent_values_get_the_same_bytes_either_way(value: Any) -> None:
    assert encode_value(value) == rules._encode_exactly(value, "value")


@pytest.mark.parametrize("value", [{}, {"a": None, "b": "null"}, {"a": [1, 2.5, "x"]}, {"d": {"e": []}}])
def test_plain_values_take_the_fast_way(value: Any) -> None:
    assert rules._encode_fast(value) == json.dumps(value, separators=(",", ":")).encode()


def test_only_integers_outside_64_bits_are_marked() -> None:
    assert not is_exotic(encode_value({"a": 2**64 - 1, "b": -(2**63)}))
    for wide in (2**64, -(2**63) - 1):
        raw = encode_value({"ü": [wide, Colour.RED]})
        assert is_exotic(raw)
        assert raw == f' {{"ü":[{wide},"red"]}}'.encode()
        assert decode_value(raw) == {"ü": [wide, "red"]}


@pytest.mark.parametrize(
    ("given_value", "stored"),
    [
        (datetime(2026, 1, 2, 3, 4, 5, 6, tzinfo=UTC), "2026-01-02T03:04:05.000006+00:00"),
        (datetime(2026, 1, 2, tzinfo=timezone(timedelta(hours=2))), "2026-01-02T00:00:00+02:00"),
        (datetime(2026, 1, 2, 3), "2026-01-02T03:00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(3, 4), "03:04:00"),
        (UUID(int=7), "00000000-0000-0000-0000-000000000007"),
        (Colour.RED, "red"),
        (Colour.DEEP, [1, {"a": None}]),
        (Colour.NOTHING, None),
        (Shade.DARK, "dark"),
        (Level.HIGH, 3),
        (Point(1.5, date(2026, 1, 2)), {"x": 1.5, "_hidden": "2026-01-02"}),
        (Model(at=datetime(2026, 1, 2)), {"at": "2026-01-02T00:00:00", "score": 1.0, "extra": None}),
        ((1, (2,)), [1, [2]]),
        (Named(1, 2), [1, 2]),
        (MappingProxyType({"a": 1}), {"a": 1}),
        (OrderedDict(b=1, a=2), {"b": 1, "a": 2}),
        ({Text("k"): Text("v")}, {"k": "v"}),
        (Number(5), 5),
        (np.float64(1.5), 1.5),
        (True, True),
    ],
)
def test_python_values_are_converted_by_one_table(given_value: Any, stored: Any) -> None:
    decoded = decode_value(encode_value({"v": given_value}))
    assert json.dumps(decoded) == json.dumps({"v": stored})
    plain = to_json(given_value, field="v")
    assert json.dumps(plain) == json.dumps(stored)
    assert type(plain) is type(stored)


@pytest.mark.parametrize(
    "whole", [MappingProxyType({"x": 1}), Point(1), Model(at=datetime(2026, 1, 1)), {"x": 1}]
)
def test_whatever_becomes_an_object_can_be_a_value(whole: Any) -> None:
    assert isinstance(decode_value(encode_value(whole)), dict)


@pytest.mark.parametrize("whole", [None, [], "text", 5, (1,), Colour.RED])
def test_a_value_that_is_no_object_is_refused(whole: Any) -> None:
    with pytest.raises(InvalidValue, match="pass a JSON object") as caught:
        encode_value(whole)
    assert caught.value.field == "value"


@pytest.mark.parametrize(
    ("bad", "hint"),
    [
        (float("nan"), "is nan"),
        (float("inf"), "is inf"),
        (-float("inf"), "is -inf"),
        (np.float64("nan"), "is nan"),
        (b"x", "base64"),
        (bytearray(b"x"), "base64"),
        ({1}, "sorted"),
        (frozenset(), "sorted"),
        (Decimal(1), "float"),
        (timedelta(1), "total_seconds"),
        (PurePosixPath("/x"), "convert it to strings"),
        (np.int64(1), ".item()"),
        (np.array([1]), ".tolist()"),
        (object(), "convert it"),
        (Point, "convert it"),
        (range(3), "convert it"),
        ("a\0b", "U+0000"),
        ("é\0", "U+0000"),
        ("a\ud800", "U+D800"),
        ({"a\0": 1}, "U+0000"),
        ({"\udc00": 1}, "U+DC00"),
        ({1: 2}, "write '1'"),
        ({None: 2}, "write 'None'"),
        (Model(at=datetime(2026, 1, 1), extra=object()), "cannot be converted"),
        (Model(at=datetime(2026, 1, 1), extra=object), "cannot be converted"),
    ],
)
@pytest.mark.parametrize("sibling", [None, 2**70, "\\u0000", "x"])
def test_what_is_not_json_is_refused_with_the_path_to_it(bad: Any, hint: str, sibling: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        encode_value({"sibling": sibling, "tags": [0, 1, {"score": bad}]})
    assert caught.value.field == "value.tags[2].score"
    assert str(caught.value).startswith("value.tags[2].score ")
    assert hint in str(caught.value)


def test_a_path_goes_through_models_and_through_names_that_are_no_identifiers() -> None:
    model = Model(at=datetime(2026, 1, 1), score=float("nan"))
    with pytest.raises(InvalidValue) as caught:
        encode_value({"a b": (model,)}, field="ops[3].value")
    assert caught.value.field == "ops[3].value['a b'][0].score"


def test_cycles_are_refused_and_repetitions_are_not() -> None:
    value: dict[str, Any] = {"a": {"b": []}}
    value["a"]["b"].append(value)
    with pytest.raises(InvalidValue, match="no cycles") as caught:
        encode_value(value)
    assert caught.value.field == "value.a.b[0]"
    point = Point(1)
    point._hidden = point
    with pytest.raises(InvalidValue, match="no cycles"):
        encode_value({"p": point})
    shared = [1]
    assert decode_value(encode_value({"a": shared, "b": (shared, shared)})) == {"a": [1], "b": [[1], [1]]}


def _nested(levels: int, innermost: Any = 1) -> dict[str, Any]:
    """Return an object with so many levels, itself the first, lists and objects by turns."""
    part: Any = [innermost]
    for level in range(levels - 2):
        part = [part] if level % 2 else {"a": part}
    return {"top": part}


@pytest.mark.parametrize("innermost", [1, 2**70, b""], ids=["fast", "wide", "bad"])
def test_depth_is_limited_the_same_way_fast_and_exactly(innermost: Any) -> None:
    if innermost != b"":
        value = _nested(VALUE_DEPTH_MAX, innermost)
        assert decode_value(encode_value(value)) == value
    for levels in (VALUE_DEPTH_MAX + 1, 254, 255, 5000):
        with pytest.raises(LimitExceeded, match="more than 200 levels") as caught:
            encode_value(_nested(levels, innermost))
        assert caught.value.field == "value"


def test_many_brackets_are_not_depth() -> None:
    value = {"rows": [{"a": [1]} for _ in range(VALUE_DEPTH_MAX)], "text": "[{" * VALUE_DEPTH_MAX}
    assert rules._encode_fast(value) == rules._encode_exactly(value, "value")


def test_integers_are_limited_in_digits() -> None:
    largest = 10**INTEGER_DIGITS_MAX - 1
    value = {"n": [largest, -largest]}
    assert decode_value(encode_value(value)) == value
    for beyond, digits in ((largest + 1, "1,001"), (-largest - 1, "1,001"), (10**5000, "5,001")):
        with pytest.raises(LimitExceeded, match=f"{digits} digits; at most 1,000") as caught:
            encode_value({"n": [beyond]})
        assert caught.value.field == "value.n[0]"


def test_bytes_are_limited() -> None:
    room = VALUE_BYTES_MAX - len(b'{"t":""}')
    assert len(encode_value({"t": "x" * room})) == VALUE_BYTES_MAX
    with pytest.raises(LimitExceeded, match="33,554,433 bytes as JSON; at most 33,554,432") as caught:
        encode_value({"t": "x" * (room + 1)})
    assert caught.value.field == "value"


def test_another_error_can_be_asked_for() -> None:
    with pytest.raises(InvalidFilter) as caught:
        to_json([float("nan")], field="filter.n", error=InvalidFilter)
    assert caught.value.field == "filter.n[0]"


@pytest.mark.parametrize(
    ("left", "right", "same"),
    [
        (1, 1.0, True),
        (0.0, -0.0, True),
        (1, True, False),
        (0, False, False),
        (True, True, True),
        (None, False, False),
        (None, None, True),
        ("1", 1, False),
        (2**53 + 1, float(2**53), False),
        (10**400, 1.5, False),
        ([1, True], [1.0, True], True),
        ([1, 2], [2, 1], False),
        ([1], [1, 2], False),
        ([True], [1], False),
        ([], {}, False),
        ({}, [], False),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, True),
        ({"a": 1}, {"b": 1}, False),
        ({"a": 1}, {"a": 1, "b": 2}, False),
        ({"a": {"b": [0]}}, {"a": {"b": [False]}}, False),
        (1, [1], False),
        ("a", ["a"], False),
    ],
)
def test_equality_is_that_of_json(left: Any, right: Any, same: bool) -> None:
    assert equal(left, right) is same
    assert equal(right, left) is same


@given(json_values)
def test_everything_equals_its_copy(value: Any) -> None:
    assert equal(value, to_json(value, field="value"))
