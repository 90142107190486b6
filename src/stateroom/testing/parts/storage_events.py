"""Frames as they are added and read: their numbers, their data, and who may add them."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.events import FRAMES_READ
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage, StorageCapability
from stateroom.errors import Fenced, InvalidInput, InvalidPage
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.run import Attempt, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.storage_harness import (
    LEASE,
    OpensStorage,
    StorageHarness,
    check_id,
    check_text,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["EventSuite", "claim", "data", "fenced", "new", "numbers", "settle", "stream"]


def stream(storage: Storage, run_id: str = "r") -> Attempt:
    """Make a run on a thread of its own, and claim it."""
    make_thread(storage, f"thread of {run_id}"[:200])
    make_run(storage, run_id, f"thread of {run_id}"[:200])
    return claim(storage, run_id)


def claim(storage: Storage, run_id: str) -> Attempt:
    """Claim a run, which must be the next."""
    run = claim_one(storage)
    assert run is not None
    assert run.run_id == run_id
    return run.lease


def settle(storage: Storage, attempt: Attempt, status: RunStatus = RunStatus.SUCCESS) -> None:
    """End a run."""
    storage.runs.settle(attempt, Settlement(status, ThreadStatus.IDLE))


def new(*data: object, event: str = "values") -> list[NewFrame]:
    """Return frames to be added."""
    return [NewFrame(event, each if isinstance(each, bytes) else str(each).encode()) for each in data]


def data(page: FramePage) -> list[str]:
    """Return what the frames of a page say."""
    return [frame.data.decode() for frame in page.frames]


def numbers(page: FramePage) -> list[int]:
    """Return the numbers of the frames of a page."""
    return [frame.seq for frame in page.frames]


def fenced(storage: Storage, attempt: Attempt) -> None:
    """See that an attempt can add nothing."""
    before = storage.events.read(attempt.run_id)
    for frames in (new("late"), ()):
        with pytest.raises(Fenced):
            storage.events.append(attempt, frames)
    assert storage.events.read(attempt.run_id) == before


class EventSuite(StorageHarness):
    """A run's frames are numbered from 1, kept within limits, and read by whoever says what he has seen."""

    def test_frames_are_numbered_from_1_and_read_in_order(self, storage: Storage) -> None:
        attempt = stream(storage)
        assert storage.events.read("r") == FramePage([], 1, RunStatus.RUNNING)
        assert storage.events.append(attempt, new("a")) == 1
        assert storage.events.append(attempt, new("b", "c", "d", event="messages")) == 4
        assert storage.events.read("r") == FramePage(
            [
                Frame(1, "values", b"a"),
                Frame(2, "messages", b"b"),
                Frame(3, "messages", b"c"),
                Frame(4, "messages", b"d"),
            ],
            1,
            RunStatus.RUNNING,
            4,
        )

    def test_each_run_has_numbers_of_its_own(self, storage: Storage) -> None:
        for run_id in ("r1", "r2"):
            attempt = stream(storage, run_id)
            assert storage.events.append(attempt, new(run_id, run_id)) == 2
        assert [data(storage.events.read(run_id)) for run_id in ("r1", "r2")] == [["r1"] * 2, ["r2"] * 2]

    def test_adding_nothing_answers_the_last_number(self, storage: Storage) -> None:
        attempt = stream(storage)
        assert storage.events.append(attempt, []) == 0
        assert storage.events.read("r") == FramePage([], 1, RunStatus.RUNNING)
        storage.events.append(attempt, new("a", "b"))
        assert storage.events.append(attempt, []) == 2
        assert numbers(storage.events.read("r")) == [1, 2]

    def test_data_are_kept_byte_by_byte(self, storage: Storage) -> None:
        attempt = stream(storage)
        kept = [b"", b"\0\xff\xfe", bytes(range(256)), b'{"n": 1.0}', "ä\u2028".encode(), b"x" * 2_000_000]
        storage.events.append(attempt, new(*kept))
        assert [frame.data for frame in storage.events.read("r").frames] == kept

    def test_hundreds_of_frames_are_added_at_once(self, storage: Storage) -> None:
        attempt = stream(storage)
        assert storage.events.append(attempt, new(*range(300))) == 300
        assert storage.events.append(attempt, new(*range(300, 431))) == 431
        assert data(storage.events.read("r")) == [str(number) for number in range(431)]

    def test_numbers_go_on_when_a_run_was_handed_back(self, storage: Storage) -> None:
        attempt = stream(storage)
        storage.events.append(attempt, new("a", "b"))
        storage.runs.release(attempt)
        assert storage.events.read("r").status is RunStatus.PENDING
        assert storage.events.append(claim(storage, "r"), new("c")) == 3
        assert data(storage.events.read("r")) == ["a", "b", "c"]

    def test_numbers_go_on_when_a_run_was_taken_over(self, storage: Storage, clock: ManualClock) -> None:
        dead = stream(storage)
        storage.events.append(dead, new("a", "b"))
        clock.microseconds += LEASE + 1
        storage.runs.reap(max_attempts=3)
        attempt = claim(storage, "r")
        fenced(storage, dead)
        assert storage.events.append(attempt, new("c")) == 3
        fenced(storage, dead)
        assert data(storage.events.read("r")) == ["a", "b", "c"]

    def test_an_attempt_that_lost_its_run_adds_nothing(self, storage: Storage) -> None:
        for run_id in ("released", "settled", "failed"):
            attempt = stream(storage, run_id)
            storage.events.append(attempt, new("a"))
            if run_id == "released":
                storage.runs.release(attempt)
                fenced(storage, attempt)
                attempt = claim(storage, run_id)
            settle(storage, attempt, RunStatus.ERROR if run_id == "failed" else RunStatus.SUCCESS)
            fenced(storage, attempt)
            storage.runs.delete(run_id)
            fenced(storage, attempt)

    def test_what_was_never_claimed_has_no_frames(self, storage: Storage) -> None:
        fenced(storage, Attempt("nowhere", "t", 1))
        make_thread(storage, "t")
        run = make_run(storage, "r", "t")
        for fence in (run.fence, run.fence + 1):
            fenced(storage, run.lease._replace(fence=fence))
        attempt = claim(storage, "r")
        for fence in (attempt.fence - 1, attempt.fence + 1):
            fenced(storage, attempt._replace(fence=fence))

    def test_frames_are_added_all_or_none(self, storage: Storage) -> None:
        attempt = stream(storage)
        wrong: Any = "text"
        for frame in (NewFrame("NUL \0", b"{}"), NewFrame("values", wrong)):
            with pytest.raises(InvalidInput):
                storage.events.append(attempt, [*new("a"), frame, *new("b")])
        assert storage.events.read("r") == FramePage([], 1, RunStatus.RUNNING)
        assert storage.events.append(attempt, new("a")) == 1

    def test_arguments_are_refused_by_name(self, storage: Storage) -> None:
        attempt = stream(storage)
        events = storage.events
        check_text("event", lambda text: events.append(attempt, [NewFrame(text, b"")]))
        other: Any
        for other in ("{}", None, bytearray(b"{}")):
            with pytest.raises(InvalidInput) as caught:
                events.append(attempt, [NewFrame("values", other)])
            assert caught.value.field == "data"
        check_id("run_id", events.read)
        check_id("run_id", lambda run_id: events.subscribe(run_id, lambda: None))
        for field in ("after", "limit"):
            for other in (-1, 1.0, "1", None, True):
                with pytest.raises(InvalidPage) as refused:
                    events.read("r", **{field: other})
                assert refused.value.field == field
        with pytest.raises(InvalidPage):
            events.sweep(limit=-1)

    def test_ids_of_runs_are_refused_by_name(self, storage: Storage) -> None:
        def append(run_id: Any) -> None:
            with pytest.raises(Fenced):
                storage.events.append(Attempt(run_id, "t", 1), new("a"))

        check_id("run_id", append)
        attempt = stream(storage, "i" * 255)
        assert storage.events.append(attempt, new("a")) == 1

    def test_what_was_acknowledged_is_as_durable_as_the_storage(
        self, new_storage: OpensStorage, clock: ManualClock
    ) -> None:
        storage = new_storage(clock=clock)
        storage.open()
        attempt = stream(storage)
        storage.events.append(attempt, new("a", "b"))
        settle(storage, attempt)
        storage.close()
        again = new_storage(clock=clock)
        if StorageCapability.DURABLE in again.capabilities:
            again.open()
            kept = again.events.read("r")
            assert (data(kept), kept.status) == (["a", "b"], RunStatus.SUCCESS)
            again.close()

    def test_a_reader_goes_on_after_any_number(self, storage: Storage) -> None:
        attempt = stream(storage)
        storage.events.append(attempt, new(*range(1, 8)))
        for after in range(9):
            page = storage.events.read("r", after=after)
            assert numbers(page) == [*range(after + 1, 8)]
            assert page.first == 1
            for limit in range(4):
                assert numbers(storage.events.read("r", after=after, limit=limit)) == numbers(page)[:limit]
        assert storage.events.read("r", after=2**70, limit=2**63 - 1).frames == []

    def test_a_read_answers_so_many_frames_unless_it_asks_for_others(self, storage: Storage) -> None:
        attempt = stream(storage)
        storage.events.append(attempt, new(*range(FRAMES_READ + 2)))
        assert numbers(storage.events.read("r")) == [*range(1, FRAMES_READ + 1)]
        assert numbers(storage.events.read("r", after=FRAMES_READ)) == [FRAMES_READ + 1, FRAMES_READ + 2]
        assert len(storage.events.read("r", limit=FRAMES_READ + 5).frames) == FRAMES_READ + 2

    def test_a_page_ends_with_the_frame_that_makes_it_enough(self, storage: Storage) -> None:
        attempt = stream(storage)
        storage.events.append(attempt, new("a" * 10, "b" * 10, "", "c" * 10, "d"))
        for enough, expected in ((1, [1]), (10, [1]), (11, [1, 2]), (20, [1, 2]), (21, [1, 2, 3, 4])):
            page = storage.events.read("r", enough_bytes=enough)
            assert (numbers(page), page.last) == (expected, 5)
        assert numbers(storage.events.read("r", after=2, limit=1, enough_bytes=100)) == [3]
        assert numbers(storage.events.read("r", after=1, enough_bytes=2**70)) == [2, 3, 4, 5]
        for wrong in (0, -1, 1.5, True):
            with pytest.raises(InvalidPage) as refused:
                storage.events.read("r", enough_bytes=wrong)  # type: ignore[arg-type]
            assert refused.value.field == "enough_bytes"

    def test_the_last_frame_is_known_as_long_as_it_is_kept(self, storage: Storage) -> None:
        assert storage.events.last("r") is None
        attempt = stream(storage)
        other = stream(storage, "other")
        assert storage.events.last("r") is None
        storage.events.append(other, new("of another", "of another"))
        storage.events.append(attempt, new("a"))
        assert storage.events.last("r") == Frame(1, "values", b"a")
        storage.events.append(attempt, new(*range(11), event="messages"))
        assert storage.events.last("r") == Frame(12, "messages", b"10")
        settle(storage, attempt)
        assert storage.events.last("r") == Frame(12, "messages", b"10")
        storage.runs.delete("r")
        assert storage.events.last("r") is None
        check_id("run_id", storage.events.last)

    def test_a_page_says_what_the_run_is(self, storage: Storage) -> None:
        assert storage.events.read("r") == FramePage([], 1, None)
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        assert storage.events.read("r") == FramePage([], 1, RunStatus.PENDING)
        attempt = claim(storage, "r")
        storage.events.append(attempt, new("a"))
        assert storage.events.read("r").status is RunStatus.RUNNING
        settle(storage, attempt, RunStatus.TIMEOUT)
        assert storage.events.read("r") == FramePage([Frame(1, "values", b"a")], 1, RunStatus.TIMEOUT, 1)
        assert storage.events.read("r", after=1) == FramePage([], 1, RunStatus.TIMEOUT, 1)

    def test_frames_go_with_their_run(self, storage: Storage) -> None:
        for end in ("deleted", "rolled back"):
            attempt = stream(storage)
            assert storage.events.append(attempt, new("a", "b")) == 2
            if end == "deleted":
                settle(storage, attempt)
                storage.runs.delete("r")
            else:
                settlement = Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, roll_back=True)
                storage.runs.settle(attempt, settlement)
            assert storage.events.read("r") == FramePage([], 1, None)
            storage.threads.delete("thread of r")
        assert storage.events.append(stream(storage), new("anew")) == 1

    def test_frames_go_with_their_thread(self, storage: Storage) -> None:
        attempt, other = stream(storage), stream(storage, "other")
        for each in (attempt, other):
            storage.events.append(each, new(*range(30)))
            settle(storage, each)
        storage.threads.delete("thread of r")
        assert storage.events.read("r") == FramePage([], 1, None)
        assert len(storage.events.read("other").frames) == 30
        assert storage.events.append(stream(storage), new("anew")) == 1
