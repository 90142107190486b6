"""How Postgres answers a saver's statements, when one thread has much more than others have on average."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from psycopg_pool import ConnectionPool

from stateroom.drivers.postgres.checkpoint_migrations import RUN_INDEX
from stateroom.drivers.postgres.checkpoints import ONE, checkpoint_database, statements
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.dialect import PostgresDialect
from stateroom.savers.postgres import PostgresSaver
from tests.faults.watching import Watch

CHECKPOINTS = """
insert into {}.checkpoints (thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata)
select case when n <= 3000 then 'large' else n::text end, lpad(n::text, 8, '0'), lpad((n - 1)::text, 8, '0'),
    jsonb_build_object('v', 4, 'channel_versions', jsonb_build_object('a', n::text)),
    jsonb_build_object('run_id', 'run ' || n / 5)
from generate_series(1, 4000) n
"""
BLOBS = """
insert into {}.checkpoint_blobs (thread_id, channel, version, type, blob)
select thread_id, 'a', checkpoint -> 'channel_versions' ->> 'a', 'msgpack', '\\x90' from {}.checkpoints
"""
WRITES = """
insert into {}.checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob)
select thread_id, checkpoint_id, 'task', n, 'a', 'msgpack', '\\x90'
from {}.checkpoints, generate_series(0, 2) n
"""

PAGES_MAX = 60
"""Pages that a look-up may look at, of the hundreds that each table has."""

PLANS: dict[str, tuple[dict[str, Any], set[str]]] = {
    "load": (
        {"thread_id": "large", "ns": "", "checkpoint_id": None},
        {"checkpoints_pkey", "checkpoint_blobs_pkey", "checkpoint_writes_pkey"},
    ),
    "newest": ({"thread_id": "large", "ns": "", "count": 2}, {"checkpoints_pkey"}),
    "parent": ({"thread_id": "large", "ns": "", "checkpoint_id": "00002000"}, {"checkpoints_pkey"}),
    "lineage": (
        {"thread_id": "large", "ns": "", "checkpoint_id": "00002000", "most": 5},
        {"checkpoints_pkey"},
    ),
    "namespaces": ({"thread_id": "large"}, {"checkpoints_pkey", "checkpoint_writes_pkey"}),
    "of_run": ({"run_id": "run 100"}, {RUN_INDEX}),
    "starts": ({"thread_id": "large", "checkpoint_id": None}, {"checkpoints_pkey"}),
}


@pytest.fixture(scope="module")
def watch(postgres: str) -> Iterator[Watch]:
    watch = Watch(postgres, "plans_of_savers")
    with PostgresSaver(watch.uri, schema=watch.name):
        pass
    for statement in (CHECKPOINTS, BLOBS, WRITES):
        watch.execute(statement)
    for table in ("checkpoints", "checkpoint_blobs", "checkpoint_writes"):
        watch.execute("analyze {}." + table)
    yield watch
    watch.execute("drop schema {} cascade")


@pytest.fixture
def database(watch: Watch) -> Iterator[Database]:
    database = checkpoint_database(watch.uri, schema=watch.name, pool=None, prepares=True)
    yield database
    database.close()


def pages(plan: str) -> int:
    """Return how many pages the whole of a statement looked at."""
    return sum(int(number) for number in re.findall(r"(?:hit|read)=(\d+)", plan.splitlines()[1]))


@pytest.mark.parametrize("name", PLANS)
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_it_looks_rows_up_by_their_keys(database: Database, name: str, mode: str) -> None:
    asked, indexes = PLANS[name]

    def explained(session: Any) -> str:
        session.execute(f"set local plan_cache_mode = {mode}")
        sql = statements()[name].replace("{keys}", ONE)
        rows = session.fetch(f"explain (analyze, costs off, timing off) {sql}", asked)
        return "\n".join(line for (line,) in rows)

    plan = PostgresDialect(database).write(explained)
    assert "Seq Scan" not in plan, plan
    assert all(index in plan for index in indexes), plan
    assert pages(plan) < PAGES_MAX, plan
    assert "thread_id_idx" not in plan, plan


def test_a_page_of_a_thread_is_read_in_the_order_of_the_index(database: Database) -> None:
    asked = dict.fromkeys(["checkpoint_id", "before", "contains", "after_thread", "after_ns", "after_id"])

    def explained(session: Any) -> str:
        given = {**asked, "thread_id": "large", "ns": "", "limit": 10, "wants_metadata": False}
        rows = session.fetch(f"explain (analyze, costs off) {statements()['keys']}", given, planned=True)
        return "\n".join(line for (line,) in rows)

    plan = PostgresDialect(database).read(explained)
    assert "Sort" not in plan, plan
    assert re.search("Index (Only )?Scan Backward using checkpoints_pkey", plan), plan


def test_what_a_run_needs_again_and_again_is_planned_once(watch: Watch) -> None:
    with (
        ConnectionPool(watch.uri, open=True, min_size=1, max_size=1) as pool,
        PostgresSaver(pool=pool, schema=watch.name) as saver,
    ):
        config: Any = {"configurable": {"thread_id": "often", "checkpoint_ns": ""}}
        for number in range(20):
            made = {
                **empty_checkpoint(),
                "channel_values": {"a": [1]},
                "channel_versions": {"a": f"{number}"},
            }
            saved = saver.put(config, made, {}, made["channel_versions"])  # type: ignore[arg-type]
            saver.put_writes(saved, [("a", 1)], "task")
            assert saver.get_tuple(config) is not None
        with pool.connection() as connection:
            rows = connection.execute(
                "select statement, generic_plans, custom_plans from pg_prepared_statements"
            ).fetchall()
    plans = {statement: (generic, custom) for statement, generic, custom in rows}
    assert len(plans) == 3
    assert all(generic >= 10 and custom <= 5 for generic, custom in plans.values()), rows
