"""Users' code that blocks: it loses no lease, stops no other run, and is left to itself in the end."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from stateroom.contract.runs import RunQuery
from stateroom.engine import leases
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.thread import ThreadStatus
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]

LEASE = 0.3


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have runs left to themselves soon that do not stop."""
    monkeypatch.setattr(leases, "CANCEL_GRACE", 0.2)


@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
@pytest.mark.parametrize("graph_id", ["blocking", "blocking_sync"])
def test_a12_a_node_that_blocks_for_many_leases_is_executed_once(
    new_engine: NewEngine, stage: Stage, graph_id: str
) -> None:
    engine = new_engine(lease=LEASE)
    # Another process would take the run, were it not renewed.
    new_engine(engine.storage, lease=LEASE)
    run = engine.new(graph_id, "a")
    engine.entered("a")
    was = engine.storage.runs.get(run.run_id)
    assert was is not None
    assert was.lease_until is not None
    long = was.lease_until + round(3 * LEASE * 1e6)
    until(lambda: engine.storage.now() > long)
    stage.gate.set()
    ended = engine.ended(run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 1)
    assert stage.count("enter a") == 1
    assert engine.log(run) == ["a first", "a blocked", "a last"]


def test_a12_other_runs_go_on_while_a_node_blocks_its_loop(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    blocked = []
    for said in "ab":
        # A run that has begun on a loop shares its fate; each of these finds one that moves.
        blocked.append(engine.new("blocking", said))
        engine.entered(said)
    assert engine.done("echo").status is RunStatus.SUCCESS
    assert not any(call.startswith("exit") for call in stage.calls)
    stage.gate.set()
    assert [engine.ended(run).status for run in blocked] == [RunStatus.SUCCESS] * 2


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("graph_id", ["blocking", "blocking_sync"])
def test_a_run_that_does_not_stop_is_cancelled_without_it(
    new_engine: NewEngine, stage: Stage, graph_id: str, caplog: pytest.LogCaptureFixture
) -> None:
    engine = new_engine(concurrency=1)
    # A step is saved before the next begins, which blocks the loop that would save it meanwhile.
    run = engine.new(graph_id, "a", durability="sync")
    engine.entered("a")
    engine.storage.runs.cancel(RunQuery(run_ids=[run.run_id]), CancelAction.INTERRUPT)
    ended = engine.ended(run)
    assert ended.status is RunStatus.INTERRUPTED
    assert engine.thread(run).status is ThreadStatus.IDLE
    assert engine.log(run) == ["a first"]
    assert engine.events(run)[-1] == "__output__"
    # Its place is free, and so is its thread.
    assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS
    frames = engine.frames(run)
    stage.gate.set()
    until(lambda: "exit a" in stage.calls)
    assert engine.done("echo", "c", thread=run.thread_id).status is RunStatus.SUCCESS
    assert engine.log(run) == ["a first", "b", "c"]
    assert engine.frames(run) == frames
    named = [each for each in caplog.messages if run.run_id in each and f"'{graph_id}'" in each]
    assert len(named) == (graph_id == "blocking")


@pytest.mark.usefixtures("hasty")
def test_a_run_that_does_not_stop_in_time_times_out(new_engine: NewEngine) -> None:
    engine = new_engine(run_timeout=2.0)
    # A step is saved before the next begins, which blocks the loop that would save it meanwhile.
    run = engine.done("blocking", durability="sync")
    assert run.status is RunStatus.TIMEOUT
    assert engine.thread(run).status is ThreadStatus.ERROR
    assert engine.log(run) == ["a first"]
    until(lambda: engine.worker.executing == 0)


@pytest.mark.usefixtures("hasty")
def test_a_run_that_does_not_stop_is_rolled_back_without_it(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    run = engine.new("blocking", "a")
    engine.entered("a")
    engine.storage.runs.cancel(RunQuery(run_ids=[run.run_id]), CancelAction.ROLLBACK)
    until(lambda: engine.storage.runs.get(run.run_id) is None)
    stage.gate.set()
    until(lambda: "exit a" in stage.calls)
    assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS
    assert engine.log(run) == ["b"]


def test_whoever_blocks_a_loop_is_named_in_the_log(
    new_engine: NewEngine, stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    engine = new_engine(lease=0.2)
    run = engine.new("blocking", "a")

    def warnings() -> list[str]:
        return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]

    until(lambda: any(run.run_id in each and "'blocking'" in each for each in warnings()))
    stage.gate.set()
    assert engine.ended(run).status is RunStatus.SUCCESS
    assert len([each for each in warnings() if run.run_id in each]) == 1
