"""Cases in which public stores have failed their users, replayed on every store of Stateroom."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.stores.postgres import PostgresStore
from stateroom.testing import Opened
from stateroom.testing.cases import CasesSuite
from tests.cases import processes
from tests.cases.processes import EDITORS, EDITS, NOTE, PROCESSES, N, opened
from tests.conftest import NewSchema

Place = tuple[str, ...]
"""What the program of many processes is told of a store: a file, or a URI and a schema."""


class TestInMemoryStore(CasesSuite):
    """Items in this process."""

    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return InMemoryStore


class TestSqliteFile(CasesSuite):
    """Items in a file."""

    @pytest.fixture
    @override
    def open_store(self, tmp_path: Path) -> Opened:
        return partial(SqliteStore, tmp_path / "memory.db")


class TestSqliteMemory(CasesSuite):
    """Items in a database of SQLite's that lives in this process."""

    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return SqliteStore


class TestPostgresStore(CasesSuite):
    """Items in a schema of a Postgres database."""

    @pytest.fixture
    @override
    def open_store(self, postgres: str, empty_schema: NewSchema) -> Opened:
        return partial(PostgresStore, postgres, schema=empty_schema())


@pytest.fixture(params=["SQLite", "Postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where processes share a store that is not there yet."""
    if request.param == "SQLite":
        return (str(tmp_path / "memory.db"),)
    new_schema: NewSchema = request.getfixturevalue("new_schema")
    return request.getfixturevalue("postgres"), new_schema()


def reported(task: str, place: Place) -> list[str]:
    """Let processes do a task on a store; return the lines that they report."""
    program = [sys.executable, processes.__file__, task, *place]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def kept(place: Place) -> list[str]:
    """Return the items below the head of the text that the processes edit."""
    with opened(*place) as store:
        found = store.get(N, NOTE)
    assert found is not None
    items: list[str] = found.value["text"].splitlines()
    head = items.pop(0)
    assert head == "HEAD|"
    return items


@pytest.mark.parametrize("again", [False, True], ids=["a new store", "a store set up before"])
def test_A20_processes_that_start_at_once_all_set_the_store_up(place: Place, again: bool) -> None:
    if again:
        with opened(*place):
            pass
    names = reported("set-up", place)
    assert len(set(names)) == PROCESSES
    with opened(*place) as store:
        assert {item.key for item in store.search(N, limit=100)} == set(names)


def test_A20_set_up_of_what_is_set_up_waits_for_no_writer(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    with SqliteStore(file) as store:
        store.put(N, "k", {})
    with closing(sqlite3.connect(file, isolation_level=None)) as writer:
        writer.execute("begin immediate")
        with SqliteStore(file) as store:
            assert store.get(N, "k") is not None
        writer.execute("rollback")


def test_A16_edits_of_several_processes_that_succeeded_are_all_kept(place: Place) -> None:
    with opened(*place) as store:
        store.put(N, NOTE, {"text": "HEAD|\n"})
    succeeded = reported("edit", place)
    assert succeeded
    assert sorted(kept(place)) == sorted(succeeded)


def test_A16_edits_of_several_processes_that_are_tried_again_all_succeed(place: Place) -> None:
    with opened(*place) as store:
        store.put(N, NOTE, {"text": "HEAD|\n"})
    succeeded = reported("edit-until-done", place)
    assert len(succeeded) == EDITORS * EDITS
    assert sorted(kept(place)) == sorted(succeeded)
