"""The ledger of migrations of a Postgres schema: each is applied once, wholly or not at all."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any
from uuid import uuid4

import psycopg
import pytest
from psycopg import errors, sql

from stateroom.clock import system_clock
from stateroom.drivers.postgres import migrations
from stateroom.drivers.postgres.migrations import alone, applied, migrate, versions
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.timing import Timing
from stateroom.errors import Misconfigured, Unavailable
from stateroom.model.file import stat_of
from stateroom.model.json_values import encode_value
from tests.conftest import NewSchema

# Migrations of a test's own: the second fails in its second statement until it is mended.
FIRST = "create table stateroom.first (n integer); insert into stateroom.first values (1);"
BROKEN = "create table stateroom.second (n integer); select 1 / 0;"
MENDED = "create table stateroom.second (n integer);"

# Values of all forms that a file may have, and of none.
FILES: list[dict[str, Any]] = [
    {"content": [], "modified_at": "2026-01-02T03:04:05+00:00"},
    {"content": ["one", "", "dr\u00e9i"], "created_at": "x", "modified_at": "yesterday"},
    {"content": ["one", 2]},
    {"content": "f\u00fcnf \U0001f600", "encoding": "utf-8", "modified_at": 5},
    {"content": "aGVsbG8=", "encoding": "base64", "modified_at": ""},
    {"content": "aGVsbG8", "encoding": "base64"},
    {"content": "s\u00edx\n", "mimeType": "text/plain"},
    {"content": {"1": 80, "0": 137, "2": 78}, "mimeType": "image/png"},
    {"content": {"0": 256}},
    {"content": {"1": 1}},
    {"content": {"type": "Buffer", "data": [1, 2, 3]}},
    {"content": {"type": "Buffer", "data": "no"}},
    {"content": None},
    {"n": 10**30, "content": "beside a great number"},
    {},
]


@pytest.fixture
def schema(new_schema: NewSchema) -> str:
    return new_schema()


@pytest.fixture
def connection(postgres: str) -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres, autocommit=True) as connection:
        yield connection


@pytest.fixture
def session(connection: psycopg.Connection, schema: str) -> Session:
    return Session(connection, schema, Timing(system_clock), prepares=True)


def ship(monkeypatch: pytest.MonkeyPatch, shipped: Mapping[int, str]) -> None:
    """Have migrations that are all SQL."""
    monkeypatch.setattr(migrations, "versions", lambda: shipped)
    monkeypatch.setattr(migrations, "FILLS", {})


def tables(connection: psycopg.Connection, schema: str) -> set[str]:
    rows = connection.execute("select tablename from pg_tables where schemaname = %s", [schema])
    return {name for (name,) in rows}


def test_what_is_shipped_is_numbered_from_one_without_gaps() -> None:
    assert sorted(versions()) == [*range(1, len(versions()) + 1)]


def test_migrations_are_applied_once_and_noted(session: Session, schema: str) -> None:
    assert applied(session) == set()
    migrate(session, schema)
    assert applied(session) == set(versions())
    noted = session.fetch("select version, applied_at from stateroom.migration order by version")
    migrate(session, schema)
    assert session.fetch("select version, applied_at from stateroom.migration order by version") == noted


def test_a_schema_that_somebody_made_before_is_used(
    connection: psycopg.Connection, session: Session, schema: str
) -> None:
    connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    assert applied(session) == set()
    migrate(session, schema)
    assert applied(session) == set(versions())


def test_a_migration_that_fails_half_way_leaves_nothing_and_is_applied_later(
    connection: psycopg.Connection, session: Session, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    ship(monkeypatch, {1: FIRST, 2: BROKEN})
    with pytest.raises(errors.DivisionByZero):
        migrate(session, schema)
    assert applied(session) == {1}
    assert tables(connection, schema) == {"migration", "first"}
    ship(monkeypatch, {1: FIRST, 2: MENDED})
    migrate(session, schema)
    assert applied(session) == {1, 2}
    assert session.fetch("select n from stateroom.first") == [(1,)]


def insert_file(session: Session, key: str, value: dict[str, Any]) -> None:
    """Write an item as a release that knew no files did."""
    session.execute(
        "insert into stateroom.item "
        "(address, namespace_id, key, revision, created_at, updated_at, raw, value) values "
        "(%(address)s, 1, %(key)s, 1, 1, 1, %(raw)s, convert_from(%(raw)s, 'UTF8')::jsonb)",
        {"address": uuid4(), "key": key, "raw": encode_value(value)},
    )


def test_files_that_were_there_before_get_the_size_and_the_time_that_a_put_would_note(
    session: Session, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    shipped = versions()
    ship(monkeypatch, {1: shipped[1]})
    migrate(session, schema)
    for place, value in enumerate(FILES):
        insert_file(session, f"/{place:02}", value)
        insert_file(session, f"{place:02}/", value)
    monkeypatch.undo()
    monkeypatch.setattr(migrations, "FILLED_TOGETHER", 4)
    migrate(session, schema)
    rows = session.fetch("select key, raw, file_size, file_modified_at from stateroom.item order by key")
    expected = [stat_of(key, raw) for key, raw, *_ in rows]
    assert [(size, time) for _, _, size, time in rows] == [stat or (None, None) for stat in expected]
    assert sum(stat is not None for stat in expected) == 8


def test_a_fill_that_fails_leaves_nothing_of_its_migration(
    connection: psycopg.Connection, session: Session, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(session: Session) -> None:
        session.execute("insert into stateroom.second values (1 / 0)")

    ship(monkeypatch, {1: FIRST, 2: MENDED})
    monkeypatch.setattr(migrations, "FILLS", {2: fail})
    with pytest.raises(errors.DivisionByZero):
        migrate(session, schema)
    assert applied(session) == {1}
    assert tables(connection, schema) == {"migration", "first"}


def test_a_connection_that_is_lost_during_a_migration_leaves_nothing_of_it(
    postgres: str, session: Session, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    suicide = "create table stateroom.second (n integer); select pg_terminate_backend(pg_backend_pid());"
    ship(monkeypatch, {1: FIRST, 2: suicide})
    with pytest.raises(psycopg.OperationalError):
        migrate(session, schema)
    with psycopg.connect(postgres, autocommit=True) as other:
        again = Session(other, schema, Timing(system_clock), prepares=True)
        assert applied(again) == {1}
        assert tables(other, schema) == {"migration", "first"}


def test_a_schema_of_a_newer_release_is_left_alone(session: Session, schema: str) -> None:
    migrate(session, schema)
    newer = max(versions()) + 1
    session.execute("insert into stateroom.migration (version) values (%(v)s)", {"v": newer})
    with pytest.raises(Misconfigured, match=f"version {newer}") as raised:
        migrate(session, schema)
    assert raised.value.field == "schema"


def test_one_session_at_a_time_holds_the_lock_of_a_schema_and_none_that_of_another(
    postgres: str, session: Session, schema: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(migrations, "LOCK_SECONDS", 0.0)
    with psycopg.connect(postgres, autocommit=True) as connection:
        other = Session(connection, schema, Timing(system_clock), prepares=True)
        with alone(session, schema):
            with pytest.raises(Unavailable, match=schema), alone(other, schema):
                pass
            with alone(other, f"{schema}_of_others"):
                pass
        with alone(other, schema), pytest.raises(ZeroDivisionError), alone(session, "and another"):
            _ = 1 / 0
        with alone(session, schema):
            pass


def test_whoever_holds_the_lock_has_no_snapshot_that_an_index_build_would_wait_for(
    postgres: str, session: Session, schema: str
) -> None:
    with alone(session, schema), psycopg.connect(postgres, autocommit=True) as other:
        found = other.execute(
            "select backend_xmin from pg_stat_activity where pid = %s",
            [session.connection.info.backend_pid],
        )
        assert found.fetchall() == [(None,)]
