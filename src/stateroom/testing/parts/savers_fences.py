"""That over a storage nothing lands of an attempt that lost its run, nor for a thread that is not there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph

from stateroom.clock import ManualClock
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.errors import Fenced, NotFound
from stateroom.model.run import Attempt, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.attempts import ATTEMPT_KEY, attempt_of, bound
from stateroom.savers.base import Saver
from stateroom.testing.savers_graphs import Graph, Log, asking, chat, graph_config, resume
from stateroom.testing.savers_harness import config, count, listed, put, stored, write
from stateroom.testing.storage_harness import (
    LEASE,
    SECOND,
    StorageHarness,
    check_refused,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["FencesSuite", "ManagedHarness", "Over", "claimed"]

DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE)


class Over(Protocol):
    """What the fixture ``over`` returns: a function that makes savers on a storage's own connections."""

    def __call__(self, storage: Storage, *, keep_last: int | None = None) -> Saver:
        """Make a managed saver."""


class ManagedHarness(StorageHarness):
    """The fixtures of a saver over a storage."""

    @pytest.fixture
    def over(self) -> Over:
        """Return what makes the saver under test; each suite gives this fixture."""
        raise NotImplementedError("a suite overrides the fixture over")

    @pytest.fixture
    def saver(self, storage: Storage, over: Over) -> Saver:
        """Return the saver under test, over a storage that has no thread."""
        return over(storage)


def claimed(storage: Storage, thread_id: str = "t", run_id: str = "r") -> Attempt:
    """Return the attempt of a run that was just claimed, on a thread that is made if need be."""
    if storage.threads.get(thread_id) is None:
        make_thread(storage, thread_id)
    make_run(storage, run_id, thread_id)
    run = claim_one(storage)
    assert run is not None
    return run.lease


def attempt_config(attempt: Attempt, thread_id: str = "t") -> RunnableConfig:
    """Return the config that a worker runs a graph with."""
    found = graph_config(thread_id)
    found["configurable"][ATTEMPT_KEY] = attempt
    return found


def release(storage: Storage, attempt: Attempt, clock: ManualClock) -> None:  # noqa: ARG001
    """Hand the run back, and let somebody else claim it."""
    storage.runs.release(attempt)
    assert claim_one(storage, "other") is not None


def settle(storage: Storage, attempt: Attempt, clock: ManualClock) -> None:  # noqa: ARG001
    """End the run."""
    storage.runs.settle(attempt, DONE)


def reap(storage: Storage, attempt: Attempt, clock: ManualClock) -> None:
    """Let the lease run out, and end what nobody executes."""
    clock.advance(seconds=LEASE // SECOND + 1)
    assert [run.run_id for run in storage.runs.reap()] == [attempt.run_id]


LOSSES = pytest.mark.parametrize("lose", [release, settle, reap])

Lose = Callable[[Storage, Attempt, ManualClock], None]


class FencesSuite(ManagedHarness):
    """The check that each write makes in its own transaction."""

    def test_an_attempt_that_has_its_run_may_write(self, saver: Saver, storage: Storage) -> None:
        attempt = claimed(storage)
        put(saver, 1, configurable={ATTEMPT_KEY: attempt})
        named: dict[str, Any] = {ATTEMPT_KEY: attempt}
        saver.put_writes(config(number=1, **named), [("a", 1)], "task")
        assert stored(saver).pending_writes == [("task", "a", 1)]
        assert ATTEMPT_KEY not in stored(saver).metadata

    @LOSSES
    def test_one_that_lost_it_between_a_checkpoint_and_its_writes_may_not(
        self, saver: Saver, storage: Storage, clock: ManualClock, lose: Lose
    ) -> None:
        attempt = claimed(storage)
        named: dict[str, Any] = {ATTEMPT_KEY: attempt}
        put(saver, 1, values={"a": [1]}, configurable=named)
        lose(storage, attempt, clock)
        before = saver.storage("t")
        check_refused(
            Fenced, "run_id", lambda: saver.put_writes(config(number=1, **named), [("a", 1)], "task")
        )
        check_refused(
            Fenced, "run_id", lambda: put(saver, 2, parent=1, values={"a": [2]}, configurable=named)
        )
        check_refused(Fenced, "run_id", lambda: put(saver, 3, ns="inner:1", configurable=named))
        assert saver.storage("t") == before
        assert listed(saver, ns="inner:1") == []

    def test_one_that_is_bound_counts_as_one_that_is_named(self, saver: Saver, storage: Storage) -> None:
        attempt = claimed(storage)
        with bound(attempt):
            put(saver, 1)
            storage.runs.settle(attempt, DONE)
            check_refused(Fenced, "run_id", lambda: put(saver, 2))
            check_refused(Fenced, "run_id", lambda: write(saver, 1, ("a", 1)))
            check_refused(
                Fenced, "run_id", lambda: asyncio.run(saver.aput_writes(config(number=1), [], "task"))
            )
        put(saver, 3)
        assert listed(saver) == [3, 1]

    def test_the_named_one_counts_before_the_bound_one(self) -> None:
        first, other = Attempt("r1", "t", 1), Attempt("r2", "t", 1)
        named: dict[str, Any] = {ATTEMPT_KEY: first}
        with bound(other):
            assert attempt_of(config(**named)) == first
            assert attempt_of(config()) == other
            assert attempt_of(None) == other
        assert attempt_of(config()) is None

    @LOSSES
    @pytest.mark.parametrize("durability", ["sync", "async", "exit"])
    def test_nothing_of_a_graph_lands_after_its_attempt_lost_the_run(
        self, saver: Saver, storage: Storage, clock: ManualClock, lose: Lose, durability: str
    ) -> None:
        attempt = claimed(storage)
        after: list[int] = []

        def node(_: Log) -> str:
            lose(storage, attempt, clock)
            after.append(saver.storage("t").total)
            return "lost"

        graph = chat(saver, node)
        if durability == "sync":
            with pytest.raises(Fenced):
                graph.invoke({"log": [1]}, attempt_config(attempt), durability="sync")
            assert [saver.storage("t").total] == after
        else:
            with pytest.raises(Fenced):
                graph.invoke({"log": [1]}, attempt_config(attempt), durability=durability)  # type: ignore[call-overload]
        assert not [
            found for found in saver.list(None) if "lost" in found.checkpoint["channel_values"].get("log", [])
        ]
        assert not [
            value
            for found in saver.list(None)
            for *_, value in found.pending_writes or []
            if value == ["lost"]
        ]

    @pytest.mark.parametrize("kind", ["inherited", "remembering", "own", "other thread"])
    def test_nothing_of_a_subgraph_lands_either(
        self, saver: Saver, storage: Storage, over: Over, kind: str
    ) -> None:
        attempt = claimed(storage)
        after: list[int] = []

        def lose(_: Log) -> str:
            storage.runs.settle(attempt, DONE)
            after.append(count_all(saver))
            return "lost"

        inner = chat(
            {"inherited": None, "remembering": True, "own": over(storage), "other thread": over(storage)}[
                kind
            ],
            lose,
        )
        at = graph_config("elsewhere") if kind == "other thread" else None
        graph = calling(saver, lambda: inner.invoke({"log": ["in"]}, at))
        with bound(attempt), pytest.raises(Fenced):
            graph.invoke({"log": [1]}, attempt_config(attempt), durability="sync")
        assert [count_all(saver)] == after
        assert after[0] > 0

    def test_a_graph_for_another_thread_may_be_run_by_an_attempt(
        self, saver: Saver, storage: Storage
    ) -> None:
        attempt = claimed(storage)
        graph = calling(saver, lambda: chat(saver).invoke({"log": ["in"]}, graph_config("elsewhere")))
        with bound(attempt):
            graph.invoke({"log": [1]}, attempt_config(attempt))
        assert count(saver, thread_id="elsewhere") == 3

    def test_without_an_attempt_the_thread_must_be_there(self, saver: Saver, storage: Storage) -> None:
        check_refused(NotFound, "thread_id", lambda: put(saver, 1))
        check_refused(NotFound, "thread_id", lambda: write(saver, 1, ("a", 1)))
        make_thread(storage, "t")
        put(saver, 1)
        assert listed(saver) == [1]

    def test_nothing_lands_for_a_deleted_thread(self, saver: Saver, storage: Storage) -> None:
        attempt = claimed(storage)
        put(saver, 1, values={"a": [1]}, configurable={ATTEMPT_KEY: attempt})
        storage.threads.delete("t")
        assert saver.storage("t").total == 0
        check_refused(NotFound, "thread_id", lambda: put(saver, 2))
        check_refused(Fenced, "run_id", lambda: put(saver, 2, configurable={ATTEMPT_KEY: attempt}))
        check_refused(NotFound, "thread_id", partial(saver.copy_thread, "t", "t"))
        assert saver.storage("t").total == 0

    def test_a_copy_needs_a_thread_to_go_to(self, saver: Saver, storage: Storage) -> None:
        make_thread(storage, "t")
        put(saver, 1)
        check_refused(NotFound, "thread_id", lambda: saver.copy_thread("t", "u"))
        make_thread(storage, "u")
        saver.copy_thread("t", "u")
        assert listed(saver, thread_id="u") == [1]

    def test_the_same_attempt_goes_on_after_an_answer(self, saver: Saver, storage: Storage) -> None:
        first = claimed(storage)
        asking(saver).invoke({"log": ["hi"]}, attempt_config(first))
        storage.runs.settle(first, DONE)
        second = claimed(storage, run_id="r2")
        found = asking(saver).invoke(resume("yes"), attempt_config(second))
        assert "said yes" in found["log"]

    def test_a_saver_that_keeps_few_is_fenced_too(self, storage: Storage, over: Over) -> None:
        saver = over(storage, keep_last=1)
        attempt = claimed(storage)
        for number in (1, 2):
            put(saver, number, configurable={ATTEMPT_KEY: attempt})
        storage.runs.settle(attempt, DONE)
        check_refused(Fenced, "run_id", lambda: put(saver, 3, configurable={ATTEMPT_KEY: attempt}))
        assert listed(saver) == [2]

    def test_closing_it_leaves_the_storage_open(self, saver: Saver, storage: Storage) -> None:
        make_thread(storage, "t")
        with saver:
            put(saver, 1)
        assert storage.threads.get("t") is not None
        put(saver, 2)
        assert listed(saver) == [2, 1]


def calling(saver: Saver, call: Callable[[], Any]) -> Graph:
    """Return a graph whose node runs another graph."""
    builder = StateGraph(Log)

    def node(state: Log) -> dict[str, Any]:  # noqa: ARG001  # the name that LangGraph passes it by
        call()
        return {"log": ["called"]}

    builder.add_node("node", node)
    builder.add_edge(START, "node").add_edge("node", END)
    return builder.compile(checkpointer=saver)


def count_all(saver: Saver) -> int:
    """Return how many checkpoints and pending writes there are of all threads."""
    return sum(1 + len(found.pending_writes or ()) for found in saver.list(None))
