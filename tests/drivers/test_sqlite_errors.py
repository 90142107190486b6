"""SQLite's errors become ours, and only what a caller can act on does."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from stateroom.drivers.sqlite.database import Busy, translation
from stateroom.errors import Misconfigured, Unavailable


def failure(connection: sqlite3.Connection, sql: str) -> sqlite3.Error:
    """Return the error with which a statement fails."""
    with pytest.raises(sqlite3.Error) as caught:
        connection.execute(sql)
    return caught.value


def test_a_busy_file_is_unavailable_and_worth_another_try(tmp_path: Path) -> None:
    path = str(tmp_path / "memory.db")
    first, second = (sqlite3.connect(path, timeout=0, isolation_level=None) for _ in range(2))
    first.execute("begin exclusive")
    error = translation(failure(second, "begin immediate"), path)
    first.close()
    second.close()
    assert type(error) is Busy
    assert error.retryable
    assert error.code == Unavailable.code
    assert path in str(error)


def test_a_full_database_is_unavailable() -> None:
    connection = sqlite3.connect(":memory:", isolation_level=None)
    connection.execute("create table t (a)")
    connection.execute("pragma max_page_count = 2")
    error = translation(failure(connection, "insert into t values (zeroblob(100000))"), "x")
    connection.close()
    assert type(error) is Unavailable


def test_a_read_only_database_is_a_wrong_setting() -> None:
    connection = sqlite3.connect(":memory:")
    connection.execute("pragma query_only = on")
    error = translation(failure(connection, "create table t (a)"), "x")
    connection.close()
    assert isinstance(error, Misconfigured)
    assert error.field == "path"


def test_no_database_is_a_wrong_setting(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    path.write_bytes(b"no database at all, " * 100)
    connection = sqlite3.connect(path)
    error = translation(failure(connection, "select 1 from sqlite_master"), str(path))
    connection.close()
    assert isinstance(error, Misconfigured)


def test_an_sqlite_without_a_module_that_is_needed_is_named_with_its_version() -> None:
    connection = sqlite3.connect(":memory:")
    error = translation(failure(connection, "create virtual table t using absent (a)"), "x")
    connection.close()
    assert isinstance(error, Misconfigured)
    assert sqlite3.sqlite_version in str(error)


def test_a_statement_that_sqlite_does_not_understand_stays_what_it_is() -> None:
    connection = sqlite3.connect(":memory:")
    mistake = failure(connection, "selec 1")
    connection.close()
    assert translation(mistake, "x") is mistake
