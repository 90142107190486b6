"""Who waits for a run holds no connection, however many wait."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from stateroom.contract.items import Get, Put
from stateroom.contract.runs import Settlement
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.model.frame import NewFrame
from stateroom.model.run import ENDED, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import LEASE, claim_one, make_run, make_thread
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, until
from tests.storage.saving import put_checkpoint, saver_over

WAITING, OTHERS, CONNECTIONS = 100, 5, 2


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def storage(watch: Watch) -> Iterator[PostgresStorage]:
    pool = {"min_size": 1, "max_size": CONNECTIONS, "timeout": 30}
    uri = named(watch.uri, watch.name)
    storage = PostgresStorage(uri, parse_index_config(None), schema=watch.name, pool=pool)
    storage.open()
    yield storage
    storage.close()


class Reader:
    """Reads all frames of a run, waiting for each, until the run has ended."""

    def __init__(self, storage: PostgresStorage, run_id: str) -> None:
        self.storage, self.run_id = storage, run_id
        self.waiting, self.left = threading.Event(), threading.Event()

    def read(self) -> tuple[list[int], RunStatus | None]:
        """Return the frames' numbers and the status in the end; None if it was left before."""
        woken, seen = threading.Event(), [0]
        unsubscribe = self.storage.events.subscribe(self.run_id, woken.set)
        try:
            while not self.left.is_set():
                woken.clear()
                page = self.storage.events.read(self.run_id, after=seen[-1])
                seen += [frame.seq for frame in page.frames]
                if page.status in ENDED and not page.frames:
                    return seen[1:], page.status
                self.waiting.set()
                if not page.frames:
                    woken.wait()
        finally:
            unsubscribe()
        return seen[1:], None

    def leave(self) -> None:
        """Stop waiting, as a client does that hangs up."""
        self.left.set()
        self.storage.signals.send(f"run:{self.run_id}")


def finish(storage: PostgresStorage, run: Run) -> None:
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))


def test_A38_a_hundred_who_wait_leave_two_connections_to_those_who_work(
    storage: PostgresStorage, watch: Watch
) -> None:
    make_thread(storage, "slow")
    make_run(storage, "slow", "slow")
    slow = claim_one(storage)
    assert slow is not None
    readers = [Reader(storage, "slow") for _ in range(WAITING)]
    for_work = threading.Event()
    unsubscribe = storage.runs.subscribe(for_work.set)
    with ThreadPoolExecutor(WAITING) as threads:
        reading = [threads.submit(reader.read) for reader in readers]
        try:
            for reader in readers:
                reader.waiting.wait()
            pool = storage.items.database.open()
            until(lambda: pool.get_stats()["pool_available"] == pool.get_stats()["pool_size"])
            saver = saver_over(storage)
            for number in range(OTHERS):
                for_work.clear()
                make_thread(storage, f"t{number}")
                make_run(storage, f"r{number}", f"t{number}")
                assert for_work.is_set()
                run = claim_one(storage)
                assert run is not None
                storage.items.apply_each([[Put(("n",), "k", b"{}"), Get(("n",), "k")]])
                put_checkpoint(saver, run.thread_id, number, attempt=run.lease)
                finish(storage, run)
            assert not any(each.done() for each in reading)
            assert len(watch.sessions()) <= CONNECTIONS
            for reader in readers[:10]:
                reader.leave()
            for each in reading[:10]:
                assert each.result()[1] is None
            assert storage.runs.is_current(slow.lease), "who stops waiting cancels nothing"
            for _ in range(3):
                storage.events.append(slow.lease, [NewFrame("values", b"{}")])
            finish(storage, slow)
        finally:
            for reader in readers:
                if storage.runs.is_current(slow.lease):
                    reader.leave()
        assert [each.result() for each in reading[10:]] == [([1, 2, 3], RunStatus.SUCCESS)] * (WAITING - 10)
    unsubscribe()
    assert len(watch.sessions()) <= CONNECTIONS
    assert storage.signals._woken == {}
    assert storage.runs.claim("w", lease=LEASE) == []
