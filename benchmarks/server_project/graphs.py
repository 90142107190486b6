"""The graph that the servers of the benchmark run: one node, which answers at once."""

from __future__ import annotations

import operator
from typing import Annotated, Any

from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict


class State(TypedDict, total=False):
    """A conversation."""

    messages: Annotated[list[Any], operator.add]


async def answer(state: State) -> State:
    """Say again what was said last."""
    return {"messages": [{"role": "ai", "content": f"echo: {state['messages'][-1]}"}]}


echo = StateGraph(State).add_node(answer).add_edge(START, "answer").add_edge("answer", END).compile()
