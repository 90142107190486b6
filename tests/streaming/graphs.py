"""Graphs that stream in every way: models, tools, subgraphs, interrupts, and values that are hard to say."""

from __future__ import annotations

import asyncio
import operator
from collections.abc import AsyncIterator, Callable
from typing import Annotated, Any

from langchain_core.language_models.fake_chat_models import GenericFakeChatModel
from langchain_core.messages import AIMessage, HumanMessage
from langchain_core.outputs import ChatGenerationChunk
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from typing_extensions import TypedDict, override

__all__ = ["HARD_TEXT", "HELLO", "TALK", "agent", "asking", "compiled", "parallel_models", "single", "talker"]

HARD_TEXT = "Привет 😀 中\u2028文\u2029\u0085 C:\\new \\u041f a\0b \\u0000"
"""Text of every kind that some stream has broken."""

HELLO = {"messages": [HumanMessage("hi", id="h")]}
TALK = "hello big world"


class Notes(TypedDict, total=False):
    notes: Annotated[list[Any], operator.add]


class _Polite(GenericFakeChatModel):
    """A model that lets others, who share its turns, speak between its words."""

    turns: Any = None

    @override
    async def _astream(
        self, messages: Any, stop: Any = None, run_manager: Any = None, **kwargs: Any
    ) -> AsyncIterator[ChatGenerationChunk]:
        # Whoever streams from a model tells of its tokens himself.
        for chunk in self._stream(messages, stop, None, **kwargs):
            if self.turns is not None:
                await self.turns.wait()
            yield chunk


def compiled(builder: Any) -> Any:
    """Return a graph that keeps its state for as long as it lives."""
    return builder.compile(checkpointer=InMemorySaver())


def talker(text: str, turns: asyncio.Barrier | None = None) -> Any:
    """Return a model that says a text, word by word."""
    return _Polite(messages=iter([AIMessage(text)]), turns=turns)


def _speaking(model: Any) -> Callable[..., Any]:
    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return speak


def single(answer: Any, schema: Any = Notes) -> Any:
    """Return a graph of one node that answers so, or with what a function of its name returns."""
    node = answer if callable(answer) else lambda _: answer
    return compiled(StateGraph(schema).add_node("node", node).add_edge(START, "node"))


def parallel_models() -> Any:
    """Return a graph in which two models speak at the same time."""
    graph = StateGraph(MessagesState)
    turns = asyncio.Barrier(2)
    for name, text in (("left", "one two three four"), ("right", "five six seven eight")):
        graph.add_node(name, _speaking(talker(text, turns))).add_edge(START, name)
    return compiled(graph)


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@tool
def confirm(what: str) -> str:
    """Ask whether to go on."""
    return f"{what}: {interrupt({'q': what})}"


def agent() -> Any:
    """Return a graph with a subgraph whose model speaks, and a node that calls a tool."""

    async def inner(state: MessagesState) -> dict[str, Any]:
        get_stream_writer()({"from": "inner"})
        return await _speaking(model)(state)  # type: ignore[no-any-return]

    def decide(_: Any) -> dict[str, Any]:
        call = {"name": "add", "args": {"a": 1, "b": 2}, "id": "call-1"}
        return {"messages": [AIMessage("", tool_calls=[call], id="decided")]}

    model = talker(TALK)
    sub: Any = StateGraph(MessagesState)
    sub = sub.add_node("inner", inner).add_edge(START, "inner").compile()
    graph: Any = StateGraph(MessagesState)
    graph.add_node("sub", sub).add_node("decide", decide)
    graph.add_node("tools", ToolNode([add])).add_edge(START, "sub")
    return compiled(graph.add_edge("sub", "decide").add_edge("decide", "tools"))


def _ask(question: str) -> Callable[[Any], dict[str, Any]]:
    return lambda _: {"notes": [interrupt({"q": question})]}


def asking(where: str) -> Any:
    """Return a graph that asks in a ``node``, ``tool`` or ``subgraph``, or in two nodes in ``parallel``."""
    graph: Any
    if where == "tool":
        call = {"name": "confirm", "args": {"what": "tool"}, "id": "call-1"}
        graph = StateGraph(MessagesState).add_node(
            "decide", lambda _: {"messages": [AIMessage("", tool_calls=[call], id="decided")]}
        )
        graph.add_node("tools", ToolNode([confirm])).add_edge(START, "decide").add_edge("decide", "tools")
        return compiled(graph)
    graph = StateGraph(Notes)
    if where == "subgraph":
        sub: Any = StateGraph(Notes)
        sub = sub.add_node("inner", _ask("subgraph")).add_edge(START, "inner").compile()
        graph.add_node("sub", sub).add_edge(START, "sub")
    for name in {"node": ["node"], "parallel": ["left", "right"]}.get(where, []):
        graph.add_node(name, _ask(name)).add_edge(START, name)
    return compiled(graph)
