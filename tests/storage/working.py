"""A small worker: takes runs from a storage's queue and executes a real graph for each."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, TypedDict

import orjson
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command, interrupt

from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.errors import Fenced
from stateroom.model.frame import NewFrame
from stateroom.model.run import CancelAction, Run, RunStatus
from stateroom.model.thread import ThreadStatus, status_after
from stateroom.savers.attempts import bound
from stateroom.savers.base import Saver
from stateroom.testing.storage_harness import LEASE
from tests.storage.saving import at, saver_over

__all__ = ["State", "Worker", "asking", "two_steps"]

Graph = StateGraph[Any]


class State(TypedDict):
    """What is said to a graph, and the log of what its nodes did with it."""

    said: str
    log: Annotated[list[str], operator.add]


def _nothing(_: State) -> None:
    pass


def two_steps(between: Callable[[State], object] = _nothing) -> Graph:
    """Return a graph of two nodes that note what was said; ``between`` is called within the first."""

    def one(state: State) -> dict[str, Any]:
        between(state)
        return {"log": [f"{state['said']} 1"]}

    def two(state: State) -> dict[str, Any]:
        return {"log": [f"{state['said']} 2"]}

    graph: Graph = StateGraph(State)
    graph.add_node("one", one)
    graph.add_node("two", two)
    graph.add_edge(START, "one")
    graph.add_edge("one", "two")
    graph.add_edge("two", END)
    return graph


def asking() -> Graph:
    """Return a graph whose subgraph notes what was said, asks a question, and notes the answer."""

    def before(state: State) -> dict[str, Any]:
        return {"log": [f"{state['said']} before"]}

    def ask(state: State) -> dict[str, Any]:
        return {"log": [f"answered {interrupt({'question': state['said']})}"]}

    inner: Graph = StateGraph(State)
    inner.add_node("before", before)
    inner.add_node("ask", ask)
    inner.add_edge(START, "before")
    inner.add_edge("before", "ask")
    inner.add_edge("ask", END)

    def last(state: State) -> dict[str, Any]:
        return {"log": [f"{state['said']} last"]}

    # The subgraph has a log of its own, which the outer one takes as a whole.
    asked = inner.compile()
    graph: Graph = StateGraph(State)
    graph.add_node("asked", lambda state: {"log": asked.invoke({"said": state["said"], "log": []})["log"]})
    graph.add_node("last", last)
    graph.add_edge(START, "asked")
    graph.add_edge("asked", "last")
    graph.add_edge("last", END)
    return graph


RESUME: Final = "resume"
"""The key of a run's input that says that it answers a question."""


class Worker:
    """Executes runs of one graph, one at a time, as the server's worker does."""

    def __init__(self, storage: Storage, graph: Graph, name: str = "worker") -> None:
        self.storage, self.name = storage, name
        self.saver: Saver = saver_over(storage)
        self.graph: Any = graph.compile(checkpointer=self.saver)

    def work(self) -> list[Run]:
        """Execute everything that is due; answer the runs as they ended, those that are gone left out."""
        done = []
        while run := self.take():
            done.append(self.execute(run))
        return [run for run in done if run is not None]

    def take(self) -> Run | None:
        """Claim a run, if one is due."""
        claimed = self.storage.runs.claim(self.name, lease=LEASE)
        return claimed[0] if claimed else None

    def execute(self, run: Run) -> Run | None:
        """Execute a run and settle it; None when it was lost to somebody else."""
        before = self.values(run.thread_id)
        self.storage.runs.mark(run.lease)
        try:
            with bound(run.lease):
                cancelled = self._streamed(run)
            return self.storage.runs.settle(run.lease, self._settlement(run, cancelled, before))
        except Fenced:
            return None

    def values(self, thread_id: str) -> dict[str, Any]:
        """Return the values of a thread's latest state."""
        found: dict[str, Any] = self.graph.get_state(at(thread_id)).values
        return found

    def _streamed(self, run: Run) -> CancelAction | None:
        """Execute the graph's steps; tell when, after one of them, the run was to be cancelled."""
        given = run.kwargs["input"]
        asked: Any = Command(resume=given[RESUME]) if RESUME in given else given
        config = {**at(run.thread_id), "metadata": {"run_id": run.run_id}}
        for values in self.graph.stream(asked, config, stream_mode="values", durability="sync"):
            self.storage.events.append(run.lease, [NewFrame("values", orjson.dumps(values, default=repr))])
            (renewal,) = self.storage.runs.renew([run.lease], lease=LEASE)
            if renewal.cancel:
                return renewal.cancel
        return None

    def _settlement(self, run: Run, cancelled: CancelAction | None, before: Mapping[str, Any]) -> Settlement:
        if cancelled is CancelAction.ROLLBACK:
            return Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, values=before, roll_back=True)
        state = self.graph.get_state(at(run.thread_id))
        interrupts = {
            task.id: [each.value for each in task.interrupts] for task in state.tasks if task.interrupts
        }
        return Settlement(
            RunStatus.INTERRUPTED if cancelled else RunStatus.SUCCESS,
            status_after(failed=False, interrupts=interrupts),
            values=state.values,
            interrupts=interrupts,
            cancel_reason="cancelled" if cancelled else None,
        )
