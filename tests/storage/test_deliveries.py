"""Deliveries of every storage."""

from __future__ import annotations

from functools import partial

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.deliveries import insert_deliveries
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.parts.storage_deliveries import DeliveriesSuite, hook
from stateroom.testing.storage_harness import OpensStorage, make_run, make_thread


class TestDeliveries(DeliveriesSuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage

    def test_a_runs_deliveries_of_several_moments_come_newest_first(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        assert isinstance(storage, SqlStorage)
        make_thread(storage, "t")
        run = make_run(storage, "r", "t")
        for name in ("b", "a", "c"):
            new = [hook(name)]
            storage.dialect.write(partial(insert_deliveries, run=run, deliveries=new))
            clock.advance(seconds=1)
        assert [each.delivery_id for each in storage.deliveries.of_run("r")] == ["c", "a", "b"]
