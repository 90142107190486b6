"""One SQLite file that our saver and LangGraph's own open in turn."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver as TheirSaver

from stateroom.savers import SqliteSaver
from stateroom.testing.savers_graphs import (
    asking,
    chat,
    delta_chat,
    graph_config,
    nested,
    remembering,
    resume,
    sending,
)
from stateroom.testing.savers_harness import checkpoint, config
from tests.savers.opening import KINDS, Build, invoke, listed, values

OURS = {"stateroom_checkpoint_run", "stateroom_checkpoint_root"}

PAIRS = [
    ("ours", "theirs"),
    ("theirs", "ours"),
    ("ours async", "theirs async"),
    ("theirs async", "ours async"),
]

BUILDS = [chat, delta_chat, sending, remembering]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


def schema(path: Path) -> set[tuple[str, str]]:
    with sqlite3.connect(path) as connection:
        return set(connection.execute("select name, sql from sqlite_master"))


def columns(path: Path) -> dict[str, list[Any]]:
    """Return what SQLite knows of each table: its columns, and its key."""
    with sqlite3.connect(path) as connection:
        return {
            table: [
                *connection.execute(f"pragma table_info({table})"),
                *(
                    (unique, origin)
                    for _, _, unique, origin, _ in connection.execute(f"pragma index_list({table})")
                    if origin == "pk"
                ),
            ]
            for table in ("checkpoints", "writes")
        }


@pytest.mark.parametrize("build", BUILDS)
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_a_conversation_goes_to_and_fro(path: Path, build: Build, first: str, second: str) -> None:
    alone = build(InMemorySaver())
    for turn, kind in enumerate((first, first, second, second, first)):
        expected = alone.invoke({"log": [turn]}, graph_config())
        assert invoke(kind, path, build, {"log": [turn]}) == expected
    for kind in KINDS:
        assert values(kind, path, build) == expected


@pytest.mark.parametrize("build", [asking, nested], ids=["root", "subgraph"])
@pytest.mark.parametrize(("first", "second"), PAIRS)
def test_who_was_asked_by_one_answers_the_other(path: Path, build: Build, first: str, second: str) -> None:
    asked = invoke(first, path, build, {"log": ["hi"]})
    assert [each.value for each in asked["__interrupt__"]] == ["which?"]
    found = invoke(second, path, build, resume("yes"))
    assert found["log"][-3:] == ["said yes", "beside", "end"]


@pytest.mark.parametrize("build", [*BUILDS, asking, nested])
@pytest.mark.parametrize("writer", KINDS)
def test_all_read_the_same(path: Path, build: Build, writer: str) -> None:
    for turn in range(3):
        invoke(writer, path, build, {"log": [turn]})
    expected = listed("theirs", path)
    assert len(expected) > 3
    for kind in KINDS:
        assert listed(kind, path) == expected


@pytest.mark.parametrize("build", [*BUILDS, asking, nested])
@pytest.mark.parametrize("kind", ["theirs", "theirs async"])
def test_theirs_goes_on_with_what_ours_pruned_and_copied(path: Path, build: Build, kind: str) -> None:
    for turn in range(5):
        invoke("ours", path, build, {"log": [turn]})
    before = values("ours", path, build)
    with SqliteSaver(path) as saver:
        saver.prune(["t"])
        saver.copy_thread("t", "u")
    for thread_id in ("t", "u"):
        assert values(kind, path, build, thread_id) == before
        found = invoke(kind, path, build, {"log": ["next"]}, thread_id)
        assert len(found["log"]) > len(before["log"])


@pytest.mark.parametrize("keep_last", [1, 3])
def test_theirs_goes_on_with_what_ours_kept(path: Path, keep_last: int) -> None:
    alone = delta_chat(InMemorySaver())
    with SqliteSaver(path, keep_last=keep_last) as saver:
        for turn in range(7):
            expected = alone.invoke({"log": [turn]}, graph_config())
            assert delta_chat(saver).invoke({"log": [turn]}, graph_config()) == expected
    assert values("theirs", path, delta_chat) == expected
    expected = alone.invoke({"log": ["next"]}, graph_config())
    assert invoke("theirs", path, delta_chat, {"log": ["next"]}) == expected


def test_the_tables_are_those_that_theirs_makes(tmp_path: Path) -> None:
    ours, theirs = tmp_path / "ours.db", tmp_path / "theirs.db"
    with SqliteSaver(ours):
        pass
    with TheirSaver.from_conn_string(str(theirs)) as saver:
        saver.setup()
    assert columns(ours) == columns(theirs)
    assert {name for name, _ in schema(ours)} - {name for name, _ in schema(theirs)} == OURS
    with TheirSaver.from_conn_string(str(ours)) as saver:
        before = schema(ours)
        saver.setup()
    assert schema(ours) == before


def test_a_file_of_theirs_gets_our_indexes_and_nothing_else(path: Path) -> None:
    invoke("theirs", path, chat, {"log": [1]})
    before = schema(path)
    with SqliteSaver(path) as saver:
        saver.setup()
    assert {name for name, _ in schema(path) - before} == OURS
    assert before <= schema(path)


def test_our_indexes_do_not_get_in_the_way_of_what_theirs_writes(path: Path) -> None:
    with SqliteSaver(path) as saver:
        saver.setup()
    with TheirSaver.from_conn_string(str(path)) as theirs:
        for number, ns in enumerate(("", "inner:1")):
            at = config(ns=ns, score=float("nan"))
            theirs.put(at, checkpoint(number), {"source": "loop", "step": 1, "parents": {}}, {})
    with SqliteSaver(path) as saver:
        found = list(saver.list({"configurable": {"thread_id": "t"}}))
        assert [str(each.metadata["score"]) for each in found] == ["nan", "nan"]  # type: ignore[typeddict-item]
        saver.delete_for_runs(["r"])
        saver.prune(["t"])
        saver.delete_thread("t")
        assert saver.storage("t").total == 0
