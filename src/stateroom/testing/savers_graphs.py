"""Real graphs that the savers' suite runs: each shows one way in which LangGraph uses a checkpointer."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, Send, interrupt

__all__ = [
    "SNAPSHOT_EVERY",
    "Graph",
    "asking",
    "chat",
    "confiding",
    "delta_chat",
    "graph_config",
    "nested",
    "remembering",
    "resume",
    "sending",
]

Graph = CompiledStateGraph[Any, Any, Any, Any]

Saver = BaseCheckpointSaver[Any]

SNAPSHOT_EVERY = 4
"""Writes to the delta channel of ``delta_chat`` between two of its snapshots."""


class Log(TypedDict):
    """A list that is appended to."""

    log: Annotated[list[Any], operator.add]


def joined(before: list[Any] | None, writes: Sequence[list[Any]]) -> list[Any]:
    """Append all that was written."""
    return [*(before or []), *(item for items in writes for item in items)]


class DeltaLog(TypedDict):
    """A list of which checkpoints hold what was added, and the whole only now and then."""

    log: Annotated[list[Any], DeltaChannel(joined, snapshot_frequency=SNAPSHOT_EVERY)]


def graph_config(thread_id: str = "t") -> RunnableConfig:
    """Return a thread's config."""
    return {"configurable": {"thread_id": thread_id}}


def resume(answer: Any) -> Command[Any]:
    """Return the input that answers an interrupt."""
    return Command(resume=answer)


def chat(
    saver: Saver | bool | None, answer: Callable[[Log], Any] = lambda state: f"answer {len(state['log'])}"
) -> Graph:
    """Return a graph of one node that appends to the log."""
    builder = StateGraph(Log)
    builder.add_node("answer", lambda state: {"log": [answer(state)]})
    builder.add_edge(START, "answer").add_edge("answer", END)
    return builder.compile(checkpointer=saver)


def delta_chat(saver: Saver) -> Graph:
    """Return a graph of two nodes that append to a log in a delta channel."""
    builder = StateGraph(DeltaLog)
    for node in ("one", "two"):
        builder.add_node(node, lambda state, node=node: {"log": [f"{node} {len(state['log'])}"]})
    builder.add_edge(START, "one").add_edge("one", "two").add_edge("two", END)
    return builder.compile(checkpointer=saver)


def asking(saver: Saver | bool | None, question: str = "which?") -> Graph:
    """Return a graph that asks, beside a node that does not."""
    builder = StateGraph(Log)
    builder.add_node("ask", lambda _: {"log": [f"said {interrupt(question)}"]})
    builder.add_node("beside", lambda _: {"log": ["beside"]})
    builder.add_node("end", lambda _: {"log": ["end"]})
    builder.add_edge(START, "ask").add_edge(START, "beside")
    builder.add_edge(["ask", "beside"], "end").add_edge("end", END)
    return builder.compile(checkpointer=saver)


def nested(saver: Saver) -> Graph:
    """Return a graph whose node is a subgraph that asks, with the parent's saver."""
    builder = StateGraph(Log)
    builder.add_node("before", lambda _: {"log": ["before"]})
    builder.add_node("inner", asking(None))
    builder.add_edge(START, "before").add_edge("before", "inner").add_edge("inner", END)
    return builder.compile(checkpointer=saver)


def remembering(saver: Saver) -> Graph:
    """Return a graph whose subgraph goes on from its own last state each time that it is called."""
    builder = StateGraph(Log)
    inner = StateGraph(Log)
    inner.add_node("count", lambda state: {"log": [len(state["log"])]})
    inner.add_edge(START, "count").add_edge("count", END)
    called = inner.compile(checkpointer=True)

    def call(state: Log) -> dict[str, Any]:  # noqa: ARG001  # the name that LangGraph passes it by
        return {"log": [called.invoke({"log": ["call"]})["log"]]}

    builder.add_node("call", call)
    builder.add_edge(START, "call").add_edge("call", END)
    return builder.compile(checkpointer=saver)


def sending(saver: Saver) -> Graph:
    """Return a graph that sends a task for each item."""
    builder = StateGraph(Log)
    builder.add_node("one", lambda item: {"log": [f"did {item}"]})
    builder.add_conditional_edges(START, lambda state: [Send("one", item) for item in state["log"]])
    builder.add_edge("one", END)
    return builder.compile(checkpointer=saver)


class Confidence(TypedDict):
    """What a graph may know while it runs, and nobody may keep."""

    jwt: str


def confiding(saver: Saver) -> Graph:
    """Return a graph that looks at its context, asks, and looks again."""

    def look(state: Log, runtime: Runtime[Confidence]) -> dict[str, Any]:  # noqa: ARG001  # as LangGraph passes
        known = runtime.context["jwt"]
        return {"log": ["knows" if known.startswith("S") else "knows another"]}

    builder = StateGraph(Log, context_schema=Confidence)
    builder.add_node("look", look)
    builder.add_node("ask", lambda _: {"log": [f"said {interrupt('which?')}"]})
    builder.add_node("again", look)
    builder.add_edge(START, "look").add_edge("look", "ask").add_edge("ask", "again").add_edge("again", END)
    return builder.compile(checkpointer=saver)
