"""A Postgres server that crashes and comes back under a store: nothing acknowledged is lost, all goes on."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from stateroom.drivers.sql import refreshes
from stateroom.errors import Unavailable
from stateroom.stores.operations import PutItem
from stateroom.stores.postgres import PostgresStore
from tests.faults.watching import Watch, named, until
from tests.postgres.server import Server

N = ("notes",)
BATCH = 3
NAME = "stateroom"


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    # With fsync: what it has acknowledged is on the disk.
    with Server() as server:
        yield server


@pytest.fixture
def watch(server: Server) -> Iterator[Watch]:
    watch = Watch(server.uri, NAME)
    yield watch
    watch.execute("drop schema {} cascade")


@pytest.mark.parametrize("size", [1, 4])
def test_A03_a_store_works_again_after_a_crash_of_the_server_and_lost_nothing(
    server: Server, watch: Watch, size: int
) -> None:
    store = PostgresStore(named(watch.uri, NAME), pool={"max_size": size, "timeout": 0.5})
    writers = [Writer(store, f"{form} {number}", form) for form in ("sync", "async") for number in range(2)]
    with ThreadPoolExecutor(len(writers)) as threads:
        running = [threads.submit(writer.run) for writer in writers]
        until(lambda: all(writer.acknowledged for writer in writers))
        server.stop("immediate")
        for writer in writers:
            writer.failed.wait()
        with pytest.raises(Unavailable) as raised:
            store.get(N, "k")
        assert (raised.value.code, raised.value.retryable) == ("unavailable", True)
        server.start()
        before = [len(writer.acknowledged) for writer in writers]
        until(
            lambda: all(
                len(writer.acknowledged) > count for writer, count in zip(writers, before, strict=True)
            )
        )
        for writer in writers:
            writer.stopped.set()
        for each in running:
            each.result()
    for writer in writers:
        found = Counter(item.value["batch"] for item in store.search((writer.name,), limit=100_000))
        assert set(writer.acknowledged) <= found.keys()
        assert set(found.values()) == {BATCH}, "a batch is half there"
    store.close()


class Writer:
    """Puts batches one after the other, server or not, and remembers which were acknowledged."""

    def __init__(self, store: PostgresStore, name: str, form: str) -> None:
        self.store, self.name, self.form = store, name, form
        self.acknowledged: list[int] = []
        self.failed, self.stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        number = 0
        while not self.stopped.is_set():
            batch = [PutItem((self.name,), f"{number} {each}", {"batch": number}) for each in range(BATCH)]
            try:
                if self.form == "sync":
                    self.store.batch(batch)
                else:
                    asyncio.run(self.store.abatch(batch))
            except Unavailable:
                self.failed.set()
            else:
                self.acknowledged.append(number)
            number += 1


@pytest.mark.parametrize("whose", ["own pool", "from_pool"])
def test_A03_a_store_that_was_idle_during_a_restart_does_not_notice(
    server: Server, watch: Watch, whose: str
) -> None:
    uri = named(watch.uri, NAME)
    with ConnectionPool(uri, open=True, min_size=1, max_size=1) as pool:
        store = PostgresStore.from_pool(pool) if whose == "from_pool" else PostgresStore(uri)
        revision = store.put_item(N, "k", {"n": 1}).revision
        server.stop()
        server.start()
        store.put(N, "k", {"n": 2}, if_revision=revision)
        assert asyncio.run(store.aget(N, "k")) is not None
        store.close()


def test_A03_a_store_made_while_the_server_is_away_works_when_it_is_there(
    server: Server, watch: Watch
) -> None:
    server.stop()
    store = PostgresStore(named(server.uri, NAME))
    calls: list[Callable[[], Any]] = [
        store.setup,
        lambda: store.put(N, "k", {}),
        lambda: asyncio.run(store.aget(N, "k")),
    ]
    for call in calls:
        with pytest.raises(Unavailable) as raised:
            call()
        assert raised.value.retryable
    server.start()
    store.put(N, "k", {})
    assert store.get(N, "k") is not None
    store.close()
    until(lambda: not watch.sessions())


def test_A03_who_waits_for_a_connection_is_served_when_the_server_is_back_however_late(
    server: Server, watch: Watch
) -> None:
    options = {"max_size": 1, "timeout": 30, "reconnect_timeout": 0.01}
    with (
        PostgresStore(named(watch.uri, NAME), pool=options) as store,
        ThreadPoolExecutor(1) as thread,
    ):
        store.put(N, "k", {})
        server.stop("immediate")
        waiting = thread.submit(store.get, N, "k")
        pool = store._items._db.open()  # type: ignore[attr-defined]  # of Postgres
        # The pool has given up, twice at least.
        until(lambda: pool.get_stats().get("connections_errors", 0) > 3)
        server.start()
        assert waiting.result() is not None


def test_A03_refreshes_that_an_outage_kept_from_being_written_are_written_afterwards(
    server: Server, watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(refreshes, "FLUSH_SECONDS", 0.01)
    options = {"max_size": 2, "timeout": 0.2}
    with PostgresStore(named(server.uri, NAME), pool=options) as store:
        put = store.put_item(N, "k", {}, ttl=60)
        with suppress(psycopg.OperationalError), watch.holding("select from {}.item for update"):
            told = store.get(N, "k", refresh_ttl=True)
            until(watch.waiting)
            # The test's own transaction ends with it.
            server.stop("immediate")
        server.start()
        assert told is not None
        assert put.expires_at is not None
        assert told.expires_at is not None
        assert told.expires_at > put.expires_at
        expected = round(told.expires_at.timestamp() * 1_000_000)
        until(lambda: watch.execute("select expires_at from {}.item") == [(expected,)])
