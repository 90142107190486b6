"""Workers that are killed at any moment lose no run, leave none stuck, and no thread busy without one."""

from __future__ import annotations

import random
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.threads import NewThread, ThreadQuery
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.model.run import ENDED, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.storage_harness import new_run
from tests.conftest import NewSchema
from tests.faults.conftest import Child, Start
from tests.faults.programs.queue_children import ATTEMPTS, HOUR, LEASE, work
from tests.faults.programs.queue_ledger import Ledger, assert_whole, rows
from tests.faults.programs.storage_children import claim_and_wait
from tests.faults.programs.storage_places import Place, SharedClock, open_storage
from tests.faults.programs.storage_scanning import holding
from tests.faults.watching import Watch, named, until

SEEDS, KILLS = range(10), 20
MESSAGES, SPINS = 80, 400_000
EPOCH = 5
"""Kills after which delayed runs are due, and workers begin with other threads."""


def hear(ledger: Ledger, name: str, messages: list[Any]) -> None:
    for message in messages:
        if message != "ready":
            ledger.hear(name, message)


def kill_some_time_after(child: Child, dice: random.Random) -> list[Any]:
    """Kill a process some time after some messages; return all that it said.

    Whoever hears a message wakes up at once, so that without the spins all would be killed while they begin.
    """
    messages = child.messages()
    told = list(islice(messages, dice.randrange(MESSAGES)))
    for _ in range(dice.randrange(SPINS)):
        pass
    child.kill()
    return told + list(messages)


def drain(storage: SqlStorage, clock: SharedClock) -> None:
    """Execute everything that is left, each run once."""
    clock.advance(2 * HOUR)
    while storage.runs.reap(max_attempts=ATTEMPTS):
        pass
    executed = []
    while claimed := storage.runs.claim("drain", lease=LEASE, limit=10):
        for run in claimed:
            storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))
            executed.append(run.run_id)
    assert len(executed) == len(set(executed))
    assert storage.runs.count(RunQuery()) == storage.runs.count(RunQuery(statuses=ENDED))
    assert storage.runs.next_available_at() is None
    assert storage.threads.count(ThreadQuery(status=ThreadStatus.BUSY)) == 0


def assert_nothing_is_left_of_deleted_threads(ledger: Ledger, storage: SqlStorage) -> None:
    threads = {thread for (thread,) in rows(storage, "select thread_id from stateroom.thread")}
    if gone := ledger.deleted - threads:
        assert holding(storage, *gone) == {}


@pytest.mark.parametrize("seed", SEEDS)
def test_kill_9_of_the_owner_of_a_file_loses_no_run_and_executes_none_again(
    start: Start, tmp_path: Path, seed: int
) -> None:
    place = Place(str(tmp_path / "server.db"), clock=str(tmp_path / "clock"))
    dice, clock = random.Random(seed), SharedClock(str(tmp_path / "clock"))
    ledger = Ledger(alone=True)
    for kill in range(KILLS):
        name = f"w{kill}"
        child = start(work, place, name, seed)
        hear(ledger, name, kill_some_time_after(child, dice))
        ledger.killed(name)
        if kill % EPOCH == EPOCH - 1:
            clock.advance(HOUR)
        with open_storage(place) as storage:
            ledger.compare(storage, alive=set())
            assert_whole(storage)
    with open_storage(place) as storage:
        assert_nothing_is_left_of_deleted_threads(ledger, storage)
        drain(storage, clock)
        assert_whole(storage)


def asked_to_renew(child: Child, ledger: Ledger, name: str) -> set[str]:
    """Have a worker stop where it is and renew its leases; return the runs that it still has."""
    child.pipe.send("renew")
    for message in child.messages():
        if message[0] == "paused":
            return set(message[1])
        hear(ledger, name, [message])
    raise AssertionError(f"{name} died by itself")


@pytest.mark.parametrize("seed", SEEDS)
def test_kill_9_of_one_of_two_workers_loses_no_run_and_the_other_takes_over(
    start: Start, postgres: str, new_schema: NewSchema, tmp_path: Path, seed: int
) -> None:
    schema = new_schema()
    place = Place(postgres, schema, str(tmp_path / "clock"))
    dice, clock = random.Random(seed), SharedClock(str(tmp_path / "clock"))
    ledger = Ledger(alone=False)
    with open_storage(place) as storage:

        def begin(number: int) -> tuple[str, Child]:
            name = f"{schema}_{number}"
            child = start(work, place._replace(at=named(postgres, name)), name, seed)
            assert child.pipe.recv() == "ready"
            return name, child

        other = begin(0)
        for kill in range(1, KILLS + 1):
            (name, child), (survivor, survivors) = begin(kill), other
            if dice.random() < 0.5:
                name, child, survivor, survivors = survivor, survivors, name, child
            hear(ledger, name, kill_some_time_after(child, dice))
            ledger.killed(name)
            wait_for_the_end(Watch(postgres, name))
            asked_to_renew(survivors, ledger, survivor)
            clock.advance(HOUR if kill % EPOCH == 0 else LEASE * 6 // 10)
            alive = asked_to_renew(survivors, ledger, survivor)
            clock.advance(LEASE * 6 // 10)
            storage.threads.resume_deletions()
            while reaped := storage.runs.reap(max_attempts=ATTEMPTS):
                assert not alive & {run.run_id for run in reaped}
                hear(ledger, "", [("try", "reap", {}, None), ("done", "reap", {}, _said(reaped))])
            ledger.compare(storage, alive)
            assert_whole(storage)
            survivors.pipe.send("go")
            other = survivor, survivors
        other[1].kill()
        wait_for_the_end(Watch(postgres, other[0]))
        storage.threads.resume_deletions()
        assert_nothing_is_left_of_deleted_threads(ledger, storage)
        drain(storage, clock)
        assert_whole(storage)


def test_a_run_whose_workers_are_all_killed_is_executed_three_times_and_ends_with_an_error(
    start: Start, postgres: str, new_schema: NewSchema, tmp_path: Path
) -> None:
    schema = new_schema()
    place = Place(postgres, schema, str(tmp_path / "clock"))
    clock = SharedClock(str(tmp_path / "clock"))
    with open_storage(place) as storage:
        storage.runs.create([new_run("deadly", "t", new_thread=NewThread("t"))])
        storage.runs.create([new_run("behind it", "t")])
        for attempt in range(1, ATTEMPTS + 1):
            child = start(claim_and_wait, place._replace(at=named(postgres, f"{schema}_{attempt}")))
            assert child.pipe.recv() == ["deadly"]
            child.kill()
            wait_for_the_end(Watch(postgres, f"{schema}_{attempt}"))
            assert storage.runs.reap(max_attempts=ATTEMPTS) == []
            clock.advance(LEASE)
            (freed,) = storage.runs.reap(max_attempts=ATTEMPTS)
            last = attempt == ATTEMPTS
            assert (freed.run_id, freed.attempt) == ("deadly", attempt)
            assert freed.status is (RunStatus.ERROR if last else RunStatus.PENDING)
            assert (freed.error or {}).get("error") == ("abandoned" if last else None)
            assert_whole(storage)
        child = start(claim_and_wait, place)
        assert child.pipe.recv() == ["behind it"]


def wait_for_the_end(watch: Watch) -> None:
    """Wait until the server has ended what a killed process had begun."""
    until(lambda: not watch.sessions())


def _said(runs: list[Run]) -> list[tuple[str, str, int]]:
    return [(run.run_id, run.status, run.fence) for run in runs]
