"""What happens to the queue when many act at one moment."""

from __future__ import annotations

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import ThreadBusy
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import drained, end, thread
from stateroom.testing.storage_harness import (
    LEASE,
    StorageHarness,
    make_run,
    make_thread,
    new_run,
    together,
)

__all__ = ["RacingSuite"]


class RacingSuite(StorageHarness):
    """Callers in many threads, who meet before they act."""

    def test_of_many_who_want_to_be_alone_one_is(self, storage: Storage) -> None:
        make_thread(storage, "t")

        def create(number: int) -> list[Run]:
            return storage.runs.create([new_run(f"r{number}", "t", multitask=Multitask.REJECT)])

        outcomes = together(20, create)
        (made,) = [outcome for outcome in outcomes if isinstance(outcome, list)]
        assert all(isinstance(outcome, ThreadBusy) for outcome in outcomes if outcome is not made)
        assert storage.runs.search(RunQuery()).rows == made

    def test_of_many_who_make_one_thread_one_does(self, storage: Storage) -> None:
        def create(number: int) -> list[Run]:
            thread = NewThread("t", metadata={"by": number})
            return storage.runs.create([new_run(f"r{number}", "t", new_thread=thread)])

        outcomes = together(8, create)
        assert all(isinstance(outcome, list) for outcome in outcomes)
        assert sorted(drained(storage)) == [f"r{number}" for number in range(8)]

    def test_of_many_claimers_each_gets_others(self, storage: Storage) -> None:
        for number in range(10):
            make_thread(storage, f"t{number}")
            for each in range(3):
                make_run(storage, f"r{number}-{each}", f"t{number}")

        def claim(number: int) -> list[Run]:
            return storage.runs.claim(f"w{number}", lease=LEASE, limit=2)

        outcomes = together(8, claim)
        runs = [run for outcome in outcomes if isinstance(outcome, list) for run in outcome]
        runs += storage.runs.claim("w", lease=LEASE, limit=20)
        assert len({run.thread_id for run in runs}) == len(runs) == 10
        assert {run.run_id for run in runs} == {f"r{number}-0" for number in range(10)}

    def test_of_settling_and_cancelling_one_comes_first(self, storage: Storage) -> None:
        for number in range(10):
            make_thread(storage, f"t{number}")
            make_run(storage, f"r{number}", f"t{number}")
        runs = storage.runs.claim("w", lease=LEASE, limit=10)

        def act(number: int) -> object:
            run = runs[number // 2]
            if number % 2:
                return end(storage, run)
            return storage.runs.cancel(RunQuery(run_ids=[run.run_id]), CancelAction.INTERRUPT)

        outcomes = together(20, act)
        for number, run in enumerate(runs):
            cancelled, ended = outcomes[2 * number], outcomes[2 * number + 1]
            assert isinstance(ended, Run)
            # The worker was asked, or the run had ended: never is an ended run changed.
            assert cancelled in ([], [(run.run_id, run.thread_id, False)])
            assert storage.runs.get(run.run_id) == ended
            assert (ended.cancel is None) == (cancelled == [])
            assert thread(storage, run.thread_id).status is ThreadStatus.IDLE

    def test_of_claiming_and_cancelling_one_comes_first(self, storage: Storage) -> None:
        for number in range(10):
            make_thread(storage, f"t{number}")
            make_run(storage, f"r{number}", f"t{number}")

        def act(number: int) -> object:
            if number % 2:
                return storage.runs.claim("w", lease=LEASE)
            return storage.runs.cancel(RunQuery(run_ids=[f"r{number // 2}"]), CancelAction.INTERRUPT)

        outcomes = together(20, act)
        asked = {"running": 0, "interrupted": 0}
        for number in range(10):
            run = storage.runs.get(f"r{number}")
            assert run is not None
            cancelled = outcomes[2 * number]
            assert cancelled == [(run.run_id, run.thread_id, run.status is RunStatus.INTERRUPTED)] or (
                run.status is RunStatus.RUNNING and cancelled == []
            )
            busy = thread(storage, run.thread_id).status is ThreadStatus.BUSY
            assert busy == (run.status is RunStatus.RUNNING)
            asked[run.status] += 1
        claims = [outcome for outcome in outcomes[1::2] if isinstance(outcome, list)]
        assert asked["running"] == sum(map(len, claims))
