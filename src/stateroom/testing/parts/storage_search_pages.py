"""In which order threads are found, and how the list is cut into pages."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange, ThreadQuery
from stateroom.errors import InvalidPage, LimitExceeded
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.paging import Page, Place, Sort, cursor
from stateroom.model.thread import THREAD_SORTS, Thread, ThreadStatus
from stateroom.testing.storage_harness import StorageHarness, check_refused, make_thread

__all__ = ["COUNT", "EVERYTHING", "STATUSES", "SearchPagesSuite", "by_cursor", "fill", "ids"]

EVERYTHING = ThreadQuery()
COUNT = 18
STATUSES = (ThreadStatus.IDLE, ThreadStatus.INTERRUPTED, ThreadStatus.ERROR)


def ids(page: Page[Thread]) -> list[str]:
    """Return the ids on a page."""
    return [thread.thread_id for thread in page.rows]


def by_cursor(storage: Storage, query: ThreadQuery, sort: Sort, limit: int) -> list[list[str]]:
    """Return the ids on the pages that follow each other."""
    pages: list[list[str]] = []
    after = None
    while True:
        page = storage.threads.search(query, sort=sort, limit=limit, after=after)
        pages.append(ids(page))
        after = page.next
        if after is None:
            return pages


def in_order(threads: list[Thread], sort: Sort) -> list[str]:
    """Return the ids of threads as they must come."""
    threads.sort(key=lambda each: (getattr(each, sort.field), each.thread_id), reverse=sort.descending)
    return [thread.thread_id for thread in threads]


def fill(storage: Storage, clock: ManualClock, count: int = COUNT) -> list[Thread]:
    """Make threads of which several are equal in whatever they are sorted by; return them."""
    for number in range(count):
        name = f"t{number * 5 % count:02}"
        make_thread(storage, name, metadata={"n": number % 3, "all": True})
        change = ThreadChange(
            status=STATUSES[number % 3], values={"n": number % 5, "deep": {"list": [number % 2]}}
        )
        if number % 4 == 0:
            clock.advance(seconds=1)
        storage.threads.update(name, change if number % 2 else change._replace(metadata={"even": True}))
    return storage.threads.search(EVERYTHING, limit=count).rows


class SearchPagesSuite(StorageHarness):
    """Every order is total, and its pages follow each other without a gap."""

    def test_the_newest_come_first_ten_of_them(self, storage: Storage, clock: ManualClock) -> None:
        for number in range(12):
            make_thread(storage, f"{number:02}", metadata={"n": number})
            clock.advance(seconds=1)
        page = storage.threads.search(EVERYTHING)
        assert ids(page) == [f"{number:02}" for number in range(11, 1, -1)]
        assert page.rows == [storage.threads.get(each) for each in ids(page)]
        assert ids(storage.threads.search(EVERYTHING, after=page.next)) == ["01", "00"]

    @pytest.mark.parametrize("descending", [True, False])
    @pytest.mark.parametrize("field", THREAD_SORTS)
    def test_every_order_is_total_and_cut_into_pages_by_cursor_and_by_offset(
        self, storage: Storage, clock: ManualClock, field: str, descending: bool
    ) -> None:
        threads = fill(storage, clock)
        sort = Sort(field, descending)
        for query, fits in _queries():
            expected = in_order([each for each in threads if fits(each)], sort)
            for size in (2, 7):
                cut = [expected[start : start + size] for start in range(0, len(expected), size)]
                assert by_cursor(storage, query, sort, size) == (cut or [[]])
                offsets = range(0, len(expected), size)
                pages = [storage.threads.search(query, sort=sort, limit=size, offset=n) for n in offsets]
                assert [ids(page) for page in pages] == cut
            whole = storage.threads.search(query, sort=sort, limit=len(expected) or 1)
            assert (ids(whole), whole.next) == (expected, None)

    def test_an_offset_counts_from_the_cursor(self, storage: Storage, clock: ManualClock) -> None:
        threads = fill(storage, clock)
        for query, fits in _queries():
            expected = in_order([each for each in threads if fits(each)], Sort("updated_at"))
            first = storage.threads.search(query, sort=Sort("updated_at"), limit=3)
            options: dict[str, Any] = {"sort": Sort("updated_at"), "after": first.next, "limit": 2}
            if first.next:
                assert ids(storage.threads.search(query, offset=2, **options)) == expected[5:7]
            beyond = storage.threads.search(query, sort=Sort("updated_at"), offset=100)
            assert (beyond.rows, beyond.next) == ([], None)

    @pytest.mark.parametrize("wanted", [None, {"all": True}, {"list": [{"a": 1, "b": 2}]}], ids=str)
    @pytest.mark.parametrize("field", ["created_at", "thread_id"])
    def test_what_is_there_throughout_is_on_one_page_whatever_comes_and_goes(
        self, storage: Storage, clock: ManualClock, field: str, wanted: Any
    ) -> None:
        metadata = {"all": True, "list": [{"a": 1, "b": 2}]}
        for number in range(20):
            make_thread(storage, f"stays {number:02}", metadata=metadata)
            make_thread(storage, f"goes {number:02}", metadata=metadata)
            clock.advance(seconds=number % 2)
        pages: list[str] = []
        after = None
        for step in range(100):
            query = ThreadQuery(metadata=wanted)
            page = storage.threads.search(query, sort=Sort(field), limit=3, after=after)
            pages += ids(page)
            after = page.next
            if after is None:
                break
            # Also the very row at which the page ended.
            for each in (page.rows[-1].thread_id, f"goes {19 - step:02}"):
                if each.startswith("goes"):
                    storage.threads.delete(each)
            make_thread(storage, f"comes {step:02}", metadata=metadata)
        stayed = [each for each in pages if each.startswith("stays")]
        assert sorted(stayed) == [f"stays {number:02}" for number in range(20)]
        assert len(pages) == len(set(pages))

    def test_counting_stops(self, storage: Storage, clock: ManualClock) -> None:
        fill(storage, clock)
        deep = ThreadQuery(values={"deep": {"list": [1]}})
        for query, count in ((EVERYTHING, 18), (ThreadQuery(metadata={"n": 1}), 6), (deep, 9)):
            assert storage.threads.count(query) == count
            for most in (0, 1, count - 1, count, count + 1, PAGE_NUMBER_MAX):
                assert storage.threads.count(query, at_most=most) == min(count, most)

    @pytest.mark.parametrize("wrong", [-1, True, 1.5, "1"])
    def test_wrong_numbers_are_refused_by_name(self, storage: Storage, wrong: Any) -> None:
        search, count = storage.threads.search, storage.threads.count
        check_refused(InvalidPage, "limit", partial(search, EVERYTHING, limit=wrong))
        check_refused(InvalidPage, "offset", partial(search, EVERYTHING, offset=wrong))
        check_refused(InvalidPage, "at_most", partial(count, EVERYTHING, at_most=wrong))

    def test_numbers_have_a_limit(self, storage: Storage) -> None:
        made = make_thread(storage, "t")
        search, count = storage.threads.search, storage.threads.count
        assert search(EVERYTHING, limit=0) == Page([])
        assert search(EVERYTHING, limit=PAGE_NUMBER_MAX).rows == [made]
        assert search(EVERYTHING, offset=PAGE_NUMBER_MAX).rows == []
        most = PAGE_NUMBER_MAX + 1
        check_refused(LimitExceeded, "limit", partial(search, EVERYTHING, limit=most))
        check_refused(LimitExceeded, "offset", partial(search, EVERYTHING, offset=most))
        check_refused(LimitExceeded, "at_most", partial(count, EVERYTHING, at_most=most))

    def test_a_cursor_that_no_list_answered_is_refused(self, storage: Storage, clock: ManualClock) -> None:
        fill(storage, clock)
        newest = Sort("created_at")
        own = storage.threads.search(EVERYTHING, limit=3).next
        others: list[Any] = [
            "",
            "x",
            "é",
            7,
            b"eA",
            cursor(newest, Place("a text", "t01")),
            cursor(newest, Place(None, "t01")),
            cursor(newest, Place(2**63, "t01")),
            cursor(newest, Place(1, "t\0")),
            cursor(Sort("status"), Place("idle", "t01")),
            cursor(Sort("created_at", False), Place(1, "t01")),
        ]
        for wrong in others:
            check_refused(InvalidPage, "after", partial(storage.threads.search, EVERYTHING, after=wrong))
        in_other_order = partial(storage.threads.search, EVERYTHING, sort=Sort("updated_at"), after=own)
        check_refused(InvalidPage, "after", in_other_order)
        for text in (Place(1, "t01"), Place("a\0", "t01"), Place(None, "t01")):
            by_status = partial(storage.threads.search, EVERYTHING, sort=Sort("status"))
            check_refused(InvalidPage, "after", partial(by_status, after=cursor(Sort("status"), text)))


def _queries() -> list[tuple[ThreadQuery, Any]]:
    """Return queries of every kind, with what each of them finds among what ``fill`` makes."""
    some = [f"t{number:02}" for number in range(0, COUNT, 3)]
    return [
        (EVERYTHING, lambda _: True),
        (ThreadQuery(metadata={"n": 1}), lambda each: each.metadata["n"] == 1),
        (ThreadQuery(metadata={"all": True, "even": True}), lambda each: "even" in each.metadata),
        (ThreadQuery(status=ThreadStatus.ERROR), lambda each: each.status is ThreadStatus.ERROR),
        (ThreadQuery(ids=some), lambda each: each.thread_id in some),
        (ThreadQuery(values={"n": 2}), lambda each: each.values["n"] == 2),
        (ThreadQuery(values={"deep": {"list": [0]}}), lambda each: each.values["deep"] == {"list": [0]}),
        (ThreadQuery(metadata={"n": 8}), lambda _: False),
    ]
