"""One Postgres store for many event loops, threads and processes, and pools that are shared with others."""

from __future__ import annotations

import asyncio
import gc
import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import psycopg
import pytest
from psycopg.rows import dict_row
from psycopg_pool import ConnectionPool

from stateroom.errors import Conflict, Misconfigured
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.faults.conftest import Start
from tests.faults.programs.postgres_children import append_lines, edited, fork_and_go_on
from tests.faults.watching import Watch, named, until

N = ("notes",)
MOST = 3
FILE = ("files",), "n.md"


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def store(watch: Watch) -> Iterator[PostgresStore]:
    with PostgresStore(named(watch.uri, watch.name), schema=watch.name, pool={"max_size": MOST}) as store:
        yield store


def test_A07_two_hundred_event_loops_one_after_the_other_leak_no_connection(
    store: PostgresStore, watch: Watch
) -> None:
    async def put_and_get(number: int) -> None:
        await asyncio.gather(*(store.aput(N, f"{number} {each}", {"n": number}) for each in range(3)))
        item = await store.aget(N, f"{number} 0")
        assert item is not None
        assert item.value == {"n": number}

    for number in range(200):
        asyncio.run(put_and_get(number))
    assert store.count(N) == 600
    assert len(watch.sessions()) <= MOST
    store.close()
    until(lambda: not watch.sessions())
    # What was not closed complains when it goes, and a complaint fails the test.
    gc.collect()


def test_A07_several_threads_each_with_a_loop_of_its_own_use_one_store_at_once(
    store: PostgresStore, watch: Watch
) -> None:
    async def work(name: str) -> int:
        await asyncio.gather(*(store.aput((name,), str(number), {"text": "tide"}) for number in range(20)))
        hits = await store.asearch((name,), query="tides", mode="text", limit=100)
        store.put((name,), "sync", {})
        return len(hits)

    with ThreadPoolExecutor(8) as threads:
        counts = list(threads.map(lambda number: asyncio.run(work(f"thread {number}")), range(16)))
    assert counts == [20] * 16
    assert store.count(()) == 16 * 21
    assert len(watch.sessions()) <= MOST


def test_A07_sync_calls_work_inside_a_running_loop(store: PostgresStore) -> None:
    async def work() -> None:
        store.put(N, "k", {"text": "tide"})
        await store.aput(N, "other", {})
        assert store.get(N, "k") is not None
        assert len(store.search(N)) == 2
        assert store.list_namespaces() == [N]
        store.delete(N, "other")
        assert await store.acount(()) == 1
        store.close()
        assert store.count(()) == 1

    asyncio.run(work())


def test_A07_a_store_opened_in_one_loop_is_used_and_closed_in_others(watch: Watch) -> None:
    store = PostgresStore(named(watch.uri, watch.name), schema=watch.name)
    asyncio.run(store.asetup())
    asyncio.run(store.aput(N, "k", {}))
    with ThreadPoolExecutor(1) as thread:
        assert thread.submit(lambda: asyncio.run(store.aget(N, "k"))).result() is not None
    asyncio.run(store.aclose())
    until(lambda: not watch.sessions())


def test_A38_a_hundred_callers_at_once_share_two_connections(watch: Watch) -> None:
    async def call(store: PostgresStore, number: int) -> None:
        await store.aput(N, f"{number}", {"text": "tide"})
        assert await store.aget(N, f"{number}") is not None
        assert await store.asearch(N, query="tides", mode="text", limit=1)

    async def calls(store: PostgresStore) -> None:
        await asyncio.gather(*(call(store, number) for number in range(100)))

    pool = {"min_size": 1, "max_size": 2}
    with PostgresStore(named(watch.uri, watch.name), schema=watch.name, pool=pool) as store:
        with ThreadPoolExecutor(20) as threads:
            waiting = threads.submit(asyncio.run, calls(store))
            list(threads.map(lambda number: store.put(N, f"sync {number}", {}), range(100)))
            waiting.result()
        assert store.count(()) == 200
        assert len(watch.sessions()) <= 2


def test_a_pool_is_made_with_the_options_given_and_refused_with_others(watch: Watch) -> None:
    uri = named(watch.uri, watch.name)
    with PostgresStore.from_conn_string(uri, pool_config={"min_size": 12}, schema=watch.name) as store:
        store.put(N, "k", {})
        until(lambda: len(watch.sessions()) == 12)
    kwargs = {"row_factory": dict_row, "autocommit": False, "prepare_threshold": 0}
    with PostgresStore(uri, pool={"kwargs": kwargs, "max_size": 2}, schema=watch.name) as store:
        assert store.get(N, "k") is not None
    # A password that is good for a moment is asked for again.
    asked: list[dict[str, Any]] = []

    def ask() -> dict[str, Any]:
        asked.append(kwargs)
        return kwargs

    with PostgresStore(uri, pool={"kwargs": ask, "min_size": 3}, schema=watch.name) as store:
        assert store.get(N, "k") is not None
        until(lambda: len(asked) >= 4)
    for wrong in ({"max_size": 0}, {"maxsize": 3}, {"min_size": 3, "max_size": 2}):
        with pytest.raises(Misconfigured, match="pool: ") as raised:
            PostgresStore(uri, pool=wrong, schema=watch.name).setup()
        assert raised.value.field == "pool"


POOLS: dict[str, dict[str, Any]] = {
    "as it comes": {},
    "autocommit": {"autocommit": True},
    "dict_row": {"row_factory": dict_row},
    "nothing prepared": {"prepare_threshold": None},
    "all prepared": {"prepare_threshold": 0},
    "client cursors": {"cursor_factory": psycopg.ClientCursor},
    "raw cursors": {"cursor_factory": psycopg.RawCursor},
}


@pytest.mark.parametrize("kind", POOLS)
def test_a_pool_of_the_callers_is_left_open_and_its_connections_as_they_were(watch: Watch, kind: str) -> None:
    kwargs = POOLS[kind]
    with ConnectionPool(
        named(watch.uri, watch.name), kwargs=kwargs, open=True, min_size=1, max_size=1
    ) as pool:
        with pool.connection() as connection:
            before = settings(connection)
        with PostgresStore.from_pool(pool, schema=watch.name, index_keys=["n"]) as store:
            store.put(N, "k", {"text": "tide", "n": 1})
            asyncio.run(store.aput(N, "other", {"text": "gull"}))
            assert [hit.key for hit in store.search(N, query="tides", mode="text")] == ["k"]
            assert [hit.key for hit in store.search(N, filter={"n": {"$gt": 0}})] == ["k"]
            with pytest.raises(Exception, match="revision"):
                store.put(N, "k", {}, if_revision=10**9)
        assert not pool.closed
        with pool.connection() as connection:
            assert settings(connection) == before
            row: Any = connection.execute("select 1 as one").fetchone()
            assert row == ({"one": 1} if kind == "dict_row" else (1,))
        assert len(watch.sessions()) == 1


def settings(connection: psycopg.Connection[Any]) -> dict[str, Any]:
    names = "autocommit", "row_factory", "prepare_threshold", "cursor_factory", "isolation_level", "read_only"
    return {name: getattr(connection, name) for name in names}


def test_parent_and_children_of_forks_all_go_on_with_a_store_that_a_thread_was_writing_to(
    start: Start, watch: Watch
) -> None:
    child = start(fork_and_go_on, named(watch.uri, watch.name), watch.name, 4)
    *children, written, parent = child.messages()
    assert children == ["None, 20 found"] * 4
    assert parent == "None, 20 found"
    with PostgresStore(watch.uri, schema=watch.name) as store:
        counts = {name: store.count(name) for name in store.list_namespaces()}
    expected = {(f"child {number}",): 20 for number in range(4)}
    assert counts == expected | {("notes",): 1, ("parent",): 20, ("thread",): written}


# Python 3.12 warns of any fork where there are threads.
@pytest.mark.filterwarnings("ignore:This process.*multi-threaded:DeprecationWarning")
def test_a_pool_of_the_parents_is_refused_in_a_forked_process_and_goes_on_in_the_parent(watch: Watch) -> None:
    with ConnectionPool(named(watch.uri, watch.name), open=True, min_size=1, max_size=1) as pool:
        store = PostgresStore.from_pool(pool, schema=watch.name)
        store.put(N, "k", {})
        sessions = watch.sessions()
        told, tell = os.pipe()
        if not os.fork():
            try:
                store.get(N, "k")
            except Misconfigured as error:
                os.write(tell, f"{error.field}: {error}".encode())
            finally:
                os._exit(0)
        os.close(tell)
        with open(told) as answer:
            assert answer.read().startswith("pool: pool belongs to the process")
        os.wait()
        assert store.get(N, "k") is not None
        assert watch.sessions() == sessions


def lines(store: PostgresStore) -> list[str]:
    item = store.get(*FILE)
    assert item is not None
    return sorted(item.value["text"].split()[1:])


def by_threads(store: PostgresStore) -> list[str]:
    names = [f"item-{number}" for number in range(20)]
    with ThreadPoolExecutor(20) as threads:
        done = list(threads.map(lambda name: edited(store, name), names))
    return [name for name, success in zip(names, done, strict=True) if success]


def by_tasks(store: PostgresStore) -> list[str]:
    async def edit(line: str) -> str | None:
        found = await store.aget(*FILE)
        assert found is not None
        text = found.value["text"].replace("HEAD|", f"HEAD|\n{line}", 1)
        try:
            await store.aput(*FILE, {"text": text}, if_revision=found.revision)
        except Conflict:
            return None
        return line

    async def edit_all() -> list[str | None]:
        return await asyncio.gather(*(edit(f"item-{number}") for number in range(20)))

    return [line for line in asyncio.run(edit_all()) if line]


@pytest.mark.parametrize("editors", [by_threads, by_tasks])
def test_A16_of_twenty_edits_at_once_those_that_succeeded_are_kept_and_no_other(
    store: PostgresStore, editors: Callable[[PostgresStore], list[str]]
) -> None:
    store.put(*FILE, {"text": "HEAD|"})
    succeeded = editors(store)
    assert succeeded
    assert lines(store) == sorted(succeeded)


def test_A16_edits_of_several_processes_that_succeeded_are_kept_and_no_other(
    start: Start, store: PostgresStore, watch: Watch
) -> None:
    store.put(*FILE, {"text": "HEAD|"})
    children = [start(append_lines, watch.uri, watch.name, f"process-{each}", 5) for each in range(4)]
    assert [child.pipe.recv() for child in children] == ["ready"] * 4
    for child in children:
        child.pipe.send("go")
    succeeded = [line for child in children for (done,) in [child.messages()] for line in done]
    assert len(succeeded) >= 5
    assert lines(store) == sorted(succeeded)
