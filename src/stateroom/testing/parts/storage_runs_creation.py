"""What making runs does, and what keeps runs from being made."""

from __future__ import annotations

from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import NewRun, RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery
from stateroom.errors import (
    Conflict,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
    StateroomError,
    ThreadBusy,
    ThreadStatusMismatch,
)
from stateroom.model.limits import METADATA_BYTES_MAX, RUN_BATCH_MAX
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import EVERY, claimed, end, found, got, ids_of, thread
from stateroom.testing.storage_harness import (
    SECOND,
    StorageHarness,
    check_id,
    claim_one,
    make_run,
    make_thread,
    new_run,
)

__all__ = ["CreationSuite"]


class CreationSuite(StorageHarness):
    """Making runs."""

    def test_a_run_is_answered_as_it_is_kept(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        new = NewRun(
            "r",
            "t",
            "a",
            3,
            {"input": {"x": [1, None]}},
            private={"token": "secret"},
            metadata={"tag": "x"},
            multitask=Multitask.INTERRUPT,
            delay=5 * SECOND,
        )
        (run,) = storage.runs.create([new])
        assert run == Run(
            run_id="r",
            thread_id="t",
            assistant_id="a",
            assistant_version=3,
            status=RunStatus.PENDING,
            created_at=clock(),
            updated_at=clock(),
            available_at=clock() + 5 * SECOND,
            started_at=None,
            ended_at=None,
            multitask=Multitask.INTERRUPT,
            metadata={"tag": "x"},
            kwargs={"input": {"x": [1, None]}},
            private=None,
            attempt=0,
            fence=0,
            lease_owner=None,
            lease_until=None,
            cancel=None,
            cancel_reason=None,
            error=None,
        )
        assert storage.runs.get("r") == run
        assert storage.runs.search(EVERY).rows == [run]

    def test_kwargs_may_be_whatever_json_can_say(self, storage: Storage) -> None:
        make_thread(storage, "t")
        kwargs = {"nul": "a\0b", "lone": "\ud800", "large": 2**200, "infinite": float("inf")}
        assert make_run(storage, "r", "t", kwargs=kwargs, private=kwargs).kwargs == kwargs
        assert got(storage, "r").kwargs == kwargs
        run = claimed(storage)
        assert (run.kwargs, run.private) == (kwargs, kwargs)

    def test_runs_are_answered_in_their_order(self, storage: Storage) -> None:
        for thread_id in ("b", "a"):
            make_thread(storage, thread_id)
        runs = storage.runs.create([new_run("3", "b"), new_run("1", "a"), new_run("2", "b")])
        assert [(run.run_id, run.status) for run in runs] == [(each, RunStatus.PENDING) for each in "312"]
        assert storage.runs.create([]) == []

    def test_an_unknown_thread_makes_none_of_them(self, storage: Storage) -> None:
        make_thread(storage, "t")
        with pytest.raises(NotFound) as raised:
            storage.runs.create([new_run("1", "t"), new_run("2", "unknown")])
        assert raised.value.field == "thread_id"
        assert storage.runs.count(EVERY) == 0
        assert storage.runs.next_available_at() is None

    def test_a_thread_can_be_made_with_its_run(self, storage: Storage) -> None:
        thread = NewThread("t", metadata={"by": "run"})
        storage.runs.create([new_run("1", "t", new_thread=thread), new_run("2", "t", new_thread=thread)])
        made = storage.threads.get("t")
        assert made is not None
        assert (made.metadata, made.status) == ({"by": "run"}, ThreadStatus.IDLE)
        # One that is there stays as it is.
        storage.runs.create([new_run("3", "t", new_thread=NewThread("t", metadata={"by": "another"}))])
        assert storage.threads.get("t") == made
        assert found(storage, RunQuery(thread_id="t")) == ["3", "2", "1"]

    def test_a_thread_notes_what_a_run_says_unless_it_has_some_of_it(self, storage: Storage) -> None:
        make_thread(storage, "t", metadata={"by": "somebody"})
        first, second = {"graph": "a", "more": 1}, {"graph": "b", "other": 2}
        storage.runs.create(
            [new_run("1", "t", thread_metadata=first), new_run("2", "t", thread_metadata=second)]
        )
        noted = {"by": "somebody", **first}
        assert thread(storage).metadata == noted
        make_run(storage, "3", "t", thread_metadata=second)
        assert thread(storage).metadata == noted
        found = storage.threads.search(ThreadQuery(metadata={"graph": "a", "more": 1}))
        assert [each.thread_id for each in found.rows] == ["t"]
        with pytest.raises(ThreadBusy):
            make_run(storage, "4", "t", multitask=Multitask.REJECT, thread_metadata={"late": True})
        assert thread(storage).metadata == noted
        with pytest.raises(LimitExceeded) as refused:
            make_run(storage, "5", "t", thread_metadata={"k": "v" * METADATA_BYTES_MAX})
        assert refused.value.field == "metadata"

    def test_no_thread_is_left_of_runs_that_were_not_made(self, storage: Storage) -> None:
        with pytest.raises(NotFound):
            storage.runs.create([new_run("1", "t", new_thread=NewThread("t")), new_run("2", "unknown")])
        assert storage.threads.get("t") is None

    def test_a_thread_must_have_one_of_the_statuses(self, storage: Storage) -> None:
        make_thread(storage, "t")
        idle = [ThreadStatus.IDLE]
        busy = [ThreadStatus.BUSY, ThreadStatus.ERROR]
        with pytest.raises(ThreadStatusMismatch) as raised:
            make_run(storage, "1", "t", if_thread_status=busy)
        assert raised.value.field == "if_thread_status"
        assert storage.runs.get("1") is None
        with pytest.raises(ThreadStatusMismatch):
            make_run(storage, "1", "new", if_thread_status=busy, new_thread=NewThread("new"))
        assert storage.threads.get("new") is None
        # A run that waits leaves its thread idle.
        make_run(storage, "1", "t", if_thread_status=idle)
        make_run(storage, "2", "t", if_thread_status=idle)
        claimed(storage)
        with pytest.raises(ThreadStatusMismatch):
            make_run(storage, "3", "t", if_thread_status=idle)
        make_run(storage, "3", "t", if_thread_status=busy)
        storage.threads.update("t", ThreadChange(interrupts={"task": [1]}))
        storage.runs.reap(everybody=True)
        make_run(storage, "4", "t", if_thread_status=[ThreadStatus.INTERRUPTED])

    def test_reject_wants_no_active_run(self, storage: Storage, clock: ManualClock) -> None:
        def rejected(run_id: str) -> bool:
            try:
                make_run(storage, run_id, "t", multitask=Multitask.REJECT)
            except ThreadBusy as error:
                return error.field == "multitask" and storage.runs.get(run_id) is None
            return False

        make_thread(storage, "t")
        make_run(storage, "delayed", "t", delay=SECOND)
        # One that is not yet due is not in the way; another thread's is not either.
        make_thread(storage, "other")
        make_run(storage, "others", "other")
        assert not rejected("1")
        assert rejected("2")
        assert claimed(storage, "t").run_id == "1"
        assert rejected("2")
        end(storage, got(storage, "1"))
        assert not rejected("2")
        clock.advance(seconds=1)
        storage.runs.cancel(RunQuery(run_ids=["2"]), CancelAction.INTERRUPT)
        assert rejected("3")

    def test_enqueue_leaves_the_others(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        claimed(storage)
        make_run(storage, "2", "t")
        before = [got(storage, each) for each in "12"]
        make_run(storage, "3", "t", multitask=Multitask.ENQUEUE)
        assert [got(storage, each) for each in "12"] == before

    @pytest.mark.parametrize("multitask", [Multitask.INTERRUPT, Multitask.ROLLBACK])
    def test_a_new_run_cancels_the_active_ones(self, storage: Storage, multitask: Multitask) -> None:
        for thread_id in ("t", "other"):
            make_thread(storage, thread_id)
        make_run(storage, "running", "t")
        running = claimed(storage)
        make_run(storage, "waiting", "t")
        make_run(storage, "delayed", "t", delay=SECOND)
        make_run(storage, "others", "other")
        make_run(storage, "new", "t", multitask=multitask)
        (renewal,) = storage.runs.renew([running.lease], lease=SECOND)
        assert renewal.cancel == CancelAction(multitask)
        waiting = storage.runs.get("waiting")
        if multitask is Multitask.INTERRUPT:
            assert waiting is not None
            assert waiting.status is RunStatus.INTERRUPTED
        else:
            assert waiting is None
        assert {got(storage, each).status for each in ("delayed", "others", "new")} == {RunStatus.PENDING}
        end(storage, running)
        assert claimed(storage, "t").run_id == "new"

    def test_later_runs_of_a_call_see_the_earlier_ones(self, storage: Storage) -> None:
        make_thread(storage, "t")
        with pytest.raises(ThreadBusy):
            storage.runs.create([new_run("1", "t"), new_run("2", "t", multitask=Multitask.REJECT)])
        assert storage.runs.count(EVERY) == 0
        runs = storage.runs.create(
            [
                new_run("1", "t"),
                new_run("2", "t", multitask=Multitask.INTERRUPT),
                new_run("3", "t", multitask=Multitask.ROLLBACK),
            ]
        )
        assert ids_of(runs) == ["1", "2", "3"]
        assert got(storage, "1").status is RunStatus.INTERRUPTED
        assert storage.runs.get("2") is None
        assert claimed(storage).run_id == "3"
        assert claim_one(storage) is None

    def test_a_taken_id_makes_none_of_them(self, storage: Storage) -> None:
        for thread_id in ("t", "other"):
            make_thread(storage, thread_id)
        kept = make_run(storage, "1", "t")
        for taken in (
            [new_run("2", "t"), new_run("1", "other")],
            [new_run("2", "t"), new_run("2", "t")],
        ):
            with pytest.raises(Conflict) as raised:
                storage.runs.create(taken)
            assert raised.value.field == "run_id"
            assert storage.runs.search(EVERY).rows == [kept]

    def test_a_call_makes_so_many_runs_and_no_more(self, storage: Storage) -> None:
        make_thread(storage, "t")
        runs = [new_run(f"r{number}", "t") for number in range(RUN_BATCH_MAX + 1)]
        with pytest.raises(LimitExceeded) as raised:
            storage.runs.create(runs)
        assert raised.value.field == "runs"
        assert len(storage.runs.create(runs[1:])) == RUN_BATCH_MAX

    def test_what_no_run_can_be_is_refused(self, storage: Storage) -> None:
        make_thread(storage, "t")
        thread = NewThread("t")
        check_id("run_id", lambda value: make_run(storage, value, "t"))
        check_id("thread_id", lambda value: make_run(storage, f"of {value!r}"[:50], value, new_thread=thread))
        check_id(
            "assistant_id", lambda value: make_run(storage, f"by {value!r}"[:50], "t", assistant_id=value)
        )
        refusals: list[tuple[str, type[StateroomError], dict[str, Any]]] = [
            ("delay", InvalidInput, {"delay": -1}),
            ("delay", InvalidInput, {"delay": 1.5}),
            ("delay", LimitExceeded, {"delay": 2**63}),
            ("metadata.x", InvalidValue, {"metadata": {"x": {1}}}),
            ("kwargs", InvalidValue, {"kwargs": {"x": {1}}}),
            ("private", InvalidValue, {"private": {"x": {1}}}),
        ]
        before = storage.runs.count(EVERY)
        for field, error, fields in refusals:
            with pytest.raises(error) as raised:
                make_run(storage, "wrong", "t", **fields)
            assert raised.value.field == field
        assert storage.runs.count(EVERY) == before
