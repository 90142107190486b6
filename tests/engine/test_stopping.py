"""Stopping a server: what it executes is handed back after a step, and goes on where it was."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from stateroom.engine import leases, worker
from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def stop(engine: Engine) -> Future[None]:
    """Begin to stop an engine's worker; return what waits for the end of that."""
    pool = ThreadPoolExecutor(1)
    stopping = pool.submit(engine.worker.stop)
    pool.shutdown(wait=False)
    until(lambda: engine.worker._stopping.is_set())
    return stopping


def test_a_run_that_ends_within_the_grace_ends(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(shutdown_grace=20.0)
    run = engine.new("gated", "a")
    engine.entered("a")
    later = engine.new("gated", "b")
    engine.entered("b")
    stopping = stop(engine)
    waiting = engine.new("echo")
    stage.gate.set()
    stopping.result()
    assert [engine.ended(each).status for each in (run, later)] == [RunStatus.SUCCESS] * 2
    found = engine.storage.runs.get(waiting.run_id)
    assert found is not None
    assert found.status is RunStatus.PENDING


def test_a_run_is_handed_back_after_its_step_and_goes_on(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(shutdown_grace=20.0)
    run = engine.new("gated_two", "a")
    engine.entered("a")
    stopping = stop(engine)
    until(lambda: all(each._control.drain_requested for each in engine.worker._current()))
    stage.gate.set()
    stopping.result()
    found = engine.storage.runs.get(run.run_id)
    assert found is not None
    assert (found.status, found.attempt) == (RunStatus.PENDING, 0)
    assert engine.thread(run).status is ThreadStatus.IDLE
    assert stage.calls == ["first a", "enter a", "exit a"]
    assert "__output__" not in engine.events(run)
    again = new_engine(engine.storage)
    ended = again.ended(run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 1)
    assert stage.calls == ["first a", "enter a", "exit a", "last a"]
    assert again.log(run) == ["a first", "a waited", "a last"]
    assert again.output(run)["log"] == ["a first", "a waited", "a last"]


def test_a_step_that_outlives_the_grace_is_done_again(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(shutdown_grace=0.05)
    run = engine.new("gated_two", "a")
    engine.entered("a")
    engine.worker.stop()
    found = engine.storage.runs.get(run.run_id)
    assert found is not None
    assert found.status is RunStatus.PENDING
    assert stage.calls == ["first a", "enter a"]
    stage.gate.set()
    again = new_engine(engine.storage)
    assert again.ended(run).status is RunStatus.SUCCESS
    assert stage.calls == ["first a", "enter a", "enter a", "exit a", "last a"]
    assert again.log(run) == ["a first", "a waited", "a last"]


def test_a_run_that_blocks_is_handed_back_without_it(
    new_engine: NewEngine, stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(worker, "STOP_GRACE", 0.2)
    monkeypatch.setattr(leases, "CANCEL_GRACE", 20.0)
    engine = new_engine(shutdown_grace=0.05)
    engine.loops._patience = 60.0
    run = engine.new("blocking", "a", durability="sync")
    engine.entered("a")
    # It begins on no loop.
    waiting = engine.new("echo", "b")
    until(lambda: engine.worker.executing == 2)
    engine.worker.stop()
    for each in (run, waiting):
        found = engine.storage.runs.get(each.run_id)
        assert found is not None
        assert found.status is RunStatus.PENDING
    assert "note b" not in stage.calls
    again = new_engine(engine.storage)
    until(lambda: stage.count("enter a") == 2)
    stage.gate.set()
    assert again.ended(run).status is RunStatus.SUCCESS
    assert again.ended(waiting).status is RunStatus.SUCCESS
    until(lambda: stage.count("exit a") == 2)
    assert again.log(run) == ["a first", "a blocked", "a last"]


def test_an_answer_is_given_once_to_a_run_that_was_handed_back(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine(shutdown_grace=0.05)
    asked = engine.done("nested", "a")
    run = engine.new("nested", thread=asked.thread_id, command={"resume": "yes"})
    until(lambda: "enter inner" in stage.calls)
    engine.worker.stop()
    stage.gate.set()
    again = new_engine(engine.storage)
    assert again.ended(run).status is RunStatus.SUCCESS
    # The second question is nobody's yet.
    ((waiting,),) = again.thread(run).interrupts.values()
    assert waiting["value"] == "inner two?"
    assert stage.count("inner yes") == 1
    again.done("nested", thread=asked.thread_id, command={"resume": "no"})
    assert again.log(run) == ["a first", "inner yes", "again no"]


def test_stopping_twice_and_without_a_start_changes_nothing(new_engine: NewEngine) -> None:
    engine = new_engine()
    engine.worker.stop()
    engine.worker.stop()
    engine.worker.start()
    assert engine.worker.executing == 0
