"""A thread's deletion that is cut short anywhere is finished later, and nothing of the thread comes back."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import pytest

from stateroom.contract.assistants import NewAssistant
from stateroom.contract.crons import NewCron
from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.drivers.sql import deletions
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.engine.retention import Retention
from stateroom.errors import Fenced, NotFound
from stateroom.model.delivery import NewDelivery
from stateroom.model.frame import NewFrame
from stateroom.model.run import Run, RunStatus
from stateroom.model.thread import ThreadStatus, ThreadTTL
from stateroom.testing.storage_harness import LEASE, new_run
from tests.conftest import NewSchema
from tests.faults.conftest import Start
from tests.faults.programs.storage_children import delete_until_killed
from tests.faults.programs.storage_places import Place, open_storage
from tests.faults.programs.storage_scanning import holding
from tests.faults.watching import until
from tests.storage.saving import checkpoint_ids, put_checkpoint
from tests.storage.working import Worker, asking

T = TypeVar("T")

HOUR = 3_600_000_000
SMALL = 4
"""Rows that one transaction of a deletion erases in these tests, so that there are many."""

TABLES = 12
"""In how many tables there is something of a thread, at least: ours, and LangGraph's two or three."""

RACES = 10

BOUNDARIES = 60
"""More transactions than any of the deletions here has."""


class Cut(Exception):
    """The process might have died here."""


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "postgres":
        new_schema: NewSchema = request.getfixturevalue("new_schema")
        return Place(request.getfixturevalue("postgres"), new_schema())
    return Place(":memory:" if request.param == "memory" else str(tmp_path / "server.db"))


@pytest.fixture
def storage(place: Place, monkeypatch: pytest.MonkeyPatch) -> Iterator[SqlStorage]:
    monkeypatch.setattr(deletions, "ERASED_AT_ONCE", SMALL)
    with open_storage(place) as storage:
        yield storage


def fill(storage: SqlStorage, thread_id: str) -> Run:
    """Make a thread with something in every table; answer its run that is executing."""
    worker = Worker(storage, asking())
    storage.threads.create(NewThread(thread_id, metadata={"name": thread_id}, config={"of": thread_id}))
    for number, given in enumerate(({"said": thread_id}, {"resume": thread_id}, {"said": thread_id})):
        run_id = f"{thread_id}-run-{number}"
        storage.runs.create([new_run(run_id, thread_id, kwargs={"input": given})])
        ((run),) = worker.work()
        assert run.status is RunStatus.SUCCESS
    thread = storage.threads.get(thread_id)
    assert thread is not None
    assert thread.status is ThreadStatus.INTERRUPTED
    storage.runs.create([new_run(f"{thread_id}-delivered", thread_id, private={"of": thread_id})])
    run = storage.runs.claim("w", lease=LEASE)[0]
    delivery = NewDelivery(f"{thread_id}-delivery", "http://example.org", {"of": thread_id})
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, deliveries=[delivery]))
    storage.assistants.create(NewAssistant("a", "graph"), if_exists="do_nothing")
    storage.crons.create(
        NewCron(f"{thread_id}-cron", "a", "* * * * *", {"n": 1}, 1, thread_id, metadata={"of": thread_id})
    )
    storage.idempotency.claim("s", f"{thread_id}-key", fingerprint="f", claim_id="c", lifetime=HOUR)
    storage.idempotency.record(
        "s",
        f"{thread_id}-key",
        claim_id="c",
        response=thread_id.encode(),
        thread_id=thread_id,
        run_id=run.run_id,
        lifetime=HOUR,
    )
    storage.runs.create([new_run(f"{thread_id}-{name}", thread_id) for name in ("executing", "waiting")])
    executing = storage.runs.claim("w", lease=LEASE)[0]
    storage.events.append(executing.lease, [NewFrame("values", thread_id.encode())] * 5)
    storage.runs.mark(executing.lease)
    return executing


def cutting(storage: SqlStorage, monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Have whatever writes die after so many commits."""
    write, commits = storage.dialect.write, iter(range(after))

    def cut(work: Callable[[Session], T], *, repeats: bool = False) -> T:
        if next(commits, None) is None:
            raise Cut
        return write(work, repeats=repeats)

    monkeypatch.setattr(storage.dialect, "write", cut)


def cut_short(storage: SqlStorage, thread_id: str, monkeypatch: pytest.MonkeyPatch, after: int) -> bool:
    """Delete a thread, which is cut short after so many commits; tell whether it was."""
    with monkeypatch.context() as patched:
        cutting(storage, patched, after)
        try:
            assert storage.threads.delete(thread_id)
        except Cut:
            return True
    return False


def assert_gone(storage: SqlStorage, run: Run) -> None:
    """Check that nobody sees the thread, and nobody may write under its id."""
    thread_id = run.thread_id
    assert storage.threads.get(thread_id) is None
    assert storage.runs.count(RunQuery(thread_id=thread_id)) == 0
    assert storage.runs.get(run.run_id) is None
    assert storage.events.read(run.run_id).status is None
    assert not storage.threads.delete(f"{thread_id} of another name")
    worker = Worker(storage, asking())
    with pytest.raises(NotFound):
        put_checkpoint(worker.saver, thread_id, 1)
    with pytest.raises((Fenced, NotFound)):
        put_checkpoint(worker.saver, thread_id, 1, attempt=run.lease)
    with pytest.raises(Fenced):
        storage.events.append(run.lease, [NewFrame("values", b"{}")])
    with pytest.raises(Fenced):
        storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))
    with pytest.raises(NotFound):
        storage.runs.create([new_run("new", thread_id)])
    assert all(claimed.thread_id != thread_id for claimed in storage.runs.claim("w", lease=LEASE, limit=100))


def test_A21_a_deletion_that_is_cut_short_after_any_commit_is_finished_later(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(storage, "bystander")
    others = {table: len(rows) for table, rows in holding(storage, "bystander").items()}
    assert len(others) >= TABLES
    for after in range(BOUNDARIES):
        thread_id = f"thread{after:02}"
        run = fill(storage, thread_id)
        assert len(holding(storage, thread_id)) >= TABLES
        if not cut_short(storage, thread_id, monkeypatch, after):
            break
        if after == 0:
            assert storage.threads.get(thread_id) is not None
            assert storage.threads.delete(thread_id)
        else:
            assert_gone(storage, run)
            assert holding(storage, thread_id)
            # Half of them are finished by deleting them again, the others as when the storage is opened.
            if after % 2:
                assert not storage.threads.delete(thread_id)
            else:
                assert storage.threads.resume_deletions() == 1
        assert holding(storage, thread_id) == {}
    assert after > 10, "the deletion had hardly any commits"
    assert holding(storage, thread_id) == {}
    assert storage.threads.resume_deletions() == 0
    assert {table: len(rows) for table, rows in holding(storage, "bystander").items()} == others


def test_A21_what_is_made_under_an_id_while_its_deletion_is_pending_has_nothing_of_the_former(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    makers: list[Callable[[str], object]] = [
        lambda thread_id: storage.threads.create(NewThread(thread_id)),
        lambda thread_id: storage.threads.create(NewThread(thread_id), if_exists="do_nothing"),
        lambda thread_id: storage.runs.create(
            [new_run("new", thread_id, new_thread=NewThread(thread_id), delay=HOUR)]
        ),
        lambda thread_id: storage.threads.copy("model", thread_id),
    ]
    storage.threads.create(NewThread("model"))
    for after in (1, 2, 5):
        for number, make in enumerate(makers):
            thread_id = f"thread-{after}-{number}"
            run = fill(storage, thread_id)
            assert cut_short(storage, thread_id, monkeypatch, after)
            make(thread_id)
            thread = storage.threads.get(thread_id)
            assert thread is not None
            assert (thread.metadata, thread.values, thread.interrupts) == ({}, None, {})
            assert checkpoint_ids(Worker(storage, asking()).saver, thread_id) == []
            assert storage.runs.count(RunQuery(thread_id=thread_id)) == (number == 2)
            assert holding(storage, f"{thread_id}-") == {}, "something of the former thread is there"
            with pytest.raises(Fenced):
                storage.events.append(run.lease, [NewFrame("values", b"{}")])
            with pytest.raises(Fenced):
                put_checkpoint(Worker(storage, asking()).saver, thread_id, 1, attempt=run.lease)
            assert storage.threads.delete(thread_id)
            assert holding(storage, thread_id) == {}


@pytest.mark.parametrize("how", ["deleted", "expired", "settled"])
def test_A21_whatever_deletes_a_thread_leaves_nothing(storage: SqlStorage, how: str) -> None:
    run = fill(storage, "thread")
    if how == "settled":
        storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, delete_thread=True))
    elif how == "deleted":
        assert storage.threads.delete("thread")
    else:
        storage.threads.update("thread", ThreadChange(ttl=ThreadTTL(1e-6)))
        until(lambda: storage.threads.expired())
        swept = Retention(storage, Worker(storage, asking()).saver).sweep()
        assert swept.threads_deleted == 1
    assert holding(storage, "thread") == {}


def test_A21_a_settlement_that_deletes_its_thread_and_is_cut_short_is_finished_later(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    for after in (1, 3):
        run = fill(storage, f"thread{after}")
        with monkeypatch.context() as patched:
            cutting(storage, patched, after)
            with pytest.raises(Cut):
                storage.runs.settle(
                    run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, delete_thread=True)
                )
        assert_gone(storage, run)
        assert storage.threads.resume_deletions() == 1
        assert holding(storage, f"thread{after}") == {}


@pytest.mark.parametrize("place", ["sqlite", "postgres"], indirect=True)
def test_A21_deletions_that_a_kill_cuts_short_are_finished_when_the_storage_is_opened(
    start: Start, place: Place
) -> None:
    with open_storage(place) as storage:
        fill(storage, "bystander")
        for after in range(1, 9):
            fill(storage, f"thread{after}")
    for after in range(1, 9):
        thread_id = f"thread{after}"
        child = start(delete_until_killed, place, thread_id, after, SMALL)
        assert [*child.messages()] == ["ready"]
        child.process.join()
        with open_storage(place) as storage:
            assert storage.threads.get(thread_id) is None
            assert holding(storage, thread_id) == {}
            assert storage.threads.get("bystander") is not None
            assert storage.threads.resume_deletions() == 0


def test_A21_a_deletion_of_many_rows_takes_many_small_transactions(
    storage: SqlStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = fill(storage, "thread")
    sizes: list[int] = []
    write = storage.dialect.write

    def measured(work: Callable[[Session], Any], *, repeats: bool = False) -> Any:
        before = sum(map(len, holding(storage, "thread").values()))
        result = write(work, repeats=repeats)
        sizes.append(before - sum(map(len, holding(storage, "thread").values())))
        return result

    monkeypatch.setattr(storage.dialect, "write", measured)
    assert storage.threads.delete("thread")
    # What makes the thread invisible goes at once: it is bounded by what a thread has of each kind.
    assert max(sizes[1:]) <= 5 * SMALL + 3
    assert run.thread_id == "thread"


def test_A21_who_writes_while_the_thread_is_deleted_leaves_nothing(storage: SqlStorage) -> None:
    saver = Worker(storage, asking()).saver
    with ThreadPoolExecutor(6) as threads:
        for number in range(RACES):
            thread_id = f"thread{number:02}"
            run = fill(storage, thread_id)
            numbers = itertools.count()
            writers: list[Callable[[], object]] = [
                partial(storage.events.append, run.lease, [NewFrame("values", thread_id.encode())]),
                partial(put_checkpoint, saver, thread_id, 1, attempt=run.lease),
                partial(put_checkpoint, saver, thread_id, 1),
                lambda: storage.runs.create([new_run(f"{thread_id}-new-{next(numbers)}", thread_id)]),  # noqa: B023
                partial(storage.threads.update, thread_id, ThreadChange(values={"of": thread_id})),
            ]
            started = threading.Barrier(len(writers) + 1)
            writing = [threads.submit(until_refused, started, write) for write in writers]
            started.wait()
            assert storage.threads.delete(thread_id)
            for each in writing:
                each.result()
            assert holding(storage, thread_id) == {}


def until_refused(started: threading.Barrier, write: Callable[[], object]) -> None:
    """Write again and again until that is refused because the thread is gone."""
    write()
    started.wait()
    try:
        while True:
            write()
    except (Fenced, NotFound):
        pass
