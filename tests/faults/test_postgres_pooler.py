"""A store behind a transaction pooler, where no two statements need meet the same server process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID

import psycopg
import pytest

from stateroom.drivers.postgres import migrations
from stateroom.errors import Conflict
from stateroom.stores.operations import PutItem
from stateroom.stores.postgres import PostgresStore
from tests.faults.conftest import Start
from tests.faults.programs.pooler import PROGRAM, Pooler
from tests.faults.programs.postgres_children import embed_index, set_up_at_once
from tests.faults.watching import Watch
from tests.postgres.server import FAST, Server

# Where tests run by themselves, nobody would notice that these do not.
pytestmark = pytest.mark.skipif(
    PROGRAM is None and "CI" not in os.environ, reason="PgBouncer is not installed"
)

SIZE = 4
PROCESSES = 6
WAYS: dict[str, tuple[str, dict[str, Any]]] = {
    "as it comes": ("", {}),
    "named in the url": ("&pgbouncer=true", {}),
    "switched off": ("", {"prepared_statements": False}),
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(FAST) as server:
        yield server


@pytest.fixture(scope="module")
def pooler(server: Server) -> Iterator[Pooler]:
    with Pooler(server, SIZE) as pooler:
        yield pooler


@pytest.fixture
def watch(server: Server) -> Iterator[Watch]:
    watch = Watch(server.uri, "stateroom")
    yield watch
    watch.execute("drop schema if exists {} cascade")


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.usefixtures("watch")
def test_A42_everything_works_behind_a_transaction_pooler(pooler: Pooler, way: str) -> None:
    query, options = WAYS[way]
    with PostgresStore(pooler.uri + query, index=embed_index(), index_keys=["n"], **options) as store:
        store.put(("counter",), "n", {"n": 0})

        def work(number: int) -> None:
            name = (f"thread {number % 10}",)
            store.put(name, f"{number}", {"text": f"tide {number}", "n": number})
            item = store.get(name, f"{number}")
            assert item is not None
            assert item.value["n"] == number
            store.batch([PutItem(name, f"{number} {each}", {"text": "gull"}) for each in range(3)])
            assert store.search(name, query="tides", mode="text")
            assert store.search(name, query="tides", mode="vector")
            assert store.search(name, filter={"n": {"$gte": number}})
            assert name in store.list_namespaces()
            while not counted(store):
                pass

        with ThreadPoolExecutor(10) as threads:
            list(threads.map(work, range(50)))

        async def puts() -> None:
            await asyncio.gather(*(store.aput(("tasks",), f"{each}", {}) for each in range(50)))
            assert await store.acount(("tasks",)) == 50

        asyncio.run(puts())
        counter = store.get(("counter",), "n")
        assert counter is not None
        assert counter.value == {"n": 50}
        assert store.count(()) == 1 + 50 * 4 + 50


def counted(store: PostgresStore) -> bool:
    item = store.get(("counter",), "n")
    assert item is not None
    try:
        store.put(("counter",), "n", {"n": item.value["n"] + 1}, if_revision=item.revision)
    except Conflict:
        return False
    return True


@pytest.mark.usefixtures("watch")
def test_A42_no_statement_that_others_prepared_is_taken_for_ours(server: Server) -> None:
    with PostgresStore(server.uri) as store:
        store.put(("notes",), "k", {"n": 1})
    with (
        Pooler(server, 2) as pooler,
        psycopg.connect(pooler.uri, prepare_threshold=None) as first,
        psycopg.connect(pooler.uri, prepare_threshold=None) as second,
        psycopg.connect(pooler.uri, prepare_threshold=0, autocommit=True) as other,
        PostgresStore(pooler.uri, pool={"max_size": 1}) as store,
    ):
        # Whoever is in a transaction keeps one of the two connections to the server, so that others get
        # the other one.
        first.execute("select 1")
        second.execute("select 1")
        first.commit()
        # A program whose driver names its statements as ours does. It takes one parameter, as reading does.
        other.execute("select 1 where %s::uuid is null", [UUID(int=1)])
        first.execute("select 1")
        second.commit()
        assert store.get(("notes",), "k") is not None
        second.execute("select 1")
        first.commit()
        assert store.get(("notes",), "k") is not None, "another program's statement was executed"


def test_A20_processes_set_up_at_once_through_a_pooler(start: Start, pooler: Pooler, watch: Watch) -> None:
    options = {"index_keys": ["n", "kind"], "index": "embed"}
    children = [start(set_up_at_once, pooler.uri, watch.name, options) for _ in range(PROCESSES)]
    assert [child.pipe.recv() for child in children] == ["ready"] * PROCESSES
    for child in children:
        child.pipe.send("go")
    assert [[*child.messages()] for child in children] == [[None]] * PROCESSES
    assert watch.execute("select version from {}.migration") == [(each,) for each in migrations.versions()]
    # A lock that was left with a connection of the pooler's would keep the next from setting up.
    assert watch.execute("select count(*) from pg_locks where locktype = 'advisory'") == [(0,)]
