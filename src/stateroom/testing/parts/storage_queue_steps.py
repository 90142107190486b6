"""Short ways through the queue, which its tests take."""

from __future__ import annotations

from typing import Any

from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.storage import Storage
from stateroom.model.run import Attempt, Run, RunStatus
from stateroom.model.thread import Thread, ThreadStatus
from stateroom.testing.storage_harness import (
    LEASE,
    claim_one,
)

__all__ = ["EVERY", "claimed", "current", "drained", "end", "found", "got", "ids_of", "thread"]


EVERY = RunQuery()


def ids_of(runs: list[Run]) -> list[str]:
    """Return the ids of runs in their order."""
    return [run.run_id for run in runs]


def found(storage: Storage, query: RunQuery = EVERY, **paging: Any) -> list[str]:
    """Return the ids of the runs on one page."""
    return ids_of(storage.runs.search(query, **paging).rows)


def got(storage: Storage, run_id: str) -> Run:
    """Return a run that is there."""
    run = storage.runs.get(run_id)
    assert run is not None
    return run


def claimed(storage: Storage, thread_id: str | None = None) -> Run:
    """Claim the next run, or that of a thread, with those of other threads that come first."""
    runs = storage.runs.claim("worker", lease=LEASE, limit=1 if thread_id is None else 100)
    (run,) = [run for run in runs if thread_id in (None, run.thread_id)]
    return run


def end(storage: Storage, run: Run, **fields: Any) -> Run:
    """End a claimed run, with success unless told otherwise."""
    ending: dict[str, Any] = {"status": RunStatus.SUCCESS, "thread_status": ThreadStatus.IDLE, **fields}
    return storage.runs.settle(run.lease, Settlement(**ending))


def thread(storage: Storage, thread_id: str = "t") -> Thread:
    """Return a thread that is there."""
    found = storage.threads.get(thread_id)
    assert found is not None
    return found


def current(storage: Storage, thread_id: str = "t") -> Attempt:
    """Return the attempt that a thread is busy with."""
    (run,) = storage.runs.search(RunQuery(thread_id, statuses=[RunStatus.RUNNING])).rows
    return run.lease


def drained(storage: Storage) -> list[str]:
    """Claim and end one run after the other until none is left; return their ids."""
    ids = []
    while run := claim_one(storage):
        ids.append(run.run_id)
        end(storage, run)
    return ids
