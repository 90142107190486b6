"""Cases in which public servers' runs have failed their users, replayed on the queue of every storage."""

from __future__ import annotations

from pathlib import Path

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import Fenced, NotFound, ThreadBusy
from stateroom.model.frame import NewFrame
from stateroom.model.run import CancelAction, Multitask, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import claimed, drained, end, got, ids_of, thread
from stateroom.testing.storage_harness import LEASE, OpensStorage, claim_one, make_run, make_thread, together
from tests.storage.conftest import KINDS, maker


@pytest.fixture(params=KINDS)
def new_storage(request: pytest.FixtureRequest, tmp_path: Path) -> OpensStorage:
    opens: OpensStorage = maker(request.param, tmp_path, request)
    return opens


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(new_storage: OpensStorage, clock: ManualClock) -> SqlStorage:
    storage = new_storage(clock=clock)
    storage.open()
    assert isinstance(storage, SqlStorage)
    return storage


def lose(storage: Storage, clock: ManualClock, max_attempts: int) -> None:
    """Let a worker die, and a recovery interval pass."""
    clock.microseconds += LEASE
    storage.runs.reap(max_attempts=max_attempts)


@pytest.mark.parametrize("max_attempts", [0, 3])
def test_A04_after_a_death_the_thread_is_free(
    storage: SqlStorage, clock: ManualClock, max_attempts: int
) -> None:
    make_thread(storage, "t")
    make_run(storage, "lost", "t")
    make_run(storage, "waiting", "t")
    claimed(storage)
    lose(storage, clock, max_attempts)
    run = got(storage, "lost")
    assert run.status is (RunStatus.PENDING if max_attempts else RunStatus.ERROR)
    assert thread(storage).status is not ThreadStatus.BUSY
    # Cancelling ends it, if it has not ended, and one more is welcome.
    cancelled = storage.runs.cancel(RunQuery(run_ids=["lost"]), CancelAction.INTERRUPT)
    assert cancelled == ([("lost", "t", True)] if max_attempts else [])
    assert got(storage, "lost").ended_at is not None
    make_run(storage, "new", "t")
    assert drained(storage) == ["waiting", "new"]


def test_A04_cancelling_a_run_without_a_worker_ends_it(storage: SqlStorage, clock: ManualClock) -> None:
    make_thread(storage, "t")
    make_run(storage, "lost", "t")
    claimed(storage)
    storage.runs.cancel(RunQuery(run_ids=["lost"]), CancelAction.INTERRUPT, reason="user")
    lose(storage, clock, 3)
    run = got(storage, "lost")
    assert (run.status, run.cancel_reason) == (RunStatus.INTERRUPTED, "user")
    assert thread(storage).status is ThreadStatus.IDLE


def test_A04_runs_of_deleted_threads_are_not_tried_again(storage: SqlStorage, clock: ManualClock) -> None:
    make_thread(storage, "t")
    make_run(storage, "lost", "t")
    make_run(storage, "waiting", "t")
    attempt = claimed(storage).lease
    # The process dies when the thread is gone, and its runs are still in their table.
    storage.dialect.write(lambda session: session.execute("delete from stateroom.thread"))
    assert storage.runs.next_available_at() is None
    assert claim_one(storage) is None
    assert ids_of(storage.runs.search(RunQuery()).rows) == []
    with pytest.raises(Fenced):
        storage.runs.release(attempt)
    with pytest.raises(NotFound):
        make_run(storage, "new", "t")
    for _ in range(3):
        lose(storage, clock, 3)
        assert claim_one(storage) is None
    statement = "select count(*) from stateroom.run where status = 'running'"
    assert storage.dialect.read(lambda session: session.fetch(statement)) == [(0,)]


def test_A12_a_renewed_run_is_executed_once(storage: SqlStorage, clock: ManualClock) -> None:
    make_thread(storage, "t")
    make_run(storage, "long", "t")
    run = claimed(storage)
    # Four minutes, while another worker looks for something to do and for lost runs.
    for _ in range(24):
        clock.advance(seconds=10)
        assert storage.runs.renew([run.lease], lease=LEASE)[0].alive
        assert storage.runs.reap(max_attempts=3) == []
        assert claim_one(storage, "another") is None
    ended = end(storage, run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 1)


def test_A12_only_a_lost_owners_run_is_executed_again(storage: SqlStorage, clock: ManualClock) -> None:
    for name in ("kept", "lost"):
        make_thread(storage, name)
        make_run(storage, name, name)
    kept, lost = storage.runs.claim("w", lease=LEASE, limit=2)
    clock.advance(seconds=20)
    storage.runs.renew([kept.lease], lease=LEASE)
    clock.advance(seconds=20)
    assert ids_of(storage.runs.reap(max_attempts=3)) == ["lost"]
    again = claimed(storage)
    assert (again.run_id, again.attempt) == ("lost", 2)
    # The owner that was taken for lost comes back: it can write nothing more.
    with pytest.raises(Fenced):
        end(storage, lost)
    with pytest.raises(Fenced):
        storage.events.append(lost.lease, [NewFrame("values", b"{}")])
    end(storage, again)
    end(storage, kept)


@pytest.mark.parametrize("multitask", Multitask)
def test_A15_a_second_message_while_the_first_is_answered(storage: SqlStorage, multitask: Multitask) -> None:
    make_thread(storage, "t")
    make_run(storage, "first", "t")
    first = claimed(storage)
    if multitask is Multitask.REJECT:
        with pytest.raises(ThreadBusy):
            make_run(storage, "second", "t", multitask=multitask)
        assert storage.runs.get("second") is None
        end(storage, first)
        return
    make_run(storage, "second", "t", multitask=multitask)
    # Whatever the strategy, they do not overlap.
    assert claim_one(storage) is None
    (renewal,) = storage.runs.renew([first.lease], lease=LEASE)
    if multitask is Multitask.ENQUEUE:
        assert renewal.cancel is None
        make_run(storage, "third", "t", multitask=multitask)
        end(storage, first)
        assert drained(storage) == ["second", "third"]
        return
    assert renewal.cancel == CancelAction(multitask)
    rolls_back = multitask is Multitask.ROLLBACK
    end(storage, first, status=RunStatus.INTERRUPTED, roll_back=rolls_back)
    assert drained(storage) == ["second"]
    assert (storage.runs.get("first") is None) == rolls_back
    assert rolls_back or got(storage, "first").status is RunStatus.INTERRUPTED


def test_A15_of_all_who_claim_at_once_one_gets_the_thread(storage: SqlStorage) -> None:
    make_thread(storage, "t")
    for number in range(8):
        make_run(storage, f"r{number}", "t")
    claims = together(8, lambda number: storage.runs.claim(f"w{number}", lease=LEASE, limit=8))
    assert [run.run_id for runs in claims if isinstance(runs, list) for run in runs] == ["r0"]


def test_A45_no_secret_is_left_of_a_run(storage: SqlStorage) -> None:
    make_thread(storage, "t")
    secret = {"context": {"jwt": "SECRET-1"}, "user": {"token": "SECRET-2"}}
    for run_id in ("settled", "cancelled", "waiting"):
        make_run(storage, run_id, "t", private=secret)
    run = claimed(storage)
    assert run.private == secret
    ended = end(storage, run, values={"x": 1})
    storage.runs.cancel(RunQuery(run_ids=["cancelled"]), CancelAction.INTERRUPT)
    seen = [ended, *storage.runs.search(RunQuery()).rows, got(storage, "waiting")]
    assert "SECRET" not in repr(seen)
    # The only row that holds it is the one that still needs it; a resumed run is given its own.
    rows = storage.dialect.read(
        lambda session: session.fetch("select run_id from stateroom.run where private is not null")
    )
    assert rows == [("waiting",)]
    assert claimed(storage).private == secret
