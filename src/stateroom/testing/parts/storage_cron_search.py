"""How crons are found, in which order, and page by page."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import NewAssistant
from stateroom.contract.crons import CronChange, CronQuery, NewCron
from stateroom.contract.storage import Storage
from stateroom.errors import InvalidInput, InvalidPage
from stateroom.model.cron import CRON_SORTS, Cron
from stateroom.model.paging import Sort
from stateroom.testing.storage_harness import StorageHarness, check_refused, make_thread

__all__ = ["CronSearchSuite", "make_cron", "new_cron"]


def new_cron(cron_id: str = "c", **fields: Any) -> NewCron:
    """Return a cron to be made, of the assistant ``a``, which never is due unless that is said."""
    given = {"assistant_id": "a", "schedule": "* * * * *", "payload": {}, "next_run_at": None, **fields}
    return NewCron(cron_id, **given)


def make_cron(storage: Storage, cron_id: str = "c", **fields: Any) -> Cron:
    """Make a cron."""
    return storage.crons.create(new_cron(cron_id, **fields))


def ids(storage: Storage, query: CronQuery | None = None, **options: Any) -> str:
    """Return the ids of the crons that are found, one letter each."""
    return "".join(each.cron_id for each in storage.crons.search(query or CronQuery(), **options).rows)


def read_through(storage: Storage, query: CronQuery, **options: Any) -> list[str]:
    """Return the ids on the pages that follow each other."""
    pages: list[str] = []
    after = None
    while True:
        page = storage.crons.search(query, after=after, **options)
        pages.append("".join(each.cron_id for each in page.rows))
        after = page.next
        if after is None:
            return pages


class CronSearchSuite(StorageHarness):
    """``search`` answers pages of what fits, ``count`` how many there are."""

    @pytest.fixture
    def stocked(self, storage: Storage) -> Storage:
        """Return a storage with what crons are of: assistants ``a`` and ``b``, threads ``t`` and ``u``."""
        for assistant in ("a", "b"):
            storage.assistants.create(NewAssistant(assistant, "g"))
        for thread in ("t", "u"):
            make_thread(storage, thread)
        return storage

    def test_the_newest_crons_come_first_ten_of_them(self, stocked: Storage, clock: ManualClock) -> None:
        for name in "abcdefghijkl":
            make_cron(stocked, name)
            clock.advance(seconds=1)
        assert ids(stocked) == "lkjihgfedc"
        assert stocked.crons.search(CronQuery(), limit=1).rows == [stocked.crons.get("l")]

    def test_crons_that_fit_fit_each_condition(self, stocked: Storage) -> None:
        make_cron(stocked, "1", thread_id="t", metadata={"x": 1, "o": "me"})
        make_cron(stocked, "2", enabled=False, metadata={"x": 1, "o": "you"})
        make_cron(stocked, "3", assistant_id="b", thread_id="t", metadata={"x": 2, "o": "me"})
        make_cron(stocked, "4", assistant_id="b", thread_id="u", enabled=False)
        for query, found in (
            (CronQuery(), "4321"),
            (CronQuery(assistant_id="a"), "21"),
            (CronQuery(assistant_id="A"), ""),
            (CronQuery(thread_id="t"), "31"),
            (CronQuery(thread_id="gone"), ""),
            (CronQuery(enabled=True), "31"),
            (CronQuery(enabled=False), "42"),
            (CronQuery("b", "t", True), "3"),
            (CronQuery("b", "t", False), ""),
            (CronQuery(metadata={"x": 1}), "21"),
            (CronQuery(metadata={}), "4321"),
            (CronQuery(enforced_metadata={"o": "me"}), "31"),
            (CronQuery(metadata={"x": 1}, enforced_metadata={"o": "me"}), "1"),
            (CronQuery("a", "t", True, {"x": 1}, {"o": "me"}), "1"),
            # Neither condition takes the place of the other.
            (CronQuery(metadata={"o": "you"}, enforced_metadata={"o": "me"}), ""),
        ):
            assert ids(stocked, query) == found, query
            assert stocked.crons.count(query) == len(found), query

    def test_a_cron_is_found_by_what_it_has_become(self, stocked: Storage) -> None:
        make_cron(stocked, metadata={"n": 1, "m": 1})
        stocked.crons.update("c", CronChange(metadata={"n": 2}, enabled=False))
        assert ids(stocked, CronQuery(metadata={"n": 1})) == ids(stocked, CronQuery(enabled=True)) == ""
        assert ids(stocked, CronQuery(metadata={"n": 2, "m": 1}, enabled=False)) == "c"

    def test_each_sort_of_crons_has_two_directions_and_none_comes_last(
        self, stocked: Storage, clock: ManualClock
    ) -> None:
        for name, fields in {
            "c": {"thread_id": "u", "next_run_at": 5, "end_at": 7},
            "a": {"assistant_id": "b", "end_at": 9},
            "d": {"thread_id": "t", "next_run_at": 3},
        }.items():
            make_cron(stocked, name, **fields)
        clock.advance(seconds=1)
        make_cron(stocked, "b", thread_id="t", next_run_at=5)
        make_cron(stocked, "e", assistant_id="b", end_at=7)
        clock.advance(seconds=1)
        stocked.crons.update("a", CronChange())
        orders = {
            "cron_id": ("abcde", ""),
            "assistant_id": ("bcdae", ""),
            "thread_id": ("bdc", "ae"),
            "created_at": ("acdbe", ""),
            "updated_at": ("cdbea", ""),
            "next_run_at": ("dbc", "ae"),
            "end_at": ("cea", "bd"),
        }
        assert orders.keys() == set(CRON_SORTS)
        for field, (order, none) in orders.items():
            assert ids(stocked, sort=Sort(field, descending=False)) == order + none, field
            assert ids(stocked, sort=Sort(field)) == order[::-1] + none[::-1], field

    @pytest.mark.parametrize("field", CRON_SORTS)
    @pytest.mark.parametrize("descending", [True, False])
    def test_pages_of_crons_follow_each_other(self, stocked: Storage, field: str, descending: bool) -> None:
        for number, name in enumerate("hbgafced"):
            moment = number // 3 if number % 2 else None
            thread = "tu"[number // 4] if number % 2 else None
            fields = {"next_run_at": moment, "end_at": moment, "thread_id": thread}
            make_cron(stocked, name, assistant_id="ab"[number % 2], metadata={"n": 1}, **fields)
        sort = Sort(field, descending)
        everything = ids(stocked, sort=sort)
        assert sorted(everything) == list("abcdefgh")
        for query in (CronQuery(), CronQuery(metadata={"n": 1}), CronQuery(enabled=True)):
            assert read_through(stocked, query, sort=sort, limit=1) == list(everything)
            assert read_through(stocked, query, sort=sort, limit=3) == [
                *(everything[:3], everything[3:6], everything[6:])
            ]
            first = stocked.crons.search(query, sort=sort, limit=2)
            assert ids(stocked, query, sort=sort, limit=2, offset=3, after=first.next) == everything[5:7]

    def test_crons_that_stay_are_on_exactly_one_page_whatever_comes_and_goes(
        self, stocked: Storage, clock: ManualClock
    ) -> None:
        for name in "abcdefgh":
            make_cron(stocked, name)
            clock.advance(seconds=1)
        first = stocked.crons.search(CronQuery(), limit=3)
        make_cron(stocked, "z")
        for gone in "fbh":
            stocked.crons.delete(gone)
        second = stocked.crons.search(CronQuery(), limit=3, after=first.next)
        assert [each.cron_id for each in first.rows] == ["h", "g", "f"]
        assert [each.cron_id for each in second.rows] == ["e", "d", "c"]
        assert ids(stocked, after=second.next) == "a"

    def test_count_of_crons_goes_no_further_than_it_is_told(self, stocked: Storage) -> None:
        assert stocked.crons.count(CronQuery()) == 0
        for name in "12345":
            make_cron(stocked, name, metadata={"n": [1, 2]})
        for query in (CronQuery(), CronQuery(metadata={"n": [1]}), CronQuery(assistant_id="a")):
            assert [stocked.crons.count(query, at_most=most) for most in (None, 0, 3, 5, 9)] == [
                *(5, 0, 3, 5, 5)
            ]

    def test_what_is_no_page_of_crons_is_refused(self, stocked: Storage) -> None:
        search = partial(stocked.crons.search, CronQuery())
        check_refused(InvalidPage, "sort_by", partial(search, sort=Sort("private")))
        check_refused(InvalidPage, "after", partial(search, after="nonsense"))
        wrong: Any
        for wrong in (-1, "1", None, True):
            check_refused(InvalidPage, "limit", partial(search, limit=wrong))
            check_refused(InvalidPage, "offset", partial(search, offset=wrong))
        check_refused(InvalidPage, "at_most", partial(stocked.crons.count, CronQuery(), at_most=-1))

    def test_conditions_on_crons_that_cannot_be_are_refused(self, stocked: Storage) -> None:
        wrong: list[tuple[str, CronQuery]] = [
            ("assistant_id", CronQuery(assistant_id="a\0b")),
            ("thread_id", CronQuery(thread_id="")),
            ("metadata.x", CronQuery(metadata={"x": object()})),
            ("enforced_metadata.x", CronQuery(enforced_metadata={"x": object()})),
        ]
        for field, query in wrong:
            check_refused(InvalidInput, field, partial(stocked.crons.search, query))
            check_refused(InvalidInput, field, partial(stocked.crons.count, query))
