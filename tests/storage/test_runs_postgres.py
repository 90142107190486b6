"""The queue on Postgres when several have it at once: nobody waits for a claim, and nobody for ever."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import LiteralString

import psycopg
import pytest
from psycopg import sql

from stateroom.clock import ManualClock, system_clock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.errors import Fenced
from stateroom.model.run import CancelAction, RunStatus
from stateroom.search.index_config import parse_index_config
from stateroom.testing.parts.storage_queue_steps import claimed, end
from stateroom.testing.storage_harness import LEASE, claim_one, make_run, make_thread, new_run, together
from tests.conftest import NewSchema

WAIT_SECONDS = 60
WORKERS = 8

Opens = Callable[..., PostgresStorage]


@pytest.fixture
def schema(new_schema: NewSchema) -> str:
    return new_schema()


@pytest.fixture
def opened(postgres: str, schema: str) -> Iterator[Opens]:
    """Return what opens a storage on the test's schema, with connections of its own."""
    storages = []
    # Whoever waits for ever fails, and says so.
    uri = f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20lock_timeout%3D30s"

    def opened(clock: Callable[[], int] = system_clock) -> PostgresStorage:
        storage = PostgresStorage(uri, parse_index_config(None), schema=schema, clock=clock)
        storage.open()
        storages.append(storage)
        return storage

    yield opened
    for storage in storages:
        storage.close()


@pytest.fixture
def other(postgres: str, schema: str) -> Iterator[psycopg.Connection[tuple[object, ...]]]:
    """Return a connection on which somebody else is in a transaction."""
    with psycopg.connect(postgres) as connection:
        connection.execute(sql.SQL("set search_path = {}").format(sql.Identifier(schema)))
        connection.commit()
        yield connection
        connection.rollback()


LOCKS = (
    "select 1 from thread where thread_id = 'a' for update",
    "select 1 from thread where thread_id = 'a' for share",
)


@pytest.mark.parametrize("lock", LOCKS, ids=["update", "share"])
def test_a_claim_passes_over_a_thread_that_is_locked(
    opened: Opens, other: psycopg.Connection[tuple[object, ...]], lock: LiteralString
) -> None:
    clock = ManualClock()
    storage = opened(clock)
    for thread_id in ("a", "b"):
        make_thread(storage, thread_id)
        make_run(storage, f"of-{thread_id}", thread_id)
    start = clock()
    clock.advance(seconds=1)
    other.execute(lock)
    # These would wait for ever if they waited.
    assert claimed(storage).run_id == "of-b"
    assert claim_one(storage) is None
    # Who got nothing sees that something is there, and need not wait for a signal.
    assert storage.runs.next_available_at() == start
    other.rollback()
    assert claimed(storage).run_id == "of-a"


def test_who_waited_for_another_comes_after_him(
    opened: Opens, other: psycopg.Connection[tuple[object, ...]], postgres: str
) -> None:
    storage = opened()
    make_thread(storage, "t")
    other.execute("select 1 from thread where thread_id = 't' for update")
    with ThreadPoolExecutor(1) as threads, psycopg.connect(postgres, autocommit=True) as watcher:
        waiting = threads.submit(make_run, storage, "r", "t")
        query = "select 1 from pg_stat_activity where wait_event_type = 'Lock' and query like '%thread%'"
        while watcher.execute(query).fetchone() is None:
            pass
        row = watcher.execute("select (extract(epoch from clock_timestamp()) * 1000000)::bigint").fetchone()
        assert row is not None
        other.commit()
        assert waiting.result(WAIT_SECONDS).available_at >= row[0]


def test_workers_in_several_processes_share_the_queue(opened: Opens) -> None:
    """Two storages stand for two processes: they share nothing but the database."""
    first, second = opened(), opened()
    for number in range(10):
        make_thread(first, f"t{number}")
        first.runs.create([new_run(f"r{number}-{each}", f"t{number}") for each in range(6)])
    executing: Counter[str] = Counter()
    done: dict[str, list[str]] = {f"t{number}": [] for number in range(10)}
    guard = threading.Lock()

    def work(number: int) -> int:
        storage = (first, second)[number % 2]
        count = 0
        while any(len(runs) < 6 for runs in done.values()):
            for run in storage.runs.claim(f"w{number}", lease=LEASE, limit=1 + number % 3):
                with guard:
                    executing[run.thread_id] += 1
                    assert executing[run.thread_id] == 1
                    done[run.thread_id].append(run.run_id)
                    # Before its end: then another may claim the next at once.
                    executing[run.thread_id] -= 1
                end(storage, run, values={"n": count})
                count += 1
        return count

    counts = together(WORKERS, work)
    assert sum(count for count in counts if isinstance(count, int)) == 60
    assert done == {f"t{n}": [f"r{n}-{each}" for each in range(6)] for n in range(10)}


class Workers:
    """Workers that execute so many runs, and wait for nothing but signals while none is there."""

    def __init__(self, storage: Storage, runs: int) -> None:
        self._storage = storage
        self._left = runs
        self._lock = threading.Lock()
        self._woken: list[threading.Event] = []

    def work(self) -> None:
        """Execute runs until all have been executed."""
        woken = threading.Event()
        self._woken.append(woken)
        unsubscribe = self._storage.runs.subscribe(woken.set)
        while self._left:
            woken.clear()
            if run := claim_one(self._storage):
                end(self._storage, run)
                self._count()
            elif self._left and not self._is_due():
                assert woken.wait(WAIT_SECONDS), "a run was there, and nobody was told"
        unsubscribe()

    def _is_due(self) -> bool:
        due = self._storage.runs.next_available_at()
        return due is not None and due <= self._storage.now()

    def _count(self) -> None:
        with self._lock:
            self._left -= 1
        if not self._left:
            for woken in self._woken:
                woken.set()


def test_no_run_waits_for_somebody_to_look_again(opened: Opens) -> None:
    storage = opened()
    for number in range(4):
        make_thread(storage, f"t{number}")
    workers = Workers(storage, 120)

    def act(number: int) -> None:
        if number < 4:
            return workers.work()
        for each in range(30):
            make_run(storage, f"r{number}-{each}", f"t{each % 4}")
            # Others lock the threads too, which claims pass over, and tell nobody.
            storage.threads.update(f"t{each % 4}", ThreadChange(metadata={"by": number}))
        return None

    assert together(8, act) == [None] * 8
    assert storage.runs.count(RunQuery(statuses=[RunStatus.SUCCESS])) == 120


def deadlocks(postgres: str) -> int:
    """Return how many deadlocks the server has had to break."""
    with psycopg.connect(postgres, autocommit=True) as connection:
        row = connection.execute("select sum(deadlocks)::int from pg_stat_database").fetchone()
    assert row is not None
    return int(row[0])


def test_whoever_locks_several_does_so_in_one_order(opened: Opens, postgres: str) -> None:
    before = deadlocks(postgres)
    storages = [opened(), opened()]
    names = [f"t{number}" for number in range(6)]
    for name in names:
        make_thread(storages[0], name)

    def act(number: int) -> None:
        storage = storages[number % 2]
        for each in range(12):
            order = names if (number + each) % 2 else names[::-1]
            kind = number % 4
            if kind == 0:
                storage.runs.create([new_run(f"r{number}-{each}-{name}", name) for name in order])
            elif kind == 1:
                storage.runs.cancel(RunQuery(), CancelAction.INTERRUPT)
            elif kind == 2:
                runs = storage.runs.claim(f"w{number}", lease=LEASE, limit=6)
                storage.runs.renew([run.lease for run in runs[:: (-1) ** each]], lease=LEASE)
                for run in runs:
                    with suppress(Fenced):
                        end(storage, run)
            else:
                storage.runs.reap(everybody=True, max_attempts=99, limit=6)

    assert together(WORKERS, act) == [None] * WORKERS
    for storage in storages:
        storage.close()
    assert deadlocks(postgres) == before
