"""Projects as users have them, written into a folder for a test, and what serves their graphs."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from itertools import count
from pathlib import Path
from textwrap import dedent
from threading import Event
from typing import Any

from langgraph.checkpoint.memory import InMemorySaver
from langgraph.store.memory import InMemoryStore

from stateroom.engine.graphs import Graph, Graphs, Source

__all__ = ["ENTERED", "GO", "STATE", "graphs_of", "says", "source", "write"]

STATE = """
    import operator
    from typing import Annotated, TypedDict

    class S(TypedDict, total=False):
        said: Annotated[list[str], operator.add]
"""

ENTERED, GO = Event(), Event()
"""For a module of a project to wait in, while it is imported."""

_numbers = count()

_SOURCE = """
from langgraph.graph import END, START, StateGraph
{imports}

WORD = {word}

async def say(state: S):
    return {{"said": [WORD]}}

builder = StateGraph(S).add_node("say", say).add_edge(START, "say").add_edge("say", END)
graph = builder.compile()

def make(config):
    return graph
"""


def source(word: str, imports: str = "from .state import S") -> str:
    """Return a graph file whose graph says a word (an expression), with the imports that it needs."""
    return _SOURCE.format(word=word, imports=imports)


def write(folder: Path, files: Mapping[str, str]) -> Path:
    """Write a project's files, and return its folder."""
    for path, text in files.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(dedent(text), encoding="utf-8")
    return folder


def graphs_of(base: Path, sources: Mapping[str, Source], **options: Any) -> Graphs:
    """Return the graphs of a project, over storage in memory."""
    options = {"checkpointer": InMemorySaver(), "store": InMemoryStore(), **options}
    return Graphs(sources, base=base, **options)


async def says(graphs: Graphs, graph_id: str, thread: str | None = None) -> list[str]:
    """Run a graph that takes nothing, and return what has been said on a thread, or on a new one."""
    opened: AbstractAsyncContextManager[Graph] = graphs.open(graph_id, access="threads.create_run")
    async with opened as graph:
        state = await graph.ainvoke({}, {"configurable": {"thread_id": thread or f"new {next(_numbers)}"}})
    said: list[str] = state["said"]
    return said
