"""Threads of every storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.drivers.sql import search_reading, search_sql
from stateroom.testing.parts.storage_search import SearchSuite
from stateroom.testing.parts.storage_threads import ThreadSuite
from stateroom.testing.storage_harness import OpensStorage


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
