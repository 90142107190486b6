"""A second run on a thread while the first is executed, by each of the four strategies."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateroom.errors import ThreadBusy
from stateroom.model.run import Multitask, RunStatus
from tests.engine.engines import Engine, until
from tests.engine.graphs import Stage

NewEngine = Callable[..., Engine]


def overlaps(calls: list[str]) -> bool:
    """Tell whether a node was entered before another had been left."""
    inside = 0
    for call in calls:
        inside += call.startswith("enter") - call.startswith("exit")
        if inside > 1:
            return True
    return False


@pytest.fixture(params=["sqlite", "postgres"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def second(engine: Engine, first: Any, strategy: Multitask) -> Any:
    """Make a second run while the first is executed."""
    return engine.new("gated", "b", thread=first.thread_id, options={"multitask": strategy})


def test_enqueued_runs_follow_each_other(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    # Another worker of the same queue changes nothing.
    other = new_engine(engine.storage)
    first = engine.new("gated", "a")
    engine.entered("a")
    rest = [
        engine.new("gated", said, thread=first.thread_id, options={"multitask": Multitask.ENQUEUE})
        for said in "bcd"
    ]
    assert engine.storage.runs.claim("somebody", lease=1_000_000) == []
    assert stage.calls == ["enter a"]
    stage.gate.set()
    assert [engine.ended(run).status for run in [first, *rest]] == [RunStatus.SUCCESS] * 4
    assert engine.log(first) == ["a waited", "b waited", "c waited", "d waited"]
    assert not overlaps(stage.calls)
    until(lambda: other.worker.executing == 0)


def test_a_second_run_is_rejected(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    first = engine.new("gated", "a")
    engine.entered("a")
    with pytest.raises(ThreadBusy):
        second(engine, first, Multitask.REJECT)
    stage.gate.set()
    assert engine.ended(first).status is RunStatus.SUCCESS
    assert engine.log(first) == ["a waited"]


def test_a_second_run_interrupts_the_first(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    first = engine.new("gated_two", "a")
    engine.entered("a")
    run = second(engine, first, Multitask.INTERRUPT)
    assert engine.ended(first).status is RunStatus.INTERRUPTED
    engine.entered("b")
    stage.gate.set()
    assert engine.ended(run).status is RunStatus.SUCCESS
    # The finished step of the first stays; its node was cancelled, and never left.
    assert engine.log(first) == ["a first", "b waited"]
    assert stage.calls == ["first a", "enter a", "enter b", "exit b"]


def test_a_second_run_rolls_the_first_back(new_engine: NewEngine, stage: Stage) -> None:
    engine = new_engine()
    first = engine.new("gated_two", "a")
    engine.entered("a")
    run = second(engine, first, Multitask.ROLLBACK)
    until(lambda: engine.storage.runs.get(first.run_id) is None)
    stage.gate.set()
    assert engine.ended(run).status is RunStatus.SUCCESS
    assert engine.thread(run).values == {"said": "b", "log": ["b waited"]}
    assert stage.calls == ["first a", "enter a", "enter b", "exit b"]
