"""Threads of every storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.threads import ThreadQuery
from stateroom.drivers.sql import search_reading, search_sql, terms
from stateroom.testing.parts.storage_search import SearchSuite
from stateroom.testing.parts.storage_threads import ThreadSuite
from stateroom.testing.storage_harness import OpensStorage, make_thread


class TestThreads(ThreadSuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage


class TestSearch(SearchSuite):
    """The same of searches."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage


class TestSearchInSteps(TestSearch):
    """The same of searches for which many are two, so that they take every way that large tables need."""

    @pytest.fixture(autouse=True)
    def few(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for name, value in (("FEW", 2), ("GROWTH", 2), ("AT_ONCE", 2), ("CHUNK", 2), ("AHEAD", 3)):
            assert getattr(search_reading, name) > value or name == "GROWTH"
            monkeypatch.setattr(search_reading, name, value)
        monkeypatch.setattr(search_sql, "TERMS_MAX", 1)


def test_a_page_is_right_even_if_different_leaves_have_one_term(
    any_storage: OpensStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    spelled = terms._term
    monkeypatch.setattr(terms, "_term", lambda kind, text: spelled(kind, text) % 2)
    storage = any_storage(clock=ManualClock())
    storage.open()
    for number in range(30):
        make_thread(storage, f"t{number:02}", metadata={"owner": "me" if number % 5 == 0 else f"o{number}"})
    query = ThreadQuery(enforced_metadata={"owner": "me"})
    pages: list[list[str]] = []
    after = None
    while not pages or after:
        page = storage.threads.search(query, limit=4, after=after)
        pages.append([thread.thread_id for thread in page.rows])
        after = page.next
    assert pages == [["t25", "t20", "t15", "t10"], ["t05", "t00"]]
    storage.close()
