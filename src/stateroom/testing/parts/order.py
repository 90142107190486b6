"""When items were put, and the order and the pages in which they are found."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.stores.operations import PutItem, SearchItems
from stateroom.testing.comparing import revision_of
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs

__all__ = ["OrderSuite"]


class OrderSuite(Harness):
    """The latest put comes first, whatever the clock says, and pages cut one total order."""

    def test_times_are_aware_utc(self, memory: Memory) -> None:
        memory.put(("a",), "k", {})
        item = memory.read(("a",), "k")
        (hit,) = memory.search(("a",))
        for moment in (item.created_at, item.updated_at, hit.created_at, hit.updated_at):
            assert isinstance(moment, datetime)
            assert moment.utcoffset() == timedelta(0)
            assert moment.tzinfo is UTC

    def test_a_new_item_was_updated_when_it_was_created(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {})
        assert item.created_at == item.updated_at

    def test_reading_says_the_same_times_as_putting_did(self, memory: Memory) -> None:
        put = memory.put_item(("a",), "k", {})
        item, (hit,) = memory.read(("a",), "k"), memory.search(("a",))
        assert (put.created_at, put.updated_at) == (item.created_at, item.updated_at)
        assert (put.created_at, put.updated_at) == (hit.created_at, hit.updated_at)

    @needs(Capability.EXACT_TIMES)
    def test_a_put_keeps_the_creation_and_is_strictly_later_though_the_clock_stands(
        self, memory: Memory
    ) -> None:
        puts = [memory.put_item(("a",), "k", {"n": number}) for number in range(5)]
        assert {item.created_at for item in puts} == {puts[0].created_at}
        moments = [item.updated_at for item in puts]
        assert moments == sorted(set(moments))

    @needs(Capability.EXACT_TIMES)
    def test_a_put_is_not_earlier_though_the_clock_runs_back(
        self, memory: Memory, clock: ManualClock
    ) -> None:
        first = memory.put_item(("a",), "first", {})
        clock.advance(minutes=-60)
        again = memory.put_item(("a",), "first", {})
        other = memory.put_item(("a",), "other", {})
        assert again.updated_at > first.updated_at
        assert other.updated_at >= again.updated_at
        assert again.created_at == first.created_at
        assert memory.keys(("a",)) == ["other", "first"]

    @needs(Capability.EXACT_TIMES)
    def test_an_equal_value_put_again_is_a_put(self, memory: Memory) -> None:
        first = memory.put_item(("a",), "k", {"n": 1})
        assert memory.put_item(("a",), "k", {"n": 1}).updated_at > first.updated_at

    @needs(Capability.EXACT_TIMES)
    def test_puts_of_one_batch_are_strictly_later_each(self, memory: Memory) -> None:
        items = memory.batch([PutItem(("a",), "k", {"n": number}) for number in range(4)])
        assert len({item.created_at for item in items}) == 1
        assert [item.updated_at for item in items] == sorted({item.updated_at for item in items})

    def test_an_item_that_was_deleted_is_created_anew(self, memory: Memory, clock: ManualClock) -> None:
        old = memory.put_item(("a",), "k", {})
        memory.delete(("a",), "k")
        clock.advance(minutes=1)
        new = memory.put_item(("a",), "k", {})
        assert new.created_at > old.created_at
        assert new.created_at == new.updated_at

    def test_reading_changes_no_time(self, memory: Memory, clock: ManualClock) -> None:
        put = memory.put_item(("a",), "k", {})
        clock.advance(minutes=5)
        memory.get(("a",), "k", refresh_ttl=True)
        memory.search(("a",), refresh_ttl=True)
        item = memory.read(("a",), "k")
        assert (item.created_at, item.updated_at) == (put.created_at, put.updated_at)

    @needs(Capability.CONDITIONAL)
    def test_revisions_only_grow_for_a_key_over_deletion_too(self, memory: Memory) -> None:
        revisions = []
        for number in range(3):
            revisions.append(revision_of(memory.put_item(("a",), "k", {"n": number})))
            revisions.append(revision_of(memory.put_item(("a",), "k", {"n": number})))
            memory.delete(("a",), "k")
        assert revisions == sorted(set(revisions))
        assert {type(revision) for revision in revisions} == {int}

    @needs(Capability.CONDITIONAL, Capability.TTL)
    def test_revisions_grow_over_expiry_and_sweeping(self, memory: Memory, clock: ManualClock) -> None:
        old = memory.put_item(("a",), "k", {}, ttl=1)
        clock.advance(minutes=2)
        memory.sweep_ttl()
        assert revision_of(memory.put_item(("a",), "k", {})) > revision_of(old)

    @needs(Capability.CONDITIONAL)
    def test_a_revision_is_greater_than_any_given_out_before(self, memory: Memory) -> None:
        one = revision_of(memory.put_item(("a",), "one", {}))
        two = revision_of(memory.put_item(("b",), "two", {}))
        three, four = memory.batch([PutItem(("c",), "three", {}), PutItem(("a",), "one", {})])
        assert one < two < three.revision < four.revision
        assert memory.read(("a",), "one").revision == four.revision
        assert memory.search(("c",))[0].revision == three.revision

    @needs(Capability.CONDITIONAL)
    def test_reading_keeps_the_revision(self, memory: Memory) -> None:
        put = memory.put_item(("a",), "k", {})
        memory.get(("a",), "k", refresh_ttl=True)
        memory.search(("a",), refresh_ttl=True)
        assert memory.read(("a",), "k").revision == put.revision

    @needs(Capability.EXACT_TIMES)
    def test_the_latest_put_comes_first_though_the_clock_stands(self, memory: Memory) -> None:
        for key in ("b", "c", "a"):
            memory.put(("n",), key, {})
        assert memory.keys(("n",)) == ["a", "c", "b"]
        memory.put(("n",), "b", {"again": True})
        assert memory.keys(("n",)) == ["b", "a", "c"]

    def test_the_order_goes_across_namespaces(self, memory: Memory, clock: ManualClock) -> None:
        for place, key in enumerate(["one", "two", "three", "four"]):
            memory.put(("a", str(place % 2)), key, {})
            clock.advance(seconds=1)
        assert memory.keys(("a",)) == ["four", "three", "two", "one"]
        assert memory.keys(()) == ["four", "three", "two", "one"]

    def test_an_item_that_was_deleted_comes_back_as_the_latest(self, memory: Memory) -> None:
        for key in ("a", "b"):
            memory.put(("n",), key, {})
        memory.delete(("n",), "a")
        memory.put(("n",), "a", {})
        assert memory.keys(("n",)) == ["a", "b"]

    def test_without_a_query_there_is_no_score(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        for options in ({}, {"filter": {"n": 1}}, {"query": None}, {"query": ""}, {"mode": "auto"}):
            (hit,) = memory.search(("a",), **options)
            assert hit.score is None

    def test_pages_cut_one_order(self, memory: Memory) -> None:
        memory.batch([PutItem(("a", str(n % 3)), str(n), {"even": n % 2 == 0}) for n in range(50)])
        everything = memory.keys(("a",), limit=100)
        assert everything == [str(number) for number in reversed(range(50))]
        for size in (1, 7, 50):
            pages = [memory.keys(("a",), limit=size, offset=start) for start in range(0, 50, size)]
            assert [key for page in pages for key in page] == everything

    def test_a_search_finds_ten_items_unless_told_otherwise(self, memory: Memory) -> None:
        memory.batch([PutItem(("a",), str(number), {}) for number in range(12)])
        assert len(memory.search(("a",))) == 10
        assert [len(hits) for hits in memory.batch([SearchItems(("a",))])] == [10]

    def test_a_limit_of_nothing_finds_nothing(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        assert memory.search(("a",), limit=0) == []
        assert memory.search(("a",), limit=0, filter={"n": 1}) == []
        assert memory.list_namespaces(limit=0) == []

    @pytest.mark.parametrize("number", [3, 2**31, 2**63 - 1])
    def test_a_page_beyond_the_end_is_short_or_empty(self, memory: Memory, number: int) -> None:
        memory.batch([PutItem(("a",), str(place), {}) for place in range(3)])
        assert memory.keys(("a",), limit=number) == ["2", "1", "0"]
        assert memory.keys(("a",), limit=number, offset=1) == ["1", "0"]
        assert memory.search(("a",), offset=number) == []
        assert memory.search(("a",), limit=number, offset=number) == []
        assert memory.list_namespaces(limit=number, offset=1) == []

    def test_count_is_how_many_a_search_without_end_finds(self, memory: Memory) -> None:
        memory.batch([PutItem(("a", str(n % 3)), str(n), {"n": n}) for n in range(30)])
        assert memory.count(()) == memory.count(("a",)) == 30
        assert memory.count(("a", "1")) == 10
        assert memory.count(("a",), filter={"n": {"$lt": 12}}) == 12
        assert memory.count(("a", "1"), filter={"n": {"$lt": 12}}) == 4
        assert memory.count(("b",)) == 0

    def test_setting_up_again_changes_nothing(self, memory: Memory) -> None:
        memory.call("setup")
        put = memory.put_item(("a",), "k", {"n": 1})
        memory.call("setup")
        memory.call("setup")
        assert memory.search(()) == [memory.read(("a",), "k")] == [put]

    def test_what_was_put_is_there_after_closing_if_the_store_is_durable(self, opens: Opens) -> None:
        memory = opens()
        memory.batch([PutItem(("a", "b"), str(number), {"n": number}) for number in range(3)])
        before = memory.search(())
        memory.close()
        memory.close()
        again = opens()
        if Capability.DURABLE in opens.capabilities:
            assert again.search(()) == before
            assert again.list_namespaces() == [("a", "b")]
            assert again.put_item(("a", "b"), "3", {}).updated_at >= before[0].updated_at
            assert again.keys(()) == ["3", "2", "1", "0"]
        else:
            assert again.search(()) == []
            assert again.list_namespaces() == []
