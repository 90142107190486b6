"""Streams of every storage, in its database and in this process."""

from __future__ import annotations

from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import Any

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.events import EventLimits
from stateroom.contract.storage import Storage, StorageCapability
from stateroom.drivers.memory.events import MemoryEvents
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.model.frame import Frame, FramePage
from stateroom.model.run import Attempt, RunStatus
from stateroom.testing.parts.storage_events import EventSuite, claim, new, settle, stream
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
            storage = any_storage(**options, events=MemoryEvents)
            assert isinstance(storage, SqlStorage)
            storage.capabilities -= {StorageCapability.DURABLE}
            return storage

        return with_memory

    def test_a_sweep_forgets_the_streams_of_runs_that_are_gone(
        self, new_storage: OpensStorage, clock: ManualClock
    ) -> None:
        storage = new_storage(clock=clock, limits=EventLimits(retained_runs=1))
        storage.open()
        for run_id in ("kept", "swept", "deleted", "latest"):
            attempt = stream(storage, run_id)
            storage.events.append(attempt, new("a"))
            if run_id == "kept":
                storage.runs.release(attempt)
                attempt = claim(storage, run_id)
            else:
                settle(storage, attempt)
        events = storage.events
        assert isinstance(events, MemoryEvents)
        storage.runs.delete("deleted")
        assert events.sweep() == 2
        assert {*events._streams} == {"kept", "swept", "latest"}
        assert events.sweep() == 0
        storage.runs.delete("swept")
        assert events.sweep() == 0
        assert {*events._streams} == {"kept", "latest"}
        storage.close()

    def test_nobody_sees_the_end_before_a_frame_that_is_being_added(
        self, storage: Storage, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        attempt = stream(storage)
        is_current = storage.runs.is_current
        with ThreadPoolExecutor(1) as threads:
            reading: list[Future[FramePage]] = []

            def then_end(asked: Attempt) -> bool:
                current = is_current(asked)
                settle(storage, attempt)
                reading.append(threads.submit(storage.events.read, "r"))
                # Time enough for a reader who would not wait.
                wait(reading, timeout=0.1)
                return current

            monkeypatch.setattr(storage.runs, "is_current", then_end)
            assert storage.events.append(attempt, new("a")) == 1
            assert reading[0].result() == FramePage([Frame(1, "values", b"a")], 1, RunStatus.SUCCESS, 1)
