"""Runs whose worker has died: executed again from where they were, or ended with a reason."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from langgraph.types import Command

from stateroom.contract.runs import RunQuery
from stateroom.model.run import CancelAction, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.attempts import bound
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]

LEASE = 0.3


@pytest.fixture
def kind() -> str:
    return "postgres"


def die(engine: Engine) -> None:
    """Have a worker fall silent, as when its process has died; what it executes does not hear of it."""
    engine.worker._stopping.set()
    engine.worker._woken.set()
    engine.worker._dispatcher.join()
    engine.worker._keeper.stop()


def died_over(engine: Engine, run: Run, given: Any, **options: Any) -> None:
    """Execute a run's graph as a worker that dies before it has settled the run."""
    runs = engine.storage.runs
    (claimed,) = runs.claim("dead", lease=1)
    assert claimed.run_id == run.run_id
    runs.mark(claimed.lease)
    graph_id = next(name for name, made in engine.assistants.items() if made == run.assistant_id)
    graph = engine.stage.graphs()[graph_id].compile(checkpointer=engine.saver)
    with bound(claimed.lease):
        graph.invoke(given, {"configurable": {"thread_id": run.thread_id}}, durability="sync", **options)


def test_a_run_goes_on_from_its_last_step(new_engine: NewEngine, stage: Stage) -> None:
    dead = new_engine(lease=LEASE)
    run = dead.new("gated_two", "a", durability="sync")
    dead.entered("a")
    die(dead)
    engine = new_engine(lease=LEASE)
    until(lambda: stage.count("enter a") == 2)
    stage.gate.set()
    ended = engine.ended(run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
    # The dead worker's node comes back too, and nothing of it is kept.
    until(lambda: stage.count("exit a") == 2)
    until(lambda: dead.worker.executing == 0)
    assert stage.count("first a") == 1
    assert engine.log(run) == ["a first", "a waited", "a last"]
    assert [data["attempt"] for data in engine.data(run, "metadata")] == [1, 2]
    assert engine.events(run).count("__output__") == 1


def test_an_answer_is_given_once(new_engine: NewEngine, stage: Stage) -> None:
    dead = new_engine(lease=LEASE)
    asked = dead.done("nested", "a")
    run = dead.new("nested", thread=asked.thread_id, command={"resume": "yes"}, durability="sync")
    until(lambda: "enter inner" in stage.calls)
    die(dead)
    engine = new_engine(lease=LEASE)
    until(lambda: stage.count("enter inner") == 2)
    stage.gate.set()
    ended = engine.ended(run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
    ((waiting,),) = engine.thread(run).interrupts.values()
    assert waiting["value"] == "inner two?"
    assert stage.count("inner yes") == 1


def test_an_answer_that_a_node_had_taken_is_not_given_to_its_next_question(
    new_engine: NewEngine, stage: Stage
) -> None:
    dead = new_engine()
    asked = dead.done("asking_twice", "a")
    die(dead)
    ((question,),) = dead.thread(asked).interrupts.values()
    run = dead.new("asking_twice", thread=asked.thread_id, command={"resume": "yes"})
    died_over(dead, run, Command(resume={question["id"]: "yes"}))
    engine = new_engine(lease=LEASE)
    assert engine.ended(run).status is RunStatus.SUCCESS
    ((waiting,),) = engine.thread(run).interrupts.values()
    assert waiting["value"] == "two?"
    engine.done("asking_twice", thread=asked.thread_id, command={"resume": "no"})
    assert engine.log(run) == ["yes no"]
    assert set(stage.calls) == {"one yes"}


def test_an_update_of_a_command_is_applied_once(new_engine: NewEngine, stage: Stage) -> None:
    dead = new_engine(lease=LEASE)
    asked = dead.done("asking_twice", "wait")
    command = {"resume": "yes", "update": {"log": ["told"]}}
    run = dead.new("asking_twice", thread=asked.thread_id, command=command, durability="sync")
    until(lambda: "one yes" in stage.calls)
    die(dead)
    engine = new_engine(lease=LEASE)
    until(lambda: stage.count("one yes") == 2)
    stage.gate.set()
    engine.ended(run)
    engine.done("asking_twice", thread=asked.thread_id, command={"resume": "no"})
    assert engine.log(run) == ["told", "yes no"]


def test_a_run_that_was_done_but_not_settled_is_settled(new_engine: NewEngine, stage: Stage) -> None:
    dead = new_engine()
    die(dead)
    run = dead.new("echo", "a")
    died_over(dead, run, {"said": "a"})
    engine = new_engine(lease=LEASE)
    ended = engine.ended(run)
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
    assert stage.count("note a") == 1
    assert engine.log(run) == ["a"]
    assert engine.output(run)["log"] == ["a"]


@pytest.mark.parametrize(
    "where", [{"interrupt_before": ("last",)}, {"interrupt_after": ("block_in_thread",)}]
)
def test_a_run_that_had_stopped_before_a_node_does_not_pass_it(
    new_engine: NewEngine, stage: Stage, where: dict[str, Any]
) -> None:
    stage.gate.set()
    dead = new_engine()
    die(dead)
    run = dead.new("gated_three", "a", **where)
    died_over(dead, run, {"said": "a"}, **{key: list(nodes) for key, nodes in where.items()})
    engine = new_engine(lease=LEASE)
    assert engine.ended(run).status is RunStatus.SUCCESS
    assert engine.thread(run).status is ThreadStatus.INTERRUPTED
    assert "last a" not in stage.calls
    engine.done("gated_three", thread=run.thread_id, input=None)
    assert engine.log(run)[-1] == "a last"


def test_a_question_that_was_asked_but_not_noted_is_asked_again(new_engine: NewEngine) -> None:
    dead = new_engine()
    die(dead)
    run = dead.new("asking", "a")
    died_over(dead, run, {"said": "a"})
    engine = new_engine(lease=LEASE)
    assert engine.ended(run).status is RunStatus.SUCCESS
    assert engine.thread(run).status is ThreadStatus.INTERRUPTED
    engine.done("asking", thread=run.thread_id, command={"resume": "yes"})
    assert engine.log(run) == ["a first", "answered yes", "a last"]


def test_a_run_whose_workers_keep_dying_is_given_up(new_engine: NewEngine, stage: Stage) -> None:
    dead = new_engine(lease=LEASE, max_attempts=1)
    run = dead.new("gated", "a")
    dead.entered("a")
    die(dead)
    engine = new_engine(lease=LEASE, max_attempts=1)
    ended = engine.ended(run)
    assert ended.error is not None
    assert (ended.status, ended.error["error"]) == (RunStatus.ERROR, "abandoned")
    assert engine.thread(run).status is ThreadStatus.ERROR
    stage.gate.set()
    assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS


def test_a_run_of_a_dead_worker_can_be_cancelled(new_engine: NewEngine) -> None:
    dead = new_engine(lease=LEASE)
    run = dead.new("gated", "a")
    dead.entered("a")
    die(dead)
    dead.storage.runs.cancel(RunQuery(run_ids=[run.run_id]), CancelAction.INTERRUPT, reason="enough")
    engine = new_engine(lease=LEASE)
    ended = engine.ended(run)
    assert (ended.status, ended.cancel_reason) == (RunStatus.INTERRUPTED, "enough")


class TestWithoutTakingOver:
    """Where one process has the file, a run that was executed when it died is never executed again."""

    @pytest.fixture
    def kind(self) -> str:
        return "sqlite"

    def test_a_run_is_an_error_with_a_reason(self, new_engine: NewEngine, stage: Stage) -> None:
        dead = new_engine(lease=LEASE)
        run = dead.new("gated_two", "a")
        dead.entered("a")
        die(dead)
        engine = new_engine(dead.storage, lease=LEASE)
        ended = engine.ended(run)
        assert ended.error is not None
        assert (ended.status, ended.error["error"]) == (RunStatus.ERROR, "abandoned")
        assert engine.thread(run).status is ThreadStatus.ERROR
        stage.gate.set()
        assert engine.done("echo", "b", thread=run.thread_id).status is RunStatus.SUCCESS
        assert stage.count("enter a") == 1
