"""How a thread goes, with everything that is known under its id."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import NewAssistant
from stateroom.contract.crons import CronQuery, NewCron
from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery
from stateroom.errors import Conflict, Fenced, NotFound
from stateroom.model.delivery import NewDelivery
from stateroom.model.frame import NewFrame
from stateroom.model.run import Run, RunStatus
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL
from stateroom.testing.storage_harness import (
    LEASE,
    SECOND,
    StorageHarness,
    check_refused,
    claim_one,
    make_run,
    make_thread,
    new_run,
    together,
)

__all__ = ["ThreadDeletionSuite"]

CALLERS = 12
MINUTE = 60 * SECOND
HOUR = 60 * MINUTE
DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"answer": 1})


def fill(storage: Storage, thread_id: str) -> Run:
    """Make a thread with all that a thread may have; return its run that executes."""
    make_thread(storage, thread_id, metadata={"who": thread_id})
    deliveries = [NewDelivery(f"delivery of {thread_id}", "https://example.org", {})]
    run = run_once(storage, thread_id, "ended", deliveries=deliveries)
    storage.idempotency.claim("s", thread_id, fingerprint="f", claim_id="c", lifetime=HOUR)
    storage.idempotency.record(
        "s",
        thread_id,
        claim_id="c",
        response=b"{}",
        thread_id=thread_id,
        run_id=run.run_id,
        lifetime=HOUR,
    )
    if storage.assistants.get("a") is None:
        storage.assistants.create(NewAssistant("a", "graph"))
    storage.crons.create(
        NewCron(f"cron of {thread_id}", "a", "* * * * *", {}, None, thread_id=thread_id, metadata={"c": 1})
    )
    make_run(storage, f"waiting of {thread_id}", thread_id, delay=HOUR)
    return started(storage, thread_id, "executing")


def started(storage: Storage, thread_id: str, name: str) -> Run:
    """Return a run of a thread that executes, and has streamed a frame."""
    make_run(storage, f"{name} of {thread_id}", thread_id)
    run = claim_one(storage)
    assert run is not None
    assert run.thread_id == thread_id
    storage.events.append(run.lease, [NewFrame("values", b"{}")])
    return run


def run_once(storage: Storage, thread_id: str, name: str, **fields: Any) -> Run:
    """Return a run of a thread that has ended."""
    run = started(storage, thread_id, name)
    settlement = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"answer": 1}, **fields)
    return storage.runs.settle(run.lease, settlement)


def what_is_there(storage: Storage, thread_id: str) -> dict[str, object]:
    """Return what can be seen of a thread that was filled."""
    runs = {name: storage.runs.get(f"{name} of {thread_id}") for name in ("ended", "waiting", "executing")}
    query = ThreadQuery(metadata={"who": thread_id})
    return {
        "thread": storage.threads.get(thread_id),
        "found": storage.threads.search(query).rows,
        "found by id": storage.threads.search(ThreadQuery(ids=[thread_id])).rows,
        "found by values": storage.threads.count(
            query._replace(metadata=None, values={"answer": 1}, ids=[thread_id])
        ),
        "counted": storage.threads.count(query),
        **runs,
        "runs": storage.runs.search(RunQuery(thread_id=thread_id)).rows,
        "count of runs": storage.runs.count(RunQuery(thread_id=thread_id)),
        "frames": storage.events.read(f"ended of {thread_id}").frames,
        "status": storage.events.read(f"ended of {thread_id}").status,
        "cron": storage.crons.get(f"cron of {thread_id}"),
        "crons": storage.crons.search(CronQuery(thread_id=thread_id, metadata={"c": 1})).rows,
        "delivery": storage.deliveries.get(f"delivery of {thread_id}"),
        "record": storage.idempotency.get("s", thread_id),
    }


class ThreadDeletionSuite(StorageHarness):
    """At once nobody sees it, and nobody may write under its id."""

    def test_a_thread_goes_with_all_that_it_has_and_the_others_stay(self, storage: Storage) -> None:
        fill(storage, "t")
        fill(storage, "u")
        for thread_id in ("t", "u"):
            assert all(what_is_there(storage, thread_id).values())
        kept = what_is_there(storage, "u")
        assert storage.threads.delete("t")
        assert not any(what_is_there(storage, "t").values())
        assert what_is_there(storage, "u") == kept
        assert storage.threads.resume_deletions() == 0

    def test_deleting_tells_whether_it_was_there(self, storage: Storage) -> None:
        assert not storage.threads.delete("t")
        make_thread(storage, "t")
        assert storage.threads.delete("t")
        assert not storage.threads.delete("t")

    def test_of_many_who_delete_one_thread_one_has_deleted_it(self, storage: Storage) -> None:
        fill(storage, "t")
        gone = together(CALLERS, lambda _: storage.threads.delete("t"))
        assert sorted(map(str, gone)) == ["False"] * (CALLERS - 1) + ["True"]

    def test_nobody_can_write_under_the_id_of_a_thread_that_is_gone(self, storage: Storage) -> None:
        executing = fill(storage, "t")
        storage.threads.delete("t")
        check_refused(Fenced, "attempt", partial(storage.runs.settle, executing.lease, DONE))
        check_refused(Fenced, "attempt", partial(storage.runs.release, executing.lease))
        frames = [NewFrame("values", b"{}")]
        with pytest.raises(Fenced):
            storage.events.append(executing.lease, frames)
        check_refused(NotFound, "thread_id", partial(storage.runs.create, [new_run("r", "t")]))
        check_refused(NotFound, "thread_id", partial(storage.threads.update, "t", ThreadChange()))
        check_refused(NotFound, "thread_id", partial(storage.threads.copy, "t", "copy"))
        cron = NewCron("c", "a", "* * * * *", {}, None, thread_id="t")
        check_refused(NotFound, "thread_id", partial(storage.crons.create, cron))
        (renewal,) = storage.runs.renew([executing.lease], lease=LEASE)
        assert not renewal.alive
        assert not any(what_is_there(storage, "t").values())

    def test_a_new_thread_of_the_id_has_nothing_of_the_old(self, storage: Storage) -> None:
        fill(storage, "t")
        storage.threads.delete("t")
        made = make_thread(storage, "t")
        assert storage.threads.get("t") == made
        assert storage.threads.search(ThreadQuery(metadata={})).rows == [made]
        assert (made.metadata, made.values) == ({}, None)
        seen = what_is_there(storage, "t")
        assert {name for name, value in seen.items() if value} == {"thread", "found by id"}
        # Nothing of the old waits, and what is new runs.
        assert claim_one(storage) is None
        assert run_once(storage, "t", "ended").status is RunStatus.SUCCESS

    def test_its_worker_and_its_readers_hear_of_it(self, storage: Storage) -> None:
        executing = fill(storage, "t")
        heard: list[str] = []
        storage.runs.subscribe(lambda: heard.append("worker"))
        for run_id in (executing.run_id, "waiting of t"):
            storage.events.subscribe(run_id, partial(heard.append, run_id))
        storage.threads.delete("t")
        assert set(heard) == {"worker", executing.run_id, "waiting of t"}

    def test_a_thread_that_was_used_meanwhile_is_not_deleted_for_its_age(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        old = make_thread(storage, "t", ttl=ThreadTTL(1))
        never = make_thread(storage, "never")
        clock.advance(minutes=2)
        used = storage.threads.update("t", ThreadChange(metadata={"a": 1}))
        assert not storage.threads.delete("t", if_expires_at=old.expires_at)
        assert storage.threads.get("t") == used
        assert not storage.threads.delete("never", if_expires_at=old.expires_at)
        assert storage.threads.get("never") == never
        assert storage.threads.delete("t", if_expires_at=used.expires_at)
        assert storage.threads.get("t") is None

    def test_a_settlement_that_deletes_its_thread_leaves_its_deliveries_alone(self, storage: Storage) -> None:
        fill(storage, "u")
        make_thread(storage, "t")
        run = started(storage, "t", "executing")
        call = NewDelivery("call", "https://example.org", {"done": True})
        end = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, delete_thread=True, deliveries=[call])
        storage.runs.settle(run.lease, end)
        assert not any(what_is_there(storage, "t").values())
        assert storage.deliveries.get("call") is not None
        assert storage.threads.resume_deletions() == 0

    def test_threads_that_are_made_and_deleted_at_once_are_there_or_not(self, storage: Storage) -> None:
        def act(number: int) -> object:
            if number % 3 == 0:
                return storage.threads.delete("t")
            if number % 3 == 1:
                return storage.threads.create(NewThread("t", {"n": number}), if_exists="do_nothing")
            return storage.runs.create([new_run(f"r{number}", "t", new_thread=NewThread("t"))])

        for _ in range(5):
            for outcome in together(CALLERS, act):
                assert not isinstance(outcome, Exception) or isinstance(outcome, Conflict)
            thread = storage.threads.get("t")
            found = storage.threads.search(ThreadQuery()).rows
            assert found == ([thread] if isinstance(thread, Thread) else [])
            runs = storage.runs.search(RunQuery(thread_id="t")).rows
            assert thread is not None or runs == []
            storage.threads.delete("t")
            assert storage.runs.count(RunQuery()) == 0
