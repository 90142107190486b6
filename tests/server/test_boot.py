"""A server is put together from its settings, opened once, and closed in an order that loses nothing."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import StateGraph
from langgraph.store.memory import InMemoryStore as LangGraphStore

from stateroom import SqliteStore
from stateroom.boot.compose import Server
from stateroom.boot.serving import bind
from stateroom.errors import Misconfigured, Unavailable
from stateroom.model.thread import ThreadTTL
from stateroom.model.thread_ttl import ThreadTTLSettings
from stateroom.settings import Settings
from tests.server.conftest import LIMITS, StartServer, eventually_now
from tests.server.graphs import State, remember

NewSettings = Callable[..., Settings]

STORES = """
from contextlib import asynccontextmanager
from pathlib import Path
from langgraph.store.sqlite import AsyncSqliteStore
from stateroom import SqliteStore

@asynccontextmanager
async def theirs():
    async with AsyncSqliteStore.from_conn_string(str(Path(__file__).with_name("theirs.db"))) as store:
        await store.setup()
        yield store
        Path(__file__).with_name("closed").touch()

ours = SqliteStore(str(Path(__file__).with_name("ours.db")))
"""


def memo_with(**storage: Any) -> Any:
    """Return a graph that puts and gets an item, compiled with storage of its own."""
    # LangGraph's types know no node that takes both a runtime and a store.
    node: Any = remember
    builder = StateGraph(State).add_node("mem", node)
    return builder.set_entry_point("mem").compile(**storage)


@pytest.fixture
def settings(new_settings: NewSettings) -> Settings:
    return new_settings("sqlite")


def test_opening_and_starting_again_changes_nothing_from_any_thread(settings: Settings) -> None:
    server = Server(settings)
    threads = [threading.Thread(target=call) for call in (server.open, server.start) * 4]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    parts = server.parts
    server.open()
    assert server.parts is parts
    server.close()
    server.close()
    with pytest.raises(Unavailable):
        server.open()
    with pytest.raises(Unavailable):
        asyncio.run(server.begin())


@pytest.mark.parametrize(
    "changes",
    [
        {"graphs": {"a": "./nowhere.py:graph"}},
        {"auth_path": "./nowhere.py:auth"},
        {"store": {"path": "./nowhere.py:store"}},
    ],
)
def test_what_keeps_it_from_opening_leaves_nothing_open(settings: Settings, changes: dict[str, Any]) -> None:
    with pytest.raises(Misconfigured):
        Server(replace(settings, **changes)).open()
    server = Server(settings)
    server.open()
    server.close()


def test_an_address_is_free_once_it_is_let_go_and_refused_while_somebody_has_it() -> None:
    with bind("127.0.0.1", 0) as first:
        port = first.getsockname()[1]
        with pytest.raises(Misconfigured, match=f"port {port} of 127.0.0.1 cannot be taken"):
            bind("127.0.0.1", port)
    bind("127.0.0.1", port).close()
    with pytest.raises(Misconfigured, match="no address of this machine"):
        bind("no.such.host.invalid", 0)
    with bind("::1", 0) as six:
        assert six.getsockname()[0] == "::1"


# ---- A05: one store, and one rule for graphs that bring their own.


@pytest.mark.parametrize("name", ["theirs", "ours"])
def test_a_named_store_is_the_one_in_nodes_and_behind_the_routes_and_is_closed_in_the_end(
    start_server: StartServer, tmp_path: Path, name: str
) -> None:
    (tmp_path / "stores.py").write_text(STORES)
    server = start_server(store_section={"path": f"./stores.py:{name}"}, base=tmp_path)
    server.client.runs.wait(None, "memo", input={"n": 3})
    assert server.client.store.get_item(["graph", "mem"], "k")["value"] == {"v": 3}
    server.close()
    assert (tmp_path / "closed").exists() is (name == "theirs")
    again = start_server(settings=server.server.settings)
    assert again.client.store.get_item(["graph", "mem"], "k")["value"] == {"v": 3}


def test_a_graph_with_storage_of_its_own_is_served_with_the_servers_and_a_warning(
    start_server: StartServer, caplog: pytest.LogCaptureFixture
) -> None:
    mine, saver = LangGraphStore(), InMemorySaver()
    server = start_server(objects={"own": memo_with(store=mine, checkpointer=saver)})
    client = server.client
    thread = client.threads.create()["thread_id"]
    client.runs.wait(thread, "own", input={"n": 5})
    assert client.store.get_item(["graph", "mem"], "k")["value"] == {"v": 5}
    assert client.threads.get_state(thread)["values"]["answer"] == {"v": 5}
    assert mine.search(()) == []
    assert [*saver.list(None)] == []
    (warning,) = [each.getMessage() for each in caplog.records if "'own'" in each.getMessage()]
    assert "keep_graph_storage" in warning


def test_a_graph_keeps_storage_of_its_own_when_that_is_said(start_server: StartServer) -> None:
    mine = LangGraphStore()
    server = start_server(objects={"own": memo_with(store=mine)}, keep_graph_storage=True)
    server.client.runs.wait(None, "own", input={"n": 5})
    (item,) = mine.search(())
    assert item.value == {"v": 5}


# ---- what the settings say reaches the parts.


def test_settings_of_items_and_threads_are_in_force(start_server: StartServer) -> None:
    server = start_server(
        store_section={"index": {"language": "german"}, "ttl": {"default_ttl": 5}},
        thread_ttl=ThreadTTLSettings(default=ThreadTTL(60.0)),
        index_keys=("topic",),
        serde={"pickle_fallback": True, "allowed_msgpack_modules": [["decimal", "Decimal"]]},
    )
    client = server.client
    client.store.put_item(["a"], "k", {"text": "Häuser", "topic": "x"})
    assert [found["key"] for found in client.store.search_items(["a"], query="Haus")["items"]] == ["k"]
    item = httpx.get(f"{server.url}/store/items", params={"namespace": "a", "key": "k"}).json()
    assert item["expires_at"] is not None
    made = client.threads.create()["thread_id"]
    found = server.server.parts.storage.threads.get(made)
    assert found is not None
    assert found.ttl == ThreadTTL(60.0)
    saver: Any = server.server.saver
    assert saver.serde.pickle_fallback is True


def test_an_embedder_in_a_file_is_named_from_the_projects_folder(
    start_server: StartServer, tmp_path: Path
) -> None:
    (tmp_path / "embed.py").write_text(
        "def embed(texts):\n    return [[1.0, float(len(t))] for t in texts]\n"
    )
    index = {"embed": "./embed.py:embed", "dims": 2}
    client = start_server(store_section={"index": index}, base=tmp_path).client
    client.store.put_item(["a"], "k", {"text": "x"})
    (found,) = client.store.search_items(["a"], query="y")["items"]
    assert found["score"] is not None


def test_limits_are_in_force(start_server: StartServer) -> None:
    limits = replace(LIMITS, page_size=2, run_timeout=0.2, body_bytes=1_024)
    server = start_server(limits=limits)
    assert httpx.post(f"{server.url}/threads/search", json={"limit": 3}).status_code == 422
    assert httpx.post(f"{server.url}/threads", content=b" " * 1_025).status_code == 413
    client = server.client
    thread = client.threads.create()["thread_id"]
    run = client.runs.create(thread, "slow", input={"steps": 1, "delay": 60})["run_id"]
    eventually_now(lambda: client.runs.get(thread, run)["status"] == "timeout")


def test_expired_threads_are_freed_while_it_serves(start_server: StartServer) -> None:
    ttl = ThreadTTLSettings(default=ThreadTTL(0.0001), sweep_interval_minutes=0.001)
    client = start_server(thread_ttl=ttl).client
    client.threads.create()
    eventually_now(lambda: client.threads.count() == 0)


def test_each_graph_has_an_assistant_once_however_often_it_starts(start_server: StartServer) -> None:
    first = start_server("sqlite")
    before = first.client.assistants.search(limit=100)
    first.close()
    again = start_server(settings=first.server.settings)
    assert again.client.assistants.search(limit=100) == before
    assert {each["graph_id"] for each in before} == set(first.server.settings.graphs)


def test_a_store_that_is_passed_stays_open(new_settings: NewSettings, tmp_path: Path) -> None:
    with SqliteStore(str(tmp_path / "mine.db")) as mine:
        server = Server(new_settings("memory"), store=mine)
        server.start()
        assert server.parts.store is mine
        server.close()
        mine.put(("a",), "k", {})
        assert mine.get(("a",), "k") is not None


@pytest.mark.parametrize(
    "spelling",
    [
        "postgres://{place}",
        "postgresql+asyncpg://{place}&ssl=false&statement_cache_size=0",
        "postgresql://{place}&pgbouncer=true&connection_limit=5&sslmode=disable",
    ],
)
def test_a42_an_address_works_as_consoles_hand_it_out(
    new_settings: NewSettings, postgres: str, spelling: str
) -> None:
    address = spelling.format(place=postgres.partition("://")[2])
    server = Server(replace(new_settings("postgres"), postgres_uri=address))
    server.open()
    assert server.parts.store.search(()) == []
    server.close()
