"""LangGraph's tables in Postgres, made by ours and by LangGraph's own savers: the same, and up to date."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from threading import Barrier
from typing import Any

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver as Theirs
from langgraph.checkpoint.postgres.base import MIGRATIONS

from stateroom.clock import system_clock
from stateroom.drivers.postgres import checkpoint_migrations, migrations
from stateroom.drivers.postgres.checkpoint_migrations import RUN_INDEX
from stateroom.drivers.postgres.migrations import alone
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.timing import Timing
from stateroom.errors import Misconfigured, Unavailable
from stateroom.savers.postgres import PostgresSaver
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, set_to, until
from tests.postgres.server import FAST, Server

TABLES = ("checkpoints", "checkpoint_blobs", "checkpoint_writes", "checkpoint_migrations")
LEDGER = [(number,) for number in range(len(MIGRATIONS))]

COLUMNS = """
select table_name, column_name, ordinal_position, data_type, is_nullable, column_default
from information_schema.columns where table_schema = %s and table_name = any(%s) order by 1, 3
"""
CONSTRAINTS = """
select r.relname, c.conname, pg_get_constraintdef(c.oid)
from pg_constraint c join pg_class r on r.oid = c.conrelid
where r.relnamespace = %s::regnamespace and r.relname = any(%s) order by 1, 2
"""
INDEXES = """
select i.indexname, replace(i.indexdef, quote_ident(%s), 'SCHEMA'), x.indisvalid
from pg_indexes i
join pg_namespace n on n.nspname = i.schemaname
join pg_class c on c.relnamespace = n.oid and c.relname = i.indexname
join pg_index x on x.indexrelid = c.oid
where i.schemaname = %s and i.tablename = any(%s) order by 1
"""


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def other(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


def shape(watch: Watch) -> list[Any]:
    """Return everything that the catalogues say of LangGraph's tables."""
    tables = list(TABLES)
    return [
        watch.execute(COLUMNS, watch.name, tables),
        watch.execute(CONSTRAINTS, watch.name, tables),
        watch.execute(INDEXES, watch.name, watch.name, tables),
        watch.execute("select v from {}.checkpoint_migrations order by v"),
    ]


def without_ours(found: list[Any]) -> list[Any]:
    columns, constraints, indexes, ledger = found
    return [columns, constraints, [index for index in indexes if index[0] != RUN_INDEX], ledger]


@contextmanager
def theirs(watch: Watch) -> Iterator[Theirs]:
    """Yield LangGraph's own saver on the schema."""
    watch.execute("create schema if not exists {}")
    with Theirs.from_conn_string(set_to(watch.uri, "search_path", watch.name)) as saver:
        yield saver


def set_up(watch: Watch) -> None:
    with PostgresSaver(named(watch.uri, watch.name), schema=watch.name):
        pass


def make_old(watch: Watch, version: int) -> None:
    """Make the tables as LangGraph's releases did whose last migration was that."""
    watch.execute("create schema {}")
    with psycopg.connect(set_to(watch.uri, "search_path", watch.name), autocommit=True) as connection:
        for number, migration in enumerate(MIGRATIONS[: version + 1]):
            connection.execute(migration.encode())
            connection.execute("insert into checkpoint_migrations (v) values (%s)", [number])


def fill(watch: Watch) -> None:
    """Put a row into each table that is there, of the columns that all releases had."""
    old = [
        "insert into {}.checkpoints (thread_id, checkpoint_id, checkpoint) values ('t', '1', '{{\"v\": 1}}')",
        "insert into {}.checkpoint_blobs (thread_id, channel, version, type, blob)"
        " values ('t', 'c', '1', 'x', '')",
        "insert into {}.checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, blob)"
        " values ('t', '1', 'a', 0, 'c', '')",
    ]
    for statement in old:
        try:
            watch.execute(statement)
        except psycopg.errors.UndefinedTable:
            return


def test_what_ours_makes_is_what_LangGraphs_setup_makes(watch: Watch, other: Watch) -> None:
    set_up(watch)
    with theirs(other) as saver:
        saver.setup()
    assert without_ours(shape(watch)) == shape(other)
    assert [index[0] for index in shape(watch)[2] if index[0] == RUN_INDEX] == [RUN_INDEX]


def test_LangGraphs_setup_finds_nothing_to_do_on_ours(watch: Watch) -> None:
    set_up(watch)
    before = shape(watch)
    with theirs(watch) as saver:
        saver.setup()
    assert shape(watch) == before


def test_set_up_again_changes_nothing_and_takes_no_lock(watch: Watch) -> None:
    set_up(watch)
    before = shape(watch)
    with watch.holding("lock table {}.checkpoints, {}.checkpoint_blobs in row exclusive mode"):
        set_up(watch)
    assert shape(watch) == before


def test_a_standalone_saver_makes_no_other_tables(watch: Watch) -> None:
    set_up(watch)
    found = watch.execute("select tablename from pg_tables where schemaname = %s order by 1", watch.name)
    assert found == [(table,) for table in sorted(TABLES)]


@pytest.mark.parametrize("rows", [False, True], ids=["empty", "with rows"])
@pytest.mark.parametrize("version", range(-1, len(MIGRATIONS)))
def test_A34_tables_of_every_older_release_are_brought_up_to_date(
    watch: Watch, other: Watch, version: int, rows: bool
) -> None:
    make_old(watch, version)
    if rows:
        fill(watch)
    set_up(watch)
    with theirs(other) as saver:
        saver.setup()
    assert without_ours(shape(watch)) == shape(other)
    kept = watch.execute("select count(*) from {}.checkpoints")
    assert kept == [(int(rows and version >= 1),)]


def test_a_ledger_that_a_newer_release_wrote_is_left_alone(watch: Watch) -> None:
    set_up(watch)
    watch.execute("insert into {}.checkpoint_migrations values (99)")
    before = shape(watch)
    set_up(watch)
    assert shape(watch) == before


def test_tables_without_a_ledger_are_taken_over(watch: Watch, other: Watch) -> None:
    set_up(watch)
    fill(watch)
    watch.execute("drop table {}.checkpoint_migrations")
    set_up(watch)
    with theirs(other) as saver:
        saver.setup()
    assert without_ours(shape(watch)) == shape(other)


def test_an_index_that_was_never_finished_is_built_anew(watch: Watch) -> None:
    make_old(watch, 5)
    fill(watch)
    watch.execute("create index checkpoints_thread_id_idx on {}.checkpoints (thread_id)")
    invalid = "update pg_index set indisvalid = false where indexrelid = %s::regclass"
    watch.execute(invalid, f'"{watch.name}".checkpoints_thread_id_idx')
    set_up(watch)
    assert all(valid for _, _, valid in shape(watch)[2])


def test_indexes_of_a_table_with_rows_are_built_beside_its_users(watch: Watch) -> None:
    make_old(watch, 5)
    fill(watch)
    write = (
        "insert into {}.checkpoints (thread_id, checkpoint_id, checkpoint) values ('t', '2', '{{\"v\": 1}}')"
    )
    with ThreadPoolExecutor(1) as threads:
        # Who has written and not yet committed would be waited for by a plain index, and everybody behind it.
        with watch.holding(write):
            done = threads.submit(set_up, watch)
            until(lambda: watch.waiting("create index concurrently%"))
            watch.execute(write.replace("'2'", "'3'"))
        done.result()
    # The one that was in the way was never committed.
    assert watch.execute("select count(*) from {}.checkpoints") == [(2,)]
    assert all(valid for _, _, valid in shape(watch)[2])


def test_a_table_in_use_is_waited_for_only_a_moment_at_a_time(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_migrations, "LOCK_TIMEOUT", "20ms")
    make_old(watch, 8)
    fill(watch)
    with ThreadPoolExecutor(1) as threads:
        with watch.holding("lock table {}.checkpoint_writes in access share mode"):
            done = threads.submit(set_up, watch)
            until(lambda: watch.waiting("alter table%"))
            # Who comes after the one that waits is served all the same.
            assert watch.execute("select count(*) from {}.checkpoint_writes") == [(1,)]
        done.result()
    assert shape(watch)[3] == LEDGER


def test_tables_that_stay_in_use_are_an_error_that_says_so(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(checkpoint_migrations, "LOCK_TIMEOUT", "20ms")
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 0.1)
    make_old(watch, 8)
    with (
        watch.holding("lock table {}.checkpoint_writes in access share mode"),
        pytest.raises(Unavailable, match="somebody uses the tables"),
    ):
        set_up(watch)
    set_up(watch)
    assert shape(watch)[3] == LEDGER


def test_whose_index_is_in_the_way_need_not_wait_for_our_turn_to_end(watch: Watch) -> None:
    # An index that is built concurrently waits for transactions that were there, of which our lock is one.
    make_old(watch, 4)
    fill(watch)
    with ThreadPoolExecutor(1) as threads:
        with watch.holding("lock table {}.checkpoint_blobs in share update exclusive mode"):
            done = threads.submit(set_up, watch)
            until(lambda: watch.waiting("lock table%share update exclusive%"))
            with psycopg.connect(watch.uri, autocommit=True) as connection:
                session = Session(connection, watch.name, Timing(system_clock), prepares=False)
                with alone(session, watch.name):
                    assert not done.done()
        done.result()
    assert shape(watch)[3] == LEDGER


@pytest.mark.parametrize("version", [-1, 4])
def test_A20_many_set_up_at_once(watch: Watch, version: int) -> None:
    make_old(watch, version)
    fill(watch)
    together = Barrier(12)

    def at_once(_: int) -> None:
        together.wait()
        set_up(watch)

    with ThreadPoolExecutor(12) as threads:
        list(threads.map(at_once, range(12)))
    assert shape(watch)[3] == LEDGER
    assert all(valid for _, _, valid in shape(watch)[2])


@pytest.mark.parametrize("version", [-1, 4, 8])
def test_A20_ours_succeeds_beside_LangGraphs_setup(watch: Watch, other: Watch, version: int) -> None:
    with theirs(other) as saver:
        saver.setup()
    make_old(watch, version)
    fill(watch)
    together = Barrier(8)

    def at_once(number: int) -> None:
        if number % 2:
            together.wait()
            set_up(watch)
            return
        with theirs(watch) as saver:
            together.wait()
            try:
                saver.setup()
            except psycopg.Error:
                # Theirs may fail beside each other, without any of ours.
                return

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(at_once, range(8)))
    set_up(watch)
    assert without_ours(shape(watch)) == shape(other)


def test_a_user_who_may_only_use_the_tables_needs_no_right_to_make_any() -> None:
    with Server(FAST, tcp=True) as server:
        admin = Watch(server.uri, "stateroom")
        set_up(admin)
        user = Watch(server.add_user("plain", "secret"), "stateroom")
        with pytest.raises(Misconfigured, match="may not do what is needed"):
            set_up(user)
        admin.execute("grant usage on schema stateroom to plain")
        admin.execute("grant select, insert, update, delete on all tables in schema stateroom to plain")
        with PostgresSaver(user.uri) as saver:
            config = saver.put(place("t"), empty_checkpoint(), {}, {})
            assert saver.get_tuple(config) is not None
            # An index that only an owner can make is missed by nothing but speed.
            admin.execute(f"drop index {{}}.{RUN_INDEX}")
            with PostgresSaver(user.uri) as again:
                again.delete_for_runs(["nobody's"])
                assert again.get_tuple(config) is not None


def place(thread_id: str) -> Any:
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ""}}


class TestPublic:
    @pytest.fixture
    def server(self) -> Iterator[Server]:
        with Server(FAST) as server:
            yield server

    def test_threads_of_LangGraphs_saver_beside_an_empty_schema_are_mentioned_once(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Theirs.from_conn_string(server.uri) as saver:
            saver.setup()
            saver.put(place("old"), empty_checkpoint(), {}, {})
        with caplog.at_level(logging.WARNING, "stateroom"):
            with PostgresSaver(server.uri) as ours:
                assert list(ours.list(None)) == []
            assert 'schema="public"' in caplog.text
            caplog.clear()
            with PostgresSaver(server.uri):
                pass
            with PostgresSaver(server.uri, schema="public") as ours:
                assert [found.config["configurable"]["thread_id"] for found in ours.list(None)] == ["old"]
            assert caplog.text == ""

    def test_empty_tables_of_LangGraphs_saver_are_not_mentioned(
        self, server: Server, caplog: pytest.LogCaptureFixture
    ) -> None:
        with Theirs.from_conn_string(server.uri) as saver:
            saver.setup()
        with caplog.at_level(logging.WARNING, "stateroom"), PostgresSaver(server.uri):
            assert caplog.text == ""
