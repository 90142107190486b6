"""Threads that go, whole or but for their latest state, and what is left of them: nothing."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any
from uuid import uuid4

import httpx
import psycopg
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import NotFoundError
from psycopg import sql

from stateroom.drivers.sql.deletions import Deletions
from stateroom.errors import Unavailable
from stateroom.settings import Settings
from tests.server.conftest import Running, eventually

_TABLES = (
    "select table_schema, table_name from information_schema.tables where table_type = 'BASE TABLE' "
    "and table_schema not in ('pg_catalog', 'information_schema')"
)


SPOKEN: Any = {"messages": ["x"]}
LOGGED: Any = {"log": ["x"]}


def in_sqlite(settings: Settings, needle: str) -> Iterator[str]:
    """Yield the tables of a file some row of which holds a text, in whatever form."""
    with closing(sqlite3.connect(settings.base / settings.sqlite_path)) as connection:
        tables = connection.execute("select name from sqlite_master where type = 'table'").fetchall()
        assert len(tables) > 10
        for (table,) in tables:
            for row in connection.execute(f'select * from "{table}"'):  # noqa: S608  # a name from the file
                if needle in repr(row):
                    yield table


def in_postgres(settings: Settings, needle: str) -> Iterator[str]:
    """Yield the tables of a server some row of which holds a text, also as bytes."""
    with psycopg.connect(str(settings.postgres_uri)) as connection:
        tables = connection.execute(_TABLES).fetchall()
        assert len(tables) > 10
        for table in tables:
            look = sql.SQL("select count(*) from {} t where t::text like %s or t::text like %s")
            wanted = [f"%{text}%" for text in (needle, needle.encode().hex())]
            row = connection.execute(look.format(sql.Identifier(*table)), wanted).fetchone()
            if row and row[0]:
                yield ".".join(table)


@pytest.fixture
def places(running: Running) -> Callable[[str], set[str]]:
    """Return what tells in which tables of the shared server a text is."""
    settings = running.server.settings
    look = in_postgres if settings.storage == "postgres" else in_sqlite
    return lambda needle: set(look(settings, needle))


async def fill(client: LangGraphClient, http: httpx.AsyncClient) -> str:
    """Make a thread that has runs, frames, subgraphs, a question, a cron, and an answer to be given again."""
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "slow", input={"steps": 2})
    await client.runs.wait(identity, "echo", input=SPOKEN)
    await client.runs.wait(identity, "subgraph", input=LOGGED)
    await client.crons.create_for_thread(identity, "echo", schedule="0 0 1 1 *", input={})
    body = {"assistant_id": "echo", "input": {}, "after_seconds": 3600}
    key = {"Idempotency-Key": uuid4().hex}
    assert (await http.post(f"/threads/{identity}/runs", json=body, headers=key)).status_code == 200
    return identity


async def test_a21_nothing_of_a_deleted_thread_is_anywhere(
    client: LangGraphClient, http: httpx.AsyncClient, places: Callable[[str], set[str]]
) -> None:
    identity = await fill(client, http)
    assert len(places(identity)) >= 6
    assert (await client.threads.get(identity))["status"] == "interrupted"
    await client.threads.delete(identity)
    assert places(identity) == set()
    for call in (client.threads.get(identity), client.threads.delete(identity)):
        with pytest.raises(NotFoundError):
            await call
    # The id is free, and brings nothing back.
    await client.threads.create(thread_id=identity, graph_id="slow")
    assert await client.threads.get_history(identity) == []
    assert await client.runs.list(identity) == []


async def test_a21_a_deletion_that_was_cut_short_is_finished_by_the_next(
    client: LangGraphClient,
    http: httpx.AsyncClient,
    places: Callable[[str], set[str]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    identity = await fill(client, http)

    def die(*_: Any) -> None:
        raise Unavailable("the machine stopped")

    with monkeypatch.context() as patch:
        patch.setattr(Deletions, "finish", die)
        assert (await http.delete(f"/threads/{identity}")).status_code == 503
    assert places(identity)
    assert (await http.get(f"/threads/{identity}")).status_code == 404
    assert (await http.delete(f"/threads/{identity}")).status_code == 404
    assert places(identity) == set()


async def test_a_run_of_a_deleted_thread_is_stopped(
    client: LangGraphClient, places: Callable[[str], set[str]]
) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.create(identity, "slow", input={"steps": 10_000, "delay": 0.02})

    async def is_busy() -> bool:
        return (await client.threads.get(identity))["status"] == "busy"

    await eventually(is_busy)
    await client.threads.delete(identity)
    await eventually(lambda: places(identity) == set())
    # Nor does what it was doing come back.
    await client.runs.wait(None, "slow", input={"steps": 3})
    assert places(identity) == set()


async def test_pruning_removes_those_that_are_named_and_no_others(client: LangGraphClient) -> None:
    made = [str((await client.threads.create())["thread_id"]) for _ in range(4)]
    assert await client.threads.prune([*made[:2], made[0], str(uuid4())]) == {"pruned_count": 2}
    left = await client.threads.search(ids=made)
    assert {each["thread_id"] for each in left} == set(made[2:])


async def test_pruning_can_keep_the_latest_state(client: LangGraphClient) -> None:
    identity = str((await client.threads.create(graph_id="slow"))["thread_id"])
    await client.runs.wait(identity, "slow", input={"steps": 5})
    before = await client.threads.get_state(identity)
    assert len(await client.threads.get_history(identity, limit=100)) > 5
    assert await client.threads.prune([identity], strategy="keep_latest") == {"pruned_count": 1}
    (left,) = await client.threads.get_history(identity, limit=100)
    after = await client.threads.get_state(identity)
    assert left["checkpoint"] == after["checkpoint"] == before["checkpoint"]
    assert after["values"] == before["values"]
    # It goes on from there.
    final: Any = await client.runs.wait(identity, "slow", input={"steps": 8})
    assert final["n"] == 8


async def test_a_question_outlives_pruning(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "subgraph", input={})
    before = await client.threads.get_state(identity, subgraphs=True)
    assert await client.threads.prune([identity], strategy="keep_latest") == {"pruned_count": 1}
    after = await client.threads.get_state(identity, subgraphs=True)
    assert after["interrupts"] == before["interrupts"] != []
    final: Any = await client.runs.wait(identity, "subgraph", command={"resume": "yes"})
    assert final["answer"] == "yes"


async def test_the_past_of_a_thread_is_kept_while_a_run_may_need_it(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "slow", input={"steps": 3})
    await client.runs.create(identity, "slow", input={}, after_seconds=3600)
    length = len(await client.threads.get_history(identity, limit=100))
    assert await client.threads.prune([identity], strategy="keep_latest") == {"pruned_count": 0}
    assert len(await client.threads.get_history(identity, limit=100)) == length
    assert await client.threads.prune([identity]) == {"pruned_count": 1}


@pytest.mark.parametrize(
    ("body", "status", "field"),
    [
        ({"thread_ids": []}, 400, "thread_ids"),
        ({"thread_ids": ["a"] * 1001}, 413, "thread_ids"),
        ({"thread_ids": ["a"], "strategy": "archive"}, 422, "strategy"),
        ({}, 422, "thread_ids"),
        ({"thread_ids": "a"}, 422, "thread_ids"),
    ],
)
async def test_what_cannot_be_pruned_is_refused(
    http: httpx.AsyncClient, body: dict[str, Any], status: int, field: str
) -> None:
    answer = await http.post("/threads/prune", json=body)
    assert (answer.status_code, answer.json()["field"]) == (status, field)


async def test_a_thousand_threads_can_be_pruned_at_once(http: httpx.AsyncClient) -> None:
    answer = await http.post("/threads/prune", json={"thread_ids": [f"nobody-{n}" for n in range(1000)]})
    assert answer.json() == {"pruned_count": 0}
