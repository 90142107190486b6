"""Connections to Postgres that are cut, blocked or used up: what a caller sees, and that it passes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest
from psycopg_pool import ConnectionPool

from stateroom.errors import Unavailable
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, until

N = ("notes",)


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture(params=["pool", "pool of one", "from_pool", "from_pool of one"])
def store(request: pytest.FixtureRequest, watch: Watch) -> Iterator[PostgresStore]:
    """Return a store all of whose connections are made."""
    size = 1 if request.param.endswith("one") else 4
    uri = named(watch.uri, watch.name)
    if not request.param.startswith("from_pool"):
        with PostgresStore(uri, schema=watch.name, pool={"min_size": size, "max_size": size}) as store:
            until(lambda: len(watch.sessions()) == size)
            yield store
        return
    with ConnectionPool(uri, open=True, min_size=size, max_size=size) as pool:
        pool.wait()
        with PostgresStore.from_pool(pool, schema=watch.name) as store:
            yield store


@pytest.fixture
def one(watch: Watch) -> Iterator[PostgresStore]:
    """Return a store with one connection."""
    pool = {"min_size": 1, "max_size": 1}
    with PostgresStore(named(watch.uri, watch.name), schema=watch.name, pool=pool) as store:
        yield store


@pytest.fixture
def impatient(watch: Watch) -> Iterator[PostgresStore]:
    """Return a store with one connection, for which nobody waits long."""
    pool = {"min_size": 1, "max_size": 1, "timeout": 0.2}
    with PostgresStore(named(watch.uri, watch.name), schema=watch.name, pool=pool) as store:
        yield store


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(8) as threads:
        yield threads


@pytest.mark.parametrize("form", ["sync", "async"])
def test_A03_after_a_cut_of_all_idle_connections_every_call_succeeds(
    store: PostgresStore, watch: Watch, form: str
) -> None:
    def put_and_get(number: int, **condition: Any) -> int | None:
        if form == "sync":
            revision = store.put_item(N, "k", {"n": number}, **condition).revision
            item = store.get(N, "k")
        else:
            revision = asyncio.run(store.aput_item(N, "k", {"n": number}, **condition)).revision
            item = asyncio.run(store.aget(N, "k"))
        assert item is not None
        assert (item.value, item.revision) == ({"n": number}, revision)
        return revision

    revision = put_and_get(0)
    for cut in range(1, 4):
        assert watch.cut() > 0
        # A write that must not be made twice succeeds too: the connection is seen to be gone before.
        revision = put_and_get(10 * cut, if_revision=revision)
        for number in range(5):
            revision = put_and_get(10 * cut + number)


def test_A03_dead_connections_are_not_handed_out_again(store: PostgresStore, watch: Watch) -> None:
    before = watch.sessions()
    watch.cut()
    with ThreadPoolExecutor(8) as threads:
        list(threads.map(lambda number: store.put(N, str(number), {}), range(40)))
    assert store.count(()) == 40
    assert watch.sessions()
    assert not watch.sessions() & before


PLAIN: dict[str, Callable[[PostgresStore], Any]] = {
    "put": lambda store: store.put(N, "k", {"n": 2}),
    "delete": lambda store: store.delete(N, "k"),
    "batch": lambda store: store.batch([PutItem(N, "k", {"n": 2}), DeleteItem(N, "other")]),
    "get": lambda store: store.get(N, "k"),
    "search": lambda store: store.search(N, filter={"n": 1}),
    "count": lambda store: store.count(()),
    "sweep": lambda store: store.sweep_ttl(),
    "async put": lambda store: asyncio.run(store.aput(N, "k", {"n": 2})),
    "async get": lambda store: asyncio.run(store.aget(N, "k")),
}


@pytest.mark.parametrize("call", PLAIN)
def test_A03_a_call_that_is_cut_while_it_runs_is_repeated_if_that_does_no_harm(
    one: PostgresStore, watch: Watch, threads: ThreadPoolExecutor, call: str
) -> None:
    one.put(N, "k", {"n": 1})
    with watch.holding("lock table {}.item in access exclusive mode"):
        running = threads.submit(PLAIN[call], one)
        until(watch.waiting)
        assert watch.cut_waiting() == 1
        until(lambda: watch.waiting() or running.done())
    running.result()
    item = one.get(N, "k")
    assert (item and item.value) == (
        None if call == "delete" else {"n": 2 if "put" in call or call == "batch" else 1}
    )


CONDITIONAL: dict[str, Callable[[PostgresStore, int | None], Any]] = {
    "put": lambda store, revision: store.put(N, "k", {"n": 2}, if_revision=revision),
    "put if absent": lambda store, _: store.put(N, "new", {"n": 2}, if_absent=True),
    "delete": lambda store, revision: store.delete(N, "k", if_revision=revision),
    "batch": lambda store, revision: store.batch(
        [PutItem(N, "other", {}), PutItem(N, "k", {"n": 2}, if_revision=revision)]
    ),
    "async put": lambda store, revision: asyncio.run(store.aput(N, "k", {"n": 2}, if_revision=revision)),
}


@pytest.mark.parametrize("call", CONDITIONAL)
def test_A03_a_conditional_write_that_is_cut_while_it_runs_is_not_repeated(
    one: PostgresStore, watch: Watch, threads: ThreadPoolExecutor, call: str
) -> None:
    revision = one.put_item(N, "k", {"n": 1}).revision
    with watch.holding("lock table {}.item in access exclusive mode"):
        running = threads.submit(CONDITIONAL[call], one, revision)
        until(watch.waiting)
        watch.cut_waiting()
        with pytest.raises(Unavailable) as raised:
            running.result()
    assert (raised.value.code, raised.value.retryable) == ("unavailable", True)
    assert [(item.key, item.revision) for item in one.search(())] == [("k", revision)]


def test_A03_calls_in_flight_in_many_threads_and_tasks_survive_cuts_or_are_retryable(
    watch: Watch, threads: ThreadPoolExecutor
) -> None:
    acknowledged: set[str] = set()

    def put(store: PostgresStore, key: str) -> None:
        try:
            store.put(N, key, {})
            assert store.get(N, key) is not None
            acknowledged.add(key)
        except Unavailable as error:
            assert error.retryable  # noqa: PT017

    async def aputs(store: PostgresStore, keys: list[str]) -> None:
        results = await asyncio.gather(*(store.aput(N, key, {}) for key in keys), return_exceptions=True)
        assert all(result is None or isinstance(result, Unavailable) for result in results)
        acknowledged.update(key for key, result in zip(keys, results, strict=True) if result is None)

    with PostgresStore(named(watch.uri, watch.name), schema=watch.name, pool={"max_size": 4}) as store:
        running: list[Future[Any]] = []
        for number in range(120):
            running.append(threads.submit(put, store, f"thread {number}"))
            keys = [f"task {number} {each}" for each in range(5)]
            running.append(threads.submit(asyncio.run, aputs(store, keys)))
        cuts = 0
        while not all(each.done() for each in running):
            cuts += watch.cut()
        for each in running:
            each.result()
        assert cuts > 1
        assert acknowledged <= {item.key for item in store.search((), limit=1_000)}
        store.put(N, "afterwards", {})


@pytest.mark.parametrize("form", ["sync", "async"])
def test_who_finds_no_free_connection_in_time_is_told_so_and_it_passes(
    impatient: PostgresStore, watch: Watch, threads: ThreadPoolExecutor, form: str
) -> None:
    def act(number: int) -> Any:
        if form == "sync":
            return impatient.put_item(N, "k", {"n": number})
        return asyncio.run(impatient.aput(N, "k", {"n": number}))

    impatient.put(N, "k", {"n": 1})
    with watch.holding("select from {}.item for update"):
        blocked = threads.submit(act, 2)
        until(watch.waiting)
        for _ in range(2):
            with pytest.raises(Unavailable, match="max_size") as raised:
                impatient.get(N, "k") if form == "sync" else asyncio.run(impatient.aget(N, "k"))
            assert raised.value.retryable
    blocked.result()
    item = impatient.get(N, "k")
    assert item is not None
    assert item.value == {"n": 2}


def test_who_waits_for_a_connection_waits_once(watch: Watch) -> None:
    uri = named(watch.uri, watch.name)
    with (
        ConnectionPool(uri, open=True, min_size=1, max_size=1, timeout=0.1) as pool,
        PostgresStore.from_pool(pool, schema=watch.name) as store,
        pool.connection(),
    ):
        before = pool.get_stats()["requests_num"]
        with pytest.raises(Unavailable):
            store.get(N, "k")
        assert pool.get_stats()["requests_num"] == before + 1


def test_a_cancelled_call_leaves_the_pool_whole(one: PostgresStore, watch: Watch) -> None:
    async def cancel() -> None:
        with watch.holding("select from {}.item for update"):
            task = asyncio.create_task(one.aput(N, "k", {"n": 2}))
            while not watch.waiting():
                await asyncio.to_thread(watch.sessions)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        await one.aput(N, "k", {"n": 3})
        assert await one.acount(()) == 1

    one.put(N, "k", {"n": 1})
    asyncio.run(cancel())
    item = one.get(N, "k")
    assert item is not None
    assert item.value == {"n": 3}
    assert len(watch.sessions()) == 1
