"""One SQLite file of checkpoints: who may open it, what it keeps, and how it is opened."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.errors import Misconfigured
from stateroom.savers import SqliteSaver
from stateroom.search.index_config import parse_index_config
from stateroom.stores.sqlite import SqliteStore
from stateroom.testing.savers_graphs import chat, graph_config
from stateroom.testing.savers_harness import checkpoint, config, count, listed, put, stored, write
from stateroom.testing.storage_harness import make_thread

TALK = """
import sys
from stateroom.savers import SqliteSaver
from stateroom.testing.savers_graphs import chat, graph_config
saver = SqliteSaver(sys.argv[1])
graph = chat(saver)
for turn in range(int(sys.argv[3])):
    graph.invoke({"log": [turn]}, graph_config(sys.argv[2]), durability="sync")
print("done", flush=True)
sys.stdin.read()
"""
"""A program that takes turns on a thread, says so, and waits."""

TURNS = 10


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "checkpoints.db"


def talk(path: Path, thread_id: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", TALK, str(path), thread_id, str(TURNS)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def put_one(path: Path) -> None:
    with SqliteSaver(path) as saver:
        put(saver, 2, parent=1)


def test_what_was_put_is_there_after_closing(path: Path) -> None:
    with SqliteSaver(path) as saver:
        put(saver, 1, values={"a": [1]})
        write(saver, 1, ("a", 2))
        before = stored(saver)
    saver.setup()
    assert stored(saver) == before
    saver.close()
    with SqliteSaver.from_conn_string(str(path)) as again:
        assert stored(again) == before


def test_a_saver_needs_no_setting_up(path: Path) -> None:
    saver = SqliteSaver(path)
    assert saver.get_tuple(config()) is None
    put(saver, 1)
    assert listed(saver) == [1]
    saver.close()


def test_memory_is_gone_after_closing() -> None:
    saver = SqliteSaver()
    put(saver, 1)
    saver.close()
    assert listed(saver) == []
    saver.close()


def test_what_was_acknowledged_survives_the_death_of_the_process(path: Path) -> None:
    with talk(path, "t") as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        process.send_signal(signal.SIGKILL)
        process.wait()
    with SqliteSaver(path) as saver:
        assert len(chat(saver).get_state(graph_config()).values["log"]) == 2 * TURNS


def test_several_processes_write_one_file(path: Path) -> None:
    processes = [talk(path, str(number)) for number in range(2)]
    for process in processes:
        assert process.stdout is not None
        assert process.stdout.readline() == "done\n"
        process.communicate()
        assert process.returncode == 0
    with SqliteSaver(path) as saver:
        for number in range(2):
            assert len(chat(saver).get_state(graph_config(str(number))).values["log"]) == 2 * TURNS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no forks")
def test_a_forked_child_writes_too(path: Path) -> None:
    with SqliteSaver(path) as saver:
        put(saver, 1)
        child = multiprocessing.get_context("fork").Process(target=put_one, args=(path,))
        child.start()
        child.join()
        assert child.exitcode == 0
        put(saver, 3, parent=2)
        assert listed(saver) == [3, 2, 1]


def test_the_file_gets_langgraphs_tables_alone(path: Path) -> None:
    with SqliteSaver(path) as saver:
        put(saver, 1)
    with sqlite3.connect(path) as connection:
        tables = {
            name for (name,) in connection.execute("select name from sqlite_master where type = 'table'")
        }
    assert tables == {"checkpoints", "writes"}


def test_a_store_a_saver_and_a_storage_share_a_file(path: Path) -> None:
    storage = SqliteStorage(str(path), parse_index_config(None))
    with SqliteStore(path) as store, SqliteSaver(path) as alone:
        store.put(("a",), "k", {"v": 1})
        put(alone, 1)
        storage.open()
        make_thread(storage, "t")
        over = SqliteSaver.over(storage)
        assert stored(over) == stored(alone)
        put(over, 2, parent=1)
        assert listed(alone) == [2, 1]
        assert store.get(("a",), "k") is not None
    storage.close()


@pytest.mark.parametrize("wrong", ["", "missing/checkpoints.db"])
def test_a_path_that_cannot_be_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, wrong: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Misconfigured) as caught:
        SqliteSaver(wrong).setup()
    assert caught.value.field == "path"


def test_a_file_that_is_no_database_is_refused(path: Path) -> None:
    path.write_bytes(b"no database" * 1000)
    with pytest.raises(Misconfigured, match="not an SQLite database"):
        SqliteSaver(path).setup()


def test_a_server_can_be_given_a_function_that_opens_it(path: Path) -> None:
    @asynccontextmanager
    async def checkpointer() -> AsyncIterator[SqliteSaver]:
        async with SqliteSaver.from_conn_string(str(path)) as saver:
            yield saver

    async def serve() -> int:
        async with checkpointer() as saver:
            await chat(saver).ainvoke({"log": ["hi"]}, graph_config())
            return len([found async for found in saver.alist(config())])

    assert asyncio.run(serve()) == 3


def test_a_clone_with_another_allowlist_is_on_the_same_file(path: Path) -> None:
    with SqliteSaver(path) as saver:
        clone = saver.with_allowlist([("collections", "OrderedDict")])
        put(clone, 1)  # type: ignore[arg-type]  # LangGraph calls it a saver of its own
        assert listed(saver) == [1]
        assert count(saver) == 1
        assert clone.serde.loads_typed(clone.serde.dumps_typed(checkpoint(1))) == checkpoint(1)
