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
from stateroom.testing import Opened
from stateroom.testing.cases import CasesSuite
from tests.cases import processes
from tests.cases.processes import EDITORS, EDITS, NOTE, PROCESSES, N


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


def reported(task: str, file: Path) -> list[str]:
    """Let processes do a task on a file; return the lines that they report."""
    program = [sys.executable, processes.__file__, task, str(file)]
    done = subprocess.run(program, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


def kept(file: Path) -> list[str]:
    """Return the items below the head of the text that the processes edit."""
    with SqliteStore(file) as store:
        found = store.get(N, NOTE)
    assert found is not None
    items: list[str] = found.value["text"].splitlines()
    head = items.pop(0)
    assert head == "HEAD|"
    return items


@pytest.mark.parametrize("again", [False, True], ids=["a new file", "a file set up before"])
def test_A20_processes_that_start_at_once_all_set_the_file_up(tmp_path: Path, again: bool) -> None:
    file = tmp_path / "memory.db"
    if again:
        SqliteStore(file).setup()
    names = reported("set-up", file)
    assert len(set(names)) == PROCESSES
    with SqliteStore(file) as store:
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


def test_A16_edits_of_several_processes_that_succeeded_are_all_kept(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    with SqliteStore(file) as store:
        store.put(N, NOTE, {"text": "HEAD|\n"})
    succeeded = reported("edit", file)
    assert succeeded
    assert sorted(kept(file)) == sorted(succeeded)


def test_A16_edits_of_several_processes_that_are_tried_again_all_succeed(tmp_path: Path) -> None:
    file = tmp_path / "memory.db"
    with SqliteStore(file) as store:
        store.put(N, NOTE, {"text": "HEAD|\n"})
    succeeded = reported("edit-until-done", file)
    assert len(succeeded) == EDITORS * EDITS
    assert sorted(kept(file)) == sorted(succeeded)
