"""Graphs whose streams the tests of readers look at: many events, and none."""

from __future__ import annotations

import asyncio
import threading
from typing import Any, Final

from langgraph.config import get_stream_writer
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

__all__ = ["FALSY", "GATE", "payload", "reading_graphs"]

GATE: Final = threading.Event()
"""What the graph ``gated`` waits for."""

FALSY: Final[tuple[Any, ...]] = (0, "", [], False, None, {}, 0.0)


class State(TypedDict, total=False):
    """How many events there are, and how long each takes."""

    count: int
    delay: float
    done: bool


def payload(number: int) -> Any:
    """Return what the event of a number says: half of them nothing that is true."""
    return FALSY[number // 2 % len(FALSY)] if number % 2 else number


async def tell(state: State) -> dict[str, Any]:
    write = get_stream_writer()
    for number in range(state["count"]):
        write(payload(number))
        # tidy: allow sleep because events that take a while are what this graph is for
        await asyncio.sleep(state.get("delay") or 0)
    return {"done": True}


async def keep_silent(state: State) -> dict[str, Any]:
    # tidy: allow sleep because a node that takes a while is what this graph is for
    await asyncio.sleep(state["delay"])
    return {"done": True}


async def wait_for_the_gate(_: State) -> dict[str, Any]:
    await asyncio.to_thread(GATE.wait, 60)
    return {"done": True}


def reading_graphs() -> dict[str, Any]:
    """Return the graphs by their ids: ``tell`` writes events, ``silent`` and ``gated`` do not."""
    nodes: dict[str, Any] = {"tell": tell, "silent": keep_silent, "gated": wait_for_the_gate}
    return {
        name: StateGraph(State).add_node(name, node).add_edge(START, name).add_edge(name, END).compile()
        for name, node in nodes.items()
    }
