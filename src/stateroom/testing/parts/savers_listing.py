"""Which checkpoints a listing has, in which order."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.errors import InvalidFilter, InvalidPage, LimitExceeded
from stateroom.savers.base import Saver
from stateroom.testing.savers_harness import SaverHarness, config, listed, put, stored, write
from stateroom.testing.storage_harness import check_refused

__all__ = ["ListingSuite"]

MANY = 600
"""More checkpoints than a saver reads at once."""


class ListingSuite(SaverHarness):
    """``list``: its order, its filter, its limit."""

    def test_the_highest_id_comes_first_whatever_the_order_of_putting(self, saver: Saver) -> None:
        for number in (3, 1, 4, 2):
            put(saver, number)
        assert listed(saver) == [4, 3, 2, 1]

    def test_a_listed_checkpoint_is_what_get_answers(self, saver: Saver) -> None:
        put(saver, 1, values={"a": [1]})
        put(saver, 2, parent=1, values={"a": [2]}, metadata={"own": "x"})
        write(saver, 2, ("a", [3]))
        assert list(saver.list(config())) == [stored(saver, 2), stored(saver, 1)]

    def test_without_a_namespace_all_of_them_are_listed_by_id(self, saver: Saver) -> None:
        for number, ns in ((1, ""), (2, "inner"), (3, ""), (4, "other:1"), (4, "inner")):
            put(saver, number, ns=ns)
        put(saver, 9, thread_id="u")
        found = [each.config["configurable"] for each in saver.list({"configurable": {"thread_id": "t"}})]
        places = [(int(each["checkpoint_id"]), each["checkpoint_ns"]) for each in found]
        assert places == [(4, "inner"), (4, "other:1"), (3, ""), (2, "inner"), (1, "")]
        assert listed(saver) == [3, 1]
        assert listed(saver, ns="inner") == [4, 2]

    def test_without_a_config_all_threads_are_listed_by_id(self, saver: Saver) -> None:
        for thread_id, number in (("b", 1), ("a", 2), ("a", 1), ("c", 3)):
            put(saver, number, thread_id=thread_id)
        found = [each.config["configurable"] for each in saver.list(None)]
        assert [(int(each["checkpoint_id"]), each["thread_id"]) for each in found] == [
            (3, "c"),
            (2, "a"),
            (1, "a"),
            (1, "b"),
        ]

    def test_many_come_whole_and_in_order(self, saver: Saver) -> None:
        for number in range(MANY):
            put(saver, number, metadata={"third": number % 3 == 0})
        expected = list(range(MANY - 1, -1, -1))
        assert listed(saver) == expected
        assert listed(saver, limit=MANY - 1) == expected[:-1]
        thirds = [number for number in expected if number % 3 == 0]
        assert listed(saver, filter={"third": True}) == thirds
        assert listed(saver, filter={"third": True}, limit=150) == thirds[:150]
        assert [int(each.checkpoint["id"]) for each in saver.list(None)] == expected

    def test_one_id_in_many_threads_comes_whole(self, saver: Saver) -> None:
        for thread in range(MANY):
            put(saver, 1, thread_id=f"{thread:04}")
        found = [each.config["configurable"]["thread_id"] for each in saver.list(None)]
        assert found == [f"{thread:04}" for thread in range(MANY)]

    def test_one_checkpoint_can_be_asked_for(self, saver: Saver) -> None:
        put(saver, 1)
        put(saver, 2)
        found = [each.config for each in saver.list(config(number=1))]
        assert found == [config(number=1)]

    def test_before_leaves_out_that_checkpoint_and_later_ones(self, saver: Saver) -> None:
        for number in range(1, 5):
            put(saver, number)
        assert listed(saver, before=config(number=3)) == [2, 1]
        assert listed(saver, before=config(number=3), limit=1) == [2]
        assert listed(saver, before=config(number=1)) == []
        assert listed(saver, before=config()) == [4, 3, 2, 1]

    @pytest.mark.parametrize(("limit", "expected"), [(0, []), (1, [3]), (2, [3, 2]), (3, [3, 2, 1])])
    def test_a_limit_is_how_many_there_are_at_most(
        self, saver: Saver, limit: int, expected: list[int]
    ) -> None:
        for number in range(1, 4):
            put(saver, number)
        assert listed(saver, limit=limit) == expected
        assert listed(saver, limit=10**9) == [3, 2, 1]

    @pytest.mark.parametrize("wrong", [-1, -(2**70), True, 1.5, "1"])
    def test_another_limit_is_refused_before_anything_is_read(self, saver: Saver, wrong: Any) -> None:
        check_refused(InvalidPage, "limit", partial(saver.list, config(), limit=wrong))
        check_refused(LimitExceeded, "limit", partial(saver.list, config(), limit=2**63))

    def test_a_filter_is_what_the_metadata_have(self, saver: Saver) -> None:
        put(saver, 1, metadata={"own": "x", "n": 1, "sure": True})
        put(saver, 2, metadata={"own": "y", "n": 1.0, "parents": {"": "p", "inner": "q"}, "list": [1, 2]})
        put(saver, 3, metadata={"own": None, "sure": 1})
        wanted: list[tuple[dict[str, Any], list[int]]] = [
            ({}, [3, 2, 1]),
            ({"own": "x"}, [1]),
            ({"own": "x", "n": 1}, [1]),
            ({"own": "x", "n": 2}, []),
            ({"n": 1}, [2, 1]),
            ({"sure": True}, [1]),
            ({"sure": 1}, [3]),
            ({"source": "loop"}, [3, 2, 1]),
            ({"parents": {"inner": "q"}}, [2]),
            ({"parents": {}}, [3, 2, 1]),
            ({"list": [2]}, [2]),
            ({"own": None}, [3]),
            ({"missing": None}, [3, 2, 1]),
            ({"missing": "x"}, []),
            ({"o'wn\"; drop table": "x"}, []),
        ]
        for filter, expected in wanted:
            assert listed(saver, filter=filter) == expected, filter

    def test_a_filter_that_is_no_json_is_refused(self, saver: Saver) -> None:
        check_refused(
            InvalidFilter, "filter.own[0]", partial(saver.list, config(), filter={"own": [object()]})
        )

    def test_a_listing_holds_nothing_while_it_is_read(self, saver: Saver) -> None:
        for number in range(MANY):
            put(saver, number)
        found = saver.list(config())
        assert int(next(found).checkpoint["id"]) == MANY - 1
        saver.delete_thread("t")
        put(saver, MANY)
        assert len(list(found)) < MANY
