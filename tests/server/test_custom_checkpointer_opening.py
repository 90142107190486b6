"""Opening a checkpointer of the application's own: in every form, and refused with the fix."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.postgres.aio import AsyncPostgresSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver
from langgraph_sdk.client import LangGraphClient
from psycopg import sql

from stateroom import embed_in_memory_graphs, embed_sqlite_graphs
from stateroom.boot.compose import Server
from stateroom.boot.langgraph_json import read_project
from stateroom.errors import Misconfigured
from stateroom.model.thread import TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings
from stateroom.service.scope import Scope
from stateroom.settings import Settings
from tests.conftest import NewSchema
from tests.server.checkpointers import FOLDER, one_and_only
from tests.server.graphs import echo

FILE = Path(__file__).with_name("checkpointers.py")
GRAPHS: dict[str, Any] = {"echo": echo}


async def echoed(app: Any) -> str:
    """Run a graph in an application, and return the id of its thread, whose state has been read."""
    transport = httpx.ASGITransport(app=app)
    async with httpx.AsyncClient(transport=transport, base_url="http://app", timeout=30) as http:
        client: Any = LangGraphClient(http)
        thread_id = (await client.threads.create())["thread_id"]
        await client.runs.wait(thread_id, "echo", input={"messages": ["hi"]})
        state = await client.threads.get_state(thread_id)
        assert len(state["values"]["messages"]) == 2
    return str(thread_id)


async def test_an_open_one_is_passed_and_left_open(tmp_path: Path) -> None:
    saver = InMemorySaver()
    async with embed_sqlite_graphs(GRAPHS, tmp_path / "all.db", checkpointer=saver) as app:
        thread_id = await echoed(app)
    assert saver.get_tuple({"configurable": {"thread_id": thread_id}})
    async with embed_in_memory_graphs(GRAPHS, checkpointer=saver) as app:
        assert await echoed(app) != thread_id


@pytest.mark.parametrize("form", ["manager", "function"])
async def test_what_makes_one_is_passed_and_it_is_closed(tmp_path: Path, form: str) -> None:
    file = str(tmp_path / "theirs.db")

    def make() -> Any:
        return AsyncSqliteSaver.from_conn_string(file)

    passed = make() if form == "manager" else make
    async with embed_in_memory_graphs(GRAPHS, checkpointer=passed) as app:
        thread_id = await echoed(app)
    async with make() as saver:
        assert await saver.aget_tuple({"configurable": {"thread_id": thread_id}})


async def test_that_of_langgraph_for_postgres_gets_its_tables(postgres: str, new_schema: NewSchema) -> None:
    schema = new_schema()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    uri = f"{postgres}{'&' if '?' in postgres else '?'}options=-csearch_path%3D{schema}"

    def make() -> Any:
        return AsyncPostgresSaver.from_conn_string(uri)

    async with embed_in_memory_graphs(GRAPHS, checkpointer=make) as app:
        thread_id = await echoed(app)
        saver, threads = app.server.saver, app.server.parts.threads
        here: Any = {"configurable": {"thread_id": thread_id}}
        assert len(list(saver.list(here))) == 3
        assert threads.prune(thread_id, TTLStrategy.KEEP_LATEST, Scope())
        assert len(list(saver.list(here))) == 1
        assert threads.remove(thread_id)
        assert not list(saver.list(here))


async def test_one_of_another_loop_is_refused() -> None:
    async with AsyncSqliteSaver.from_conn_string(":memory:") as saver:
        app = embed_in_memory_graphs(GRAPHS, checkpointer=saver)
        with pytest.raises(Misconfigured, match="belongs to the event loop") as caught:
            await app.server.begin()
        assert caught.value.field == "checkpointer"
        await app.aclose()


def test_the_start_says_what_that_means(
    new_settings: Callable[..., Settings], caplog: pytest.LogCaptureFixture
) -> None:
    server = Server(new_settings("memory", checkpointer_path=f"{FILE}:one_and_only"))
    with caplog.at_level(logging.WARNING):
        server.open()
    server.close()
    said = [each.getMessage() for each in caplog.records if "no single transaction" in each.getMessage()]
    assert len(said) == 1
    assert type(one_and_only).__name__ in said[0]


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("sync_only", r"SqliteSaver, which has no aput_writes, adelete_thread; name one with async methods"),
        ("Refusing", r"is a Refusing, which cannot be asked asynchronously; name one with async methods"),
        ("Undeletable", r"has no adelete_thread;"),
        ("Broken", r"cannot be read: OSError: no route to host"),
        ("nothing", r"make it a BaseCheckpointSaver"),
        ("needing", r"needs arguments"),
        ("missing", r"missing"),
    ],
)
def test_what_cannot_be_used_keeps_the_server_from_starting(
    new_settings: Callable[..., Settings], name: str, says: str
) -> None:
    server = Server(new_settings("sqlite", checkpointer_path=f"{FILE}:{name}"))
    with pytest.raises(Misconfigured, match=says) as caught:
        server.open()
    assert caught.value.field == "checkpointer.path"
    assert f"{FILE.name}:{name}" in str(caught.value)
    server.close()


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"serde": {"pickle_fallback": True}}, "checkpointer.serde"),
        ({"thread_ttl": ThreadTTLSettings(strategy=TTLStrategy.KEEP_LATEST)}, "checkpointer.ttl.strategy"),
    ],
)
def test_so_does_what_could_have_no_effect_beside_it(
    new_settings: Callable[..., Settings], changes: dict[str, Any], field: str
) -> None:
    server = Server(new_settings("memory", checkpointer_path=f"{FILE}:memory", **changes))
    with pytest.raises(Misconfigured) as caught:
        server.open()
    assert caught.value.field == field
    server.close()


def test_one_that_can_prune_may_keep_the_latest(
    new_settings: Callable[..., Settings], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(FOLDER, str(tmp_path))
    keeping = ThreadTTLSettings(strategy=TTLStrategy.KEEP_LATEST)
    server = Server(new_settings("memory", checkpointer_path=f"{FILE}:ours", thread_ttl=keeping))
    server.open()
    server.close()
    assert (tmp_path / "ours.db").exists()


def test_a_langgraph_json_names_it(tmp_path: Path) -> None:
    file = tmp_path / "langgraph.json"
    said = {"graphs": {"a": "./a.py:a"}, "checkpointer": {"path": "./a.py:saver"}}
    file.write_text(json.dumps(said))
    found = read_project(file)
    assert found.layer["checkpointer_path"] == "./a.py:saver"
    assert not found.warnings
