"""How long items live, what refreshes them, and what sweeping frees."""

from __future__ import annotations

import threading
from datetime import timedelta

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.stores.operations import CountItems, GetItem, PutItem, SearchItems
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs

__all__ = ["TTLSuite"]

MOMENT = timedelta(microseconds=1)


class Watched(ManualClock):
    """A clock that tells when a thread other than its maker's reads it."""

    def __init__(self) -> None:
        super().__init__()
        self.read = threading.Event()
        self._maker = threading.get_ident()

    @override
    def __call__(self) -> int:
        if threading.get_ident() != self._maker:
            self.read.set()
        return super().__call__()


def step_to(clock: ManualClock, minutes: float) -> None:
    """Move the clock to one microsecond before so many minutes from now."""
    clock.advance(minutes=minutes)
    clock.microseconds -= 1


class TTLSuite(Harness):
    """An item that has expired is absent at once, swept or not."""

    @needs(Capability.TTL)
    def test_an_item_says_how_long_it_lives_and_when_it_expires(
        self, memory: Memory, clock: ManualClock
    ) -> None:
        put = memory.put_item(("a",), "k", {}, ttl=90)
        item, (hit,) = memory.read(("a",), "k"), memory.search(("a",))
        for seen in (put, item, hit):
            assert seen.ttl == 90
            assert seen.expires_at == seen.updated_at + timedelta(minutes=90)
            assert seen.expires_at.utcoffset() == timedelta(0)
        assert clock.microseconds == round(put.updated_at.timestamp() * 1_000_000)

    def test_without_a_ttl_an_item_never_expires(self, memory: Memory, clock: ManualClock) -> None:
        items = [memory.put_item(("a",), "absent", {}), memory.put_item(("a",), "none", {}, ttl=None)]
        assert [(item.ttl, item.expires_at) for item in items] == [(None, None)] * 2
        clock.advance(minutes=60 * 24 * 365 * 100)
        assert memory.count(("a",)) == 2

    @needs(Capability.TTL)
    def test_an_absent_ttl_is_the_default_and_none_is_never(self, opens: Opens, clock: ManualClock) -> None:
        memory = opens(ttl={"default_ttl": 5})
        memory.put(("a",), "absent", {})
        memory.put(("a",), "number", {}, ttl=7)
        memory.put(("a",), "none", {}, ttl=None)
        assert [(hit.key, hit.ttl) for hit in memory.search(("a",), refresh_ttl=False)] == [
            ("none", None),
            ("number", 7),
            ("absent", 5),
        ]
        clock.advance(minutes=6)
        assert memory.keys(("a",), refresh_ttl=False) == ["none", "number"]
        clock.advance(minutes=1)
        assert memory.keys(("a",)) == ["none"]

    @needs(Capability.TTL)
    @pytest.mark.parametrize("ttl", [1, 0.5, 1 / 3, 0.001, 1e-9, 60 * 24 * 365 * 1000])
    def test_fractions_of_minutes_are_kept_and_count(
        self, memory: Memory, clock: ManualClock, ttl: float
    ) -> None:
        put = memory.put_item(("a",), "k", {}, ttl=ttl)
        assert memory.read(("a",), "k", refresh_ttl=False).ttl == ttl
        assert put.expires_at is not None
        assert put.expires_at - put.updated_at == max(MOMENT, timedelta(minutes=ttl))
        clock.microseconds += (put.expires_at - put.updated_at) // MOMENT - 1
        assert memory.get(("a",), "k", refresh_ttl=False) is not None
        clock.microseconds += 1
        assert memory.get(("a",), "k", refresh_ttl=False) is None

    @needs(Capability.TTL)
    def test_an_expired_item_is_absent_for_every_operation(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("gone", "x"), "k", {"t": "giraffe", "n": 1}, ttl=1)
        memory.put(("stays",), "k", {"t": "zebra", "n": 1})
        step_to(clock, 1)
        assert memory.count((), filter={"n": 1}) == 2
        clock.microseconds += 1
        assert memory.get(("gone", "x"), "k", refresh_ttl=True) is None
        assert memory.keys((), refresh_ttl=True) == ["k"]
        assert [hit.namespace for hit in memory.search((), filter={"n": 1})] == [("stays",)]
        assert memory.search(("gone",), filter={"n": {"$exists": True}}) == []
        assert (memory.count(()), memory.count(("gone",)), memory.count((), filter={"n": 1})) == (1, 0, 1)
        assert memory.list_namespaces() == [("stays",)]
        assert memory.list_namespaces(prefix=("gone",)) == []
        assert memory.list_namespaces(max_depth=1) == [("stays",)]
        assert memory.batch([GetItem(("gone", "x"), "k"), CountItems(()), SearchItems(("gone",))]) == [
            None,
            1,
            [],
        ]
        memory.delete(("gone", "x"), "k")

    @needs(Capability.TTL, Capability.TEXT)
    def test_no_query_finds_an_expired_item_nor_counts_it(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("a",), "stays", {"t": "giraffe"})
        alone = memory.search(("a",), query="giraffe")
        memory.put(("a",), "gone", {"t": "giraffe giraffe okapi"}, ttl=1)
        assert memory.keys(("a",), query="giraffe", refresh_ttl=False) == ["gone", "stays"]
        clock.advance(minutes=1)
        assert [(hit.key, hit.score) for hit in memory.search(("a",), query="giraffe")] == [
            ("stays", alone[0].score)
        ]
        assert memory.search(("a",), query="okapi") == []
        memory.sweep_ttl()
        assert memory.search(("a",), query="giraffe")[0].score == alone[0].score

    @needs(Capability.TTL)
    def test_pages_are_cut_from_the_living(self, memory: Memory, clock: ManualClock) -> None:
        for number in range(12):
            memory.put(("a",), str(number), {}, ttl=1 if number % 2 else None)
        clock.advance(minutes=1)
        assert memory.keys(("a",), limit=4) == ["10", "8", "6", "4"]
        assert memory.keys(("a",), limit=4, offset=4) == ["2", "0"]

    @needs(Capability.TTL)
    def test_a_put_after_expiry_makes_a_new_item(self, memory: Memory, clock: ManualClock) -> None:
        old = memory.put_item(("a",), "k", {"n": 1}, ttl=1)
        clock.advance(minutes=2)
        new = memory.put_item(("a",), "k", {"n": 2})
        assert new.created_at > old.created_at
        assert new.created_at == new.updated_at
        assert (new.ttl, new.expires_at) == (None, None)
        assert memory.count(("a",)) == 1

    @needs(Capability.TTL)
    def test_a_put_starts_the_clock_anew_with_its_own_ttl(self, opens: Opens, clock: ManualClock) -> None:
        memory = opens(ttl={"default_ttl": 4})
        first = memory.put_item(("a",), "k", {}, ttl=10)
        clock.advance(minutes=9)
        second = memory.put_item(("a",), "k", {})
        assert second.created_at == first.created_at
        assert second.ttl == 4
        clock.advance(minutes=3)
        memory.put(("a",), "k", {}, ttl=None)
        clock.advance(minutes=100)
        assert memory.read(("a",), "k").ttl is None

    @needs(Capability.TTL)
    def test_a_get_refreshes_and_says_so_at_once(self, memory: Memory, clock: ManualClock) -> None:
        put = memory.put_item(("a",), "k", {}, ttl=10)
        clock.advance(minutes=6)
        item = memory.read(("a",), "k")
        assert item.expires_at == put.updated_at + timedelta(minutes=16)
        assert item.updated_at == put.updated_at
        assert memory.read(("a",), "k", refresh_ttl=False).expires_at == item.expires_at
        clock.advance(minutes=6)
        assert memory.count(("a",)) == 1
        assert memory.list_namespaces() == [("a",)]
        step_to(clock, 4)
        assert memory.keys(("a",), refresh_ttl=False) == ["k"]
        clock.microseconds += 1
        assert memory.count(("a",)) == 0
        assert memory.keys(("a",), refresh_ttl=False) == []

    @needs(Capability.TTL)
    def test_a_get_that_does_not_refresh_leaves_the_expiry(self, memory: Memory, clock: ManualClock) -> None:
        put = memory.put_item(("a",), "k", {}, ttl=10)
        clock.advance(minutes=6)
        assert memory.read(("a",), "k", refresh_ttl=False).expires_at == put.expires_at
        clock.advance(minutes=4)
        assert memory.get(("a",), "k") is None

    @needs(Capability.TTL)
    def test_a_search_refreshes_exactly_what_it_finds(self, memory: Memory, clock: ManualClock) -> None:
        for number in range(4):
            memory.put(("a",), str(number), {"n": number}, ttl=10)
        clock.advance(minutes=6)
        found = memory.search(("a",), limit=1, offset=1, filter={"n": {"$gt": 0}})
        assert [(hit.key, hit.expires_at) for hit in found] == [
            ("2", found[0].updated_at + timedelta(minutes=16))
        ]
        clock.advance(minutes=6)
        assert memory.keys(("a",), refresh_ttl=False) == ["2"]
        assert memory.count(("a",)) == 1

    @needs(Capability.TTL, Capability.TEXT)
    def test_a_search_by_query_refreshes_what_it_finds(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("a",), "found", {"t": "giraffe"}, ttl=10)
        memory.put(("a",), "other", {"t": "zebra"}, ttl=10)
        clock.advance(minutes=6)
        (hit,) = memory.search(("a",), query="giraffe")
        assert hit.expires_at == hit.updated_at + timedelta(minutes=16)
        clock.advance(minutes=6)
        assert memory.keys(("a",), query="giraffe zebra", refresh_ttl=False) == ["found"]

    @needs(Capability.TTL)
    def test_counting_listing_and_searching_without_refresh_prolong_nothing(
        self, memory: Memory, clock: ManualClock
    ) -> None:
        memory.put(("a",), "k", {}, ttl=10)
        clock.advance(minutes=6)
        memory.search(("a",), refresh_ttl=False)
        memory.search(("a",), limit=0)
        memory.count(("a",))
        memory.list_namespaces()
        clock.advance(minutes=4)
        assert memory.get(("a",), "k") is None

    @needs(Capability.TTL)
    def test_whether_reads_refresh_can_be_configured(self, opens: Opens, clock: ManualClock) -> None:
        memory = opens(ttl={"refresh_on_read": False})
        memory.put(("a",), "kept", {}, ttl=10)
        memory.put(("b",), "refreshed", {}, ttl=10)
        clock.advance(minutes=6)
        memory.get(("a",), "kept")
        memory.search(("a",))
        memory.search(("b",), refresh_ttl=True)
        clock.advance(minutes=6)
        assert memory.keys(()) == ["refreshed"]
        memory.get(("b",), "refreshed", refresh_ttl=True)
        clock.advance(minutes=6)
        assert memory.keys(()) == ["refreshed"]

    @needs(Capability.TTL)
    def test_refreshing_an_item_without_a_ttl_gives_it_none(self, opens: Opens, clock: ManualClock) -> None:
        memory = opens(ttl={"default_ttl": 5})
        memory.put(("a",), "k", {}, ttl=None)
        item, (hit,) = memory.read(("a",), "k", refresh_ttl=True), memory.search(("a",), refresh_ttl=True)
        assert item.expires_at is None
        assert hit.expires_at is None
        clock.advance(minutes=50)
        assert memory.count(("a",)) == 1

    @needs(Capability.TTL)
    def test_a_refresh_revives_nothing(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("a",), "k", {}, ttl=1)
        clock.advance(minutes=1)
        assert memory.get(("a",), "k", refresh_ttl=True) is None
        assert memory.search(("a",), refresh_ttl=True) == []
        assert memory.count(("a",)) == 0

    @needs(Capability.TTL)
    def test_a_refresh_outlives_closing_if_the_store_is_durable(
        self, opens: Opens, clock: ManualClock
    ) -> None:
        memory = opens()
        memory.put(("a",), "refreshed", {}, ttl=10)
        memory.put(("a",), "other", {}, ttl=10)
        clock.advance(minutes=6)
        told = memory.read(("a",), "refreshed").expires_at
        memory.close()
        clock.advance(minutes=6)
        again = opens()
        if Capability.DURABLE in opens.capabilities:
            assert again.read(("a",), "refreshed", refresh_ttl=False).expires_at == told
            assert again.keys(("a",), refresh_ttl=False) == ["refreshed"]
        else:
            assert again.count(()) == 0

    @needs(Capability.TTL)
    def test_a_sweep_frees_what_has_expired_and_says_how_many(
        self, memory: Memory, clock: ManualClock
    ) -> None:
        assert memory.sweep_ttl() == 0
        for number in range(7):
            memory.put(("a", str(number)), str(number), {"t": "giraffe"}, ttl=10 if number < 4 else 20)
        memory.put(("a",), "stays", {"t": "giraffe"})
        memory.get(("a", "0"), "0", refresh_ttl=True)
        clock.advance(minutes=5)
        memory.get(("a", "1"), "1", refresh_ttl=True)
        clock.advance(minutes=5)
        assert memory.sweep_ttl() == 3
        assert memory.sweep_ttl() == 0
        assert memory.count(("a",)) == 5
        clock.advance(minutes=15)
        assert memory.sweep_ttl() == 4
        assert memory.keys(()) == ["stays"]

    @needs(Capability.TTL)
    def test_a_large_sweep_frees_everything(self, memory: Memory, clock: ManualClock) -> None:
        memory.batch([PutItem(("a",), str(number), {}, ttl=1) for number in range(2_345)])
        memory.put(("a",), "stays", {})
        clock.advance(minutes=1)
        assert memory.sweep_ttl() == 2_345
        assert memory.keys(()) == ["stays"]

    @needs(Capability.TTL)
    def test_a_sweeper_sweeps_until_it_is_stopped(self, opens: Opens) -> None:
        clock = Watched()
        memory = opens(clock=clock)
        memory.put(("a",), "k", {}, ttl=1)
        clock.advance(minutes=1)
        clock.read.clear()
        running = memory.store.start_ttl_sweeper(sweep_interval_minutes=0.0001)
        assert memory.store.start_ttl_sweeper() is running
        assert clock.read.wait(timeout=30)
        assert memory.store.stop_ttl_sweeper(timeout=30)
        assert running.done()
        assert memory.sweep_ttl() == 0
        assert memory.count(()) == 0

    @needs(Capability.TTL)
    def test_a_sweeper_can_be_started_again_and_ends_with_the_store(self, opens: Opens) -> None:
        memory = opens()
        assert memory.store.stop_ttl_sweeper()
        first = memory.store.start_ttl_sweeper(sweep_interval_minutes=60)
        assert not first.done()
        assert memory.store.stop_ttl_sweeper(timeout=30)
        assert memory.store.stop_ttl_sweeper()
        second = memory.store.start_ttl_sweeper(sweep_interval_minutes=60)
        assert second is not first
        memory.close()
        assert second.done()
