"""Crons of every storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.contract.crons import CronChange
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.parts.storage_cron_search import make_cron
from stateroom.testing.parts.storage_crons import CronSuite
from stateroom.testing.storage_harness import OpensStorage
from tests.storage.tables import rows


class TestCrons(CronSuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage

    def test_nothing_is_left_of_a_cron_that_was_deleted(self, stocked: Storage) -> None:
        assert isinstance(stocked, SqlStorage)
        make_cron(stocked, metadata={"n": 1, "m": {"x": 2}})
        assert rows(stocked, "cron", "cron_term") == [1, 3]
        stocked.crons.update("c", CronChange(metadata={"n": 2}))
        stocked.crons.delete("c")
        assert rows(stocked, "cron", "cron_term") == [0, 0]
