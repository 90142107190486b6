"""Which runs are claimed when, by whom, and for how long."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.errors import InvalidInput, InvalidPage, LimitExceeded, StateroomError
from stateroom.model.run import Attempt, CancelAction, Multitask, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import claimed, current, drained, end, thread
from stateroom.testing.storage_harness import (
    LEASE,
    SECOND,
    StorageHarness,
    check_id,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["ClaimingSuite"]


class ClaimingSuite(StorageHarness):
    """Claiming and renewing, and waiting for something to do."""

    def test_a_claimed_run_is_its_workers(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        made = make_run(storage, "r", "t", private={"token": "secret"})
        clock.advance(seconds=1)
        run = claim_one(storage, "worker-1")
        assert run is not None
        assert (run.status, run.attempt, run.cancel) == (RunStatus.RUNNING, 1, None)
        assert (run.lease_owner, run.lease_until) == ("worker-1", clock() + LEASE)
        assert (run.started_at, run.updated_at, run.created_at) == (clock(), clock(), made.created_at)
        assert run.lease == Attempt("r", "t", run.fence)
        # Nobody else is told what is private.
        assert run.private == {"token": "secret"}
        kept = storage.runs.get("r")
        assert kept is not None
        assert kept.private is None
        assert storage.runs.search(RunQuery()).rows == [kept]
        assert (kept.fence, kept.lease_until) == (run.fence, run.lease_until)
        assert thread(storage).status is ThreadStatus.BUSY
        assert thread(storage).updated_at == clock()
        assert claim_one(storage) is None

    def test_those_available_longest_come_first(self, storage: Storage, clock: ManualClock) -> None:
        for thread_id, delay in (("a", 3), ("b", 1), ("c", 2)):
            make_thread(storage, thread_id)
            make_run(storage, f"of-{thread_id}", thread_id, delay=delay * SECOND)
        clock.advance(seconds=3)
        make_thread(storage, "d")
        make_run(storage, "of-d", "d", delay=1)
        assert [run.run_id for run in storage.runs.claim("w", lease=LEASE, limit=2)] == ["of-b", "of-c"]
        assert [run.run_id for run in storage.runs.claim("w", lease=LEASE, limit=9)] == ["of-a"]

    def test_a_threads_runs_are_claimed_one_after_the_other(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        for thread_id in ("t", "u"):
            make_thread(storage, thread_id)
        for run_id in ("3", "1", "2"):
            make_run(storage, run_id, "t")
            clock.advance(seconds=int(run_id) % 2)
        make_run(storage, "other", "u")
        # No place is spent on runs that wait for another.
        first, other = storage.runs.claim("w", lease=LEASE, limit=9)
        assert (first.run_id, other.run_id) == ("3", "other")
        assert claim_one(storage) is None
        end(storage, first)
        second = claimed(storage)
        assert second.run_id == "1"
        assert claim_one(storage) is None
        end(storage, second)
        assert drained(storage) == ["2"]

    def test_a_delayed_run_takes_its_place_when_it_is_due(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "later", "t", delay=10 * SECOND)
        make_run(storage, "soon", "t", delay=5 * SECOND)
        make_run(storage, "now", "t")
        assert claimed(storage).run_id == "now"
        storage.runs.release(current(storage))
        assert drained(storage) == ["now"]
        clock.advance(seconds=4)
        assert claim_one(storage) is None
        make_run(storage, "between", "t", delay=2 * SECOND)
        clock.advance(seconds=20)
        make_run(storage, "last", "t")
        assert drained(storage) == ["soon", "between", "later", "last"]

    def test_it_is_due_at_its_moment(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        run = make_run(storage, "r", "t", delay=2)
        clock.microseconds += 1
        assert claim_one(storage) is None
        clock.microseconds += 1
        assert run.available_at == clock()
        assert claimed(storage).run_id == "r"

    def test_no_claim_takes_more_than_it_may(self, storage: Storage) -> None:
        for number in range(5):
            make_thread(storage, f"t{number}")
            make_run(storage, f"r{number}", f"t{number}")
        assert storage.runs.claim("w", lease=LEASE, limit=0) == []
        assert len(storage.runs.claim("w", lease=LEASE, limit=3)) == 3
        assert len(storage.runs.claim("w", lease=LEASE, limit=3)) == 2
        assert storage.runs.claim("w", lease=LEASE, limit=3) == []

    def test_wrong_claims_are_refused(self, storage: Storage) -> None:
        check_id("owner", lambda owner: storage.runs.claim(owner, lease=LEASE))
        refusals: list[tuple[str, type[StateroomError], Any]] = [
            ("lease", InvalidInput, 0),
            ("lease", InvalidInput, 1.5),
            ("lease", LimitExceeded, 2**63),
            ("limit", InvalidPage, -1),
        ]
        for field, error, wrong in refusals:
            with pytest.raises(error) as raised:
                storage.runs.claim("w", **{"lease": LEASE, field: wrong})
            assert raised.value.field == field
        with pytest.raises(InvalidInput):
            storage.runs.renew([], lease=0)

    # ---- leases

    def test_nobody_else_gets_a_leased_run(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        attempt = claimed(storage).lease
        for _ in range(10):
            clock.advance(seconds=29)
            assert storage.runs.renew([attempt], lease=LEASE) == [(attempt, True, None)]
            assert storage.runs.reap(max_attempts=9) == []
            assert claim_one(storage) is None
            run = storage.runs.get("r")
            assert run is not None
            assert run.lease_until == clock() + LEASE

    def test_renewing_answers_each_attempt(self, storage: Storage, clock: ManualClock) -> None:
        for thread_id in ("a", "b", "c"):
            make_thread(storage, thread_id)
            make_run(storage, f"of-{thread_id}", thread_id)
        runs = storage.runs.claim("w", lease=LEASE, limit=3)
        first, second, third = (run.lease for run in runs)
        storage.runs.cancel(RunQuery(run_ids=["of-a"]), CancelAction.ROLLBACK)
        end(storage, runs[1])
        wrong = [second, third._replace(fence=third.fence + 1), third._replace(thread_id="a")]
        unknown = Attempt("unknown", "t", 1)
        clock.advance(seconds=1)
        answers = storage.runs.renew([*wrong, third, unknown, first], lease=LEASE)
        assert answers[:3] == [(attempt, False, None) for attempt in wrong]
        assert answers[3:] == [
            (third, True, None),
            (unknown, False, None),
            (first, True, CancelAction.ROLLBACK),
        ]
        assert storage.runs.renew([], lease=LEASE) == []
        untils = {run.run_id: run.lease_until for run in storage.runs.search(RunQuery()).rows}
        assert untils == {"of-a": clock() + LEASE, "of-b": None, "of-c": clock() + LEASE}

    def test_a_lease_that_has_ended_can_be_renewed_until_it_is_reaped(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        attempt = claimed(storage).lease
        clock.advance(seconds=100)
        assert claim_one(storage) is None
        assert storage.runs.is_current(attempt)
        assert storage.runs.renew([attempt], lease=LEASE)[0].alive
        assert storage.runs.reap() == []

    def test_a_fence_never_comes_again(self, storage: Storage) -> None:
        for thread_id in ("t", "u"):
            make_thread(storage, thread_id)
        fences = []
        for run_id, thread_id in (("r", "t"), ("r", "t"), ("r", "u"), ("s", "u")):
            make_run(storage, run_id, thread_id)
            for _ in range(3):
                run = claimed(storage)
                fences.append(run.fence)
                assert storage.runs.is_current(run.lease)
                storage.runs.release(run.lease)
                assert not storage.runs.is_current(run.lease)
            storage.runs.delete(run_id)
        assert len(set(fences)) == len(fences) == 12

    # ---- waiting for something to do

    def test_when_the_next_run_can_be_claimed(self, storage: Storage, clock: ManualClock) -> None:
        assert storage.runs.next_available_at() is None
        for thread_id in ("t", "u"):
            make_thread(storage, thread_id)
        start = clock()
        make_run(storage, "1", "t", delay=3 * SECOND)
        assert storage.runs.next_available_at() == start + 3 * SECOND
        make_run(storage, "2", "t")
        make_run(storage, "3", "u", delay=SECOND)
        clock.advance(seconds=2)
        assert storage.runs.next_available_at() == start
        first = claimed(storage)
        assert storage.runs.next_available_at() == start + SECOND
        second = claimed(storage)
        # Nothing of a thread that executes a run can be claimed.
        assert storage.runs.next_available_at() is None
        storage.runs.release(first.lease)
        assert storage.runs.next_available_at() == start
        end(storage, second)
        storage.runs.delete("2")
        assert storage.runs.next_available_at() == start + 3 * SECOND
        storage.runs.cancel(RunQuery(run_ids=["1"]), CancelAction.INTERRUPT)
        assert storage.runs.next_available_at() is None

    def test_who_subscribed_is_woken_and_can_claim_at_once(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        got: list[str | None] = []

        def woken() -> None:
            run = claim_one(storage)
            got.append(None if run is None else run.run_id)

        make_thread(storage, "t")
        unsubscribe = storage.runs.subscribe(woken)
        make_run(storage, "1", "t")
        assert got == ["1"]
        first = storage.runs.get("1")
        assert first is not None
        make_run(storage, "2", "t")
        got.clear()
        end(storage, first)
        assert got == ["2"]
        second = storage.runs.get("2")
        assert second is not None
        storage.runs.release(second.lease)
        assert got == ["2", "2"]
        clock.advance(seconds=30)
        storage.runs.reap(max_attempts=9)
        assert got == ["2", "2", "2"]
        # Its worker is woken to hear that it is to stop.
        storage.runs.cancel(RunQuery(run_ids=["2"]), CancelAction.INTERRUPT)
        assert got == ["2", "2", "2", None]
        unsubscribe()
        storage.runs.reap(everybody=True)
        make_run(storage, "3", "t")
        assert got == ["2", "2", "2", None]

    def test_who_follows_a_run_is_woken_by_its_end(self, storage: Storage) -> None:
        make_thread(storage, "t")
        endings: dict[str, Callable[[], object]] = {
            "settled": lambda: end(storage, claimed(storage)),
            "rolled": lambda: end(storage, claimed(storage), roll_back=True),
            "cancelled": lambda: storage.runs.cancel(RunQuery(), CancelAction.INTERRUPT),
            "removed": lambda: storage.runs.cancel(RunQuery(), CancelAction.ROLLBACK),
            "deleted": lambda: storage.runs.delete("deleted"),
            "lost": lambda: (claimed(storage), storage.runs.reap(everybody=True)),
            "outdone": lambda: make_run(storage, "new", "t", multitask=Multitask.INTERRUPT),
        }
        for run_id, act in endings.items():
            make_run(storage, run_id, "t")
            statuses: list[RunStatus | None] = []

            def look(run_id: str = run_id, statuses: list[RunStatus | None] = statuses) -> None:
                statuses.append(storage.events.read(run_id).status)

            unsubscribe = storage.events.subscribe(run_id, look)
            act()
            unsubscribe()
            assert statuses, run_id
            assert statuses[-1] not in (RunStatus.PENDING, RunStatus.RUNNING), run_id
