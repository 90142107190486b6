"""Streams of every storage, in its database and in this process."""

from __future__ import annotations

from typing import Any

import pytest
from typing_extensions import override

from stateroom.contract.events import EventLimits
from stateroom.contract.storage import StorageCapability
from stateroom.drivers.memory.events import MemoryEvents
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.parts.storage_events import EventSuite
from stateroom.testing.parts.storage_events_followed import EventFollowersSuite
from stateroom.testing.parts.storage_events_kept import EventsKeptSuite
from stateroom.testing.storage_harness import OpensStorage


class TestSqlEvents(EventSuite, EventFollowersSuite, EventsKeptSuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage


class TestMemoryEvents(EventSuite, EventFollowersSuite, EventsKeptSuite):
    """The suite, on each kind of storage with the frames in this process."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        def with_memory(**options: Any) -> SqlStorage:
            storage = any_storage(**options)
            assert isinstance(storage, SqlStorage)
            limits = options.get("limits") or EventLimits()
            vars(storage)["_events"] = MemoryEvents(storage.runs, storage.signals, limits)
            storage.capabilities -= {StorageCapability.DURABLE}
            return storage

        return with_memory
