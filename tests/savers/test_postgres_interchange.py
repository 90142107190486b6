"""Threads that pass to and fro between our saver and LangGraph's own for Postgres, and lose nothing."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver as TheirSaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver as TheirAsyncSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Command, Send, interrupt

from stateroom.savers.postgres import PostgresSaver
from tests.conftest import NewSchema
from tests.faults.watching import Watch, set_to

Steps = Callable[[Any], Any]
Invoke = Callable[[Any, Any], Any]


def extended(value: list[Any], writes: list[list[Any]]) -> list[Any]:
    return [*value, *(item for items in writes for item in items)]


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    log: Annotated[list[str], DeltaChannel(extended, list, snapshot_frequency=3)]
    seen: Annotated[list[str], operator.add]
    note: str
    score: float
    count: int


class Failed(Exception):
    pass


def talk(state: State) -> Any:
    number = len(state["messages"])
    return {"messages": [AIMessage(f"answer {number}")], "log": [f"talked {number}"], "count": number}


def ask(state: State) -> Any:
    answer = interrupt({"question": "go on?", "seen": len(state["messages"])})
    return {"log": [f"told {answer}"], "note": answer, "score": 0.5}


def spread(_: State) -> Any:
    return [Send("worker", {"note": f"{number}"}) for number in range(3)]


def worker(state: State) -> Any:
    return {"seen": [f"worker {state['note']}"], "log": [f"worked {state['note']}"]}


def joined(_: State) -> Any:
    return {"log": ["joined"]}


class Inner(TypedDict, total=False):
    note: str
    asked: Annotated[list[str], DeltaChannel(extended, list, snapshot_frequency=3)]


def prepare(_: Inner) -> Any:
    return {"asked": ["prepared"]}


def ask_inside(state: Inner) -> Any:
    return {"note": interrupt(f"asked {len(state['asked'])}"), "asked": ["asked"]}


def inner() -> Any:
    graph: Any = StateGraph(Inner)
    graph.add_node("prepare", prepare)
    graph.add_node("ask", ask_inside)
    graph.add_edge(START, "prepare")
    graph.add_edge("prepare", "ask")
    graph.add_edge("ask", END)
    return graph


def build(saver: Any, fails: bool = False) -> Any:
    """Return a graph with an interrupt, one in a subgraph, one that remembers, sends, and a delta channel."""

    def unsteady(_: State) -> Any:
        if fails:
            raise Failed
        return {"log": ["steady"]}

    graph: Any = StateGraph(State)
    for name, node in {
        "talk": talk,
        "ask": ask,
        "worker": worker,
        "unsteady": unsteady,
        "joined": joined,
    }.items():
        graph.add_node(name, node)
    graph.add_node("sub", inner().compile())
    graph.add_node("own", inner().compile(checkpointer=True))
    graph.add_edge(START, "talk")
    graph.add_edge("talk", "ask")
    graph.add_conditional_edges("ask", spread, ["worker"])
    graph.add_edge("worker", "unsteady")
    graph.add_edge("worker", "joined")
    graph.add_edge("unsteady", "sub")
    graph.add_edge("sub", "own")
    graph.add_edge("own", END)
    return graph.compile(checkpointer=saver)


ONE_TURN = ["talked 1", "told yes", "worked 0", "worked 1", "worked 2", "joined", "steady"]
PLACE: Any = {"configurable": {"thread_id": "t"}}
ANSWERS: list[Any] = [Command(resume="yes"), Command(resume="inside"), Command(resume="remembered")]


def turn() -> list[Any]:
    """Return the inputs of one turn: what is said, and an answer to each interrupt."""
    return [{"messages": [HumanMessage("hello")]}, *ANSWERS]


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@contextmanager
def ours(watch: Watch) -> Iterator[Any]:
    with PostgresSaver(watch.uri, schema=watch.name) as saver:
        yield saver


@contextmanager
def theirs(watch: Watch) -> Iterator[Any]:
    watch.execute("create schema if not exists {}")
    with TheirSaver.from_conn_string(set_to(watch.uri, "search_path", watch.name)) as saver:
        saver.setup()
        yield saver


@asynccontextmanager
async def theirs_async(watch: Watch) -> Any:
    watch.execute("create schema if not exists {}")
    async with TheirAsyncSaver.from_conn_string(set_to(watch.uri, "search_path", watch.name)) as saver:
        await saver.setup()
        yield saver


SYNC = {"ours": ours, "theirs": theirs}


def told(history: list[Any]) -> list[Any]:
    """Return what a history says, without what is about the saver that was asked."""
    return [
        (
            each.config["configurable"],
            each.values,
            each.metadata,
            each.parent_config and each.parent_config["configurable"],
            each.next,
            [(task.id, task.name, task.error, task.interrupts, task.result) for task in each.tasks],
        )
        for each in history
    ]


def tuples(saver: Any) -> list[Any]:
    """Return every checkpoint of the thread, of all namespaces, with its pending writes."""
    found = [
        (each.config, each.checkpoint, each.metadata, each.parent_config, each.pending_writes)
        for each in saver.list(PLACE)
    ]
    return sorted(found, key=lambda each: str(each[0]))


def test_what_either_wrote_the_other_reads_alike(watch: Watch) -> None:
    with ours(watch) as our, theirs(watch) as their:
        for saver in (our, their, our):
            for step in turn():
                build(saver).invoke(step, PLACE)
                assert tuples(our) == tuples(their)
                assert told(build(our).get_state_history(PLACE)) == told(
                    build(their).get_state_history(PLACE)
                )
                assert build(our).get_state(PLACE, subgraphs=True) == build(their).get_state(
                    PLACE, subgraphs=True
                )
        assert build(their).get_state(PLACE).values["log"] == ONE_TURN + [
            entry.replace("talked 1", f"talked {number}") for number in (3, 5) for entry in ONE_TURN
        ]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_each_step_of_a_turn_is_taken_by_the_other_saver(watch: Watch, first: str) -> None:
    kinds = [first, "theirs" if first == "ours" else "ours"]
    for number, step in enumerate([*turn(), *turn()]):
        with SYNC[kinds[number % 2]](watch) as saver:
            build(saver).invoke(step, PLACE)
    with ours(watch) as our, theirs(watch) as their:
        state = build(our).get_state(PLACE)
        assert told([state]) == told([build(their).get_state(PLACE)])
    assert state.next == ()
    assert len(state.values["messages"]) == 4
    assert sorted(state.values["seen"]) == sorted([f"worker {number}" for number in range(3)] * 2)
    assert state.values["log"] == [*ONE_TURN, "talked 3", *ONE_TURN[1:]]


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_what_a_step_had_done_before_it_failed_is_not_done_again_by_the_other(
    watch: Watch, first: str
) -> None:
    other = "theirs" if first == "ours" else "ours"
    with SYNC[first](watch) as saver:
        build(saver).invoke(turn()[0], PLACE)
        with pytest.raises(Failed):
            build(saver, fails=True).invoke(ANSWERS[0], PLACE)
        before = tuples(saver)
    with SYNC[other](watch) as saver:
        assert tuples(saver) == before
        build(saver).invoke(None, PLACE)
        log = build(saver).get_state(PLACE, subgraphs=True).values["log"]
    assert log == ONE_TURN


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_the_same_with_their_async_saver(watch: Watch, first: str) -> None:
    async def to_and_fro() -> None:
        async with theirs_async(watch) as their, PostgresSaver(watch.uri, schema=watch.name) as our:
            savers = [our, their] if first == "ours" else [their, our]
            for number, step in enumerate([*turn(), *turn()]):
                await build(savers[number % 2]).ainvoke(step, PLACE)
                states = [await build(saver).aget_state(PLACE, subgraphs=True) for saver in savers]
                assert states[0] == states[1]
            histories = [
                told([each async for each in build(saver).aget_state_history(PLACE)]) for saver in savers
            ]
            assert histories[0] == histories[1]
            assert len(histories[0]) > 10

    asyncio.run(to_and_fro())


@pytest.mark.parametrize("durability", ["sync", "async", "exit"])
def test_every_durability_writes_what_the_other_reads(watch: Watch, durability: Any) -> None:
    with ours(watch) as our, theirs(watch) as their:
        for saver in (our, their):
            for step in turn():
                build(saver).invoke(step, PLACE, durability=durability)
                assert tuples(our) == tuples(their)
        assert told([build(our).get_state(PLACE)]) == told([build(their).get_state(PLACE)])


@pytest.mark.parametrize("first", ["ours", "theirs"])
def test_a_branch_from_an_old_checkpoint_is_taken_by_the_other_saver(watch: Watch, first: str) -> None:
    other = "theirs" if first == "ours" else "ours"
    with SYNC[first](watch) as saver:
        for step in turn():
            build(saver).invoke(step, PLACE)
        past = next(each for each in build(saver).get_state_history(PLACE) if each.next == ("ask",))
    with SYNC[other](watch) as saver:
        build(saver).update_state(past.config, {"log": ["branched"], "note": "other"})
        build(saver).invoke(None, PLACE)
    with ours(watch) as our, theirs(watch) as their:
        state = build(our).get_state(PLACE)
        assert told([state]) == told([build(their).get_state(PLACE)])
        assert state.values["log"] == ["talked 1", "branched"]


def test_what_prune_leaves_theirs_reads_and_goes_on_with(watch: Watch) -> None:
    with ours(watch) as our:
        for step in [*turn(), *turn()[:3]]:
            build(our).invoke(step, PLACE)
        before = build(our).get_state(PLACE, subgraphs=True)
        our.prune(["t"])
    with theirs(watch) as their:
        after = build(their).get_state(PLACE, subgraphs=True)
        assert after.values == before.values
        assert [task.interrupts for task in after.tasks] == [task.interrupts for task in before.tasks]
        build(their).invoke(ANSWERS[2], PLACE)
    with ours(watch) as our:
        state = build(our).get_state(PLACE)
        assert state.next == ()
        assert state.values["note"] == "remembered"
        assert state.values["log"] == [*ONE_TURN, "talked 3", *ONE_TURN[1:]]
