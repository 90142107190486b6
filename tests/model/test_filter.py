"""What filters mean."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from stateroom.errors import InvalidFilter, LimitExceeded
from stateroom.model.filter import And, Compare, Filter, Not, Or, compile_filter, parse_filter
from stateroom.model.json_values import equal
from stateroom.model.limits import FILTER_CHOICES_MAX, FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX
from tests.model.strategies import json_objects, json_texts, json_values

_ORDERINGS = ("$gt", "$gte", "$lt", "$lte")


def _parsed(raw: Any) -> Filter:
    parsed = parse_filter(raw)
    assert parsed is not None
    return parsed


def _matches(raw: Any, value: dict[str, Any]) -> bool:
    result = _parsed(raw).matches(value)
    assert isinstance(result, bool)
    return result


def _found(raw: Any, values: dict[str, dict[str, Any]]) -> str:
    """Return the names of the values that match."""
    return "".join(name for name, value in values.items() if _matches(raw, value))


@pytest.mark.parametrize("raw", [None, {}, {"n": {}}, {"n": {}, "m": {}}, {"$and": [{}]}])
def test_a_filter_without_conditions_is_none(raw: Any) -> None:
    assert parse_filter(raw) is None


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"n": {"$gte": 10}}, "cd"),
        ({"n": {"$lt": 0}}, "e"),
        ({"n": {"$gt": 1, "$lte": 9}}, "abf"),
        ({"n": {"$gt": "w"}}, "g"),
        ({"n": {"$gt": 1}}, "abcdf"),
        ({"n": {"$lte": 1.5}}, "ef"),
    ],
)
def test_numbers_are_compared_as_numbers_and_text_as_text(raw: Any, names: str) -> None:
    values = dict(zip("abcdefg", ({"n": n} for n in (2, 9, 10, 100, -5, 1.5, "x")), strict=True))
    assert _found(raw, values) == names


@pytest.mark.parametrize("operator", _ORDERINGS)
def test_a_range_matches_nothing_of_another_type(operator: str) -> None:
    others: list[dict[str, Any]] = [{}, {"n": None}, {"n": True}, {"n": [25]}, {"n": {"a": 25}}]
    for operand in (25, 0.5, "unknown"):
        assert not any(_matches({"n": {operator: operand}}, value) for value in others)
    assert not _matches({"n": {operator: 25}}, {"n": "25"})
    assert not _matches({"n": {operator: "25"}}, {"n": 25})


def test_text_is_ordered_by_code_point() -> None:
    assert _matches({"t": {"$gt": "Z"}}, {"t": "a"})
    assert _matches({"t": {"$lt": "\U0001f600"}}, {"t": "\uffff"})


def test_integers_are_compared_exactly_at_any_size() -> None:
    assert _matches({"n": {"$gt": 2**53}}, {"n": 2**53 + 1})
    assert _matches({"n": {"$gt": float(2**53)}}, {"n": 2**53 + 1})
    assert _matches({"n": {"$lt": 1.5}}, {"n": -(10**400)})
    assert not _matches({"n": 2**53}, {"n": 2**53 + 1})


_DEEP: dict[str, dict[str, Any]] = {
    "a": {"u": {"role": "admin", "z": 1}, "t": ["x", "y"]},
    "b": {"u": {"role": "user"}, "t": []},
}


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"u": {"z": 1, "role": "admin"}}, "a"),
        ({"u": {"$eq": {"z": 1.0, "role": "admin"}}}, "a"),
        ({"u": {"role": "admin"}}, ""),
        ({"t": ["x", "y"]}, "a"),
        ({"t": ["y", "x"]}, ""),
        ({"t": {"$eq": ["x", "y"]}}, "a"),
        ({"t": {"$ne": ["x", "y"]}}, "b"),
        ({"t": []}, "b"),
        ({"u": {"$eq": {"role": "user"}}}, "b"),
        ({"u": {"$ne": {}}}, "ab"),
        ({"t": ("x", "y")}, "a"),
        ({"t": {"$contains": "x"}}, "a"),
        ({"t": {"$contains": ["y", "x"]}}, "a"),
        ({"t": {"$contains": []}}, "ab"),
        ({"u": {"$contains": "role"}}, ""),
    ],
)
def test_objects_and_lists_are_compared_deeply(raw: Any, names: str) -> None:
    assert _found(raw, _DEEP) == names


_KINDS: dict[str, dict[str, Any]] = {
    "m": {},
    "n": {"k": None},
    "t": {"k": True},
    "f": {"k": False},
    "1": {"k": 1},
    "0": {"k": 0.0},
    "s": {"k": "1"},
    "l": {"k": [1]},
    "o": {"k": {"$x": 1}},
}


@pytest.mark.parametrize(
    ("condition", "names"),
    [
        (None, "n"),
        (True, "t"),
        (1, "1"),
        (1.0, "1"),
        (0, "0"),
        ("1", "s"),
        ({"$eq": {"$x": 1}}, "o"),
        ({"$ne": None}, "mtf10slo"),
        ({"$ne": 1}, "mntf0slo"),
        ({"$in": [1, None, "1"]}, "n1s"),
        ({"$in": []}, ""),
        ({"$nin": [True, "1"]}, "mnf10lo"),
        ({"$nin": []}, "mntf10slo"),
        ({"$exists": True}, "ntf10slo"),
        ({"$exists": False}, "m"),
        ({"$contains": 1}, "l"),
        ({"$contains": True}, ""),
        ({"$contains": "1"}, "s"),
        ({"$contains": ""}, "s"),
        ({"$contains": ["1"]}, ""),
        ({"$gte": 0, "$ne": 0}, "1"),
        ({"$not": {"$gte": 0}}, "mntfslo"),
        ({"$not": {"$gte": 0, "$lt": 1}}, "mntf1slo"),
        ({"$not": {}}, ""),
        ({"$not": {"$not": {"$eq": 1}}}, "1"),
    ],
)
def test_a_condition_tells_missing_null_and_types_apart(condition: Any, names: str) -> None:
    assert _found({"k": condition}, _KINDS) == names


@pytest.mark.parametrize(
    ("raw", "names"),
    [
        ({"$and": [{"k": {"$gte": 0}}, {"$or": [{"k": 1}, {"k": "1"}]}]}, "1"),
        ({"$or": [{"k": 1}, {"k": {"$exists": False}}]}, "m1"),
        ({"$or": [{"k": 1}, {}]}, "mntf10slo"),
        ({"$not": {"k": {"$exists": True}}}, "m"),
        ({"$not": {}}, ""),
        ({"k": 1, "$not": {"k": 2}}, "1"),
        ({"$and": [{}, {"k": 1}, {"k": {}}]}, "1"),
        ({"$not": {"$and": [{}]}}, ""),
        ({"k": {"$ne": 1}, "$or": [{"k": 1}, {"k": 0}]}, "0"),
    ],
)
def test_filters_are_combined(raw: Any, names: str) -> None:
    assert _found(raw, _KINDS) == names


def test_keys_are_literal() -> None:
    assert _matches({"a.b": 1}, {"a.b": 1})
    assert not _matches({"a.b": 1}, {"a": {"b": 1}})
    assert _matches({"a b'\"%": 1}, {"a b'\"%": 1})
    assert _matches({"": 1}, {"": 1})


def test_operands_are_converted_as_values_are() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert _matches({"at": moment}, {"at": "2026-01-02T00:00:00+00:00"})
    assert _matches({"at": {"$lt": moment}}, {"at": "2026-01-01T00:00:00+00:00"})
    assert _matches({"at": {"$in": (moment,)}}, {"at": moment.isoformat()})


def test_operands_are_copied() -> None:
    operand = ["x"]
    parsed = _parsed({"t": operand})
    operand.append("y")
    assert parsed.matches({"t": ["x"]})


def test_the_tree_is_what_drivers_translate() -> None:
    parsed = _parsed({"a": 1, "$or": [{"b": {"$gt": 2}}, {"$not": {"c": {"$in": (3,)}}}]})
    assert isinstance(parsed, And)
    first, second = parsed.parts
    assert isinstance(first, Compare)
    assert (first.key, first.operator, first.operand) == ("a", "$eq", 1)
    assert isinstance(second, Or)
    third, fourth = second.parts
    assert isinstance(third, Compare)
    assert isinstance(fourth, Not)
    assert isinstance(fourth.part, Compare)
    assert fourth.part.operand == [3]


def test_filters_are_told_apart_by_identity() -> None:
    one, other = _parsed({"a": [1]}), _parsed({"a": [1]})
    assert len({one, other, one}) == 2


@pytest.mark.parametrize(
    ("raw", "field"),
    [
        ([], "filter"),
        ("a", "filter"),
        ({1: 2}, "filter"),
        ({"a\0": 1}, "filter"),
        ({"\ud800": 1}, "filter"),
        ({"$foo": 1}, "filter.$foo"),
        ({"$gt": 1}, "filter.$gt"),
        ({"$and": {"a": 1}}, "filter.$and"),
        ({"$and": []}, "filter.$and"),
        ({"$or": None}, "filter.$or"),
        ({"$or": [1]}, "filter.$or[0]"),
        ({"$not": [{"a": 1}]}, "filter.$not"),
        ({"$and": [{"a": 1}, {"n": {"$gt": None}}]}, "filter.$and[1].n.$gt"),
        ({"n": {"$foo": 1}}, "filter.n.$foo"),
        ({"n": {"$and": [{"$gt": 1}]}}, "filter.n.$and"),
        ({"n": {"$gt": 1, "m": 2}}, "filter.n"),
        ({"n": {"$gt": 1, 2: 2}}, "filter.n"),
        ({"n": {2: 2}}, "filter.n"),
        ({"a b": {"$exists": 1}}, "filter['a b'].$exists"),
        ({"n": {"$exists": None}}, "filter.n.$exists"),
        ({"n": {"$in": "abc"}}, "filter.n.$in"),
        ({"n": {"$in": {"a": 1}}}, "filter.n.$in"),
        ({"n": {"$nin": 1}}, "filter.n.$nin"),
        ({"n": {"$not": 1}}, "filter.n.$not"),
        ({"n": {"$not": {"a": 1}}}, "filter.n.$not"),
        ({"n": {"$not": {"$gt": []}}}, "filter.n.$not.$gt"),
        ({"n": {"$gt": float("nan")}}, "filter.n.$gt"),
        ({"n": {"$lt": True}}, "filter.n.$lt"),
        ({"n": {"$lte": {}}}, "filter.n.$lte"),
        ({"n": {"$gte": Decimal(1)}}, "filter.n.$gte"),
        ({"n": float("inf")}, "filter.n"),
        ({"n": ["a", "b\0"]}, "filter.n[1]"),
        ({"n": {"a": {"b": "\ud800"}}}, "filter.n.a.b"),
        ({"n": {"$in": [1, {2}]}}, "filter.n.$in[1]"),
    ],
)
def test_what_cannot_be_understood_is_refused_by_path(raw: Any, field: str) -> None:
    with pytest.raises(InvalidFilter) as caught:
        parse_filter(raw)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)


def _nots(count: int) -> dict[str, Any]:
    raw: dict[str, Any] = {"a": {"$eq": 1}}
    for _ in range(count):
        raw = {"$not": raw}
    return raw


def _field_nots(count: int) -> dict[str, Any]:
    condition: dict[str, Any] = {"$eq": 1}
    for _ in range(count):
        condition = {"$not": condition}
    return {"a": condition}


def _choices(count: int) -> dict[str, Any]:
    return {"a": {"$in": [1] * count}}


def _contained(count: int) -> dict[str, Any]:
    return {"a": {"$contains": [1] * count}}


def _conditions(count: int) -> dict[str, Any]:
    return {"$or": [{"a": 1}] * (count - 1), "b": 1}


@pytest.mark.parametrize(
    ("make", "most"),
    [
        (_nots, FILTER_DEPTH_MAX - 1),
        (_field_nots, FILTER_DEPTH_MAX - 1),
        (_choices, FILTER_CHOICES_MAX),
        (_contained, FILTER_CHOICES_MAX),
        (_conditions, FILTER_CONDITIONS_MAX),
    ],
)
def test_filters_are_limited(make: Any, most: int) -> None:
    _parsed(make(most)).matches({"a": 1})
    with pytest.raises(LimitExceeded) as caught:
        parse_filter(make(most + 1))
    assert (caught.value.field or "").startswith("filter")


_keys = st.sampled_from(["a", "b", "a.b", ""])
_orderables = st.one_of(st.integers(-3, 3), st.floats(allow_nan=False, allow_infinity=False), json_texts)


def _conditions_on(key: str) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.tuples(st.sampled_from(["$eq", "$ne", "$contains"]), json_values),
        st.tuples(st.sampled_from(_ORDERINGS), _orderables),
        st.tuples(st.sampled_from(["$in", "$nin"]), st.lists(json_values, max_size=3)),
        st.tuples(st.just("$exists"), st.booleans()),
    ).map(lambda pair: {key: {pair[0]: pair[1]}})


def _combined(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    lists = st.lists(inner, min_size=1, max_size=3)
    return st.one_of(
        lists.map(lambda parts: {"$and": parts}),
        lists.map(lambda parts: {"$or": parts}),
        inner.map(lambda part: {"$not": part}),
    )


_filters: st.SearchStrategy[dict[str, Any]] = st.recursive(
    _keys.flatmap(_conditions_on), _combined, max_leaves=5
)


@given(_filters, json_objects)
def test_no_filter_raises_on_any_value(raw: dict[str, Any], value: dict[str, Any]) -> None:
    parsed = _parsed(raw)
    assert compile_filter(parsed)(value) is parsed.matches(value)


@given(_filters, _filters, json_objects)
def test_not_of_and_is_or_of_nots(one: Any, other: Any, value: dict[str, Any]) -> None:
    assert _matches({"$not": {"$and": [one, other]}}, value) is _matches(
        {"$or": [{"$not": one}, {"$not": other}]}, value
    )
    assert _matches({"$not": {"$or": [one, other]}}, value) is _matches(
        {"$and": [{"$not": one}, {"$not": other}]}, value
    )
    assert _matches({"$not": one}, value) is not _matches(one, value)


@given(_keys, st.lists(json_values, min_size=1, max_size=4), json_objects)
def test_in_is_or_of_equalities_and_nin_is_its_opposite(
    key: str, operands: Any, value: dict[str, Any]
) -> None:
    if key in value:
        operands.append(value[key])
    for choices in (operands, operands[:1]):
        one_of = _matches({key: {"$in": choices}}, value)
        assert one_of is _matches({"$or": [{key: {"$eq": each}} for each in choices]}, value)
        assert one_of is not _matches({key: {"$nin": choices}}, value)


@given(_keys, json_values, json_objects)
def test_eq_is_deep_equality_of_what_is_there_and_ne_is_its_opposite(
    key: str, operand: Any, value: Any
) -> None:
    for wanted in (operand, value.get(key, operand)):
        found = _matches({key: {"$eq": wanted}}, value)
        assert found is (key in value and equal(value[key], wanted))
        assert found is not _matches({key: {"$ne": wanted}}, value)


@given(_orderables, _orderables)
def test_comparable_values_are_above_or_not_above(operand: Any, found: Any) -> None:
    assume(isinstance(operand, str) is isinstance(found, str))
    value = {"n": found}
    assert _matches({"n": {"$gt": operand}}, value) is not _matches({"n": {"$lte": operand}}, value)
    assert _matches({"n": {"$lt": operand}}, value) is not _matches({"n": {"$gte": operand}}, value)
    assert _matches({"n": {"$gte": operand, "$lte": operand}}, value) is _matches({"n": operand}, value)


@given(json_texts, json_texts)
def test_a_string_contains_its_parts(left: str, right: str) -> None:
    assert _matches({"t": {"$contains": right}}, {"t": left + right})
    assert _matches({"t": {"$contains": right}}, {"t": left}) is (right in left)
