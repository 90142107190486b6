"""That a run which is rolled back leaves its thread as it found it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.model.run import Attempt, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.attempts import ATTEMPT_KEY
from stateroom.savers.base import Saver
from stateroom.testing.parts.savers_fences import ManagedHarness, Over, claimed
from stateroom.testing.savers_graphs import (
    Graph,
    asking,
    chat,
    delta_chat,
    graph_config,
    nested,
    remembering,
    resume,
    sending,
)
from stateroom.testing.savers_harness import write

__all__ = ["RollingBackSuite"]

DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE)
UNDONE = Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, roll_back=True)

ASKING = pytest.mark.parametrize("build", [asking, nested], ids=["root", "subgraph"])
ALL = pytest.mark.parametrize("build", [asking, nested, chat, delta_chat, remembering, sending])

Build = Callable[[Saver], Graph]


def run(storage: Storage, graph: Graph, run_id: str, asked: Any, *, undone: bool = False) -> Any:
    """Execute a run as a worker does, and end it; return what the graph did."""
    attempt = claimed(storage, run_id=run_id)
    assert storage.runs.mark(attempt)
    at = graph_config()
    at["configurable"] |= {ATTEMPT_KEY: attempt, "run_id": run_id}
    found = graph.invoke(asked, at)
    storage.runs.settle(attempt, UNDONE if undone else DONE)
    return found


def everything(saver: Saver) -> list[Any]:
    """Return all checkpoints with their pending writes."""
    return list(saver.list(None))


class RollingBackSuite(ManagedHarness):
    """``roll_back`` of a settlement, after real graphs."""

    @ASKING
    def test_a_thread_that_was_asking_asks_again(self, saver: Saver, storage: Storage, build: Build) -> None:
        graph = build(saver)
        run(storage, graph, "r1", {"log": ["hi"]})
        before = everything(saver)
        assert "said no" in run(storage, graph, "r2", resume("no"), undone=True)["log"]
        assert everything(saver) == before
        state = graph.get_state(graph_config(), subgraphs=True)
        assert [each.value for task in state.tasks for each in task.interrupts] == ["which?"]
        found = run(storage, graph, "r3", resume("yes"))
        assert "said yes" in found["log"]
        assert "said no" not in found["log"]

    @ALL
    def test_a_thread_goes_back_to_the_end_of_the_run_before(
        self, saver: Saver, storage: Storage, build: Build
    ) -> None:
        graph = build(saver)
        for number in range(2):
            run(storage, graph, f"r{number}", {"log": [number]})
        state, before = graph.get_state(graph_config()), everything(saver)
        run(storage, graph, "undone", {"log": ["undone"]}, undone=True)
        assert everything(saver) == before
        assert graph.get_state(graph_config()) == state
        assert "undone" not in str(run(storage, graph, "next", {"log": ["next"]}))

    @ALL
    def test_the_first_run_leaves_nothing(self, saver: Saver, storage: Storage, build: Build) -> None:
        run(storage, build(saver), "undone", {"log": ["undone"]}, undone=True)
        assert everything(saver) == []
        assert saver.storage("t").total == 0

    def test_a_run_that_answers_twice_goes_back_to_the_first_question(
        self, saver: Saver, storage: Storage
    ) -> None:
        graph = nested(saver)
        run(storage, graph, "r1", {"log": ["hi"]})
        before = everything(saver)
        run(storage, graph, "r2", resume("one"), undone=True)
        run(storage, graph, "r3", resume("two"), undone=True)
        assert everything(saver) == before

    def test_writes_without_a_checkpoint_go_too(self, saver: Saver, storage: Storage) -> None:
        graph = chat(saver)
        run(storage, graph, "r1", {"log": ["hi"]})
        before = saver.storage("t")
        write(saver, 99999999, ("a", 1))
        run(storage, graph, "r2", {"log": ["undone"]}, undone=True)
        assert saver.storage("t") == before

    def test_a_run_from_an_earlier_checkpoint_goes_back_to_it(self, saver: Saver, storage: Storage) -> None:
        graph = asking(saver)
        run(storage, graph, "r1", {"log": ["hi"]})
        asked = graph.get_state(graph_config()).config
        run(storage, graph, "r2", resume("first"))
        before = everything(saver)
        attempt = claimed(storage, run_id="r3")
        storage.runs.mark(attempt, asked["configurable"]["checkpoint_id"])
        at = graph_config()
        at["configurable"] |= {**asked["configurable"], ATTEMPT_KEY: attempt, "run_id": "r3"}
        graph.invoke(resume("second"), at)
        storage.runs.settle(attempt, UNDONE)
        assert everything(saver) == before

    @ALL
    @pytest.mark.parametrize("keep_last", [1, 2])
    def test_a_saver_that_keeps_few_keeps_what_a_run_can_go_back_to(
        self, storage: Storage, over: Over, build: Build, keep_last: int
    ) -> None:
        saver = over(storage, keep_last=keep_last)
        graph = build(saver)
        for number in range(4):
            run(storage, graph, f"r{number}", {"log": [number]})
        state = graph.get_state(graph_config())
        run(storage, graph, "undone", {"log": ["undone"]}, undone=True)
        after = graph.get_state(graph_config())
        assert (after.values, after.next, after.config) == (state.values, state.next, state.config)
        assert "undone" not in str(run(storage, graph, "next", {"log": ["next"]}))

    def test_other_threads_stay(self, saver: Saver, storage: Storage) -> None:
        graph = chat(saver)
        other = claimed(storage, "other", "o1")
        graph.invoke({"log": ["other"]}, {"configurable": {"thread_id": "other", ATTEMPT_KEY: other}})
        before = saver.storage("other")
        run(storage, graph, "r1", {"log": ["hi"]}, undone=True)
        assert saver.storage("other") == before
        assert isinstance(other, Attempt)
