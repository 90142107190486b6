"""By which conditions threads are found."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange, ThreadQuery
from stateroom.errors import InvalidInput, InvalidPage, InvalidValue, LimitExceeded
from stateroom.model.limits import METADATA_BYTES_MAX
from stateroom.model.paging import Sort
from stateroom.model.thread import THREAD_SORTS, ThreadStatus
from stateroom.testing.parts.storage_search_pages import (
    COUNT,
    EVERYTHING,
    SearchPagesSuite,
    by_cursor,
    fill,
    ids,
)
from stateroom.testing.storage_harness import check_id, check_refused, make_thread

__all__ = ["SearchSuite"]


def found(storage: Storage, **query: Any) -> set[str]:
    """Return the ids of what fits, which ``count`` and every order agree on."""
    asked = ThreadQuery(**query)
    page = storage.threads.search(asked, limit=1000)
    assert storage.threads.count(asked) == len(page.rows)
    for field in THREAD_SORTS:
        for descending in (True, False):
            other = storage.threads.search(asked, sort=Sort(field, descending), limit=1000)
            assert sorted(ids(other)) == sorted(ids(page))
    return set(ids(page))


class SearchSuite(SearchPagesSuite):
    """``search`` answers pages of what fits, ``count`` how many there are."""

    def test_A35_metadata_are_compared_as_json_and_every_condition_counts(self, storage: Storage) -> None:
        """Case A35."""
        for number in range(50):
            metadata = {"vip": True, "n": number % 5, "p": {"q": None}}
            make_thread(storage, f"t{number:02}", metadata=metadata)
        assert len(found(storage, metadata={"vip": True})) == 50
        assert len(found(storage, metadata={"n": 3})) == 10
        assert found(storage, metadata={"n": "3"}) == set()
        assert len(found(storage, metadata={"p": {"q": None}})) == 50
        assert found(storage, metadata={"vip": "true"}) == found(storage, metadata={"vip": 1}) == set()
        for number in range(0, 50, 4):
            storage.threads.update(f"t{number:02}", ThreadChange(status=ThreadStatus.ERROR))
        pages = by_cursor(storage, EVERYTHING, Sort("status"), 7)
        assert [len(page) for page in pages] == [7] * 7 + [1]
        assert len({each for page in pages for each in page}) == 50
        check_refused(InvalidPage, "sort_by", partial(storage.threads.search, EVERYTHING, sort=Sort("foo")))

    @pytest.mark.parametrize(
        ("wanted", "names"),
        [
            ({}, "abcdefgh"),
            ({"x": 1}, "ab"),
            ({"x": 1.0}, "ab"),
            ({"x": True}, "c"),
            ({"x": False}, ""),
            ({"x": "1"}, "d"),
            ({"x": None}, "e"),
            ({"x": {}}, "fh"),
            ({"x": []}, "g"),
            ({"x": {"y": 1}}, "f"),
            ({"x": {"y": 1, "z": {"w": "é"}}}, "f"),
            ({"x": {"y": 1, "z": {"w": "e"}}}, ""),
            ({"x": {"y": None}}, "h"),
            ({"x": {"z": {}}}, "f"),
            ({"x": {"z": []}}, ""),
            ({"x": [1]}, "g"),
            ({"x": [2, 1, 1]}, "g"),
            ({"x": [True]}, ""),
            ({"x": [None]}, "g"),
            ({"x": [{"a": 1}]}, "g"),
            ({"x": [{"a": 1, "b": 2}]}, "g"),
            # Each of the two is in an element, but not in the same one.
            ({"x": [{"a": 1, "c": 3}]}, ""),
            ({"x": [{"a": 1}, {"c": 3}]}, "g"),
            ({"x": [{}]}, "g"),
            ({"x": [[5]]}, "g"),
            ({"x": [[5, 6]]}, ""),
            ({"x": [[5], [6]]}, "g"),
            ({"x": [[]]}, "g"),
            ({"y": 0}, "b"),
            ({"x": 1, "y": 0}, "b"),
            ({"x.y": 1}, ""),
        ],
        ids=str,
    )
    def test_metadata_are_compared_by_containment(self, storage: Storage, wanted: Any, names: str) -> None:
        held = [
            {"x": 1},
            {"x": 1.0, "y": -0.0, "z": 10**30},
            {"x": True},
            {"x": "1"},
            {"x": None},
            {"x": {"y": 1, "z": {"w": "é"}}},
            {"x": [1, 2, "1", None, {"a": 1, "b": 2}, {"c": 3}, [5], [6]]},
            {"x": {"y": None}},
        ]
        for name, metadata in zip("abcdefgh", held, strict=True):
            make_thread(storage, name, metadata=metadata)
        assert found(storage, metadata=wanted) == set(names)
        assert found(storage, enforced_metadata=wanted) == set(names)
        assert found(storage, metadata=wanted, enforced_metadata=wanted) == set(names)

    def test_the_scope_is_a_condition_of_its_own(self, storage: Storage) -> None:
        make_thread(storage, "mine", metadata={"owner": "me", "n": 1})
        make_thread(storage, "yours", metadata={"owner": "you", "n": 1})
        assert found(storage, metadata={"n": 1}, enforced_metadata={"owner": "me"}) == {"mine"}
        assert found(storage, metadata={"owner": "you"}, enforced_metadata={"owner": "me"}) == set()
        assert found(storage, metadata={}, enforced_metadata={"owner": "me"}) == {"mine"}
        assert found(storage, enforced_metadata={}) == {"mine", "yours"}

    @pytest.mark.parametrize(
        ("wanted", "names"),
        [
            ({}, "abd"),
            ({"a": 1}, "a"),
            ({"a": 1.0}, "a"),
            ({"a": True}, "b"),
            ({"b": {"c": "x"}}, "a"),
            ({"b": {}}, "a"),
            ({"b": {"d": {}}}, "a"),
            ({"b": {"d": {"e": None}}}, "a"),
            ({"b": {"d": {"e": 0}}}, ""),
            ({"messages": [{"type": "human"}]}, "a"),
            ({"messages": [{"type": "human", "text": "hi"}]}, "a"),
            ({"messages": [{"type": "ai", "text": "hi"}]}, ""),
            ({"a": 1, "messages": [{"type": "ai"}]}, "a"),
            ({"a": 2, "messages": [{"type": "ai"}]}, ""),
            ({"huge": 10**40}, "b"),
            ({"a\0": "\ud800"}, "b"),
            ({"inf": math.inf}, "b"),
            ({"nan": math.nan}, ""),
        ],
        ids=repr,
    )
    def test_values_are_compared_by_containment(self, storage: Storage, wanted: Any, names: str) -> None:
        held: dict[str, Any] = {
            "a": {
                "a": 1,
                "b": {"c": "x", "d": {"e": None}},
                "messages": [{"type": "human", "text": "hi"}, {"type": "ai", "text": "ho"}],
            },
            "b": {"a": True, "huge": 10**40, "a\0": "\ud800", "inf": math.inf, "nan": math.nan},
            "c": ["a"],
            "d": {},
            "e": None,
        }
        make_thread(storage, "without", metadata=held["a"])
        for name, values in held.items():
            make_thread(storage, name)
            storage.threads.update(name, ThreadChange(values=values))
        assert found(storage, values=wanted) == set(names)

    def test_what_is_changed_is_found_as_it_is_now(self, storage: Storage) -> None:
        make_thread(storage, "t", metadata={"a": 1, "b": {"c": [1, 2]}})
        storage.threads.update("t", ThreadChange(values={"v": 1, "w": {"x": "y"}}))
        storage.threads.update("t", ThreadChange(metadata={"a": 2, "b": {"c": [2, 3]}}))
        for metadata, is_there in (
            ({"a": 1}, 0),
            ({"a": 2}, 1),
            ({"b": {"c": [1]}}, 0),
            ({"b": {"c": [3]}}, 1),
        ):
            assert storage.threads.count(ThreadQuery(metadata=metadata)) == is_there
        assert found(storage, metadata={"a": 2}, values={"v": 1, "w": {"x": "y"}}) == {"t"}
        storage.threads.update("t", ThreadChange(values={"v": 2}, metadata={"a": 3}))
        assert found(storage, values={"v": 1}) == found(storage, values={"w": {}}) == set()
        assert found(storage, metadata={"a": 2}) == set()
        assert found(storage, values={"v": 2}, metadata={"a": 3, "b": {"c": [2]}}) == {"t"}
        storage.threads.copy("t", "copy")
        assert found(storage, values={"v": 2}, metadata={"a": 3}) == {"t", "copy"}
        storage.threads.update("copy", ThreadChange(values=None))
        assert found(storage, values={"v": 2}) == found(storage, values={}) == {"t"}

    def test_what_is_equal_in_metadata_and_in_values_is_not_confused(self, storage: Storage) -> None:
        make_thread(storage, "metadata", metadata={"a": 1})
        make_thread(storage, "values")
        storage.threads.update("values", ThreadChange(values={"a": 1}))
        assert found(storage, metadata={"a": 1}) == {"metadata"}
        assert found(storage, values={"a": 1}) == {"values"}

    def test_status_ids_metadata_and_values_are_conditions_together(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        threads = fill(storage, clock)
        some = [f"t{number:02}" for number in range(0, COUNT, 2)]
        for status in (None, ThreadStatus.ERROR, ThreadStatus.BUSY):
            for chosen in (None, [*some, "nobody", "t00"], []):
                for wanted in (None, {"n": 2}):
                    for values in (None, {"n": 2}, {"deep": {"list": [1]}}):
                        expected = {
                            each.thread_id
                            for each in threads
                            if (status is None or each.status is status)
                            and (chosen is None or each.thread_id in chosen)
                            and (wanted is None or each.metadata["n"] == wanted["n"])
                            and (values is None or _holds(each.values, values))
                        }
                        query = ThreadQuery(wanted, None, values, status, chosen)
                        assert set(ids(storage.threads.search(query, limit=50))) == expected
                        assert storage.threads.count(query) == len(expected)

    def test_wrong_conditions_are_refused_by_name(self, storage: Storage) -> None:
        make_thread(storage, "t")
        for call in (storage.threads.search, storage.threads.count):
            for field in ("metadata", "enforced_metadata", "values"):
                wrong: Any
                for wrong in ([], [("a", 1)], "text", 1):
                    check_refused(InvalidValue, field, partial(call, ThreadQuery(**{field: wrong})))
            check_refused(InvalidInput, "status", partial(call, ThreadQuery(status="asleep")))  # type: ignore[arg-type]
            check_refused(InvalidInput, "ids", partial(call, ThreadQuery(ids="t")))
            large: Any = {"x": "i" * METADATA_BYTES_MAX}
            check_refused(LimitExceeded, "metadata", partial(call, ThreadQuery(metadata=large)))
            check_id("ids", partial(_with_id, call))

    def test_a_query_may_want_more_than_a_statement_can_say(self, storage: Storage) -> None:
        largest = {f"key{number}": {"n": [number, str(number)]} for number in range(3_000)}
        make_thread(storage, "t", metadata=largest)
        make_thread(storage, "u", metadata={**largest, "key2999": None})
        assert found(storage, metadata=largest) == {"t"}
        assert found(storage, ids=[str(number) for number in range(3_000)] + ["u"]) == {"u"}


def _with_id(call: Any, each: Any) -> object:
    return call(ThreadQuery(ids=[each]))


def _holds(held: Any, wanted: dict[str, Any]) -> bool:
    return bool(held["n"] == wanted["n"] if "n" in wanted else held["deep"] == wanted["deep"])
