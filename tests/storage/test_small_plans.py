"""How databases go about assistants, crons, idempotency records and deliveries: never over a whole table."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import psycopg
import pytest

from stateroom.clock import ManualClock
from stateroom.drivers.postgres import dialect as postgres_dialect
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.search.index_config import parse_index_config

ROWS = 20_000
SCHEMA = "small_plans"

PARAMETER = re.compile(r"(?<![:\w]):(\w+)")
LIST = re.compile(r"\{each (?:bigint )?:(\w+)\}")

FILL = (
    "insert into stateroom.thread (thread_id, status, created_at, updated_at, state_updated_at, metadata, "
    "config) {n} select 't' || i, 'idle', i, i, i, :doc, :doc from n",
    "insert into stateroom.run (run_id, thread_id, assistant_id, assistant_version, status, created_at, "
    "updated_at, available_at, multitask, metadata, kwargs) "
    "{n} select 'r' || i, 't' || i, 'a', 1, 'success', i, i, i, 'enqueue', :doc, :doc from n",
    "insert into stateroom.assistant (assistant_id, version, latest, graph_id, name, created_at, updated_at) "
    "{n} select 'a' || i, 1, 1, 'g' || i % 9, 'n' || i, i, i from n",
    "insert into stateroom.assistant_version (assistant_id, version, graph_id, name, description, config, "
    "context, metadata, created_at) "
    "{n} select 'a' || i % 999, i, 'g', 'n', null, :doc, :doc, :doc, i from n",
    "insert into stateroom.assistant_term (term, created_at, id) {n} select i % 99, i, 'a' || i from n",
    # A cron in ten is enabled, and each tenth of these is due.
    "insert into stateroom.cron (cron_id, assistant_id, thread_id, schedule, enabled, payload, metadata, "
    "on_run_completed, next_run_at, occurrence, created_at, updated_at) "
    "{n} select 'c' || i, 'a' || i % 999, 't' || i % 999, '* * * * *', i % 10 = 0, :doc, :doc, 'keep', "
    "case when i % 100 = 0 then i else :now + i end, 0, i, i from n",
    "insert into stateroom.cron_term (term, created_at, id) {n} select i % 99, i, 'c' || i from n",
    "insert into stateroom.idempotency (scope, key, fingerprint, claim_id, response, thread_id, run_id, "
    "created_at, expires_at) "
    "{n} select 's' || i % 9, 'k' || i, 'f', 'c', :doc, 't' || i, 'r' || i, i, "
    "case when i % 50 = 0 then i else :now + i end from n",
    # Most are done; of those that are not, half are due.
    "insert into stateroom.delivery (delivery_id, run_id, thread_id, url, payload, status, attempts, due_at, "
    "created_at, updated_at) "
    "{n} select 'd' || i, 'r' || i % 9999, 't' || i % 999, 'https://example.org', :doc, "
    "case i % 20 when 0 then 'pending' when 1 then 'delivering' when 2 then 'dead' else 'delivered' end, 1, "
    "case when i % 40 < 20 then i else :now + i end, i, i from n",
)

STATEMENTS = [
    (topic, name) for topic in ("assistants", "crons", "deliveries", "idempotency") for name in queries(topic)
]

BY_INDEX = {
    ("crons", "due"): "cron_due",
    ("crons", "next_run_at"): "cron_due",
    ("deliveries", "due"): "delivery_due",
    ("deliveries", "next_due_at"): "delivery_due",
    ("deliveries", "of_run"): "delivery_run",
    ("deliveries", "done"): "delivery_done",
    ("idempotency", "expired"): "idempotency_expires",
    ("idempotency", "sweep"): "idempotency_expires",
    ("assistants", "crons"): "cron_assistant",
}
"""By which index statements find their rows, and have them in order."""


def fill(storage: SqlStorage) -> None:
    """Write rows straight into the tables."""
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {ROWS})"  # noqa: S608

    def work(session: Session) -> None:
        for sql in FILL:
            session.execute(sql.replace("{n}", numbers), {"doc": b"{}"} if ":doc" in sql else {})

    storage.dialect.write(work)


@pytest.fixture(scope="module")
def sqlite(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqlStorage]:
    path = tmp_path_factory.mktemp("small_plans") / "server.db"
    storage = SqliteStorage(str(path), parse_index_config(None), clock=ManualClock())
    storage.open()
    fill(storage)
    yield storage
    storage.close()


@pytest.fixture(scope="module")
def server(postgres: str) -> Iterator[tuple[SqlStorage, psycopg.Connection[Any]]]:
    storage = PostgresStorage(postgres, parse_index_config(None), clock=ManualClock(), schema=SCHEMA)
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(f"drop schema if exists {SCHEMA} cascade")
        storage.open()
        fill(storage)
        connection.execute("analyze")
        yield storage, connection
        storage.close()
        connection.execute(f"drop schema {SCHEMA} cascade")


def sqlite_steps(storage: SqlStorage, sql: str) -> list[str]:
    """Return the steps by which SQLite carries a statement out."""
    parameters: dict[str, Any] = dict.fromkeys(PARAMETER.findall(sql))
    parameters |= {name: [] for name in LIST.findall(sql)}
    rows = storage.dialect.read(lambda session: session.fetch(f"explain query plan {sql}", parameters))
    return [row[3] for row in rows]


def postgres_steps(server: tuple[SqlStorage, psycopg.Connection[Any]], sql: str) -> list[str]:
    """Return the steps by which Postgres carries a statement out, which is prepared or planned by itself."""
    storage, connection = server
    if "Planned with its parameters" in sql:
        parameters = {"expires_at": 5_000, "scope": "s1", "key": "k5000"}
        explain = f"explain (costs off) {sql}"
        rows = storage.dialect.read(lambda session: session.fetch(explain, parameters, planned=True))
    else:
        rows = connection.execute(f"explain (generic_plan, costs off) {numbered(sql)}".encode()).fetchall()
    return [row[0] for row in rows]


def numbered(sql: str) -> str:
    """Return a statement as Postgres prepares it."""
    spelled = postgres_dialect._spelled(sql).replace("stateroom.", f"{SCHEMA}.").replace("%%", "%")
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", spelled)))
    for number, name in enumerate(names, 1):
        spelled = spelled.replace(f"%({name})s", f"${number}")
    return spelled


Steps = Callable[[str], list[str]]


@pytest.fixture(params=["sqlite", "postgres"])
def steps(request: pytest.FixtureRequest) -> Steps:
    """Return what explains a statement, on each database."""
    if request.param == "sqlite":
        return partial(sqlite_steps, request.getfixturevalue("sqlite"))
    return partial(postgres_steps, request.getfixturevalue("server"))


def whole(steps: list[str]) -> list[str]:
    """Return the steps that read a whole table of ours; an index of what is due has the first row of all."""
    return [
        step
        for step in steps
        if re.match(r"SCAN (stateroom_\w+|\w)( USING INDEX (?!\w+_due$)|$)", step)
        or re.search(r"Seq Scan on (assistant|cron|idempotency|delivery|thread|run)", step)
    ]


@pytest.mark.parametrize(("topic", "name"), STATEMENTS, ids=str)
def test_no_statement_reads_a_whole_table(steps: Steps, topic: str, name: str) -> None:
    assert whole(steps(queries(topic)[name])) == []


@pytest.mark.parametrize(("topic", "name"), BY_INDEX, ids=str)
def test_what_comes_in_an_order_comes_from_an_index_in_that_order(
    steps: Steps, topic: str, name: str
) -> None:
    taken = steps(queries(topic)[name])
    assert any(re.search(rf"\b(stateroom_)?{BY_INDEX[topic, name]}\b", step) for step in taken), taken


@pytest.mark.parametrize(
    ("topic", "name"),
    [
        *(("crons", "due"), ("crons", "next_run_at"), ("idempotency", "expired")),
        *(("deliveries", "due"), ("deliveries", "next_due_at"), ("deliveries", "done")),
    ],
    ids=str,
)
def test_what_is_due_is_not_sorted(steps: Steps, topic: str, name: str) -> None:
    taken = steps(queries(topic)[name])
    assert not [step for step in taken if re.search(r"\bSort\b|TEMP B-TREE", step)], taken


def test_the_check_sees_whole_tables(steps: Steps) -> None:
    for sql in (
        "select error from stateroom.cron where schedule = :schedule",
        "select a.name from stateroom.assistant a where a.updated_at + 1 = :moment",
        "delete from stateroom.delivery where url = :url",
    ):
        assert whole(steps(sql)), steps(sql)
