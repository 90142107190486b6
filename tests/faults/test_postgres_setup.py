"""Setting up a schema of Postgres: by many processes at once, again, interrupted, and where it may not be."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest
from psycopg_pool import ConnectionPool

from stateroom.clock import system_clock
from stateroom.drivers.postgres import migrations
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.timing import Timing
from stateroom.errors import Misconfigured, Unavailable
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.faults.conftest import Start
from tests.faults.programs.postgres_children import embed_index, set_up_at_once
from tests.faults.watching import Watch, named, set_to, until
from tests.postgres.server import FAST, Server

N = ("notes",)
PROCESSES = 12
KEYS = ["n", "kind"]

INDEXES = """
select c.relname, x.indisvalid from pg_index x join pg_class c on c.oid = x.indexrelid
where c.relnamespace = %s::regnamespace and (c.relname like 'item_key_%%' or c.relname like 'vector_hnsw_%%')
order by c.relname
"""


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server(FAST) as server:
        yield server


def indexes(watch: Watch) -> dict[str, bool]:
    return dict(watch.execute(INDEXES, watch.name))


@pytest.mark.parametrize("schemas", [["stateroom"], ["a", "b", "c"]], ids=["one schema", "three schemas"])
def test_A20_processes_that_start_at_once_on_a_fresh_database_all_set_it_up(
    start: Start, server: Server, schemas: list[str]
) -> None:
    server.execute("drop database if exists fresh with (force)")
    server.execute("create database fresh")
    uri = server.uri.replace("/postgres?", "/fresh?")
    options = {"index_keys": KEYS, "index": "embed"}
    children = [
        start(set_up_at_once, uri, schemas[number % len(schemas)], options) for number in range(PROCESSES)
    ]
    assert [child.pipe.recv() for child in children] == ["ready"] * PROCESSES
    for child in children:
        child.pipe.send("go")
    assert [[*child.messages()] for child in children] == [[None]] * PROCESSES
    for schema in schemas:
        watch = Watch(uri, schema)
        assert watch.execute("select version from {}.migration") == [
            (version,) for version in migrations.versions()
        ]
        assert [*indexes(watch).values()] == [True] * (2 * len(KEYS) + 1)


def options(kind: str) -> dict[str, Any]:
    kinds: dict[str, dict[str, Any]] = {
        "plain": {},
        "keys": {"index_keys": KEYS},
        "vectors": {"index": embed_index()},
    }
    return kinds[kind]


@pytest.mark.parametrize("kind", ["plain", "keys", "vectors"])
def test_A20_a_set_up_with_nothing_pending_waits_for_nobody(
    watch: Watch, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    with PostgresStore(watch.uri, schema=watch.name, **options(kind)) as store:
        store.put(N, "k", {"text": "tide", "n": 1})
    # Whoever tried the lock would give up at once, and raise.
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 0.0)
    with (
        psycopg.connect(watch.uri) as other,
        migrations.alone(session(other), watch.name),
        watch.holding("lock table {}.item, {}.migration, {}.setting in exclusive mode"),
        PostgresStore(watch.uri, schema=watch.name, **options(kind)) as store,
    ):
        assert store.get(N, "k", refresh_ttl=False) is not None
        assert store.count((), filter={"n": 1}) == 1


def session(connection: psycopg.Connection[Any]) -> Session:
    return Session(connection, "stateroom", Timing(system_clock), prepares=False)


@pytest.mark.parametrize("kind", ["plain", "keys", "vectors"])
def test_A20_a_pool_of_one_connection_sets_up(watch: Watch, kind: str) -> None:
    with (
        ConnectionPool(watch.uri, open=True, min_size=1, max_size=1, timeout=2) as pool,
        PostgresStore.from_pool(pool, schema=watch.name, **options(kind)) as store,
    ):
        store.put(N, "k", {"text": "tide"})
        assert store.get(N, "k") is not None


def test_A20_who_waits_too_long_for_another_set_up_is_told_so(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 0.1)
    store = PostgresStore(watch.uri, schema=watch.name)
    with psycopg.connect(watch.uri) as other, migrations.alone(session(other), watch.name):
        with pytest.raises(Unavailable, match="another process") as raised:
            store.setup()
        assert raised.value.retryable
    store.setup()
    store.close()


def test_A20_a_set_up_goes_on_where_snapshots_outlive_statements(watch: Watch) -> None:
    # The lock's transaction would then keep a snapshot, which a concurrent index build waits for.
    uri = set_to(watch.uri, "default_transaction_isolation", "serializable")
    with PostgresStore(uri, schema=watch.name, index_keys=KEYS) as store:
        store.put(N, "k", {"n": 1})
    assert [*indexes(watch).values()] == [True] * 4


def test_A20_an_index_build_that_was_killed_is_done_anew(start: Start, watch: Watch) -> None:
    with PostgresStore(watch.uri, schema=watch.name) as store:
        store.put(N, "k", {"n": 1, "kind": "a"})
        child = start(set_up_at_once, named(watch.uri, watch.name), watch.name, {"index_keys": KEYS})
        child.pipe.recv()
        with watch.holding("update {}.item set key = key"):
            child.pipe.send("go")
            until(lambda: watch.waiting("create index%"))
            child.kill()
            watch.cut()
        assert [*indexes(watch).values()] == [False]
        store.put(N, "k", {"n": 2, "kind": "b"})
    with PostgresStore(watch.uri, schema=watch.name, index_keys=KEYS) as store:
        assert [*indexes(watch).values()] == [True] * 4
        assert [hit.key for hit in store.search((), filter={"n": 2, "kind": "b"})] == ["k"]


def test_a_schema_of_a_newer_release_is_refused(watch: Watch) -> None:
    with PostgresStore(watch.uri, schema=watch.name):
        pass
    watch.execute("insert into {}.migration (version) values (9999)")
    with pytest.raises(Misconfigured, match="upgrade stateroom") as raised:
        PostgresStore(watch.uri, schema=watch.name).setup()
    assert raised.value.field == "schema"


def test_a_database_that_does_not_keep_unicode_is_refused(server: Server) -> None:
    server.execute("drop database if exists bytes")
    server.execute("create database bytes encoding 'SQL_ASCII' template template0")
    with pytest.raises(Misconfigured, match="UTF8") as raised:
        PostgresStore(server.uri.replace("/postgres?", "/bytes?")).setup()
    assert raised.value.field == "uri"


def test_a_user_who_may_not_create_a_schema_is_told_what_to_do_and_works_after_it_is_done(
    server: Server,
) -> None:
    server.execute("create role plain login")
    uri = server.uri.replace("postgres@", "plain@")
    store = PostgresStore(uri, schema="granted")
    with pytest.raises(Misconfigured, match="grant it") as raised:
        store.setup()
    assert raised.value.field == "uri"
    with PostgresStore(server.uri, schema="granted") as owner:
        owner.put(N, "k", {})
    with pytest.raises(Misconfigured, match="permission denied"):
        store.get(N, "k")
    server.execute("grant usage on schema granted to plain")
    server.execute("grant select, insert, update, delete on all tables in schema granted to plain")
    server.execute("grant usage on all sequences in schema granted to plain")
    store.put(N, "k", {"n": 1})
    assert store.search(())[0].value == {"n": 1}
    store.close()


def test_where_nothing_can_be_written_reads_work_and_writes_say_why(watch: Watch) -> None:
    uri = set_to(watch.uri, "default_transaction_read_only", "on")
    with pytest.raises(Unavailable, match="no writes"):
        PostgresStore(uri, schema=watch.name).setup()
    with PostgresStore(watch.uri, schema=watch.name) as owner:
        owner.put(N, "k", {"text": "tide"})
        owner.put(N, "brief", {}, ttl=60)
    with PostgresStore(uri, schema=watch.name) as store:
        assert store.get(N, "k") is not None
        assert [hit.key for hit in store.search((), query="tides", mode="text")] == ["k"]
        assert store.count(()) == 2
        assert store.list_namespaces() == [N]
        with pytest.raises(Unavailable, match="no writes"):
            store.put(N, "new", {})
        with pytest.raises(Unavailable, match="no writes"):
            store.delete(N, "k")
