"""Several processes at one storage: a file has one owner, a schema of Postgres as many as want to work."""

from __future__ import annotations

import os
from itertools import pairwise
from pathlib import Path

import pytest

from stateroom.contract.runs import RunQuery
from stateroom.contract.threads import ThreadQuery
from stateroom.drivers.postgres import migrations as postgres_migrations
from stateroom.drivers.sqlite import migrations as sqlite_migrations
from stateroom.errors import Misconfigured
from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.stores.sqlite import SqliteStore
from stateroom.testing.storage_harness import make_thread, new_run
from tests.conftest import NewSchema
from tests.faults.conftest import Child, Start
from tests.faults.programs.storage_children import (
    execute_and_wait,
    open_and_hold,
    open_at_once,
    open_store_at_once,
    take_turns,
)
from tests.faults.programs.storage_places import Place, open_storage, storage_at
from tests.faults.watching import Watch, named, until
from tests.storage.old_databases import restore
from tests.storage.working import Worker, two_steps

PROCESSES, THREADS, RUNS = 3, 8, 25


@pytest.fixture
def file(tmp_path: Path) -> Place:
    return Place(str(tmp_path / "server.db"))


@pytest.fixture
def schema(postgres: str, new_schema: NewSchema) -> Place:
    return Place(postgres, new_schema())


# ---- the owner of a file


def test_a_second_owner_of_a_file_is_refused_and_told_who_has_it(start: Start, file: Place) -> None:
    first, second = start(open_and_hold, file), None
    assert first.pipe.recv() is None
    second = start(open_and_hold, file)
    kind, field, message = second.pipe.recv()
    assert (kind, field) == ("Misconfigured", "path")
    assert str(first.process.pid) in message
    with pytest.raises(Misconfigured, match=str(first.process.pid)):
        storage_at(file).open()
    first.pipe.send("let go")
    assert [*first.messages()] == ["closed"]
    with open_storage(file) as storage:
        make_thread(storage, "t")


def test_a_second_owner_within_one_process_is_refused_too(file: Place) -> None:
    with open_storage(file), pytest.raises(Misconfigured, match=str(os.getpid())):
        storage_at(file).open()
    with open_storage(file) as storage:
        make_thread(storage, "t")


def test_another_spelling_of_the_path_is_the_same_file(file: Place, tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(file.at)
    (tmp_path / "folder").mkdir()
    with open_storage(file):
        for path in (str(link), str(tmp_path / "folder" / ".." / "server.db")):
            with pytest.raises(Misconfigured, match=str(os.getpid())):
                storage_at(Place(path)).open()


def test_an_owner_that_was_killed_leaves_no_lock(start: Start, file: Place) -> None:
    child = start(open_and_hold, file)
    assert child.pipe.recv() is None
    child.kill()
    with open_storage(file) as storage:
        make_thread(storage, "t")


def test_two_storages_in_memory_are_two() -> None:
    with open_storage(Place(":memory:")) as one, open_storage(Place(":memory:")) as other:
        make_thread(one, "t")
        assert other.threads.get("t") is None


def test_a_store_works_beside_the_owner_of_its_file(start: Start, file: Place) -> None:
    child = start(open_and_hold, file)
    assert child.pipe.recv() is None
    with SqliteStore(file.at) as store:
        store.put(("notes",), "k", {"text": "tide"})
    child.pipe.send("let go")
    assert [*child.messages()] == ["closed"]
    with SqliteStore(file.at) as store, open_storage(file) as storage:
        make_thread(storage, "t")
        found = store.get(("notes",), "k")
        assert found is not None
        assert found.value == {"text": "tide"}
        store.put(("notes",), "k", {"text": "gull"})


# ---- killed while it executes


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
def test_A06_after_a_kill_the_list_of_threads_and_their_states_agree(
    start: Start, kind: str, request: pytest.FixtureRequest
) -> None:
    place: Place = request.getfixturevalue("file" if kind == "sqlite" else "schema")
    watched = place if place.is_file else place._replace(at=named(place.at, place.schema))
    child = start(execute_and_wait, watched)
    assert child.pipe.recv() == "executing"
    child.kill()
    if not place.is_file:
        watch = Watch(place.at, place.schema)
        until(lambda: not watch.sessions())
    with open_storage(place) as storage:
        worker = Worker(storage, two_steps())
        if not place.is_file:
            assert storage.runs.reap(everybody=True, max_attempts=3)
        thread = storage.threads.get("t")
        assert thread is not None
        assert thread.status is not ThreadStatus.BUSY
        assert (thread.values or {})["log"] == ["finished 1", "finished 2"]
        # What was executing had taken its input, and no more.
        assert worker.values("t")["log"] == ["finished 1", "finished 2"]
        assert len([*worker.saver.list({"configurable": {"thread_id": "t"}})]) >= 4
        statuses = {run.run_id: run.status for run in storage.runs.search(RunQuery()).rows}
        assert statuses == {
            "a": RunStatus.SUCCESS,
            "b": RunStatus.ERROR if place.is_file else RunStatus.PENDING,
            "c": RunStatus.PENDING,
        }
        abandoned = storage.runs.get("b")
        assert abandoned is not None
        assert (abandoned.error or {}).get("error") == ("abandoned" if place.is_file else None)
        worker.work()
        log = worker.values("t")["log"]
        assert log[-2:] == ["waiting 1", "waiting 2"]
        assert log.count("unfinished 1") == (0 if place.is_file else 1)


# ---- a queue that processes share


def test_processes_that_share_a_queue_execute_every_run_once_and_a_threads_in_order(
    start: Start, schema: Place
) -> None:
    with open_storage(schema) as storage:
        for number in range(THREADS):
            make_thread(storage, f"t{number}")
        for number in range(RUNS):
            storage.runs.create([new_run(f"{number}-{each}", f"t{each}") for each in range(THREADS)])
        children = [start(take_turns, schema, f"w{number}") for number in range(PROCESSES)]
        done = told(children)
        assert sorted(run for runs in done for run in runs) == sorted(
            f"{number}-{each}" for number in range(RUNS) for each in range(THREADS)
        )
        assert all(done), "one process did everything"
        for number in range(THREADS):
            page = storage.runs.search(RunQuery(thread_id=f"t{number}"), limit=1000)
            runs = page.rows[::-1]
            assert [run.run_id for run in runs] == [f"{each}-{number}" for each in range(RUNS)]
            assert {(run.status, run.attempt) for run in runs} == {(RunStatus.SUCCESS, 1)}
            for before, after in pairwise(runs):
                assert before.ended_at is not None
                assert after.started_at is not None
                assert before.ended_at <= after.started_at
        assert storage.runs.next_available_at() is None


def told(children: list[Child]) -> list[list[str]]:
    """Start all children at once; return what each says until it is done."""
    assert [child.pipe.recv() for child in children] == ["ready"] * len(children)
    for child in children:
        child.pipe.send("go")
    said = [[*child.messages()] for child in children]
    assert [each.pop() for each in said] == ["done"] * len(children)
    return said


# ---- migrating at once


def answers(children: list[Child]) -> list[list[object]]:
    """Have all children open at once; return the three answers of each."""
    assert [child.pipe.recv() for child in children] == ["ready"] * len(children)
    for child in children:
        child.pipe.send("go")
    found = [[child.pipe.recv() for _ in range(3)] for child in children]
    for child in children:
        child.pipe.send("enough")
    for child in children:
        assert [*child.messages()] == []
    return found


@pytest.mark.parametrize("old", [False, True], ids=["fresh", "version 2"])
def test_A20_storages_and_stores_that_open_one_schema_at_once_all_set_it_up(
    start: Start, schema: Place, old: bool
) -> None:
    if old:
        restore(schema.at, schema.schema)
    programs = [open_at_once] * 6 + [open_store_at_once] * 2
    assert answers([start(program, schema) for program in programs]) == [[None] * 3] * len(programs)
    assert schema.rows("select version from stateroom.migration order by version") == [
        (version,) for version in sorted(postgres_migrations.versions())
    ]
    with open_storage(schema) as storage:
        assert len(storage.threads.search(ThreadQuery()).rows) == 6


@pytest.mark.parametrize("old", [False, True], ids=["fresh", "version 2"])
def test_A20_one_storage_and_many_stores_that_open_one_file_at_once_all_set_it_up(
    start: Start, file: Place, old: bool
) -> None:
    if old:
        restore(file.at)
    programs = [open_store_at_once] * 3 + [open_at_once] * 2 + [open_store_at_once] * 3
    found = answers([start(program, file) for program in programs])
    refused = [each for each in found if each != [None] * 3]
    # Of the storages one has the file, and the other is told so.
    assert [each[0][0] for each in refused] == ["Misconfigured"]  # type: ignore[index]
    assert file.rows("select version from stateroom.migration order by version") == [
        (version,) for version in sorted(sqlite_migrations.versions())
    ]
    with open_storage(file) as storage, SqliteStore(file.at) as store:
        assert len(storage.threads.search(ThreadQuery()).rows) == 1
        assert len(store.search(("opened",))) == 6
