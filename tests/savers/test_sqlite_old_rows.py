"""Conversations that old releases of LangGraph wrote, in files that they made, read and continued by ours."""

from __future__ import annotations

import json
import operator
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage, HumanMessage
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.types import Send

from stateroom.savers import SqliteSaver
from stateroom.testing.savers_graphs import Graph, chat, graph_config
from stateroom.testing.savers_harness import config, name

DATA = Path(__file__).parent / "data"
"""Files by the release of langgraph-checkpoint-sqlite that wrote them; LangGraph was 0.2.0, 0.2.60, 0.3.34.

Each has the threads ``talk`` (two turns), ``paused`` (before its second node) and ``sent`` (before the tasks
that its first node sent).
"""

# The first release's Send is found under a name that LangGraph warns of.
pytestmark = pytest.mark.filterwarnings("ignore:Importing Send:DeprecationWarning")

RELEASES = ("1.0.0", "2.0.1", "2.0.7")

OLD_TABLES = """
    create table checkpoints (
        thread_id text not null, checkpoint_ns text not null default '', checkpoint_id text not null,
        parent_checkpoint_id text, type text, checkpoint blob, metadata blob,
        primary key (thread_id, checkpoint_ns, checkpoint_id)
    )
"""


class State(TypedDict):
    log: Annotated[list[Any], operator.add]
    messages: Annotated[list[AnyMessage], add_messages]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


@pytest.fixture(params=RELEASES)
def saver(request: pytest.FixtureRequest, path: Path) -> Iterator[SqliteSaver]:
    with sqlite3.connect(path) as connection:
        connection.executescript(
            (DATA / f"checkpoint-sqlite-{request.param}.sql").read_text(encoding="utf-8")
        )
    connection.close()
    with SqliteSaver(path) as saver:
        yield saver


def answer(state: State) -> Any:
    count = len(state["log"])
    return {"log": [f"answer {count}"], "messages": [AIMessage("hello", id=f"a{count}")]}


def talking(saver: SqliteSaver) -> Graph:
    builder = StateGraph(State)
    builder.add_node("answer", answer)
    builder.add_node("after", lambda _: {"log": ["after"]})
    builder.add_edge(START, "answer").add_edge("answer", "after").add_edge("after", END)
    return builder.compile(checkpointer=saver)


def sending(saver: SqliteSaver) -> Graph:
    builder = StateGraph(State)
    builder.add_node("start", lambda _: {"log": []})
    builder.add_node("one", lambda item: {"log": [f"did {item}"]})
    builder.add_conditional_edges(
        "start", lambda state: [Send("one", item) for item in state["log"]], ["one"]
    )
    builder.add_edge(START, "start").add_edge("one", END)
    return builder.compile(checkpointer=saver)


def said(turn: int) -> dict[str, Any]:
    return {"log": [turn], "messages": [HumanMessage("hi", id=f"h{turn}")]}


def test_a_conversation_is_read_listed_and_continued(saver: SqliteSaver) -> None:
    graph = talking(saver)
    state = graph.get_state(graph_config("talk"))
    assert state.values["log"] == [0, "answer 1", "after", 1, "answer 4", "after"]
    assert [message.id for message in state.values["messages"]] == ["h0", "a1", "h1", "a4"]
    assert state.next == ()
    history = list(graph.get_state_history(graph_config("talk")))
    assert [len(each.values.get("log", ())) for each in history] == [6, 5, 4, 3, 3, 2, 1, 0]
    found = graph.invoke(said(2), graph_config("talk"))
    assert found["log"][6:] == [2, "answer 7", "after"]
    assert len(found["messages"]) == 6


def test_one_that_paused_goes_on(saver: SqliteSaver) -> None:
    graph = talking(saver)
    assert graph.get_state(graph_config("paused")).next == ("after",)
    assert graph.invoke(None, graph_config("paused"))["log"] == [1, "answer 1", "after"]


@pytest.mark.parametrize("prepare", ["nothing", "prune", "copy"])
def test_what_was_sent_is_not_lost(saver: SqliteSaver, prepare: str) -> None:
    graph, thread_id = sending(saver), "sent"
    if prepare == "prune":
        saver.prune(["sent"])
        assert len(list(saver.list(config("sent")))) == 2
    if prepare == "copy":
        saver.copy_thread("sent", "copied")
        thread_id = "copied"
    assert graph.get_state(graph_config(thread_id)).next == ("one", "one")
    assert sorted(graph.invoke(None, graph_config(thread_id))["log"]) == ["a", "b", "did a", "did b"]


def test_it_is_pruned_and_goes_on(saver: SqliteSaver) -> None:
    graph = talking(saver)
    before = graph.get_state(graph_config("talk"))
    saver.prune(["talk"])
    after = graph.get_state(graph_config("talk"))
    assert (after.values, after.config, after.parent_config) == (before.values, before.config, None)
    assert len(list(saver.list(config("talk")))) == 1
    assert graph.invoke(said(2), graph_config("talk"))["log"][6:] == [2, "answer 7", "after"]


def test_a_saver_that_keeps_one_goes_on(path: Path, saver: SqliteSaver) -> None:
    saver.close()
    with SqliteSaver(path, keep_last=1) as few:
        graph = talking(few)
        for turn in range(2, 4):
            assert len(graph.invoke(said(turn), graph_config("talk"))["log"]) == 3 * (turn + 1)
        assert len(list(few.list(config("talk")))) == 1


def test_it_is_branched_from_the_past_and_measured(saver: SqliteSaver) -> None:
    graph = talking(saver)
    past = next(
        each
        for each in graph.get_state_history(graph_config("talk"))
        if each.values["log"] == [0, "answer 1", "after"] and not each.next
    )
    changed = graph.update_state(past.config, {"log": ["changed"]}, as_node="after")
    assert graph.get_state(changed).values["log"] == [0, "answer 1", "after", "changed"]
    assert saver.storage("talk").channels["messages"] > 0


def test_it_is_filtered_by_the_metadata_that_were_written(saver: SqliteSaver) -> None:
    found = list(saver.list(config("talk"), filter={"source": "input"}))
    assert [each.metadata["step"] for each in found] == [3, -1]
    saver.delete_for_runs(["none"])
    saver.delete_thread("talk")
    assert list(saver.list(config("talk"))) == []


# ---- Shapes that those releases did not write by themselves.


def old_row(
    number: int, checkpoint: Any, *, kind: str | None = "json", metadata: Any = None
) -> tuple[Any, ...]:
    parent = name(number - 1) if number > 1 else None
    return ("t", "", name(number), parent, kind, json.dumps(checkpoint), metadata)


@pytest.mark.parametrize("kind", ["json", None])
@pytest.mark.parametrize("metadata", [b'{"step": 1}', '{"step": 1, "writes": {"n": {"lc": 1}}}'])
def test_json_with_numbers_for_versions_and_parts_missing(
    path: Path, kind: str | None, metadata: Any
) -> None:
    bare = {"v": 1, "id": name(1), "ts": "2024-05-04T06:32:42.235444+00:00"}
    full = {
        **bare,
        "id": name(2),
        "channel_values": {"log": ["hi", "answer 1"]},
        "channel_versions": {"__start__": 2, "log": 3, "start:answer": 3, "answer": 3},
        "versions_seen": {"__start__": {"__start__": 1}, "answer": {"start:answer": 2}},
        "pending_sends": [],
    }
    with sqlite3.connect(path) as connection:
        connection.execute(OLD_TABLES)
        for row in (
            old_row(1, bare, kind=kind, metadata=metadata),
            old_row(2, full, kind=kind, metadata=metadata),
        ):
            connection.execute("insert into checkpoints values (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    with SqliteSaver(path) as saver:
        first, second = reversed(list(saver.list(config())))
        assert first.checkpoint["channel_values"] == {}
        assert second.parent_config == config(number=1)
        graph = chat(saver)
        assert graph.get_state(graph_config()).values == {"log": ["hi", "answer 1"]}
        assert graph.invoke({"log": ["more"]}, graph_config())["log"][2:] == ["more", "answer 3"]
        assert len(list(graph.get_state_history(graph_config()))) == 5
        saver.prune(["t"])
        assert len(graph.invoke({"log": ["last"]}, graph_config())["log"]) == 6


def test_versions_of_what_was_sent_are_those_of_the_checkpoint(saver: SqliteSaver) -> None:
    found = saver.get_tuple(config("sent"))
    assert found is not None
    assert [each.arg for each in found.checkpoint["channel_values"][TASKS]] == ["a", "b"]
    versions = found.checkpoint["channel_versions"]
    assert versions[TASKS] == max(version for channel, version in versions.items() if channel != TASKS)
