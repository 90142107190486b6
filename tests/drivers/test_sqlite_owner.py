"""One owner for one SQLite file, whatever it is called by, until its process ends."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from stateroom.drivers.sqlite.owner import Owner
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.errors import Misconfigured
from stateroom.search.index_config import parse_index_config
from stateroom.stores.sqlite import SqliteStore

HOLD = """
import sys
from stateroom.drivers.sqlite.owner import Owner
Owner(sys.argv[1]).acquire()
print("owned", flush=True)
sys.stdin.read()
"""
"""A program that owns a file until its input ends."""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "server.db"


@pytest.fixture
def other(path: Path) -> Iterator[subprocess.Popen[str]]:
    """Return another process, which owns the file."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "owned\n"
        yield process
        process.kill()


def refused(path: Path | str, pid: int) -> bool:
    """Tell whether the file is refused with an error that names the process and the way out."""
    with pytest.raises(Misconfigured) as caught:
        Owner(str(path)).acquire()
    message = str(caught.value)
    return (
        caught.value.field == "path"
        and f"pid {pid}" in message
        and "stop it" in message
        and "Postgres" in message
    )


def test_a_second_process_is_refused_by_the_pid_of_the_first(
    path: Path, other: subprocess.Popen[str]
) -> None:
    assert refused(path, other.pid)
    other.communicate()
    Owner(str(path)).acquire()


def test_a_process_that_was_killed_owns_nothing(path: Path, other: subprocess.Popen[str]) -> None:
    other.send_signal(signal.SIGKILL)
    other.wait()
    owner = Owner(str(path))
    owner.acquire()
    assert Path(f"{path}-owner").read_text() == str(os.getpid())
    owner.release()


def test_a_second_owner_in_the_same_process_is_refused_until_the_first_lets_go(path: Path) -> None:
    first, second = Owner(str(path)), Owner(str(path))
    first.acquire()
    first.acquire()
    assert refused(path, os.getpid())
    first.release()
    first.release()
    assert Path(f"{path}-owner").read_text() == ""
    second.acquire()
    assert refused(path, os.getpid())
    second.release()


def test_a_file_has_one_owner_by_all_its_names(
    path: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "folder" / "link.db").symlink_to(path)
    (tmp_path / "other").symlink_to(tmp_path, target_is_directory=True)
    monkeypatch.chdir(tmp_path)
    # The file itself need not be there yet.
    owner = Owner("folder/../server.db")
    owner.acquire()
    for name in ("server.db", "./server.db", path, "folder/link.db", "other/server.db"):
        assert refused(name, os.getpid())
    Owner("folder/other.db").acquire()
    owner.release()


def test_other_files_have_other_owners(tmp_path: Path, other: subprocess.Popen[str]) -> None:
    owner = Owner(str(tmp_path / "another.db"))
    owner.acquire()
    assert other.poll() is None
    owner.release()


def test_memory_belongs_to_whoever_has_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    first, second = Owner(":memory:"), Owner(":memory:")
    first.acquire()
    second.acquire()
    first.release()
    second.release()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_child_owns_nothing_and_takes_nothing_away(path: Path) -> None:
    owner = Owner(str(path))
    owner.acquire()
    parent = os.getpid()
    pid = os.fork()
    if pid == 0:
        try:
            owner.release()
            os._exit(0 if refused(path, parent) else 1)
        except BaseException:
            os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    assert refused(path, parent)
    assert Path(f"{path}-owner").read_text() == str(parent)
    owner.release()


def test_a_child_that_is_just_being_born_does_not_hold_what_its_parent_let_go(path: Path) -> None:
    owner = Owner(str(path))
    owner.acquire()
    assert owner._file is not None
    # What a child has between the fork and its first own step.
    inherited = os.dup(owner._file)
    owner.release()
    owner.acquire()
    os.close(inherited)
    assert refused(path, os.getpid())
    owner.release()


def test_a_folder_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured, match="missing") as caught:
        Owner(str(tmp_path / "missing" / "server.db")).acquire()
    assert caught.value.field == "path"


def test_a_storage_is_refused_and_a_store_is_not(path: Path, other: subprocess.Popen[str]) -> None:
    storage = SqliteStorage(str(path), parse_index_config(None))
    with pytest.raises(Misconfigured, match=f"pid {other.pid}"):
        storage.open()
    with SqliteStore(path) as store:
        store.put(("a",), "k", {"v": 1})
    other.communicate()
    storage.open()
    with pytest.raises(Misconfigured, match="this process"):
        SqliteStorage(str(path), parse_index_config(None)).open()
    with SqliteStore(path) as store:
        assert store.get(("a",), "k") is not None
    storage.close()
    storage.open()
    storage.close()
