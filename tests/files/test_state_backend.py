"""Files in the state of a graph pass the conformance suite, and last as long as its thread."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from contextlib import closing
from functools import partial
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, StateGraph
from typing_extensions import TypedDict, override

from stateroom.errors import Misconfigured, OutsideGraph
from stateroom.files.state import FilesState, StateBackend, merge_files
from stateroom.testing.files import FilesSuite, InState, OpenedFiles


class TestStateBackend(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(InState()) as opens:
            yield opens


# ---- in graphs that do more than wait

Node = Callable[[], Any]


def graph_of(*nodes: Node, checkpointer: Any = None) -> Any:
    """Return a graph that runs functions without arguments one after the other."""
    graph: Any = StateGraph(FilesState)
    before = START
    for number, node in enumerate(nodes):
        name = f"node {number}"
        graph.add_node(name, _node(node))
        graph.add_edge(before, name)
        before = name
    return graph.compile(checkpointer=checkpointer)


def _node(function: Node) -> Callable[[FilesState], dict[str, Any]]:
    def node(state: FilesState) -> dict[str, Any]:  # noqa: ARG001  # the function reads it through the backend
        function()
        return {}

    return node


def text(backend: StateBackend, path: str) -> str:
    data = backend.read(path).file_data
    assert data is not None
    return data["content"]


def test_files_go_from_node_to_node_and_into_the_answer() -> None:
    backend = StateBackend()
    seen: list[Any] = []

    def first() -> None:
        backend.write("/a.md", "one")
        backend.write("/b.md", "two")
        backend.edit("/a.md", "one", "1")

    def second() -> None:
        seen.extend([text(backend, "/a.md"), backend.ls("/").entries, backend.delete("/b.md").error])
        seen.append(backend.ls("/").entries)

    answer = graph_of(first, second).invoke({"files": {"/given.md": {"content": ["given"]}}})
    assert seen[0] == "1"
    assert [entry["path"] for entry in seen[1]] == ["/a.md", "/b.md", "/given.md"]
    assert seen[2] is None
    assert [entry["path"] for entry in seen[3]] == ["/a.md", "/given.md"]
    assert {path: value["content"] for path, value in answer["files"].items()} == {
        "/a.md": ["1"],
        "/given.md": ["given"],
    }


async def test_async_nodes_may_await_and_run_tasks() -> None:
    backend = StateBackend()

    async def node(state: FilesState) -> dict[str, Any]:  # noqa: ARG001  # as above
        await backend.awrite("/n.md", "HEAD|")
        edits = [backend.aedit("/n.md", "HEAD|", f"HEAD|\n{number}") for number in range(8)]
        assert [result.error for result in await asyncio.gather(*edits)] == [None] * 8
        return {}

    graph: Any = StateGraph(FilesState)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    answer = await graph.compile().ainvoke({"files": {}})
    assert len(answer["files"]["/n.md"]["content"]) == 9


def test_nodes_that_run_beside_each_other_write_different_files() -> None:
    backend = StateBackend()
    graph: Any = StateGraph(FilesState)
    for name in ("a", "b", "c"):
        graph.add_node(name, _node(partial(backend.write, f"/{name}.md", name)))
        graph.add_edge(START, name)
    answer = graph.compile().invoke({"files": {}})
    assert sorted(answer["files"]) == ["/a.md", "/b.md", "/c.md"]


def test_each_thread_has_files_of_its_own_which_last() -> None:
    backend = StateBackend()
    seen: list[Any] = []

    def node() -> None:
        seen.append([entry["path"] for entry in backend.ls("/").entries or []])
        backend.write(f"/{len(seen)}.md", "x")

    graph = graph_of(node, checkpointer=InMemorySaver())
    for thread in ("one", "two", "one"):
        graph.invoke({"files": {}}, {"configurable": {"thread_id": thread}})
    assert seen == [[], [], ["/1.md"]]


def test_outside_of_a_graph_it_says_what_to_do() -> None:
    for backend in (StateBackend(), StateBackend({}), StateBackend({"configurable": {}})):
        with pytest.raises(OutsideGraph, match=r"inside a LangGraph graph execution.*graph\.invoke"):
            backend.ls("/")
        with pytest.raises(RuntimeError):
            backend.write("/a.md", "x")


def test_a_state_without_files_is_a_mistake_of_who_made_the_graph() -> None:
    class Bare(TypedDict):
        other: str

    backend = StateBackend()
    graph: Any = StateGraph(Bare)
    graph.add_node("node", lambda _: backend.write("/a.md", "x") and {})
    graph.add_edge(START, "node")
    with pytest.raises(Misconfigured, match="FilesState"):
        graph.compile().invoke({"other": "x"})


def test_what_a_state_is_filled_with_disturbs_no_file() -> None:
    backend = StateBackend()
    seen: list[Any] = []
    given = {
        "/good.md": {"content": ["needle"]},
        "/text.md": "needle in bare text\n",
        "/number": 5,
        "/bytes": {"content": b"needle"},
        "/object": {"content": object()},
        "/nan": {"content": ["needle"], "score": float("nan")},
        "/nul\0": {"content": ["needle"]},
        "no path": {"content": ["needle"]},
    }

    def node() -> None:
        seen.extend(
            [
                [entry["path"] for entry in backend.ls("/").entries or []],
                [(match["path"], match["line"]) for match in backend.grep("needle").matches or []],
                text(backend, "/text.md"),
                [backend.read(path).error for path in ("/number", "/bytes", "/object")],
                [
                    backend.write(path, "now a file").error
                    for path in ("/number", "/bytes", "/object", "/nan")
                ],
                backend.edit("/text.md", "bare", "edited").error,
                len(backend.ls("/").entries or []),
            ]
        )

    answer = graph_of(node).invoke({"files": given})
    assert seen[0] == ["/good.md", "/text.md"]
    assert seen[1] == [("/good.md", 1), ("/text.md", 1)]
    assert seen[2] == "needle in bare text\n"
    assert all("is no file" in error for error in seen[3])
    assert seen[5] is None
    assert answer["files"]["/text.md"]["content"] == ["needle in edited text", ""]
    assert seen[4][:3] == [None] * 3
    assert seen[6] >= 5


def test_the_reducer_merges_and_deletes() -> None:
    one, two = {"content": ["1"]}, {"content": ["2"]}
    assert merge_files(None, {"/a": one}) == {"/a": one}
    assert merge_files({"/a": one, "/b": one}, {"/a": two, "/b": None, "/c": None}) == {"/a": two}
    before = {"/a": one}
    assert merge_files(before, {"/a": None}) == {}
    assert before == {"/a": one}
