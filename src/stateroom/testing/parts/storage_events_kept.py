"""How much of the streams is kept: of each run the latest frames, and of ended runs the latest."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.events import EventLimits
from stateroom.contract.storage import Storage
from stateroom.model.frame import FramePage
from stateroom.model.run import Attempt, RunStatus
from stateroom.testing.parts.storage_events import claim, data, new, numbers, settle, stream
from stateroom.testing.storage_harness import OpensStorage, StorageHarness, together

__all__ = ["EventsKeptSuite"]

RETAINED = 3


class EventsKeptSuite(StorageHarness):
    """The oldest frames go, and a reader who asks for them learns it."""

    @pytest.fixture
    def limited(
        self, new_storage: OpensStorage, clock: ManualClock, request: pytest.FixtureRequest
    ) -> Callable[[EventLimits], Storage]:
        """Return what opens a storage with limits."""

        def limited(limits: EventLimits) -> Storage:
            storage = new_storage(clock=clock, limits=limits)
            request.addfinalizer(storage.close)
            storage.open()
            return storage

        return limited

    def test_the_limits_are_those_that_were_given(self, limited: Callable[[EventLimits], Storage]) -> None:
        assert limited(EventLimits(7, 8, 9)).events.limits == EventLimits(7, 8, 9)

    def test_the_limits_are_wide_unless_others_are_given(self, storage: Storage) -> None:
        assert storage.events.limits == EventLimits(10_000, 64 * 1024 * 1024, 1_000)

    def test_beyond_so_many_frames_the_oldest_go(self, limited: Callable[[EventLimits], Storage]) -> None:
        storage = limited(EventLimits(frames_per_run=5))
        attempt, other = stream(storage), stream(storage, "other")
        storage.events.append(other, new("of another"))
        for last in range(1, 13):
            assert storage.events.append(attempt, new(last)) == last
            page = storage.events.read("r")
            assert page.first == max(1, last - 4)
            assert numbers(page) == [*range(page.first, last + 1)]
            assert data(page) == [str(number) for number in numbers(page)]
        assert storage.events.append(attempt, new(*range(13, 33))) == 32
        assert numbers(storage.events.read("r")) == [28, 29, 30, 31, 32]
        assert data(storage.events.read("other")) == ["of another"]

    def test_beyond_so_many_bytes_the_oldest_go(self, limited: Callable[[EventLimits], Storage]) -> None:
        storage = limited(EventLimits(bytes_per_run=100))
        attempt = stream(storage)
        storage.events.append(attempt, new(b"x" * 60, b"y" * 40, b""))
        assert numbers(storage.events.read("r")) == [1, 2, 3]
        storage.events.append(attempt, new(b"z"))
        assert numbers(storage.events.read("r")) == [2, 3, 4]
        storage.events.append(attempt, new(b"z" * 59))
        assert numbers(storage.events.read("r")) == [2, 3, 4, 5]
        storage.events.append(attempt, new(*[b"s"] * 90))
        # What is kept has exactly the bytes that may be kept.
        assert numbers(storage.events.read("r")) == [*range(6, 96)]
        storage.events.append(attempt, new(b"l" * 11))
        assert storage.events.read("r").first == 7
        for _ in range(3):
            # Many frames go at once.
            storage.events.append(attempt, new(b"l" * 100))
            assert len(storage.events.read("r").frames) == 1

    def test_the_last_frame_stays_whatever_its_size(self, limited: Callable[[EventLimits], Storage]) -> None:
        storage = limited(EventLimits(frames_per_run=0, bytes_per_run=10))
        attempt = stream(storage)
        for last in range(1, 4):
            assert storage.events.append(attempt, new(b"x" * 11)) == last
            assert storage.events.read("r").first == last
            assert numbers(storage.events.read("r")) == [last]
        assert storage.events.append(attempt, new(b"", b"")) == 5
        assert numbers(storage.events.read("r")) == [5]
        assert storage.events.append(attempt, []) == 5
        assert numbers(storage.events.read("r")) == [5]

    def test_limits_hold_over_attempts_and_for_writers_at_once(
        self, limited: Callable[[EventLimits], Storage]
    ) -> None:
        storage = limited(EventLimits(frames_per_run=7, bytes_per_run=100))
        attempt = stream(storage)
        together(8, lambda number: [storage.events.append(attempt, new(b"x" * number)) for _ in range(9)])
        storage.runs.release(attempt)
        attempt = claim(storage, "r")
        assert storage.events.append(attempt, new("a")) == 73
        page = storage.events.read("r")
        assert numbers(page) == [*range(67, 74)]
        assert storage.events.append(attempt, new(b"y" * 100)) == 74
        assert numbers(storage.events.read("r")) == [74]

    def test_who_asks_for_frames_that_are_gone_learns_it(
        self, limited: Callable[[EventLimits], Storage]
    ) -> None:
        storage = limited(EventLimits(frames_per_run=2))
        attempt = stream(storage)
        storage.events.append(attempt, new(*range(9)))
        for after in range(12):
            page = storage.events.read("r", after=after)
            assert page.first == 8
            assert numbers(page) == [*range(max(8, after + 1), 10)]

    def test_sweeping_frees_the_ended_runs_beyond_the_latest(
        self, limited: Callable[[EventLimits], Storage], clock: ManualClock
    ) -> None:
        storage = limited(EventLimits(retained_runs=RETAINED))
        assert storage.events.sweep() == 0
        # Not in the order of their ids.
        runs = ["e", "b", "g", "a", "d", "f", "c"]
        for run_id in runs:
            clock.advance(seconds=1)
            end(storage, run_id)
        assert storage.events.sweep(limit=0) == 0
        assert storage.events.sweep(limit=1) == 1
        assert kept(storage, runs) == runs[1:]
        assert storage.events.sweep(limit=2) == 2
        assert kept(storage, runs) == runs[3:]
        assert storage.events.sweep() == 1
        assert kept(storage, runs) == runs[-RETAINED:]
        assert storage.events.sweep() == 0
        for run_id in runs[:-RETAINED]:
            # A reader learns that there were two.
            assert storage.events.read(run_id) == FramePage([], 3, RunStatus.SUCCESS, 2)
            assert storage.events.last(run_id) is None
        clock.advance(seconds=1)
        end(storage, "h")
        assert storage.events.sweep() == 1
        assert kept(storage, runs) == runs[-RETAINED + 1 :]

    def test_sweeping_passes_over_runs_that_have_not_ended(
        self, limited: Callable[[EventLimits], Storage], clock: ManualClock
    ) -> None:
        storage = limited(EventLimits(retained_runs=1))
        running, pending = stream(storage, "running"), stream(storage, "pending")
        for attempt in (running, pending):
            storage.events.append(attempt, new("a", "b"))
        silent = stream(storage, "silent")
        for run_id in ("r1", "r2", "r3"):
            clock.advance(seconds=1)
            end(storage, run_id)
        storage.runs.release(pending)
        clock.advance(seconds=1)
        # Whoever has not ended is none of the latest, and takes no place among them.
        assert storage.events.append(running, new("c")) == 3
        assert storage.events.sweep() == 2
        assert kept(storage, ["running", "pending", "r1", "r2", "r3"]) == ["running", "pending", "r3"]
        # A run without frames is none of the latest.
        settle(storage, silent)
        assert storage.events.sweep() == 0
        clock.advance(seconds=1)
        assert storage.events.append(running, new("d")) == 4
        settle(storage, running)
        assert storage.events.sweep() == 1
        assert kept(storage, ["running", "pending", "r3"]) == ["running", "pending"]
        assert storage.events.append(claim(storage, "pending"), new("c")) == 3

    def test_sweeping_keeps_none_where_none_is_to_be_kept(
        self, limited: Callable[[EventLimits], Storage]
    ) -> None:
        storage = limited(EventLimits(retained_runs=0))
        attempt = stream(storage)
        storage.events.append(attempt, new(*range(2_500)))
        assert storage.events.sweep() == 0
        settle(storage, attempt)
        assert storage.events.sweep() == 1
        assert storage.events.sweep() == 0
        assert storage.events.read("r") == FramePage([], 2_501, RunStatus.SUCCESS, 2_500)

    def test_sweepers_at_once_free_each_run_once(
        self, limited: Callable[[EventLimits], Storage], clock: ManualClock
    ) -> None:
        storage = limited(EventLimits(retained_runs=RETAINED))
        runs = [f"r{number}" for number in range(20)]
        for run_id in runs:
            clock.advance(seconds=1)
            end(storage, run_id)
        together(4, lambda _: storage.events.sweep())
        assert kept(storage, runs) == runs[-RETAINED:]

    def test_runs_that_are_gone_take_no_place_among_the_latest(
        self, limited: Callable[[EventLimits], Storage], clock: ManualClock
    ) -> None:
        storage = limited(EventLimits(retained_runs=2))
        for run_id in ("r1", "r2", "r3", "r4"):
            clock.advance(seconds=1)
            end(storage, run_id)
        storage.runs.delete("r3")
        storage.threads.delete("thread of r4")
        storage.events.sweep()
        storage.events.sweep()
        assert kept(storage, ["r1", "r2", "r3", "r4"]) == ["r1", "r2"]


def end(storage: Storage, run_id: str) -> Attempt:
    """Make a run that streams two frames and ends."""
    attempt = stream(storage, run_id)
    storage.events.append(attempt, new("a", "b"))
    settle(storage, attempt)
    return attempt


def kept(storage: Storage, run_ids: list[str]) -> list[str]:
    """Return those of some runs of which frames are kept."""
    return [run_id for run_id in run_ids if storage.events.read(run_id).frames]
