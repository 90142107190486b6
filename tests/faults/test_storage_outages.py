"""A Postgres server that crashes and comes back under a storage's workers: nothing acknowledged is lost."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.errors import Unavailable
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import LEASE, make_thread
from tests.faults.programs.storage_writers import Writer, assert_kept
from tests.faults.watching import until
from tests.postgres.server import Server
from tests.storage.saving import at, saver_over

WRITERS = 3


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # With fsync: what it has acknowledged is on the disk.
    with Server() as server:
        yield server


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[1, 4], ids=["pool of one", "pool"])
def storage(request: pytest.FixtureRequest, server: Server, clock: ManualClock) -> Iterator[PostgresStorage]:
    pool = {"max_size": request.param, "timeout": 0.5}
    storage = PostgresStorage(server.uri, parse_index_config(None), clock=clock, pool=pool)
    storage.open()
    yield storage
    storage.close()
    server.execute("drop schema stateroom cascade")


def test_A03_workers_go_on_after_a_crash_of_the_server_and_nothing_they_were_told_is_lost(
    server: Server, storage: PostgresStorage, clock: ManualClock
) -> None:
    saver = saver_over(storage)
    writers = [Writer(storage, saver, clock, f"w{number}") for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(writer.run) for writer in writers]
        try:
            until(lambda: all(len(writer.settled) > 3 for writer in writers) or any_done(running))
            server.stop("immediate")
            for writer in writers:
                writer.failed.wait()
            with pytest.raises(Unavailable):
                storage.runs.claim("w", lease=LEASE)
            with pytest.raises(Unavailable):
                saver.get_tuple(at("w0"))
            server.start()
            before = [len(writer.settled) for writer in writers]
            until(
                lambda: (
                    all(len(writer.settled) > count for writer, count in zip(writers, before, strict=True))
                    or any_done(running)
                )
            )
        finally:
            for writer in writers:
                writer.stopped.set()
        for each in running:
            each.result()
    assert_kept(storage, saver, clock, writers)


def any_done(running: list[Future[None]]) -> bool:
    return any(each.done() for each in running)


def test_A03_a_storage_that_is_opened_while_the_server_is_away_can_be_opened_when_it_is_there(
    server: Server, clock: ManualClock
) -> None:
    server.stop()
    storage = PostgresStorage(server.uri, parse_index_config(None), clock=clock)
    with pytest.raises(Unavailable):
        storage.open()
    server.start()
    storage.open()
    make_thread(storage, "t")
    assert storage.runs.count(RunQuery()) == 0
    storage.close()
    server.execute("drop schema stateroom cascade")
