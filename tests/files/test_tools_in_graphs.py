"""File tools in real graphs: what calls of one message do to each other, in the state and in a store."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Annotated, Any

import pytest
from langchain.agents import AgentState, create_agent
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage, BaseMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore as LangGraphStore
from langgraph.types import Command
from typing_extensions import override

from stateroom import InMemoryStore
from stateroom.files import (
    CompositeBackend,
    FilePermission,
    FilesState,
    StateBackend,
    StoreBackend,
    file_data_to_string,
    file_tools,
)
from stateroom.files.protocol import BackendProtocol

FILES = {"/a.txt": {"content": ["one two"]}, "/d/b.txt": {"content": ["one two"]}}
Call = tuple[str, dict[str, Any]]
Run = Callable[..., Any]


class State(MessagesState, FilesState):
    """What the graphs of these tests hold."""


class AgentFiles(AgentState[Any], FilesState):
    """The same for LangChain's agents."""


class Scripted(BaseChatModel):
    """A model that sends the messages that it is given, and then stops."""

    turns: list[AIMessage]

    @override
    def bind_tools(self, tools: Any, **kwargs: Any) -> Any:
        return self

    @override
    def _generate(self, messages: list[BaseMessage], *args: Any, **kwargs: Any) -> ChatResult:
        return ChatResult(generations=[ChatGeneration(message=self.turns.pop(0))])

    @property
    @override
    def _llm_type(self) -> str:
        return "scripted"


def turn(*calls: Call) -> AIMessage:
    named = [
        {"name": name, "args": arguments, "id": f"call-{place}", "type": "tool_call"}
        for place, (name, arguments) in enumerate(calls)
    ]
    return AIMessage("", tool_calls=named)


def agent(tools: list[Any], turns: list[AIMessage], store: BaseStore | None) -> Any:
    """Each call of a message runs as a task of its own."""
    return create_agent(Scripted(turns=turns), tools, state_schema=AgentFiles, store=store)


def node(tools: list[Any], turns: list[AIMessage], store: BaseStore | None) -> Any:
    """All calls of a message run in one task."""
    script = iter(turns)
    graph = StateGraph(State)
    graph.add_node("model", lambda _: {"messages": [next(script)]})
    graph.add_node("tools", ToolNode(tools))
    graph.add_edge(START, "model")
    graph.add_conditional_edges("model", tools_condition)
    graph.add_edge("tools", "model")
    return graph.compile(store=store)


@pytest.fixture(
    params=[(make, mode) for make in (agent, node) for mode in ("sync", "async")],
    ids=lambda param: f"{param[0].__name__}-{param[1]}",
)
def run(request: pytest.FixtureRequest) -> Run:
    """Run messages of calls in a graph; return what each call was answered, and the files of the state."""
    make, mode = request.param

    def ran(
        backend: Any, *messages: list[Call], store: BaseStore | None = None, **options: Any
    ) -> tuple[list[ToolMessage], dict[str, str]]:
        turns = [*(turn(*calls) for calls in messages), AIMessage("Done.")]
        graph = make(file_tools(backend, **options), turns, store)
        asked: Any = {"messages": [("user", "Go on.")], "files": FILES}
        config = {"configurable": {"assistant_id": "scribe"}}
        state = graph.invoke(asked, config) if mode == "sync" else asyncio.run(graph.ainvoke(asked, config))
        answered = [message for message in state["messages"] if isinstance(message, ToolMessage)]
        return answered, {path: file_data_to_string(data) for path, data in state["files"].items()}

    return ran


def edit(path: str, old: str, new: str) -> Call:
    return "edit_file", {"file_path": path, "old_string": old, "new_string": new}


def write(path: str, content: str) -> Call:
    return "write_file", {"file_path": path, "content": content}


def delete(path: str) -> Call:
    return "delete", {"file_path": path}


def test_of_two_edits_of_one_file_in_the_state_the_second_is_refused(run: Run) -> None:
    (first, second), files = run(StateBackend(), [edit("/a.txt", "one", "1"), edit("a.txt", "two", "2")])
    assert first.status == "success"
    assert second.status == "error"
    assert "an earlier call of the same message changes '/a.txt'" in second.text
    assert files["/a.txt"] == "1 two"


def test_one_message_after_the_other_may_change_the_same_file(run: Run) -> None:
    answers, files = run(StateBackend(), [edit("/a.txt", "one", "1")], [edit("/a.txt", "two", "2")])
    assert [answer.status for answer in answers] == ["success", "success"]
    assert files["/a.txt"] == "1 2"


def test_calls_that_do_not_meet_are_all_made(run: Run) -> None:
    answers, files = run(
        StateBackend(),
        [
            edit("/a.txt", "one", "1"),
            ("read_file", {"file_path": "/a.txt"}),
            edit("/d/b.txt", "one", "1"),
            write("/d/c.txt", "new"),
            write("/da", "new"),
        ],
    )
    assert {answer.status for answer in answers} == {"success"}
    assert files == {"/a.txt": "1 two", "/d/b.txt": "1 two", "/d/c.txt": "new", "/da": "new"}


@pytest.mark.parametrize(
    ("first", "second", "left"),
    [
        (write("/a.txt", "x"), edit("/a.txt", "x", "y"), {"/a.txt": "x"}),
        (delete("/d"), edit("/d/b.txt", "one", "1"), {}),
        (edit("/d/b.txt", "one", "1"), delete("/d"), {"/d/b.txt": "1 two"}),
        (write("/n", "x"), write("/n/m.txt", "y"), {"/n": "x"}),
        (
            ("multi_edit_file", {"file_path": "/a.txt", "edits": [{"old_string": "one", "new_string": "1"}]}),
            delete("/a.txt"),
            {"/a.txt": "1 two"},
        ),
    ],
)
def test_whatever_changes_files_is_kept_apart(
    run: Run, first: Call, second: Call, left: dict[str, str]
) -> None:
    answers, files = run(StateBackend(), [first, second])
    assert [answer.status for answer in answers] == ["success", "error"]
    touched = {call[1]["file_path"].split("/")[1] for call in (first, second)}
    assert {path: text for path, text in files.items() if path.split("/")[1] in touched} == left


@pytest.mark.parametrize("store", [InMemoryStore, LangGraphStore])
def test_in_a_store_all_edits_of_one_message_are_kept(run: Run, store: Callable[[], BaseStore]) -> None:
    opened = store()
    opened.put(("scribe", "filesystem"), "/a.txt", {"content": [f"<{n}>" for n in range(8)]})
    calls = [edit("/a.txt", f"<{n}>", f"[{n}]") for n in range(8)]
    answers, _ = run(StoreBackend(), calls, store=opened)
    assert {answer.status for answer in answers} == {"success"}
    item = opened.get(("scribe", "filesystem"), "/a.txt")
    assert item is not None
    assert item.value["content"] == [f"[{n}]" for n in range(8)]


@pytest.mark.parametrize("as_factory", [False, True])
@pytest.mark.parametrize(
    "permissions", [[], [FilePermission(operations=["write"], paths=["/no"], mode="deny")]]
)
def test_of_a_composite_only_what_is_in_the_state_is_kept_apart(
    run: Run, as_factory: bool, permissions: list[FilePermission]
) -> None:
    def routed(config: Any) -> BackendProtocol:
        return CompositeBackend(StateBackend(config), {"/memories/": StoreBackend(config)})

    store = InMemoryStore()
    store.put(("scribe", "filesystem"), "/m.txt", {"content": ["one two"]})
    answers, files = run(
        routed if as_factory else routed(None),
        [
            edit("/memories/m.txt", "one", "1"),
            edit("/a.txt", "one", "1"),
            edit("/memories/m.txt", "two", "2"),
            edit("/a.txt", "two", "2"),
        ],
        store=store,
        permissions=permissions,
    )
    assert [answer.status for answer in answers] == ["success", "success", "success", "error"]
    assert files["/a.txt"] == "1 two"
    item = store.get(("scribe", "filesystem"), "/m.txt")
    assert item is not None
    assert item.value["content"] == ["1 2"]


def test_without_a_graph_a_tool_works_by_itself() -> None:
    store = InMemoryStore()
    tools = {tool.name: tool for tool in file_tools(StoreBackend(store=store, namespace=("ana",)))}
    tools["write_file"].invoke({"file_path": "/a", "content": "x"})
    tools["write_file"].invoke(
        {"name": "write_file", "args": write("/a", "y")[1], "id": "1", "type": "tool_call"}
    )
    assert store.get(("ana",), "/a").value["content"] == ["y"]  # type: ignore[union-attr]


def test_a_call_of_a_tool_that_there_is_not_stands_in_nobodys_way(run: Run) -> None:
    answers, files = run(
        StateBackend(), [delete("/a.txt"), edit("/a.txt", "one", "1")], tools=["edit_file", "read_file"]
    )
    assert [answer.status for answer in answers] == ["error", "success"]
    assert files["/a.txt"] == "1 two"


def test_an_edit_that_cannot_be_made_is_a_message_and_the_agent_goes_on(run: Run) -> None:
    answers, _ = run(
        StateBackend(), [edit("/a.txt", "three", "3")], [("read_file", {"file_path": "/a.txt", "limit": "x"})]
    )
    assert [answer.status for answer in answers] == ["error", "error"]
    assert "String not found in file: 'three'" in answers[0].text
    assert "limit" in answers[1].text


def test_messages_may_have_another_name_and_the_state_another_form() -> None:
    class Renamed(FilesState):
        """A state whose messages are called otherwise."""

        talk: Annotated[list[AnyMessage], add_messages]

    graph = StateGraph(Renamed)
    graph.add_node("tools", ToolNode(file_tools(StateBackend()), messages_key="talk"))
    graph.add_edge(START, "tools")
    asked: Any = {"talk": [turn(edit("/a.txt", "one", "1"), edit("/a.txt", "two", "2"))], "files": FILES}
    state = graph.compile().invoke(asked)
    assert [message.status for message in state["talk"][1:]] == ["success", "error"]


@pytest.mark.parametrize("suffix", ["png", "mp3", "mp4", "pdf"])
def test_binary_files_reach_the_model_as_content(run: Run, suffix: str) -> None:
    store = InMemoryStore()
    StoreBackend(store=store, namespace=("scribe", "filesystem")).upload_files(
        [(f"/a.{suffix}", b"\xff\x00")]
    )
    (answer,), _ = run(StoreBackend(), [("read_file", {"file_path": f"/a.{suffix}"})], store=store)
    (block,) = answer.content
    assert block["base64"] == "/wA="
    assert (answer.name, answer.status) == ("read_file", "success")


@pytest.mark.parametrize(("resume", "text"), [("approve", "new"), (False, "one two")])
def test_what_a_human_must_approve_waits_for_it(resume: Any, text: str) -> None:
    rule = FilePermission(operations=["write"], paths=["/a.txt"], mode="interrupt")
    graph = create_agent(
        Scripted(turns=[turn(write("/a.txt", "new")), AIMessage("Done.")]),
        file_tools(StateBackend(), permissions=[rule]),
        state_schema=AgentFiles,
        checkpointer=InMemorySaver(),
    )
    asked: Any = {"messages": [("user", "Go on.")], "files": FILES}
    config: Any = {"configurable": {"thread_id": "1"}}
    state = graph.invoke(asked, config)
    assert state["__interrupt__"]
    assert file_data_to_string(state["files"]["/a.txt"]) == "one two"
    state = graph.invoke(Command(resume=resume), config)
    assert file_data_to_string(state["files"]["/a.txt"]) == text
    (answer,) = [message for message in state["messages"] if isinstance(message, ToolMessage)]
    assert answer.status == ("success" if resume else "error")
