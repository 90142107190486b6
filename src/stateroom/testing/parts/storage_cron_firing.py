"""What the clock does with crons: when they are due, and that each occurrence makes one run."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.crons import CronChange, CronQuery
from stateroom.contract.runs import NewRun, RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import Conflict, InvalidInput, NotFound, StateroomError, ThreadBusy
from stateroom.model.cron import Cron
from stateroom.model.run import Multitask, Run, RunStatus
from stateroom.testing.parts.storage_cron_search import CronSearchSuite, make_cron
from stateroom.testing.storage_harness import SECOND, check_refused, make_run, make_thread, new_run, together

__all__ = ["CronFiringSuite", "fail", "fire", "read", "update"]

CALLERS = 20


def read(storage: Storage, cron_id: str = "c") -> Cron:
    """Return a cron that must be there."""
    found = storage.crons.get(cron_id)
    assert found is not None
    return found


def update(storage: Storage, cron_id: str = "c", **fields: Any) -> Cron:
    """Change a cron."""
    return storage.crons.update(cron_id, CronChange(**fields))


def due(storage: Storage, **options: Any) -> list[str]:
    """Return the ids of the crons that are due."""
    return [each.cron_id for each in storage.crons.due(**options)]


def fire(storage: Storage, cron: Cron, run: NewRun | None, *, next_run_at: int | None = None) -> Run | None:
    """Fire a cron's occurrence."""
    return storage.crons.fire(cron.cron_id, cron.occurrence, next_run_at=next_run_at, run=run)


def fail(storage: Storage, cron_id: str = "c", occurrence: int = 0, error: str = "bad") -> bool:
    """Note that an occurrence failed, and that there is none after it."""
    return storage.crons.fail(cron_id, occurrence, error, next_run_at=None)


class CronFiringSuite(CronSearchSuite):
    """``due`` says which crons are due; of all who fire one occurrence one makes its run."""

    def test_due_are_the_enabled_whose_time_has_come_the_soonest_first(
        self, stocked: Storage, clock: ManualClock
    ) -> None:
        now = clock()
        for name, moment in {"now": now, "past": now - 9, "soon": now + 1, "never": None, "b": 3}.items():
            make_cron(stocked, name, next_run_at=moment)
        make_cron(stocked, "a", next_run_at=3)
        make_cron(stocked, "off", next_run_at=0, enabled=False)
        assert due(stocked) == ["a", "b", "past", "now"]
        assert due(stocked, limit=3) == ["a", "b", "past"]
        assert due(stocked, limit=0) == []
        clock.microseconds += 1
        assert due(stocked) == ["a", "b", "past", "now", "soon"]
        update(stocked, "off", enabled=True)
        update(stocked, "a", enabled=False)
        update(stocked, "past", next_run_at=None)
        assert due(stocked) == ["off", "b", "now", "soon"]

    def test_due_are_a_hundred_unless_told_otherwise(self, stocked: Storage) -> None:
        for number in range(103):
            make_cron(stocked, f"{number:03}", next_run_at=1)
        assert due(stocked) == [f"{number:03}" for number in range(100)]
        assert len(due(stocked, limit=1000)) == 103

    def test_next_run_at_is_when_the_next_enabled_is_due(self, stocked: Storage, clock: ManualClock) -> None:
        assert stocked.crons.next_run_at() is None
        make_cron(stocked, "never")
        make_cron(stocked, "off", next_run_at=1, enabled=False)
        assert stocked.crons.next_run_at() is None
        make_cron(stocked, "later", next_run_at=clock() + 9)
        make_cron(stocked, "sooner", next_run_at=clock() + 5)
        assert stocked.crons.next_run_at() == clock() + 5
        clock.advance(seconds=1)
        assert stocked.crons.next_run_at() == clock() + 5 - SECOND
        update(stocked, "sooner", enabled=False)
        assert stocked.crons.next_run_at() == clock() + 9 - SECOND

    def test_fire_makes_the_run_and_moves_on(self, stocked: Storage, clock: ManualClock) -> None:
        cron = make_cron(stocked, thread_id="t", next_run_at=clock())
        clock.advance(seconds=1)
        run = fire(stocked, cron, new_run("r", "t", kwargs={"n": 1}), next_run_at=clock() + 5)
        assert run is not None
        assert stocked.runs.get("r") == run
        assert (run.run_id, run.thread_id, run.status) == ("r", "t", RunStatus.PENDING)
        assert (run.kwargs, run.available_at) == ({"n": 1}, clock())
        moved = read(stocked)
        assert (moved.occurrence, moved.next_run_at) == (1, clock() + 5)
        assert moved.updated_at == cron.updated_at
        assert due(stocked) == []
        clock.microseconds += 5
        assert due(stocked) == ["c"]

    def test_fire_may_make_the_runs_thread(self, stocked: Storage) -> None:
        cron = make_cron(stocked)
        assert fire(stocked, cron, new_run("r", "new", new_thread=NewThread("new"))) is not None
        assert stocked.threads.get("new") is not None

    def test_fire_wakes_who_waits_for_runs(self, stocked: Storage) -> None:
        cron = make_cron(stocked)
        seen = []
        # Whoever is woken finds the run.
        end = stocked.runs.subscribe(lambda: seen.append(stocked.runs.get("r")))
        run = fire(stocked, cron, new_run("r", "t"))
        assert seen
        assert seen[0] == run
        seen.clear()
        assert fire(stocked, cron, new_run("late", "t")) is None
        assert seen == []
        end()

    def test_of_all_who_fire_one_occurrence_one_makes_its_run(self, stocked: Storage) -> None:
        cron = make_cron(stocked)

        def act(number: int) -> Run | None:
            run = new_run(f"r{number}", f"t{number}", new_thread=NewThread(f"t{number}"))
            return fire(stocked, cron, run, next_run_at=7)

        outcomes = together(CALLERS, act)
        (run,) = [each for each in outcomes if isinstance(each, Run)]
        assert outcomes.count(None) == CALLERS - 1
        assert stocked.runs.search(RunQuery()).rows == [run]
        assert [stocked.threads.get(f"t{number}") is not None for number in range(CALLERS)].count(True) == 1
        assert (read(stocked).occurrence, read(stocked).next_run_at) == (1, 7)

    def test_of_all_who_fire_one_occurrence_on_its_thread_one_makes_its_run(self, stocked: Storage) -> None:
        cron = make_cron(stocked, thread_id="t")
        outcomes = together(CALLERS, lambda number: fire(stocked, cron, new_run(f"r{number}", "t")))
        assert len([each for each in outcomes if isinstance(each, Run)]) == 1
        assert outcomes.count(None) == CALLERS - 1
        assert stocked.runs.count(RunQuery(thread_id="t")) == 1

    def test_nothing_happens_when_the_cron_has_changed_or_is_off_or_gone(self, stocked: Storage) -> None:
        cron = make_cron(stocked, next_run_at=3)
        off = make_cron(stocked, "off", enabled=False)
        gone = make_cron(stocked, "gone")
        stocked.crons.delete("gone")
        changed = update(stocked, schedule="1 1 1 1 1")
        for each in (cron, off, gone):
            assert fire(stocked, each, new_run("r", "t"), next_run_at=9) is None
        assert stocked.crons.fire("c", 2, next_run_at=9, run=new_run("r", "t")) is None
        assert stocked.runs.get("r") is None
        assert (read(stocked), read(stocked, "off")) == (changed, off)

    def test_without_a_run_the_cron_moves_on(self, stocked: Storage) -> None:
        cron = make_cron(stocked, next_run_at=3)
        assert fire(stocked, cron, None, next_run_at=9) is None
        assert (read(stocked).occurrence, read(stocked).next_run_at) == (1, 9)
        assert fire(stocked, cron, None, next_run_at=11) is None
        assert read(stocked).next_run_at == 9
        assert stocked.runs.count(RunQuery()) == 0

    @pytest.mark.parametrize("makes_run", [True, False])
    def test_fire_clears_the_error(self, stocked: Storage, makes_run: bool) -> None:
        make_cron(stocked)
        fail(stocked)
        fire(stocked, read(stocked), new_run("r", "t") if makes_run else None)
        assert read(stocked).error is None

    def test_what_making_the_run_raises_undoes_all(self, stocked: Storage) -> None:
        make_cron(stocked, next_run_at=3)
        fail(stocked)
        before = read(stocked)
        make_run(stocked, "taken", "t")
        wrong: list[tuple[type[StateroomError], str, NewRun]] = [
            (NotFound, "thread_id", new_run("r", "gone")),
            (Conflict, "run_id", new_run("taken", "t")),
            (Conflict, "run_id", new_run("taken", "new", new_thread=NewThread("new"))),
            (ThreadBusy, "multitask", new_run("r", "t", multitask=Multitask.REJECT)),
            (InvalidInput, "run_id", new_run("", "t")),
            (InvalidInput, "thread_id", new_run("r", "a\0b")),
        ]
        for kind, field, run in wrong:
            check_refused(kind, field, partial(fire, stocked, before, run, next_run_at=9))
        assert read(stocked) == before
        assert stocked.threads.get("new") is None
        assert stocked.runs.get("r") is None

    def test_a_thread_that_goes_while_its_cron_fires_leaves_nothing(self, stocked: Storage) -> None:
        for number in range(10):
            make_thread(stocked, f"t{number}")
            make_cron(stocked, str(number), thread_id=f"t{number}")

        def act(number: int) -> object:
            thread = f"t{number // 2}"
            if number % 2:
                return stocked.threads.delete(thread)
            return stocked.crons.fire(
                str(number // 2), 0, next_run_at=None, run=new_run(f"r{number // 2}", thread)
            )

        outcomes = together(CALLERS, act)
        assert {type(each) for each in outcomes} <= {bool, Run, NotFound, type(None)}
        assert stocked.crons.count(CronQuery()) == 0
        assert [stocked.runs.get(f"r{number}") for number in range(10)] == [None] * 10

    def test_fail_notes_the_error_and_moves_on(self, stocked: Storage, clock: ManualClock) -> None:
        cron = make_cron(stocked, next_run_at=3)
        clock.advance(seconds=1)
        assert stocked.crons.fail("c", 0, "no such zone", next_run_at=9)
        failed = read(stocked)
        assert (failed.error, failed.occurrence, failed.next_run_at) == ("no such zone", 1, 9)
        assert (failed.enabled, failed.updated_at) == (True, cron.updated_at)
        assert not stocked.crons.fail("c", 0, "late", next_run_at=None)
        assert read(stocked) == failed
        assert fire(stocked, cron, new_run("r", "t")) is None
        assert fire(stocked, failed, new_run("r", "t")) is not None

    def test_of_all_who_fail_one_occurrence_one_notes_it(self, stocked: Storage) -> None:
        make_cron(stocked)
        outcomes = together(CALLERS, lambda number: fail(stocked, error=str(number)))
        assert sorted(map(bool, outcomes)) == [False] * 19 + [True]
        assert read(stocked).error == str(outcomes.index(True))
        assert read(stocked).occurrence == 1
