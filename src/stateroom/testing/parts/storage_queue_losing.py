"""How a worker hands a run back or loses it, and can write no more in its name."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.errors import Fenced
from stateroom.model.run import CancelAction, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import claimed, drained, end, thread
from stateroom.testing.storage_harness import (
    LEASE,
    SECOND,
    StorageHarness,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["LosingSuite"]


def settled(storage: Storage, run: Run) -> None:
    """Have an attempt end by its own word."""
    end(storage, run)


def released(storage: Storage, run: Run) -> None:
    """Have an attempt hand its run back."""
    storage.runs.release(run.lease)


def reclaimed(storage: Storage, run: Run) -> None:
    """Have another attempt get the run of one whose lease has ended."""
    storage.runs.reap(everybody=True, max_attempts=9)
    assert claimed(storage).run_id == run.run_id


def abandoned(storage: Storage, run: Run) -> None:  # noqa: ARG001
    """Have a run given up."""
    storage.runs.reap(everybody=True)


def rolled_back(storage: Storage, run: Run) -> None:
    """Have an attempt remove its run."""
    end(storage, run, status=RunStatus.INTERRUPTED, roll_back=True)


def made_again(storage: Storage, run: Run) -> None:
    """Have a run removed, and another one of its id made and claimed."""
    rolled_back(storage, run)
    make_run(storage, run.run_id, run.thread_id)
    assert claimed(storage).run_id == run.run_id


def without_thread(storage: Storage, run: Run) -> None:
    """Have the thread of a run deleted, and one of its id made."""
    storage.threads.delete(run.thread_id)
    make_thread(storage, run.thread_id)


LATE = (settled, released, reclaimed, abandoned, rolled_back, made_again, without_thread)
"""How an attempt can lose its run."""


class LosingSuite(StorageHarness):
    """Releasing and reaping, and those who come too late."""

    @pytest.mark.parametrize("lose", LATE, ids=lambda lose: lose.__name__)
    def test_who_comes_too_late_changes_nothing(
        self, storage: Storage, clock: ManualClock, lose: Callable[[Storage, Run], None]
    ) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        make_run(storage, "next", "t", delay=SECOND)
        run = claimed(storage)
        late = run.lease
        lose(storage, run)
        clock.advance(seconds=2)
        before = storage.runs.search(RunQuery()).rows, thread(storage), storage.runs.next_available_at()
        assert storage.runs.is_current(late) is False
        assert storage.runs.renew([late], lease=LEASE) == [(late, False, None)]
        write: list[Callable[[], object]] = [
            lambda: end(storage, run, values={"late": True}, error={"error": "late", "message": ""}),
            lambda: end(storage, run, roll_back=True),
            lambda: end(storage, run, delete_thread=True),
            lambda: storage.runs.release(late),
            lambda: storage.runs.mark(late),
        ]
        for act in write:
            with pytest.raises(Fenced):
                act()
            after = storage.runs.search(RunQuery()).rows, thread(storage), storage.runs.next_available_at()
            assert after == before
        assert storage.deliveries.of_run("r") == []

    # ---- release

    def test_a_released_run_keeps_its_place(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        for _ in range(3):
            run = claimed(storage)
            assert (run.run_id, run.attempt) == ("1", 1)
            clock.advance(seconds=1)
            back = storage.runs.release(run.lease)
            assert (back.status, back.attempt, back.private) == (RunStatus.PENDING, 0, None)
            assert (back.lease_owner, back.lease_until, back.ended_at) == (None, None, None)
            assert storage.runs.get("1") == back
            assert thread(storage).status is ThreadStatus.IDLE
        assert drained(storage) == ["1", "2"]

    def test_a_run_has_started_when_it_was_first_claimed(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        started = claimed(storage).started_at
        assert started == clock()
        clock.advance(seconds=1)
        storage.runs.reap(everybody=True, max_attempts=9)
        clock.advance(seconds=1)
        again = claimed(storage)
        assert (again.started_at, again.attempt, again.updated_at) == (started, 2, clock())

    def test_a_released_run_is_given_what_is_private_again(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t", private={"token": "secret"})
        storage.runs.release(claimed(storage).lease)
        assert claimed(storage).private == {"token": "secret"}
        storage.runs.reap(everybody=True, max_attempts=9)
        assert claimed(storage).private == {"token": "secret"}

    def test_a_thread_that_waits_for_an_answer_still_does(self, storage: Storage) -> None:
        make_thread(storage, "t")
        storage.threads.update("t", ThreadChange(interrupts={"task": [1]}, status=ThreadStatus.INTERRUPTED))
        make_run(storage, "r", "t")
        storage.runs.release(claimed(storage).lease)
        assert thread(storage).status is ThreadStatus.INTERRUPTED
        claimed(storage)
        assert thread(storage).status is ThreadStatus.BUSY
        (run,) = storage.runs.reap(everybody=True)
        assert run.status is RunStatus.ERROR
        assert thread(storage).status is ThreadStatus.INTERRUPTED

    def test_a_run_that_was_asked_to_stop_is_not_handed_back(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        run = claimed(storage)
        storage.runs.cancel(RunQuery(run_ids=["r"]), CancelAction.INTERRUPT, reason="user")
        back = storage.runs.release(run.lease)
        assert (back.status, back.cancel_reason) == (RunStatus.INTERRUPTED, "user")
        assert back.ended_at is not None
        assert claim_one(storage) is None

    # ---- reap

    def test_a_lost_run_is_abandoned(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        run = claimed(storage)
        clock.microseconds += LEASE - 1
        assert storage.runs.reap() == []
        clock.microseconds += 1
        (lost,) = storage.runs.reap()
        assert (lost.run_id, lost.status, lost.ended_at) == ("1", RunStatus.ERROR, clock())
        assert lost.error is not None
        assert lost.error["error"] == "abandoned"
        assert lost.error["message"]
        assert (lost.lease_owner, lost.lease_until) == (None, None)
        assert storage.runs.get("1") == lost
        assert (thread(storage).status, thread(storage).error) == (ThreadStatus.ERROR, lost.error)
        assert not storage.runs.is_current(run.lease)
        assert storage.runs.reap() == []
        assert drained(storage) == ["2"]

    def test_a_lost_run_is_tried_again_so_often(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        for attempt in (1, 2, 3):
            run = claimed(storage)
            assert (run.run_id, run.attempt) == ("1", attempt)
            clock.advance(seconds=30)
            (lost,) = storage.runs.reap(max_attempts=3)
            assert lost.attempt == attempt
            if attempt < 3:
                assert (lost.status, lost.error, lost.ended_at) == (RunStatus.PENDING, None, None)
                assert thread(storage).status is ThreadStatus.IDLE
        assert lost.status is RunStatus.ERROR
        assert claimed(storage).run_id == "2"

    @pytest.mark.parametrize("action", CancelAction)
    def test_a_lost_run_that_was_asked_to_stop_has_stopped(
        self, storage: Storage, clock: ManualClock, action: CancelAction
    ) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        claimed(storage)
        storage.runs.cancel(RunQuery(run_ids=["r"]), action, reason="user")
        clock.advance(seconds=30)
        (lost,) = storage.runs.reap(max_attempts=9)
        assert (lost.status, lost.error, lost.cancel_reason) == (RunStatus.INTERRUPTED, None, "user")
        assert lost.ended_at == clock()
        assert thread(storage).status is ThreadStatus.IDLE
        assert claim_one(storage) is None

    def test_those_lost_longest_are_reaped_first(self, storage: Storage, clock: ManualClock) -> None:
        for number in range(4):
            make_thread(storage, f"t{number}")
            make_run(storage, f"r{number}", f"t{number}")
            assert claimed(storage).run_id == f"r{number}"
            clock.advance(seconds=1)
        clock.microseconds += LEASE - 2 * SECOND
        assert sorted(run.run_id for run in storage.runs.reap(limit=2)) == ["r0", "r1"]
        assert [run.run_id for run in storage.runs.reap(limit=9)] == ["r2"]
        # r3 is leased still, and freed only when no worker is alive.
        assert storage.runs.reap() == []
        assert storage.runs.reap(everybody=True, limit=0) == []
        (last,) = storage.runs.reap(everybody=True)
        assert (last.run_id, last.status) == ("r3", RunStatus.ERROR)
