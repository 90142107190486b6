"""Graphs that the tests of the engine run: each lets one thing happen, and notes what its nodes did."""

from __future__ import annotations

import asyncio
import operator
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Annotated, Any, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import Command, interrupt

__all__ = ["Stage", "State", "line"]

PATIENCE = 30.0


class State(TypedDict, total=False):
    """What is said to a graph, and the log of what its nodes did with it."""

    said: str
    log: Annotated[list[str], operator.add]
    extra: Any


def line(*nodes: Callable[..., Any], context: type[Any] | None = None) -> Any:
    """Return a graph, not compiled, that calls its nodes one after another."""
    graph: Any = StateGraph(State, context_schema=context)
    names = [node.__name__ for node in nodes]
    for name, node in zip(names, nodes, strict=True):
        graph.add_node(name, node)
    for before, after in zip([START, *names], [*names, END], strict=True):
        graph.add_edge(before, after)
    return graph


@dataclass
class Stage:
    """What tests and the nodes of their graphs share: gates that tests open, and the calls that came.

    ``calls`` are ``"enter <who>"`` and ``"exit <who>"`` in the order in which they happened.
    """

    calls: list[str] = field(default_factory=list)
    gate: threading.Event = field(default_factory=threading.Event)
    seen: dict[str, Any] = field(default_factory=dict)

    def graphs(self) -> dict[str, Any]:
        """Return the graphs by their ids."""
        return {
            "echo": line(self.note),
            "gated": line(self.wait),
            "gated_two": line(self.first, self.wait, self.last),
            "gated_three": line(self.first, self.block_in_thread, self.last),
            "blocking": line(self.first, self.block, self.last),
            "blocking_sync": line(self.first, self.block_in_thread, self.last),
            "failing": line(self.first, self.fail),
            "asking": line(self.first, self.ask, self.last),
            "asking_twice": line(self.ask_twice),
            "nested": line(self.first, self.nested()),
            "odd": line(self.odd),
            "secretive": line(self.look, self.ask),
            "endless": self.endless(),
        }

    def count(self, call: str) -> int:
        """Return how often something was called."""
        return self.calls.count(call)

    # ---- nodes

    def note(self, state: State) -> dict[str, Any]:
        self.calls.append(f"note {state['said']}")
        return {"log": [state["said"]]}

    def first(self, state: State) -> dict[str, Any]:
        self.calls.append(f"first {state['said']}")
        return {"log": [f"{state['said']} first"]}

    def last(self, state: State) -> dict[str, Any]:
        self.calls.append(f"last {state['said']}")
        return {"log": [f"{state['said']} last"]}

    async def wait(self, state: State) -> dict[str, Any]:
        self.calls.append(f"enter {state['said']}")
        await asyncio.to_thread(self.gate.wait, PATIENCE)
        self.calls.append(f"exit {state['said']}")
        return {"log": [f"{state['said']} waited"]}

    async def block(self, state: State) -> dict[str, Any]:
        self.calls.append(f"enter {state['said']}")
        self.gate.wait(PATIENCE)
        self.calls.append(f"exit {state['said']}")
        return {"log": [f"{state['said']} blocked"]}

    def block_in_thread(self, state: State) -> dict[str, Any]:
        self.calls.append(f"enter {state['said']}")
        self.gate.wait(PATIENCE)
        self.calls.append(f"exit {state['said']}")
        return {"log": [f"{state['said']} blocked"]}

    def fail(self, state: State) -> dict[str, Any]:
        raise ValueError(f"cannot do {state['said']}")

    def ask(self, state: State) -> dict[str, Any]:
        answer = interrupt({"question": state["said"]})
        self.calls.append(f"answered {answer}")
        return {"log": [f"answered {answer}"]}

    def ask_twice(self, state: State) -> dict[str, Any]:
        one = interrupt("one?")
        self.calls.append(f"one {one}")
        if state["said"] == "wait":
            self.gate.wait(PATIENCE)
        two = interrupt("two?")
        return {"log": [f"{one} {two}"]}

    def odd(self, _: State) -> dict[str, Any]:
        return {"extra": self.seen["odd"], "log": ["x\0y"]}

    def look(self, _: State, config: RunnableConfig, runtime: Runtime[Any]) -> dict[str, Any]:
        user = config["configurable"].get("langgraph_auth_user")
        self.seen["context"] = runtime.context
        self.seen["store"] = runtime.store
        self.seen["user"] = user and (user.identity, user["token"], user.permissions)
        self.seen["server"] = runtime.server_info
        self.seen["configurable"] = dict(config["configurable"])
        self.seen["metadata"] = dict(config["metadata"])
        return {"log": ["looked"]}

    # ---- graphs of more than a line

    def nested(self) -> Any:
        """Return a subgraph whose two nodes each ask a question; between them it waits."""

        def inner_ask(_: State) -> dict[str, Any]:
            answer = interrupt("inner one?")
            self.calls.append(f"inner {answer}")
            return {"log": [f"inner {answer}"]}

        async def inner_wait(_: State) -> dict[str, Any]:
            self.calls.append("enter inner")
            await asyncio.to_thread(self.gate.wait, PATIENCE)
            return {}

        def inner_again(_: State) -> dict[str, Any]:
            answer = interrupt("inner two?")
            return {"log": [f"again {answer}"]}

        asked = line(inner_ask, inner_wait, inner_again).compile(checkpointer=True)

        async def inner(state: State, config: RunnableConfig) -> dict[str, Any]:
            found = await asked.ainvoke({"said": state["said"], "log": []}, config)
            return {"log": found["log"]}

        return inner

    def endless(self) -> Any:
        """Return a graph that never ends by itself."""
        graph: Any = StateGraph(State)
        graph.add_node("again", lambda _: Command(goto="again", update={"log": ["again"]}))
        graph.add_edge(START, "again")
        return graph
