"""What a filter matches, on every kind of JSON value."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.errors import InvalidFilter, LimitExceeded
from stateroom.model.limits import FILTER_CHOICES_MAX, FILTER_CONDITIONS_MAX, FILTER_DEPTH_MAX
from stateroom.stores.operations import PutItem
from stateroom.testing.harness import Harness, Memory, Opens

__all__ = ["FilterSuite"]

BIG = 10**30

# One item for each kind of value that a key can have; the names are the keys of the items.
VALUES: dict[str, Any] = {
    "zero": 0,
    "minus zero": -0.0,
    "one": 1,
    "one as float": 1.0,
    "two": 2,
    "tenth": 0.1,
    "minus": -1.5,
    "huge float": 1e300,
    "tiny": 5e-324,
    "2**53": 2**53,
    "2**53 + 1": 2**53 + 1,
    "2**63": 2**63,
    "big": BIG,
    "big + 1": BIG + 1,
    "true": True,
    "false": False,
    "null": None,
    "empty": "",
    "a": "a",
    "b": "b",
    "A": "A",
    "abc": "abc",
    "digit": "1",
    "umlaut": "ä",
    "plane 0": "\uffff",
    "plane 1": "\U00010000",
    "quote": 'it\'s "quoted" \\ 100%',
    "list": [1, "a", None],
    "list of true": [True],
    "list of one": [1],
    "nested list": [[1], {"x": 1}],
    "empty list": [],
    "object": {"x": 1, "y": [True]},
    "object of one": {"x": 1},
    "empty object": {},
}
MISSING = "missing"
ONES = {"one", "one as float"}
ZEROS = {"zero", "minus zero"}
NUMBERS = {name for name, value in VALUES.items() if type(value) in (int, float)}
STRINGS = {name for name, value in VALUES.items() if isinstance(value, str)}
LISTS = {name for name, value in VALUES.items() if isinstance(value, list)}
EVERYTHING = {*VALUES, MISSING}

MATCHES: list[tuple[Any, set[str]]] = [
    (1, ONES),
    (1.0, ONES),
    (0, ZEROS),
    (-0.0, ZEROS),
    (0.1, {"tenth"}),
    (1e300, {"huge float"}),
    (10**300, set()),
    (5e-324, {"tiny"}),
    (2**53, {"2**53"}),
    (2**53 + 1, {"2**53 + 1"}),
    (float(2**53), {"2**53"}),
    (2**63, {"2**63"}),
    (float(2**63), {"2**63"}),
    (BIG, {"big"}),
    (BIG + 1, {"big + 1"}),
    (BIG + 2, set()),
    (True, {"true"}),
    (False, {"false"}),
    (None, {"null"}),
    ("", {"empty"}),
    ("a", {"a"}),
    ("ä", {"umlaut"}),
    ("a\u0308", set()),
    ('it\'s "quoted" \\ 100%', {"quote"}),
    ([1, "a", None], {"list"}),
    ([1.0, "a", None], {"list"}),
    (["a", 1, None], set()),
    ([True], {"list of true"}),
    ([1], {"list of one"}),
    ([], {"empty list"}),
    ({"x": 1}, {"object of one"}),
    ({"y": [True], "x": 1.0}, {"object"}),
    ({"y": [1], "x": 1}, set()),
    ({"$eq": {}}, {"empty object"}),
    ({"$eq": {"x": 1}}, {"object of one"}),
    ({"$eq": None}, {"null"}),
    ({}, EVERYTHING),
    ({"$ne": 1}, EVERYTHING - ONES),
    ({"$ne": True}, EVERYTHING - {"true"}),
    ({"$ne": None}, EVERYTHING - {"null"}),
    ({"$ne": {"x": 1}}, EVERYTHING - {"object of one"}),
    ({"$gt": 1}, {"two", "huge float", "2**53", "2**53 + 1", "2**63", "big", "big + 1"}),
    ({"$gte": 1}, {*ONES, "two", "huge float", "2**53", "2**53 + 1", "2**63", "big", "big + 1"}),
    ({"$lt": 0}, {"minus"}),
    ({"$lte": 0}, {*ZEROS, "minus"}),
    ({"$gt": 0, "$lt": 1}, {"tenth", "tiny"}),
    ({"$lt": 1e-300, "$gt": -1}, {*ZEROS, "tiny"}),
    ({"$gt": 2**53}, {"huge float", "2**53 + 1", "2**63", "big", "big + 1"}),
    ({"$gte": 2**53 + 1}, {"huge float", "2**53 + 1", "2**63", "big", "big + 1"}),
    ({"$gt": BIG}, {"huge float", "big + 1"}),
    ({"$lt": BIG + 1, "$gt": 2**63}, {"big"}),
    ({"$gt": -(10**400)}, NUMBERS),
    ({"$lt": 10**400}, NUMBERS),
    ({"$gte": ""}, STRINGS),
    ({"$lt": "a"}, {"empty", "A", "digit"}),
    ({"$gte": "a", "$lte": "b"}, {"a", "abc", "b"}),
    ({"$gt": "b"}, {"umlaut", "plane 0", "plane 1", "quote"}),
    ({"$gt": "\uffff"}, {"plane 1"}),
    ({"$in": [1, "a"]}, {*ONES, "a"}),
    ({"$in": [True, None]}, {"true", "null"}),
    ({"$in": [[1], {"x": 1}]}, {"list of one", "object of one"}),
    ({"$in": [BIG, 0.1]}, {"big", "tenth"}),
    ({"$in": []}, set()),
    ({"$nin": [1, "a", None]}, EVERYTHING - {*ONES, "a", "null"}),
    ({"$nin": []}, EVERYTHING),
    ({"$exists": True}, set(VALUES)),
    ({"$exists": False}, {MISSING}),
    ({"$contains": 1}, {"list", "list of one"}),
    ({"$contains": True}, {"list of true"}),
    ({"$contains": None}, {"list"}),
    ({"$contains": "a"}, {"a", "abc", "list"}),
    ({"$contains": "bc"}, {"abc"}),
    ({"$contains": '"quoted" \\'}, {"quote"}),
    ({"$contains": "%"}, {"quote"}),
    ({"$contains": ""}, STRINGS),
    ({"$contains": ["a", 1]}, {"list"}),
    ({"$contains": []}, LISTS),
    ({"$contains": [[1]]}, {"nested list"}),
    ({"$contains": {"x": 1}}, {"nested list"}),
    ({"$not": {"$eq": 1}}, EVERYTHING - ONES),
    ({"$not": {"$gt": 0}}, EVERYTHING - {name for name in NUMBERS if VALUES[name] > 0}),
    ({"$not": {"$exists": True}}, {MISSING}),
    ({"$not": {"$not": {"$in": [1]}}}, ONES),
    ({"$exists": True, "$ne": None, "$lt": "b"}, {"empty", "a", "A", "abc", "digit"}),
]

# The "v" of the items above, once more, inside conditions on whole filters.
WHOLE: list[tuple[dict[str, Any], set[str]]] = [
    ({"$or": [{"v": 1}, {"v": "a"}]}, {*ONES, "a"}),
    ({"$and": [{"v": {"$gte": "a"}}, {"v": {"$lte": "b"}}]}, {"a", "abc", "b"}),
    ({"$not": {"v": {"$exists": True}}}, {MISSING}),
    ({"$not": {"$or": [{"v": 1}, {"v": {"$exists": False}}]}}, set(VALUES) - ONES),
    ({"v": 1, "name": "one"}, {"one"}),
    ({"v": 1, "$or": [{"name": "one"}, {"name": "two"}]}, {"one"}),
    ({"$or": [{"v": 1, "name": "one"}, {"v": None}]}, {"one", "null"}),
    ({"$and": [{}, {"v": 2}]}, {"two"}),
    ({"$or": [{}, {"v": 2}]}, EVERYTHING),
    ({"$not": {}}, set()),
    ({}, EVERYTHING),
    ({"absent": None}, set()),
    ({"absent": {"$ne": 1}, "v": 2}, {"two"}),
]

ODD_KEYS = [
    "",
    " ",
    "a.b",
    "a[0]",
    "'",
    '"',
    "\\",
    "\\u0061",
    "--",
    "*",
    "%",
    "日本",
    "new\nline",
    "{x}",
    "@>",
    "#",
    "?",
    ":1",
    "k" * 3_000,
]

REFUSED: list[tuple[Any, str]] = [
    ("text", "filter"),
    ([{"a": 1}], "filter"),
    (5, "filter"),
    ({1: "x"}, "filter"),
    ({"x\0": 1}, "filter"),
    ({"\ud800": 1}, "filter"),
    ({"a": {"$odd": 1}}, "filter.a.$odd"),
    ({"a": {"$gt": 1, "$regex": "x"}}, "filter.a.$regex"),
    ({"$gt": 1}, "filter.$gt"),
    ({"$nor": [{}]}, "filter.$nor"),
    ({"a": {"$gt": 1, "b": 2}}, "filter.a"),
    ({"$and": [{"a": {"b": 1, "$in": []}}]}, "filter.$and[0].a"),
    ({"$and": {}}, "filter.$and"),
    ({"$and": []}, "filter.$and"),
    ({"$or": []}, "filter.$or"),
    ({"$or": [1]}, "filter.$or[0]"),
    ({"$not": [{}]}, "filter.$not"),
    ({"a": {"$gt": None}}, "filter.a.$gt"),
    ({"a": {"$gte": True}}, "filter.a.$gte"),
    ({"a": {"$lt": [1]}}, "filter.a.$lt"),
    ({"a": {"$lte": {}}}, "filter.a.$lte"),
    ({"a": {"$in": 1}}, "filter.a.$in"),
    ({"a": {"$in": "abc"}}, "filter.a.$in"),
    ({"a": {"$nin": {"x": 1}}}, "filter.a.$nin"),
    ({"a": {"$exists": 1}}, "filter.a.$exists"),
    ({"a": {"$not": 1}}, "filter.a.$not"),
    ({"a": {"$not": {"x": 1}}}, "filter.a.$not"),
    ({"a": float("nan")}, "filter.a"),
    ({"a": {"$gt": float("inf")}}, "filter.a.$gt"),
    ({"a": {"$in": [1, b"x"]}}, "filter.a.$in[1]"),
    ({"a": "x\0"}, "filter.a"),
    ({"a": {"$contains": "\udfff"}}, "filter.a.$contains"),
]


def fill(memory: Memory) -> None:
    """Put an item for each of ``VALUES``, and one without the key."""
    puts = [
        PutItem(("f", str(n % 3)), name, {"v": VALUES[name], "name": name}) for n, name in enumerate(VALUES)
    ]
    memory.batch([*puts, PutItem(("f",), MISSING, {"name": MISSING})])


class FilterSuite(Harness):
    """Filters look at top-level keys, and mean the same with and without an index of the key."""

    @pytest.mark.parametrize("index_keys", [(), ("v",)], ids=["plain", "indexed"])
    def test_every_condition_matches_what_it_says(self, opens: Opens, index_keys: tuple[str, ...]) -> None:
        memory = opens(index_keys=index_keys)
        fill(memory)
        for condition, expected in [*(({"v": part}, names) for part, names in MATCHES), *WHOLE]:
            found = memory.keys(("f",), filter=condition, limit=1_000)
            assert set(found) == expected, condition
            assert len(found) == len(expected)
            assert memory.count((), filter=condition) == len(expected), condition

    def test_what_was_replaced_or_deleted_is_not_matched(self, opens: Opens) -> None:
        memory = opens(index_keys=("v",))
        memory.put(("a",), "k", {"v": 1})
        memory.put(("a",), "k", {"v": "now"})
        memory.put(("a",), "gone", {"v": 1})
        memory.delete(("a",), "gone")
        assert memory.search((), filter={"v": 1}) == []
        assert memory.search((), filter={"v": {"$lt": 5}}) == []
        assert memory.keys((), filter={"v": "now"}) == ["k"]

    def test_a_key_is_taken_literally(self, memory: Memory) -> None:
        for place, key in enumerate(ODD_KEYS):
            here = ("a", str(place))
            memory.put(here, "has", {key: 1, "a": {"b": 2}})
            memory.put(here, "text", {key: "x"})
            memory.put(here, "lacks", {key + "x": 1, "a": [1], "b": 1})
            conditions = [1, {"$gte": 0}, "x", {"$contains": "x"}, {"$exists": False}, {"$ne": 1}]
            found = [memory.keys(here, filter={key: condition}) for condition in conditions]
            assert found == [["has"], ["has"], ["text"], ["text"], ["lacks"], ["lacks", "text"]], key[:50]

    def test_a_dot_reaches_into_nothing(self, memory: Memory) -> None:
        memory.put(("a",), "nested", {"a": {"b": 1}})
        memory.put(("a",), "dotted", {"a.b": 1})
        assert memory.keys(("a",), filter={"a.b": 1}) == ["dotted"]
        assert memory.keys(("a",), filter={"a": {"b": 1}}) == ["nested"]

    def test_filtering_comes_before_paging(self, opens: Opens) -> None:
        for index_keys in ((), ("kind",)):
            memory = opens(index_keys=index_keys)
            memory.batch(
                [PutItem(("a",), str(n), {"n": n, "kind": "odd" if n % 2 else "even"}) for n in range(60)]
            )
            odd = [str(number) for number in reversed(range(60)) if number % 2]
            assert memory.keys(("a",), filter={"kind": "odd"}, limit=100) == odd
            assert memory.keys(("a",), filter={"kind": "odd"}, limit=7) == odd[:7]
            assert memory.keys(("a",), filter={"kind": "odd"}, limit=7, offset=25) == odd[25:]
            ranged = {"n": {"$gte": 10, "$lt": 20}, "kind": "odd"}
            assert memory.keys(("a",), filter=ranged, limit=2, offset=1) == ["17", "15"]

    def test_a_rare_match_behind_thousands_is_found_in_order(self, memory: Memory) -> None:
        rare = {3: "x", 900: "x", 2_400: "x"}
        memory.call(
            "batch", [PutItem(("a",), str(n), {"n": n, "kind": rare.get(n, "y")}) for n in range(2_500)]
        )
        assert memory.keys(("a",), filter={"kind": "x"}) == ["2400", "900", "3"]
        assert memory.keys(("a",), filter={"n": {"$lt": 2}}) == ["1", "0"]
        assert memory.count(("a",), filter={"kind": "x"}) == 3
        memory.put(("a",), "900", {"kind": "x"})
        assert memory.keys(("a",), filter={"kind": "x"}, limit=1) == ["900"]
        assert memory.keys(("a",), filter={"kind": "x"}, limit=5, offset=1) == ["2400", "3"]

    def test_a_filter_looks_below_its_prefix_only(self, opens: Opens) -> None:
        memory = opens(index_keys=("n",))
        memory.batch([PutItem((tenant,), tenant, {"n": 1}) for tenant in ("a", "ab", "b")])
        assert memory.keys(("a",), filter={"n": 1}) == ["a"]
        assert memory.count((), filter={"n": 1}) == 3

    def test_a_value_may_be_compared_with_what_is_converted_to_json(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"pair": (1, 2)})
        assert memory.keys(("a",), filter={"pair": (1, 2)}) == ["k"]
        assert memory.keys(("a",), filter={"pair": {"$in": ([1, 2],)}}) == ["k"]

    def test_a_filter_is_not_changed_nor_kept(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": [1]})
        condition = {"n": [1], "$or": [{"n": {"$exists": True}}]}
        assert memory.keys(("a",), filter=condition) == ["k"]
        assert condition == {"n": [1], "$or": [{"n": {"$exists": True}}]}

    def test_the_largest_filters_are_answered_and_larger_ones_refused(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        numbers = list(range(2, FILTER_CHOICES_MAX + 1))
        assert memory.keys(("a",), filter={"n": {"$in": [*numbers, 1]}}) == ["k"]
        assert memory.keys(("a",), filter={"n": {"$nin": numbers}}) == ["k"]
        many = [{"n": number} for number in range(FILTER_CONDITIONS_MAX)]
        assert memory.keys(("a",), filter={"$or": many}) == ["k"]
        deep: dict[str, Any] = {"n": 1}
        for _ in range(FILTER_DEPTH_MAX - 2):
            deep = {"$and": [deep, {}]}
        assert memory.keys(("a",), filter=deep) == ["k"]
        for condition in (
            {"n": {"$in": [*numbers, 0, 1]}},
            {"$or": [*many, {"n": 1}]},
            {"$or": [{"$not": deep}]},
        ):
            with pytest.raises(LimitExceeded) as caught:
                memory.search(("a",), filter=condition)
            assert caught.value.field is not None
            assert caught.value.field.startswith("filter")

    @pytest.mark.parametrize("method", ["search", "count"])
    def test_a_filter_that_cannot_be_understood_is_refused_by_its_path(
        self, memory: Memory, method: str
    ) -> None:
        memory.put(("a",), "k", {"a": 1})
        for condition, field in REFUSED:
            with pytest.raises(InvalidFilter) as caught:
                memory.call(method, ("a",), filter=condition)
            assert (caught.value.code, caught.value.field) == ("invalid_filter", field), condition
            assert isinstance(caught.value, ValueError)
