"""Files that are busy, full, read-only, foreign or from the future: a clear error, and nothing half done."""

from __future__ import annotations

import os
import shutil
import sqlite3
import tempfile
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from stateroom.drivers.sqlite import database, migrations
from stateroom.errors import Misconfigured, Unavailable
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.stores.sqlite import SqliteStore
from tests.faults.conftest import Start
from tests.faults.programs.children import write_without_rights
from tests.faults.programs.histories import contents, open_store


@contextmanager
def writing_elsewhere(path: Path) -> Iterator[None]:
    """Hold the lock of a file, as another process that writes does."""
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("begin immediate")
        yield
        other.execute("rollback")


def test_a_file_that_stays_busy_is_unavailable_keeps_nothing_half_written_and_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    with open_store(tmp_path / "memory.db") as store:
        store.put(("notes",), "old", {"text": "tide"}, ttl=60)
        before = contents(store)
        with writing_elsewhere(tmp_path / "memory.db"):
            for write in (
                lambda: store.put(("notes",), "new", {"text": "gull"}),
                lambda: store.delete(("notes",), "old"),
                lambda: store.batch(
                    [DeleteItem(("notes",), "old"), PutItem(("sea",), "new", {"text": "gull"})]
                ),
                lambda: store.sweep_ttl(),
            ):
                with pytest.raises(Unavailable) as caught:
                    write()
                assert caught.value.retryable
                assert contents(store) == before
        assert contents(store) == before
        store.put(("notes",), "new", {"text": "gull"})
        assert [hit.key for hit in store.search((), query="gulls", mode="text")] == ["new"]


async def test_async_callers_of_a_busy_file_all_hear_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    async with open_store(tmp_path / "memory.db") as store:
        with writing_elsewhere(tmp_path / "memory.db"):
            with pytest.raises(Unavailable):
                await store.aput(("notes",), "new", {"text": "gull"})
            assert await store.aget(("notes",), "new") is None
        await store.aput(("notes",), "new", {"text": "gull"})
        assert await store.acount(()) == 1


def test_a_new_file_that_is_busy_can_be_opened_once_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    path = tmp_path / "memory.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("pragma journal_mode = wal")
        connection.execute("create table somebody_elses (n)")
    store = open_store(path)
    with writing_elsewhere(path), pytest.raises(Unavailable):
        store.setup()
    with store:
        store.put(("notes",), "k", {"text": "tide"})
        assert store.count(()) == 1


def test_a_refresh_that_cannot_be_written_is_told_all_the_same_and_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    with open_store(tmp_path / "memory.db") as store, open_store(tmp_path / "memory.db") as other:
        put = store.put_item(("notes",), "k", {"text": "tide"}, ttl=60)
        with writing_elsewhere(tmp_path / "memory.db"):
            refreshed = store.get(("notes",), "k", refresh_ttl=True)
            with pytest.raises(Unavailable):
                store.put(("notes",), "new", {"text": "gull"})
            told = store.get(("notes",), "k", refresh_ttl=False)
        assert refreshed is not None
        assert told is not None
        assert put.expires_at is not None
        assert refreshed.expires_at is not None
        assert put.expires_at < refreshed.expires_at == told.expires_at
        store.put(("notes",), "new", {"text": "gull"})
        elsewhere = other.get(("notes",), "k", refresh_ttl=False)
        assert elsewhere is not None
        assert elsewhere.expires_at == refreshed.expires_at


def test_a_refresh_whose_time_to_be_written_finds_the_file_busy_is_written_when_it_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.02)
    uncaught: list[threading.ExceptHookArgs] = []
    monkeypatch.setattr(threading, "excepthook", uncaught.append)
    with open_store(tmp_path / "memory.db") as store, open_store(tmp_path / "memory.db") as other:
        store.put(("notes",), "k", {"text": "tide"}, ttl=60)
        with writing_elsewhere(tmp_path / "memory.db"):
            told = store.get(("notes",), "k", refresh_ttl=True)
            for timer in timers():
                timer.join()
        while waiting := timers():
            waiting[0].join()
        written = other.get(("notes",), "k", refresh_ttl=False)
        assert uncaught == []
        assert told is not None
        assert written is not None
        assert written.expires_at == told.expires_at


def timers() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if isinstance(thread, threading.Timer)]


def test_a_full_disk_refuses_the_put_and_changes_nothing_until_there_is_space(tmp_path: Path) -> None:
    with open_store(tmp_path / "memory.db") as store:
        store.put(("notes",), "old", {"text": "tide"})
        before = contents(store)
        writer = store._items._db.open()  # type: ignore[attr-defined]  # only this connection can be kept small
        (pages,) = writer.execute("pragma page_count").fetchone()
        writer.execute(f"pragma max_page_count = {pages}")
        large = {"text": "storm " * 20_000}
        for number in range(3):
            with pytest.raises(Unavailable, match="full"):
                store.put(("notes",), "large", large)
            with pytest.raises(Unavailable, match="full"):
                store.batch([DeleteItem(("notes",), "old"), PutItem(("sea",), str(number), large)])
            assert contents(store) == before
        writer.execute("pragma max_page_count = 1000000")
        store.put(("notes",), "large", large)
        assert [hit.key for hit in store.search((), query="storms", mode="text")] == ["large"]
    with open_store(tmp_path / "memory.db") as store:
        assert store.count(()) == 2


def test_a_file_that_is_no_database_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "letter.txt"
    path.write_text("Dear reader, this is no database. " * 100)
    letter = path.read_bytes()
    with pytest.raises(Misconfigured, match="not an SQLite database") as caught:
        SqliteStore(path).setup()
    assert caught.value.field == "path"
    assert path.read_bytes() == letter


@pytest.mark.parametrize("inside", ["missing/memory.db", "missing/too/memory.db"])
def test_a_folder_that_does_not_exist_is_refused_by_name(tmp_path: Path, inside: str) -> None:
    with pytest.raises(Misconfigured, match="missing") as caught:
        SqliteStore(tmp_path / inside).put(("notes",), "k", {})
    assert caught.value.field == "path"
    assert list(tmp_path.iterdir()) == []


def test_a_path_that_is_a_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(Misconfigured) as caught:
        SqliteStore(tmp_path).setup()
    assert caught.value.field == "path"


def test_a_file_of_a_newer_release_is_refused_with_both_versions(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        store.put(("notes",), "k", {"text": "tide"})
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("insert into stateroom_migration (version) values (9876)")
        connection.commit()
    newest = max(migrations.versions())
    with pytest.raises(Misconfigured, match=f"9876.*{newest}") as caught:
        open_store(path).setup()
    assert caught.value.field == "path"
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("select count(*) from stateroom_item").fetchone() == (1,)


def test_a_file_without_the_right_to_write_is_refused_as_a_setting_and_stays_as_it_is(start: Start) -> None:
    # Root may write anything, so the child becomes nobody, who must be able to get at the file.
    folder = Path(tempfile.mkdtemp(prefix="stateroom-"))
    path = folder / "memory.db"
    try:
        with open_store(path) as store:
            store.put(("notes",), "k", {"text": "old"})
        path.chmod(0o444)
        folder.chmod(0o555)
        before = path.read_bytes()
        problems = [*start(write_without_rights, os.fspath(path)).messages()]
        assert [(kind, field) for kind, field, _ in problems] == [("Misconfigured", "path")] * 2
        assert all(str(path) in text for _, _, text in problems)
        assert path.read_bytes() == before
    finally:
        folder.chmod(0o755)
        shutil.rmtree(folder)
