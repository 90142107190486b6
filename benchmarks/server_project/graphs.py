"""The graphs that the servers of the benchmark run: one that answers at once, one that streams and rests."""

from __future__ import annotations

import asyncio
import operator
from typing import Annotated, Any

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    """A conversation."""

    messages: Annotated[list[Any], operator.add]


async def answer(state: State) -> State:
    """Say again what was said last."""
    return {"messages": [{"role": "ai", "content": f"echo: {state['messages'][-1]}"}]}


echo = StateGraph(State).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()


class Flood(TypedDict, total=False):
    """How much is streamed, and for how many seconds nothing is done then."""

    frames: int
    frame_bytes: int
    seconds: float


async def pour(state: Flood) -> None:
    """Stream so many frames, and then rest."""
    write = get_stream_writer()
    for number in range(state.get("frames", 0)):
        write({"number": number, "text": "x" * state.get("frame_bytes", 0)})
        await asyncio.sleep(0)
    await asyncio.sleep(state.get("seconds", 0.0))


flood = StateGraph(Flood).add_node(pour).add_edge(START, "pour").add_edge("pour", END).compile()
