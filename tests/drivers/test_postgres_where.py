"""The SQL of a filter matches what the filter matches, on a real server."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any

import psycopg
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateroom.drivers.postgres.documents import exact_json, spelled
from stateroom.drivers.postgres.where import (
    ALTERNATIVES_MAX,
    INDEXED_CHOICES_MAX,
    INDEXED_KEY_BYTES_MAX,
    INDEXED_TEXT_MAX,
    KeyIndex,
    key_indexes,
    where,
)
from stateroom.errors import Misconfigured
from stateroom.model.filter import And, Filter, parse_filter
from stateroom.model.json_values import decode_value, encode_value, equal
from stateroom.model.limits import FILTER_CHOICES_MAX, FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX
from stateroom.testing import drawing
from tests.model.strategies import json_objects, json_values

LONG = "x" * INDEXED_TEXT_MAX

# A value of each kind, and those next to each other that a database may take for the same.
NUMBERS: list[int | float] = [
    *(0, -0.0, 1, 1.0, -1, 0.1, 0.1 + 2**-56, 0.3, -1.5, 5e-324, -5e-324, 2.2250738585072014e-308),
    *(2**53 - 1, float(2**53), 2**53 + 1, 2**53 + 2, 2**54 + 4, float(2**54 + 4), 2**54 + 3),
    *(9_999_999_999_999_998.0, 10**16, 1e16, 1e16 + 2, 10**16 + 1, 2**63, float(2**63), 2**63 - 1, -(2**64)),
    *(1e22, 10**22, 1e23, 10**23, int(1e23), int(1e23) + 1, -1e23, 1e300, 10**300, int(1e300)),
    *(1e308, 10**308, math.nextafter(math.inf, 0), 10**400, -(10**400), 10**1000 - 1, 10**1000 - 2),
]
STRINGS = [
    *("", "a", "A", "ab", "b", "1", "ä", "a\u0308", "\uffff", "\U00010000", "true", "null", "e+16", "1e+16"),
    *("it's", '"', "\\", "%", "%s", "100%%", "\\u0041", "\n", "{}", "[1]", LONG[1:], LONG, LONG + "y"),
    *(LONG + "z", LONG[1:] + "y", "ß" * 300, "\U0001f600" * 300),
]
VALUES: list[Any] = [
    *(None, True, False, *NUMBERS, *STRINGS),
    *([], [1], [1.0, "a"], ["a", 1], ["a"], [True], [None], [[1]], [[]], [[1], {"x": 1}], [1, 1], [1, 2, 1]),
    *([1e23], [10**23], ["a", "b", [1, "a"]], [{"x": 1, "y": 2}], [0], [False]),
    *({}, {"x": 1}, {"x": 1.0}, {"x": True}, {"x": 1, "y": 2}, {"x": {"x": 1}}, {"x": [1]}, {"x": {}}),
    *({"x": 1e23}, {"x": int(1e23)}, {"$eq": 1}, {"x": []}, {"": None}),
]
OBJECTS: list[dict[str, Any]] = [{}, {"other": 1}, {"k.": 1}, *({"k": value} for value in VALUES)]

_orderable = [*NUMBERS, *STRINGS]
_pairs = [list(pair) for pair in pairwise(VALUES)]
_choices = [[], NUMBERS, STRINGS, _orderable, VALUES, VALUES * 2, *_pairs]
CONDITIONS: dict[str, Sequence[Any]] = {
    **dict.fromkeys(["$eq", "$ne"], VALUES),
    **dict.fromkeys(["$gt", "$gte", "$lt", "$lte"], _orderable),
    "$in": _choices,
    "$nin": _choices,
    "$contains": [*VALUES, *_pairs, "e+", "x" * 50, LONG[2:], [1, [1]], [[1], [1]], ["a", "b", [1.0, "a"]]],
    "$exists": [True, False],
}

# The key looks like a table, a parameter, an escape, and the end of a string.
ODD_KEY = "stateroom.item %(f_0)s %% \\x41 \\' ''; --"


class Table:
    """A table of values, with every index that a filter on ``k`` or ``ODD_KEY`` may use."""

    def __init__(self, connection: psycopg.Connection[Any]) -> None:
        self.connection = connection
        connection.execute(
            "create temp table item "
            "(n int, value jsonb, updated_at bigint default 0, revision bigint default 0)"
        )
        connection.execute("create index item_value on item using gin (value jsonb_path_ops)")
        for index in (*key_indexes("k"), *key_indexes(ODD_KEY)):
            self.make(index)

    def make(self, index: KeyIndex, concurrently: str = "concurrently") -> None:
        """Make the index of a declared key."""
        for statement in (index.create_sql, index.statistics_sql):
            here = statement.replace("stateroom.", "pg_temp.").replace("concurrently", concurrently)
            self.connection.execute(here.encode())

    def fill(self, values: Sequence[Mapping[str, Any]]) -> None:
        """Hold these values alone."""
        raws = [encode_value(value) for value in values]
        rows = [(exact_json(raw) or raw).decode() for raw in raws]
        self.connection.execute("delete from item")
        self.connection.execute(
            "insert into item (n, value) select n, value::jsonb from unnest(%s::text[]) "
            "with ordinality as i (value, n)",
            [rows],
        )

    def check(self, raw: Mapping[str, Any], values: Sequence[Mapping[str, Any]]) -> None:
        """Check that a filter matches the same of ``values``, by reading all rows and by the indexes."""
        parsed = parse_filter(raw) or And(())
        matches = [parsed.matches(decode_value(encode_value(value))) for value in values]
        for declared in ((), ("k", ODD_KEY)):
            assert self.told(parsed, declared) == matches, raw
            assert self.found(parsed, declared) == [n for n, hit in enumerate(matches, 1) if hit], raw

    def told(self, parsed: Filter, declared: Sequence[str]) -> list[bool | None]:
        """Return what the condition says of each row."""
        sql, parameters = where(parsed, declared)
        return self._column(f"select {sql} from item i order by n", parameters)  # noqa: S608

    def found(self, parsed: Filter, declared: Sequence[str]) -> list[int]:
        """Return the rows that the condition finds."""
        sql, parameters = where(parsed, declared)
        return sorted(self._column(f"select n from item i where {sql}", parameters))  # noqa: S608

    def plan(self, raw: Mapping[str, Any], declared: Sequence[str] = ()) -> str:
        """Return how the rows are found."""
        parsed = parse_filter(raw)
        assert parsed is not None
        sql, parameters = where(parsed, declared)
        return "\n".join(self._column(f"explain select n from item i where {sql}", parameters))  # noqa: S608

    def _column(self, sql: str, parameters: Mapping[str, Any]) -> list[Any]:
        return [row[0] for row in self.connection.execute(sql.encode(), parameters)]


@pytest.fixture(scope="module")
def table(postgres: str) -> Iterator[Table]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set enable_seqscan = off")
        # Some filters would be planned, or looked up, for hours if they were written in another way.
        connection.execute("set statement_timeout = '20s'")
        yield Table(connection)


@pytest.mark.parametrize("operator", CONDITIONS)
def test_every_condition_matches_the_same_of_every_value(table: Table, operator: str) -> None:
    table.fill(OBJECTS)
    for operand in CONDITIONS[operator]:
        table.check({"k": {operator: operand}}, OBJECTS)


@given(st.lists(st.tuples(drawing.plain_puts, drawing.lists), min_size=1, max_size=20))
def test_a_drawn_filter_matches_the_same_of_drawn_values(table: Table, drawn: list[Any]) -> None:
    values = [put.value for put, _ in drawn]
    table.fill(values)
    for _, search in drawn:
        table.check(search.filter or {}, values)


@given(st.lists(json_objects, min_size=1, max_size=10), st.data())
def test_equality_is_deep_as_in_python(
    table: Table, values: list[dict[str, Any]], data: st.DataObject
) -> None:
    table.fill(values)
    keys = [key for value in values for key in value if not key.startswith("$")]
    key = data.draw(st.sampled_from(keys or ["a"]))
    choices = data.draw(st.lists(json_values, max_size=3)) + [value[key] for value in values if key in value]
    for choice in choices:
        table.check({key: {"$eq": choice}}, values)
        table.check({key: {"$contains": choice}}, values)
    table.check({key: {"$in": choices}}, values)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False) | st.integers(-(10**30), 10**30), min_size=2)
)
def test_numbers_have_the_order_of_python(table: Table, numbers: list[float]) -> None:
    values = [{"k": number} for number in [*numbers, *(int(number) for number in numbers)]]
    table.fill(values)
    for number in numbers[:3]:
        table.check({"k": {"$gt": number}}, values)
        table.check({"k": {"$lte": number}}, values)
        table.check({"k": int(number)}, values)


def test_conditions_combine(table: Table) -> None:
    table.fill(OBJECTS)
    equal, above, missing = {"k": 1}, {"k": {"$gt": 2}}, {"k": {"$exists": False}}
    filters: list[dict[str, Any]] = [
        {"$or": [equal, above, missing]},
        {"$not": {"$or": [equal, missing]}},
        {"$and": [{"$not": equal}, {"k": {"$gte": 0, "$lt": 2}}]},
        {"$or": [{}, equal]},
        {"$not": {}},
        {"k": {"$not": {"$gt": 1, "$lt": 9}}},
        {"k": {"$gt": "a"}, "other": {"$exists": False}},
    ]
    for raw in filters:
        table.check(raw, OBJECTS)


def test_a_declared_key_is_taken_literally(table: Table) -> None:
    values: list[dict[str, Any]] = [{ODD_KEY: value} for value in (1, 2.5, "a", LONG + "y")]
    values += [{ODD_KEY.replace("%%", "%"): 1}, {ODD_KEY.replace("stateroom.", ""): "a"}]
    table.fill(values)
    for condition in (1, "a", {"$gte": 2}, {"$lt": "b"}, {"$in": [1, "a"]}, {"$lte": LONG + "y"}):
        table.check({ODD_KEY: condition}, values)


def test_the_largest_filters_are_answered(table: Table) -> None:
    values: list[dict[str, Any]] = [{"k": 1}, {"k": "1"}, {"k": ["1", 2]}, {"k": [[1]]}, {}]
    table.fill(values)
    numbers = list(range(FILTER_CHOICES_MAX))
    for operands in (
        numbers,
        list(map(str, numbers)),
        [[number] for number in numbers],
        [*numbers[1:], None],
    ):
        for operator in ("$in", "$nin", "$contains"):
            table.check({"k": {operator: operands}}, values)
    numbers = numbers[:FILTER_CONDITIONS_MAX]
    table.check({"$or": [{"k": number} for number in numbers]}, values)
    table.check({"$or": [{"k": {"$gt": number}} for number in numbers]}, values)
    table.check({"$and": [{"k": {"$nin": [number, str(number)]}} for number in numbers]}, values)
    table.check({"$and": [{"k": {"$in": [number, str(number)]}} for number in numbers]}, values)
    either = [{"$or": [{"k": number}, {"k": str(number)}]} for number in numbers]
    table.check({"$and": either[: FILTER_CONDITIONS_MAX // 2]}, values)
    deep: dict[str, Any] = {"k": 1}
    for _ in range(FILTER_DEPTH_MAX // 2 - 1):
        deep = {"$not": {"$or": [deep, {"k": "1"}]}}
    table.check(deep, values)


def test_indexes_lead_to_what_matches(table: Table) -> None:
    number, string = (index.name for index in key_indexes("k"))
    few = list(range(INDEXED_CHOICES_MAX))
    by_value: list[Any] = [
        "a",
        1,
        None,
        [1],
        {"x": 1},
        {"$in": few},
        {"$contains": 1},
        {"$contains": [1, [1]]},
    ]
    by_number: list[Any] = [1, {"$gt": 1}, {"$lte": 0.5}, {"$in": [*few, 0.5, 10**30, *few]}]
    by_string: list[Any] = ["a", {"$gte": "a"}, {"$lt": "a"}, {"$gt": LONG + "y"}, {"$in": ["a", "b"]}]
    for condition in by_value:
        assert "item_value" in table.plan({"k": condition}), condition
    for condition in by_number:
        assert number in table.plan({"k": condition}, ["k"]), condition
    for condition in by_string:
        assert string in table.plan({"k": condition}, ["k"]), condition


def test_statistics_tell_how_many_rows_a_range_matches(table: Table) -> None:
    table.fill([{"k": number, ODD_KEY: f"{number:04}"} for number in range(1000)])
    table.connection.execute("analyze item")
    for condition in ({"k": {"$gte": 990}}, {ODD_KEY: {"$gte": "0990"}}, {"k": {"$gt": 495, "$lte": 505}}):
        told = re.search(r"rows=(\d+)", table.plan(condition, ["k", ODD_KEY]))
        assert told is not None
        assert 5 <= int(told[1]) <= 20


def test_two_lists_of_choices_are_not_looked_up_in_all_pairs(table: Table) -> None:
    few, many = list(range(3)), list(range(INDEXED_CHOICES_MAX))
    assert "item_value" in table.plan({"k": {"$in": few}, "j": {"$in": few}})
    # The second one would be looked up once for each of the first.
    plan = table.plan({"$and": [{key: {"$in": many}} for key in "jk"]})
    assert plan.count("@> ANY") == 2, plan


def test_few_alternatives_are_looked_up_in_indexes() -> None:
    parsed = parse_filter({"$and": [{"k": {"$in": [number, str(number)]}} for number in range(100)]})
    assert parsed is not None
    # Postgres looks for no index below an `is true`.
    assert where(parsed, ["k"]).sql.count(") is true") == 100 - ALTERNATIVES_MAX


@pytest.mark.parametrize("declared", [(), ("k",)])
@pytest.mark.parametrize("operand", ["a", LONG])
def test_strings_are_ordered_by_code_point_whatever_the_collation(
    operand: str, declared: tuple[str, ...]
) -> None:
    # No collation with another order is at hand: the test's server is built without ICU.
    parsed = parse_filter({"k": {"$gt": operand}})
    assert parsed is not None
    relations = re.findall(r'(collate "C")?\)? >=? ', where(parsed, declared).sql)
    assert relations
    assert all(relations)


LONGEST_KEY = "".join(map(chr, range(0x10000, 0x10000 + INDEXED_KEY_BYTES_MAX // 4)))


@pytest.mark.parametrize("key", ["k", "", "ключ", 'a"b', LONGEST_KEY[1:]], ids=len)
def test_every_declared_key_has_indexes_of_its_own(table: Table, key: str) -> None:
    indexes = [*key_indexes(key), *key_indexes(key + "x")]
    assert len({index.name for index in indexes}) == 4
    # Postgres cuts longer names.
    assert max(len(index.name) for index in indexes) <= 63
    with table.connection.transaction(force_rollback=True):
        for index in indexes:
            table.make(index, "")


def test_a_longer_key_cannot_be_declared() -> None:
    assert len(key_indexes(LONGEST_KEY)) == 2
    with pytest.raises(Misconfigured) as caught:
        key_indexes(LONGEST_KEY + "k")
    assert caught.value.field == "index_keys"


def test_values_that_all_index_entries_can_hold(table: Table) -> None:
    values: list[dict[str, Any]] = [
        {"k": 10**1000 - 1},
        {"k": -5e-324},
        {"k": "\U0001f600" * 100_000},
        {"k": "\x01" * 300},
    ]
    table.fill(values)
    for value in values:
        table.check(value, values)


@given(json_values)
@example([1e16, -1e16, 1e23, 1.7976931348623157e308, 9_999_999_999_999_998.0, -0.0])
@example({"1e16": "1e+16", "e+1": 'quoted " 2e16'})
def test_exact_json_is_equal_and_has_no_exponents_upwards(value: Any) -> None:
    raw = encode_value({"v": value})
    exact = exact_json(raw)
    assert equal(json.loads(exact or raw), {"v": value})
    large: list[str] = []
    json.loads(exact or raw, parse_float=lambda text: large.append(text) if float(text) >= 1e16 else 0)
    assert large == []
    assert equal(json.loads(spelled(value)), value)


@pytest.mark.parametrize("raw", [b'{"v":1e16}', b'{"v":1e+16}', b' {"v":1e+16}', b'{"v":10000000000000000}'])
def test_each_way_to_write_a_large_float_becomes_an_integer(raw: bytes) -> None:
    assert (exact_json(raw) or raw).strip() == b'{"v":10000000000000000}'


@pytest.mark.parametrize(
    "raw", [b'{"v":0.1}', b'{"v":1e-7}', b'{"v":"the+1 e"}', b'{"v":1234567890123456.0}']
)
def test_ordinary_values_stay_as_they_are(raw: bytes) -> None:
    assert exact_json(raw) is None
