"""What is a run's alone (A45): it reaches the graph, and is nowhere when the run has ended."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
from collections.abc import Iterator
from typing import Annotated, Any

import httpx
import psycopg
import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from langgraph_sdk import Auth, get_client
from psycopg import sql
from typing_extensions import TypedDict

from stateroom.settings import HttpSettings, Settings
from tests.server.conftest import Running, StartServer

CONTEXT = "SECRET-1-of-the-context"
USER = "SECRET-2-of-the-user"
CONFIGURED = "SECRET-3-of-the-configurable"
HEADER = "SECRET-4-of-the-header"
RESUMED = "SECRET-5-of-the-resumed-run"
SECRETS = (CONTEXT, USER, CONFIGURED, HEADER, RESUMED)


class State(TypedDict, total=False):
    seen: Annotated[list[str], lambda kept, new: [*kept, *new]]


class Context(TypedDict, total=False):
    jwt: str


def digest(text: Any) -> str:
    return hashlib.sha256(str(text).encode()).hexdigest()


def look(_: State, config: RunnableConfig, *, runtime: Runtime[Context]) -> dict[str, Any]:
    """Say what of the caller has come here, so that it can be known again and not be read."""
    found = config["configurable"]
    user = found["langgraph_auth_user"]
    secrets = (runtime.context["jwt"], user["token"], found["api_key"], found["x-session"])
    return {"seen": [digest(secret) for secret in secrets]}


def ask(_: State, runtime: Runtime[Context]) -> dict[str, Any]:
    answer = interrupt("go on?")
    return {"seen": [digest(runtime.context["jwt"]), str(answer)]}


def graph() -> Any:
    # LangGraph passes both, but its types know no node that takes both.
    built: Any = StateGraph(State, context_schema=Context)
    built.add_node("look", look).add_node("ask", ask)
    return built.add_edge(START, "look").add_edge("look", "ask").add_edge("ask", END).compile()


def rules() -> Auth:
    auth = Auth()

    @auth.authenticate
    async def who() -> dict[str, Any]:
        return {"identity": "ann", "token": USER}

    return auth


def stored(settings: Settings) -> Iterator[tuple[str, bytes]]:
    """Yield every row of every table, as bytes."""
    if settings.storage == "sqlite":
        with sqlite3.connect(settings.base / settings.sqlite_path) as database:
            for (table,) in database.execute(
                "select name from sqlite_master where type = 'table'"
            ).fetchall():
                for row in database.execute(f'select * from "{table}"'):  # noqa: S608
                    yield table.removeprefix("stateroom_"), b"|".join(as_bytes(value) for value in row)
        return
    with psycopg.connect(settings.postgres_uri or "", autocommit=True) as connection:
        tables = connection.execute(
            "select table_name from information_schema.tables where table_schema = %s",
            (settings.postgres_schema,),
        ).fetchall()
        for (table,) in tables:
            name = sql.Identifier(settings.postgres_schema, table)
            for row in connection.execute(sql.SQL("select * from {}").format(name)):
                yield table, b"|".join(as_bytes(value) for value in row)


def as_bytes(value: Any) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else repr(value).encode()


@pytest.fixture
def server(kind: str, start_server: StartServer) -> Running:
    http = HttpSettings(configurable_includes=("x-session",))
    return start_server(kind, auth=rules(), objects={"g": graph()}, http=http)


async def test_what_is_a_runs_alone_reaches_the_graph_and_is_kept_nowhere(
    server: Running, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    said: Any = {"config": {"configurable": {"api_key": CONFIGURED, "model": "m"}}}
    told: list[str] = []
    async with get_client(url=server.url, api_key=None, headers={"x-session": HEADER}) as client:
        thread_id = (await client.threads.create())["thread_id"]
        asked: Any = await client.runs.wait(thread_id, "g", input={}, context={"jwt": CONTEXT}, **said)
        assert asked["seen"] == [digest(secret) for secret in (CONTEXT, USER, CONFIGURED, HEADER)]
        modes: Any = ["values", "updates", "debug", "tasks", "checkpoints", "events", "messages-tuple"]
        command: Any = {"resume": "yes"}
        stream = client.runs.stream(
            thread_id, "g", command=command, context={"jwt": RESUMED}, stream_mode=modes, **said
        )
        told += [str(part) async for part in stream]
        runs = await client.runs.list(thread_id)
        state: Any = await client.threads.get_state(thread_id)
        # The resumed run had the context of its own request.
        assert state["values"]["seen"][-2:] == [digest(RESUMED), "yes"]
        for found in (
            state,
            runs,
            await client.threads.get(thread_id),
            await client.threads.search(),
            await client.threads.get_history(thread_id, limit=100),
            [await client.runs.join(thread_id, run["run_id"]) for run in runs],
            [str(part) for run in runs async for part in client.runs.join_stream(thread_id, run["run_id"])],
        ):
            told.append(str(found))
    assert [secret for secret in SECRETS if secret in "".join(told)] == []
    assert [secret for secret in SECRETS if secret in caplog.text] == []
    settings = server.server.settings
    rows = list(stored(settings))
    assert {table for table, _ in rows} >= {"run", "thread"}
    assert [(table, secret) for table, row in rows for secret in SECRETS if secret.encode() in row] == []


async def test_what_is_kept_apart_is_there_until_the_run_ends(server: Running) -> None:
    async with get_client(url=server.url, api_key=None) as client:
        thread_id = (await client.threads.create())["thread_id"]
        run = await client.runs.create(thread_id, "g", input={}, context={"jwt": CONTEXT}, after_seconds=3600)
        settings = server.server.settings
        assert [table for table, row in stored(settings) if CONTEXT.encode() in row] == ["run"]
        await client.runs.cancel(thread_id, run["run_id"])
        assert [table for table, row in stored(settings) if CONTEXT.encode() in row] == []


async def test_a_cron_shows_nothing_of_what_is_its_runs_alone(server: Running) -> None:
    body = {
        "assistant_id": "g",
        "schedule": "0 0 1 1 *",
        "context": {"jwt": CONTEXT},
        "config": {"configurable": {"api_key": CONFIGURED}},
    }
    async with httpx.AsyncClient(base_url=server.url) as http:
        made = await http.post("/runs/crons", json=body)
        assert made.status_code == 200
        path = f"/runs/crons/{made.json()['cron_id']}"
        changed = await http.patch(path, json={"context": {"jwt": RESUMED}})
        found = await http.post("/runs/crons/search", json={"select": ["payload", "metadata", "user_id"]})
        told = made.text + changed.text + found.text + (await http.get(path)).text
    assert [secret for secret in SECRETS if secret in told] == []
    assert made.json()["user_id"] == "ann"
