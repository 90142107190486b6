"""Files without Deep Agents: the file tools in a plain LangGraph graph, over its state and over a store."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition

from stateroom import SqliteStore
from stateroom.files import (
    CompositeBackend,
    FilePermission,
    FilesState,
    StateBackend,
    StoreBackend,
    file_tools,
)


class State(MessagesState, FilesState):
    """Messages, and the files that last as long as the thread."""


def make_graph(turns: Sequence[AIMessage], store: SqliteStore, threads: InMemorySaver) -> Any:
    """Return an agent whose model takes the given turns; yours would call one with ``bind_tools(tools)``."""
    script = iter(turns)
    backend = CompositeBackend(StateBackend(), {"/memories/": StoreBackend()})
    read_only = FilePermission(operations=["write"], paths=["/memories/rules/**"], mode="deny")
    tools = file_tools(backend, permissions=[read_only])
    graph = StateGraph(State)
    graph.add_node("model", lambda _: {"messages": [next(script)]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(store=store, checkpointer=threads)


def use(tool: str, **arguments: Any) -> AIMessage:
    """Return a turn that calls a tool."""
    return AIMessage(
        "", tool_calls=[{"name": tool, "args": arguments, "id": f"{tool}-1", "type": "tool_call"}]
    )


def main() -> None:
    """Let an agent write, edit and find files in two threads."""
    first = [
        use("write_file", file_path="/memories/plan.md", content="# Plan\n\n- buy paint\n- call Mira\n"),
        use(
            "multi_edit_file",
            file_path="/memories/plan.md",
            edits=[
                {"old_string": "- buy paint\n", "new_string": ""},
                {"old_string": "call Mira", "new_string": "call Mira on Friday"},
            ],
        ),
        use("write_file", file_path="/scratch.txt", content="blue or green?"),
        use("write_file", file_path="/memories/rules/style.md", content="Shout."),
        AIMessage("Done."),
    ]
    second = [
        use("search_files", query="calling Mira", path="/memories"),
        use("read_file", file_path="/scratch.txt"),
        AIMessage("Done."),
    ]
    threads = InMemorySaver()
    with tempfile.TemporaryDirectory() as folder, SqliteStore(Path(folder) / "memory.db") as store:
        for thread, turns in (("first", first), ("second", second)):
            config = {"configurable": {"thread_id": thread, "assistant_id": "scribe"}}
            answer = make_graph(turns, store, threads).invoke({"messages": [("user", "Go on.")]}, config)
            for message in answer["messages"]:
                if message.type == "tool":
                    print(f"{thread:10}  {message.name}: {message.text}")
        print(f"stored      {[item.key for item in store.search(('scribe', 'filesystem'))]}")


if __name__ == "__main__":
    main()
