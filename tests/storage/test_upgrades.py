"""A database that an earlier release left behind goes on, as a store and as a storage."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadQuery
from stateroom.drivers.postgres import migrations as postgres_migrations
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sqlite import migrations as sqlite_migrations
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.files import StoreBackend
from stateroom.model.run import RunStatus
from stateroom.search.index_config import parse_index_config
from stateroom.stores.base import Store
from stateroom.stores.postgres import PostgresStore
from stateroom.stores.sqlite import SqliteStore
from stateroom.testing.storage_harness import claim_one, make_run, make_thread
from tests.conftest import NewSchema
from tests.faults.programs.histories import index
from tests.storage.old_databases import AT, EXPECTED, contents, restore

Place = tuple[str, ...]
KEYS = ("n",)


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def place(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    """Return where a database of version 2 is."""
    place: Place = (str(tmp_path / "server.db"),)
    if kind == "postgres":
        new_schema: NewSchema = request.getfixturevalue("new_schema")
        place = request.getfixturevalue("postgres"), new_schema()
    restore(*place)
    return place


def store_at(place: Place) -> Store:
    clock = ManualClock(AT)
    if len(place) == 1:
        return SqliteStore(*place, index=index(), index_keys=KEYS, clock=clock)
    uri, schema = place
    return PostgresStore(uri, schema=schema, index=index(), index_keys=KEYS, clock=clock)


def storage_at(place: Place, clock: ManualClock) -> Storage:
    settings = parse_index_config(index())
    if len(place) == 1:
        return SqliteStorage(*place, settings, index_keys=KEYS, clock=clock)
    uri, schema = place
    return PostgresStorage(uri, settings, index_keys=KEYS, clock=clock, schema=schema)


def applied(place: Place) -> set[int]:
    """Return the versions that the ledger names."""
    if len(place) == 1:
        with closing(sqlite3.connect(*place)) as file:
            return {version for (version,) in file.execute("select version from stateroom_migration")}
    uri, schema = place
    with psycopg.connect(uri) as connection:
        rows = connection.execute(sql.SQL("select version from {}.migration").format(sql.Identifier(schema)))
        return {version for (version,) in rows}


def all_versions(place: Place) -> set[int]:
    return set((sqlite_migrations if len(place) == 1 else postgres_migrations).versions())


def agrees(found: object, wanted: object) -> bool:
    """Tell whether two readings are the same, scores up to the last digits."""
    if isinstance(found, float) and isinstance(wanted, float):
        return found == pytest.approx(wanted, rel=1e-6, abs=1e-9)
    if isinstance(found, dict) and isinstance(wanted, dict):
        return found.keys() == wanted.keys() and all(agrees(found[key], wanted[key]) for key in found)
    if isinstance(found, list) and isinstance(wanted, list):
        return len(found) == len(wanted) and all(map(agrees, found, wanted))
    return found == wanted


def test_the_old_database_is_of_version_2(place: Place) -> None:
    assert applied(place) == {1, 2}
    assert all_versions(place) >= {1, 2, 3}


def test_a_store_finds_everything_in_an_old_database_as_it_was(kind: str, place: Place) -> None:
    with store_at(place) as store:
        assert agrees(contents(store), EXPECTED[kind])
        files = StoreBackend(store=store, namespace=("ana", "filesystem"))
        assert [file.content for file in files.download_files(["/notes/b.bin", "/c.md"])] == [
            b"\xff\xfe\x00keel",
            b"anchor\n",
        ]
        new = store.put_item(("notes", "ana"), "new", {"text": "harbour", "n": 9}).revision
        assert new is not None
        assert new > max(item[5] for item in EXPECTED[kind]["items"])
    assert applied(place) == all_versions(place)


def test_a_storage_opens_an_old_database_and_its_resources_work(kind: str, place: Place) -> None:
    clock = ManualClock(AT)
    storage = storage_at(place, clock)
    storage.open()
    try:
        assert storage.threads.search(ThreadQuery()).rows == []
        make_thread(storage, "t", metadata={"of": "ana"})
        made = make_run(storage, "r", "t")
        claimed = claim_one(storage)
        assert claimed is not None
        assert (claimed.run_id, claimed.status) == (made.run_id, RunStatus.RUNNING)
        assert [thread.thread_id for thread in storage.threads.search(ThreadQuery({"of": "ana"})).rows] == [
            "t"
        ]
    finally:
        storage.close()
    assert applied(place) == all_versions(place)
    with store_at(place) as store:
        assert agrees(contents(store), EXPECTED[kind])


def test_what_expires_in_an_old_database_expires(place: Place) -> None:
    clock = ManualClock(AT)
    storage = storage_at(place, clock)
    storage.open()
    try:
        assert storage.items.sweep(100) == 0
        clock.advance(minutes=60)
        assert storage.items.sweep(100) == 1
    finally:
        storage.close()


def test_A20_a_store_that_is_opened_while_another_migrates_waits_and_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = str(tmp_path / "server.db")
    restore(path)
    migrating, looked = threading.Event(), threading.Event()

    def wait(_: sqlite3.Connection) -> None:
        migrating.set()
        looked.wait()

    monkeypatch.setitem(sqlite_migrations._FILLS, 3, wait)
    ledger: Callable[[sqlite3.Connection], set[int]] = sqlite_migrations._applied

    def applied_now(connection: sqlite3.Connection) -> set[int]:
        found = ledger(connection)
        if migrating.is_set():
            looked.set()
        return found

    monkeypatch.setattr(sqlite_migrations, "_applied", applied_now)
    with ThreadPoolExecutor(2) as threads:
        first = threads.submit(opened_and_looked_at, path)
        migrating.wait()
        second = threads.submit(opened_and_looked_at, path)
        assert agrees(second.result(), EXPECTED["sqlite"])
        assert agrees(first.result(), EXPECTED["sqlite"])
    assert applied((path,)) == all_versions((path,))


def opened_and_looked_at(path: str) -> dict[str, object]:
    with store_at((path,)) as store:
        return contents(store)


def test_a_migration_that_fails_leaves_the_old_database_as_it_was(
    place: Place, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_: object) -> None:
        raise sqlite3.OperationalError("the disk is full")

    fills = sqlite_migrations._FILLS if kind == "sqlite" else postgres_migrations.FILLS
    with monkeypatch.context() as patched:
        patched.setitem(fills, 3, fail)
        storage = storage_at(place, ManualClock(AT))
        with pytest.raises(Exception, match="the disk is full"):
            storage.open()
        storage.close()
    assert applied(place) == {1, 2}
    with store_at(place) as store:
        assert agrees(contents(store), EXPECTED[kind])
