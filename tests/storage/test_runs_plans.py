"""How the databases go about the queue: by an index, over a few rows, whatever waits and has ended."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Mapping
from itertools import count
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.errors import ThreadBusy
from stateroom.model.run import CancelAction, Multitask, RunStatus
from stateroom.search.index_config import parse_index_config
from stateroom.testing.parts.storage_queue_steps import end
from stateroom.testing.storage_harness import LEASE, make_run
from tests.conftest import NewSchema

RUNS = 20_000
THREADS = 10_000
BUSY = 1_000
ROWS_MAX = 400
"""Rows that one operation may look at in Postgres, where each change leaves one behind."""

STEPS_MAX = 20_000
"""Steps that SQLite's machine may take for one operation; a page of ten runs takes about a thousand."""

START = ManualClock().microseconds

FILL = (
    # One thread on which very many wait, behind very many that have ended.
    """
    insert into stateroom.run (run_id, thread_id, assistant_id, assistant_version, status, created_at,
        updated_at, available_at, ended_at, multitask, metadata, kwargs)
    select 'old' || value, 'long', 'a', 1, 'success', :at, :at, :at, :at, 'enqueue', :json, :json
    from {each :runs}
    """,
    """
    insert into stateroom.run (run_id, thread_id, assistant_id, assistant_version, status, created_at,
        updated_at, available_at, multitask, metadata, kwargs)
    select 'new' || value, 'long', 'a', 1, 'pending', :at, :at, cast(:at as bigint) + 1, 'enqueue',
        :json, :json
    from {each :runs}
    """,
    # Very many threads on which one waits.
    """
    insert into stateroom.thread (thread_id, status, created_at, updated_at, state_updated_at, metadata,
        config, next_at)
    select 'wide' || value, 'idle', :at, :at, :at, :json, :json, cast(:at as bigint) + 2 from {each :threads}
    """,
    """
    insert into stateroom.run (run_id, thread_id, assistant_id, assistant_version, status, created_at,
        updated_at, available_at, multitask, metadata, kwargs)
    select 'one' || value, 'wide' || value, 'a', 1, 'pending', :at, :at, cast(:at as bigint) + 2, 'enqueue',
        :json, :json
    from {each :threads}
    """,
    # Many that are executed.
    """
    insert into stateroom.thread (thread_id, status, created_at, updated_at, state_updated_at, metadata,
        config)
    select 'busy' || value, 'busy', :at, :at, :at, :json, :json from {each :busy}
    """,
    """
    insert into stateroom.run (run_id, thread_id, assistant_id, assistant_version, status, created_at,
        updated_at, available_at, multitask, metadata, kwargs, attempt, fence, lease_owner, lease_until)
    select 'run' || value, 'busy' || value, 'a', 1, 'running', :at, :at, :at, 'enqueue', :json, :json, 1, 1,
        'w', cast(:at as bigint) + 1000000 * cast(value as bigint)
    from {each :busy}
    """,
    "update stateroom.thread set next_at = cast(:at as bigint) + 1 where thread_id = 'long'",
)


def fill(storage: SqlStorage) -> None:
    """Write many runs straight into the tables."""
    storage.threads.create(NewThread("long"))
    given: dict[str, Any] = {
        "at": START,
        "json": b"{}",
        "runs": [f"{number:06}" for number in range(RUNS)],
        "threads": [f"{number:06}" for number in range(THREADS)],
        "busy": [str(number) for number in range(1, BUSY + 1)],
    }

    def work(session: Session) -> None:
        for sql in FILL:
            names = set(re.findall(r":(\w+)", sql)) & given.keys()
            session.execute(sql, {name: given[name] for name in names})

    storage.dialect.write(work)


def rejected(storage: Storage) -> None:
    """Make a run that wants to be alone, and is not."""
    with pytest.raises(ThreadBusy):
        make_run(storage, "alone", "long", multitask=Multitask.REJECT)


def reaped_later(storage: Storage, clock: ManualClock) -> None:
    """Reap when more leases have ended."""
    clock.advance(seconds=5)
    storage.runs.reap(limit=3, max_attempts=2)


def operations(storage: Storage, clock: ManualClock, first: int) -> Mapping[str, Callable[[], object]]:
    """Return what must be done over few rows, each by a name."""
    runs = storage.runs
    stopped = runs.claim("w", lease=LEASE, limit=20)
    numbers = count(first)
    one = RunQuery(run_ids=[f"new{first + 900:06}"])
    pending = RunQuery("long", statuses=[RunStatus.PENDING, RunStatus.ERROR])
    return {
        "create": lambda: make_run(storage, f"made{next(numbers)}", "long"),
        "create alone": lambda: rejected(storage),
        "claim": lambda: runs.claim("w", lease=LEASE),
        "claim some": lambda: runs.claim("w", lease=LEASE, limit=10),
        "settle": lambda: end(storage, stopped.pop(), values={"x": 1}),
        "release": lambda: runs.release(stopped.pop().lease),
        "renew": lambda: runs.renew([run.lease for run in stopped[:5]], lease=LEASE),
        "is current": lambda: runs.is_current(stopped[0].lease),
        "mark": lambda: runs.mark(stopped[0].lease),
        "reap": lambda: runs.reap(limit=10, max_attempts=2),
        "reap lost": lambda: reaped_later(storage, clock),
        "reap all": lambda: runs.reap(limit=10, everybody=True),
        "next available": runs.next_available_at,
        "get": lambda: runs.get("new000100"),
        "search": lambda: runs.search(RunQuery(), limit=10),
        "search a thread": lambda: runs.search(RunQuery("long"), limit=10),
        "search a rare status": lambda: runs.search(pending, limit=10),
        "search a status": lambda: runs.search(RunQuery(statuses=[RunStatus.RUNNING]), limit=10),
        "search ids": lambda: runs.search(RunQuery(run_ids=["new000100", "old000100"])),
        "count some": lambda: runs.count(RunQuery("long"), at_most=50),
        "search a rarer status": lambda: runs.search(RunQuery(statuses=[RunStatus.TIMEOUT]), limit=10),
        "cancel the oldest": lambda: runs.cancel(
            RunQuery(statuses=[RunStatus.RUNNING]), CancelAction.INTERRUPT, limit=10
        ),
        "cancel one": lambda: runs.cancel(one, CancelAction.INTERRUPT),
        "cancel some": lambda: runs.cancel(RunQuery("long"), CancelAction.ROLLBACK, limit=10),
        "delete": lambda: runs.delete(f"new{first + 901:06}"),
    }


def steps_of(storage: SqliteStorage, act: Callable[[], object]) -> int:
    """Return how many steps SQLite's machine takes for an action, on the one connection of a memory."""
    steps = 0

    def step() -> int:
        nonlocal steps
        steps += 1
        return 0

    def listen(connection: sqlite3.Connection) -> None:
        connection.set_progress_handler(step, 1)

    storage.items.database.read(listen)
    act()
    storage.items.database.read(lambda connection: connection.set_progress_handler(None, 0))
    return steps


def test_sqlite_takes_few_steps() -> None:
    clock = ManualClock()
    storage = SqliteStorage(":memory:", parse_index_config(None), clock=clock)
    storage.open()
    fill(storage)
    clock.microseconds = START + 5
    costs = {name: steps_of(storage, act) for name, act in operations(storage, clock, 0).items()}
    storage.close()
    assert {name: cost for name, cost in costs.items() if cost > STEPS_MAX} == {}
    assert sum(costs.values()) > len(costs)


ROWS_READ = """
select (select sum(seq_tup_read) from pg_stat_user_tables where schemaname = :name)
    + (select sum(idx_tup_read) from pg_stat_user_indexes where schemaname = :name)
"""


def rows_of(storage: PostgresStorage, schema: str, act: Callable[[], object]) -> int:
    """Return how many rows and entries of indexes Postgres reads for an action, on the one connection."""

    def read(session: Session) -> int:
        session.fetch("select pg_stat_force_next_flush()")
        ((rows,),) = session.fetch(ROWS_READ, {"name": schema})
        return int(rows)

    before = storage.dialect.read(read)
    act()
    return storage.dialect.read(read) - before


def analyze(session: Session) -> None:
    """Let Postgres know what the tables hold."""
    session.execute("analyze stateroom.thread")
    session.execute("analyze stateroom.run")


PLANNED = re.compile("search|count|cancel|reap")
"""Operations whose statements are planned with their parameters each time."""


def test_postgres_reads_few_rows(postgres: str, new_schema: NewSchema) -> None:
    clock, schema = ManualClock(START + 5), new_schema()
    settings = parse_index_config(None)
    storage = PostgresStorage(postgres, settings, clock=clock, schema=schema)
    storage.open()
    fill(storage)
    costs: dict[tuple[str, bool, str], int] = {}
    modes = [(analyzed, mode) for analyzed in (False, True) for mode in ("auto", "force_generic_plan")]
    for number, (analyzed, mode) in enumerate(modes):
        if analyzed:
            storage.dialect.write(analyze)
        # What is prepared is planned without its parameters once it has been used a few times.
        uri = f"{postgres}{'&' if '?' in postgres else '?'}options=-c%20plan_cache_mode%3D{mode}"
        pool: dict[str, Any] = {"min_size": 1, "max_size": 1}
        one = PostgresStorage(uri, settings, clock=clock, schema=schema, pool=pool)
        for name, act in operations(one, clock, number * 1000).items():
            if name == "count some" and not analyzed:
                # Of a table that it does not know, Postgres expects that the thread has few runs.
                continue
            if mode == "auto" or not PLANNED.match(name):
                costs[name, analyzed, mode] = rows_of(one, schema, act)
        one.close()
    storage.close()
    assert {name: cost for name, cost in costs.items() if cost > ROWS_MAX} == {}
    assert sum(costs.values()) > len(costs)
