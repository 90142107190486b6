"""Cases in which public servers' crons have failed their users, as far as storages are concerned."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.assistants import NewAssistant
from stateroom.contract.crons import CronChange, CronQuery, NewCron
from stateroom.contract.runs import NewRun, RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import InvalidInput
from stateroom.model.cron import Cron
from stateroom.model.run import Run
from stateroom.testing.storage_harness import OpensStorage, check_refused, together
from tests.storage.conftest import KINDS, maker

MINUTE = 60 * 1_000_000


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=KINDS)
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> OpensStorage:
    """Return what makes a storage of each kind."""
    return maker(request.param, tmp_path, request)


@pytest.fixture
def storage(opens: OpensStorage, clock: ManualClock) -> Iterator[Storage]:
    """Return a storage in which crons can be made of the assistant ``a``."""
    storage = opens(clock=clock)
    storage.open()
    storage.assistants.create(NewAssistant("a", "g"))
    yield storage
    storage.close()


def make(storage: Storage, cron_id: str, schedule: str, **fields: Any) -> Cron:
    """Make a cron that is due in a minute."""
    new = NewCron(cron_id, "a", schedule, {}, storage.now() + MINUTE)
    return storage.crons.create(new._replace(**fields))


def read(storage: Storage, cron_id: str) -> Cron:
    """Return a cron that must be there."""
    cron = storage.crons.get(cron_id)
    assert cron is not None
    return cron


def following(cron: Cron, now: int) -> int | None:
    """Return when a cron is due next: each so many minutes, until its end."""
    assert cron.next_run_at is not None
    period = int(cron.schedule.removesuffix(" * * * *").removeprefix("*/")) * MINUTE
    moment = cron.next_run_at + ((now - cron.next_run_at) // period + 1) * period
    return None if cron.end_at is not None and moment > cron.end_at else moment


def tick(storage: Storage, instance: str = "i") -> list[str]:
    """Do what a scheduler does now and then, each cron by itself; return the crons whose runs it made."""
    fired = []
    for cron in storage.crons.due():
        name = f"{cron.cron_id}-{cron.occurrence}-{instance}"
        thread = cron.thread_id or name
        run = NewRun(name, thread, cron.assistant_id, 1, cron.payload, new_thread=NewThread(thread))
        try:
            moment = following(cron, storage.now())
        except ValueError as error:
            storage.crons.fail(cron.cron_id, cron.occurrence, str(error), next_run_at=storage.now() + MINUTE)
            continue
        if storage.crons.fire(cron.cron_id, cron.occurrence, next_run_at=moment, run=run):
            fired.append(cron.cron_id)
    return fired


def test_A22_one_bad_cron_stops_no_other(storage: Storage, clock: ManualClock) -> None:
    make(storage, "bad", "*/soon * * * *", next_run_at=storage.now())
    make(storage, "good", "*/1 * * * *")
    make(storage, "worse", "", next_run_at=storage.now())
    clock.advance(minutes=1)
    assert [each.cron_id for each in storage.crons.due()] == ["bad", "worse", "good"]
    assert tick(storage) == ["good"]
    # The error is noted on the cron that it is about, which is due again when the next time comes.
    assert "soon" in str(read(storage, "bad").error)
    assert read(storage, "worse").error
    assert read(storage, "good").error is None
    assert read(storage, "bad").enabled
    assert tick(storage) == []
    clock.advance(minutes=1)
    assert tick(storage) == ["good"]
    storage.crons.update("bad", CronChange(schedule="*/1 * * * *"))
    assert read(storage, "bad").error is None
    clock.advance(minutes=1)
    assert tick(storage) == ["bad", "good"]
    assert storage.runs.count(RunQuery()) == 4


def test_A22_an_end_is_kept_honoured_and_cleared(storage: Storage, clock: ManualClock) -> None:
    end = storage.now() + 3 * MINUTE
    assert make(storage, "ends", "*/1 * * * *", end_at=end).end_at == end
    make(storage, "lasts", "*/1 * * * *")
    fired = []
    for _ in range(5):
        clock.advance(minutes=1)
        fired += tick(storage)
    assert (fired.count("ends"), fired.count("lasts")) == (3, 5)
    (found,) = storage.crons.search(CronQuery(), limit=1, offset=1).rows
    assert found == read(storage, "ends")
    assert (found.end_at, found.next_run_at, found.enabled) == (end, None, True)
    storage.crons.update("ends", CronChange(metadata={"n": 1}))
    assert read(storage, "ends").end_at == end
    revived = storage.crons.update("ends", CronChange(end_at=None, next_run_at=storage.now() + MINUTE))
    assert revived.end_at is None
    clock.advance(minutes=1)
    assert sorted(tick(storage)) == ["ends", "lasts"]


@pytest.mark.parametrize("end", ["soon", "2026-03-01T12:00:00Z", 1.5])
def test_A22_an_end_that_is_no_time_is_refused(storage: Storage, end: Any) -> None:
    check_refused(InvalidInput, "end_at", lambda: make(storage, "bad", "*/1 * * * *", end_at=end))
    good = make(storage, "good", "*/1 * * * *")
    change = CronChange()._replace(end_at=end)
    check_refused(InvalidInput, "end_at", lambda: storage.crons.update("good", change))
    assert storage.crons.search(CronQuery()).rows == [good]


def test_A40_the_zone_is_kept_and_answered(storage: Storage, clock: ManualClock) -> None:
    made = make(storage, "berlin", "0 9 * * *", timezone="Europe/Berlin")
    make(storage, "utc", "0 9 * * *")
    clock.advance(minutes=1)
    answers = [made, read(storage, "berlin"), *storage.crons.due(), *storage.crons.search(CronQuery()).rows]
    zones = {(each.cron_id, each.timezone, each.next_run_at) for each in answers}
    assert zones == {("berlin", "Europe/Berlin", made.next_run_at), ("utc", None, made.next_run_at)}
    assert storage.crons.update("berlin", CronChange(timezone="Asia/Tokyo")).timezone == "Asia/Tokyo"
    assert storage.crons.update("berlin", CronChange(schedule="0 8 * * *")).timezone == "Asia/Tokyo"
    assert storage.crons.update("berlin", CronChange(timezone=None)).timezone is None


def test_A40_a_cron_needs_no_thread(storage: Storage, clock: ManualClock) -> None:
    assert make(storage, "c", "*/1 * * * *").thread_id is None
    for _ in range(2):
        clock.advance(minutes=1)
        assert tick(storage) == ["c"]
    runs = storage.runs.search(RunQuery()).rows
    assert sorted(run.thread_id for run in runs) == ["c-0-i", "c-1-i"]


def test_A40_missed_occurrences_fire_once(storage: Storage, clock: ManualClock) -> None:
    make(storage, "c", "*/5 * * * *")
    clock.advance(minutes=23)
    assert storage.crons.next_run_at() == storage.now() - 22 * MINUTE
    assert tick(storage) == ["c"]
    assert tick(storage) == []
    # It goes on in the old rhythm.
    assert read(storage, "c").next_run_at == storage.now() + 3 * MINUTE
    assert storage.runs.count(RunQuery()) == 1


def test_A40_what_is_off_or_gone_fires_no_more(storage: Storage, clock: ManualClock) -> None:
    for name in ("off", "gone", "on"):
        make(storage, name, "*/1 * * * *")
    clock.advance(minutes=1)
    storage.crons.update("off", CronChange(enabled=False))
    storage.crons.delete("gone")
    assert tick(storage) == ["on"]


def test_A40_each_due_time_fires_once_though_many_look(storage: Storage, clock: ManualClock) -> None:
    make(storage, "c", "*/1 * * * *")
    for _ in range(3):
        clock.advance(minutes=1)
        fired = together(8, lambda number: tick(storage, str(number)))
        assert sorted(map(str, fired)) == ["['c']", *["[]"] * 7]
    assert storage.runs.count(RunQuery()) == 3


def test_A40_each_due_time_fires_once_across_servers(
    tmp_path: Path, request: pytest.FixtureRequest, clock: ManualClock
) -> None:
    opens = maker("postgres", tmp_path, request)
    with ExitStack() as closing:
        servers: list[Storage] = [opens(clock=clock) for _ in range(2)]
        for server in servers:
            server.open()
            closing.callback(server.close)
        servers[0].assistants.create(NewAssistant("a", "g"))
        for name in ("c", "d"):
            make(servers[0], name, "*/1 * * * *")
        for _ in range(3):
            clock.advance(minutes=1)
            fired = together(4, lambda number: tick(servers[number % 2], str(number)))
            assert sorted(each for some in fired for each in as_list(some)) == ["c", "d"]
        runs: list[Run] = servers[1].runs.search(RunQuery()).rows
        assert len(runs) == 6
        assert {run.run_id.rpartition("-")[0] for run in runs} == {
            *("c-0", "c-1", "c-2", "d-0", "d-1", "d-2")
        }


def as_list(outcome: object) -> list[str]:
    """Return what a tick fired; it must not have failed."""
    assert isinstance(outcome, list), outcome
    return outcome
