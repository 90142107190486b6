"""The graphs that the tests of the server run: small, without a model, each for one thing to happen."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Annotated, Any

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, AnyMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import tool
from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore
from langgraph.types import interrupt
from typing_extensions import TypedDict, override


class State(TypedDict, total=False):
    """What most of the graphs work on."""

    messages: Annotated[list[Any], operator.add]
    n: int
    delay: float
    steps: int
    log_file: str
    log: Annotated[list[str], operator.add]
    answer: Any


class Chat(TypedDict):
    """What the graphs with a model work on."""

    messages: Annotated[list[AnyMessage], add_messages]


def note(state: State, line: str) -> None:
    """Leave a line outside of the state, so that a test can count what really happened."""
    if path := state.get("log_file"):
        with Path(path).open("a") as file:
            file.write(f"{line}\n")


# ---- echo: one step, at once.


async def echo_node(state: State) -> dict[str, Any]:
    messages = state.get("messages") or []
    return {"messages": [{"role": "ai", "content": f"echo: {messages[-1] if messages else ''}"}]}


echo = StateGraph(State).add_node("echo", echo_node).add_edge(START, "echo").add_edge("echo", END).compile()


# ---- slow: `steps` steps of `delay` seconds, each telling of itself.


async def tick(state: State) -> dict[str, Any]:
    n = (state.get("n") or 0) + 1
    note(state, f"tick {n}")
    get_stream_writer()({"tick": n})
    # tidy: allow sleep because a step that takes a while is what this graph is for
    await asyncio.sleep(state.get("delay") or 0.02)
    return {"n": n, "log": [f"tick{n}"]}


def again(state: State) -> str:
    return "tick" if state["n"] < (state.get("steps") or 5) else END


slow = (
    StateGraph(State)
    .add_node("tick", tick)
    .add_edge(START, "tick")
    .add_conditional_edges("tick", again, ["tick", END])
    .compile()
)


# ---- hitl: asks a person, after a step of its own.


async def before(state: State) -> dict[str, Any]:
    note(state, "before")
    return {"log": ["before"]}


async def ask(state: State) -> dict[str, Any]:
    answer = interrupt({"question": "ok?"})
    note(state, "answered")
    return {"answer": answer, "log": [f"answered {answer}"]}


hitl = (
    StateGraph(State)
    .add_node("before", before)
    .add_node("ask", ask)
    .add_edge(START, "before")
    .add_edge("before", "ask")
    .add_edge("ask", END)
    .compile()
)


# ---- fail: raises, after a step that succeeds.


async def boom(state: State) -> dict[str, Any]:
    note(state, "boom")
    raise ValueError("boom from node")


fail = (
    StateGraph(State)
    .add_node("before", before)
    .add_node("boom", boom)
    .add_edge(START, "before")
    .add_edge("before", "boom")
    .add_edge("boom", END)
    .compile()
)


# ---- memo: puts and gets an item, by each way to the store.


async def remember(state: State, runtime: Runtime[Any], *, store: BaseStore) -> dict[str, Any]:
    await store.aput(("graph", "mem"), "k", {"v": state.get("n") or 0})
    assert runtime.store is not None
    item = await runtime.store.aget(("graph", "mem"), "k")
    return {"answer": item.value if item else None}


# LangGraph's types know no node that takes both a runtime and a store.
remembering: Any = remember
memo = StateGraph(State).add_node("mem", remembering).add_edge(START, "mem").add_edge("mem", END).compile()


# ---- context: what of the caller reaches a node.


class Context(TypedDict, total=False):
    """What callers may pass beside the input."""

    name: str


async def look(state: State, runtime: Runtime[Context]) -> dict[str, Any]:
    note(state, "looked")
    return {"answer": dict(runtime.context or {})}


context = (
    StateGraph(State, context_schema=Context)
    .add_node("look", look)
    .add_edge(START, "look")
    .add_edge("look", END)
    .compile()
)


# ---- blocking: a node that blocks its thread, as users' nodes do.


def block(state: State) -> dict[str, Any]:
    threading.Event().wait(state.get("delay") or 0.02)
    return {"log": ["blocked"]}


async def block_the_loop(state: State) -> dict[str, Any]:
    return block(state)


blocking = (
    StateGraph(State).add_node("block", block).add_edge(START, "block").add_edge("block", END).compile()
)

blocking_loop = (
    StateGraph(State)
    .add_node("block", block_the_loop)
    .add_edge(START, "block")
    .add_edge("block", END)
    .compile()
)


# ---- inner and outer: an interrupt below, and above.

inner = StateGraph(State).add_node("ask", ask).add_edge(START, "ask").add_edge("ask", END).compile()

subgraph = (
    StateGraph(State)
    .add_node("before", before)
    .add_node("inner", inner)
    .add_edge(START, "before")
    .add_edge("before", "inner")
    .add_edge("inner", END)
    .compile()
)


# ---- parallel: two questions at once.


async def ask_left(state: State) -> dict[str, Any]:
    note(state, "left")
    return {"log": [f"left {interrupt({'question': 'left?'})}"]}


async def ask_right(state: State) -> dict[str, Any]:
    note(state, "right")
    return {"log": [f"right {interrupt({'question': 'right?'})}"]}


parallel = (
    StateGraph(State)
    .add_node("left", ask_left)
    .add_node("right", ask_right)
    .add_edge(START, "left")
    .add_edge(START, "right")
    .add_edge("left", END)
    .add_edge("right", END)
    .compile()
)


# ---- chat: a model that streams, and may call a tool.

WORDS = ("Grüße, ", "Welt ", "日本", "語 ", "🚢")


class FakeChat(BaseChatModel):
    """Streams ``WORDS``; asked for the weather it calls the tool first."""

    @property
    @override
    def _llm_type(self) -> str:
        return "fake"

    def _calls(self, messages: list[BaseMessage]) -> AIMessage | None:
        last = messages[-1]
        if last.type == "human" and "weather" in str(last.content):
            call = {"name": "weather", "args": {"city": "Bern"}, "id": "call-1", "type": "tool_call"}
            return AIMessage(content="", tool_calls=[call])
        return None

    @override
    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> ChatResult:
        message = self._calls(messages) or AIMessage(content="".join(WORDS))
        return ChatResult(generations=[ChatGeneration(message=message)])

    @override
    def _stream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> Iterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            if run_manager:
                run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            yield chunk

    @override
    async def _astream(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: AsyncCallbackManagerForLLMRun | None = None,
        **kwargs: Any,
    ) -> AsyncIterator[ChatGenerationChunk]:
        for chunk in self._chunks(messages):
            if run_manager:
                await run_manager.on_llm_new_token(chunk.text, chunk=chunk)
            await asyncio.sleep(0)
            yield chunk

    def _chunks(self, messages: list[BaseMessage]) -> Iterator[ChatGenerationChunk]:
        if called := self._calls(messages):
            message = AIMessageChunk(
                content="",
                tool_call_chunks=[
                    {
                        "name": "weather",
                        "args": '{"city": "Bern"}',
                        "id": "call-1",
                        "index": 0,
                        "type": "tool_call_chunk",
                    }
                ],
                id=called.id,
            )
            yield ChatGenerationChunk(message=message)
            return
        for word in WORDS:
            yield ChatGenerationChunk(message=AIMessageChunk(content=word))


@tool
def weather(city: str) -> str:
    """Say what the weather is like."""
    return f"{city}: snow"


async def talk(state: Chat) -> dict[str, Any]:
    return {"messages": [await FakeChat().ainvoke(state["messages"])]}


def wants_a_tool(state: Chat) -> str:
    return "tools" if getattr(state["messages"][-1], "tool_calls", None) else END


chat = (
    StateGraph(Chat)
    .add_node("talk", talk)
    .add_node("tools", ToolNode([weather]))
    .add_edge(START, "talk")
    .add_conditional_edges("talk", wants_a_tool, ["tools", END])
    .add_edge("tools", "talk")
    .compile()
)


# ---- custom: says what it likes, in several pieces.


async def say(state: State) -> dict[str, Any]:
    write = get_stream_writer()
    for number in range(state.get("steps") or 3):
        write({"said": number})
    return {"log": ["said"]}


custom = StateGraph(State).add_node("say", say).add_edge(START, "say").add_edge("say", END).compile()
