"""Making LangGraph's tables of checkpoints, or bringing older ones up to date, beside whoever uses them."""

from __future__ import annotations

import logging
from typing import Final

from psycopg import errors

from stateroom.drivers.postgres.migrations import Hindered
from stateroom.drivers.postgres.session import Session

__all__ = ["RUN_INDEX", "is_current", "migrate_checkpoints"]

RUN_INDEX: Final = "checkpoints_run_id_idx"
"""Our own index, by which the checkpoints of a run are found, on whatever thread they are."""

LOCK_TIMEOUT: Final = "500ms"
"""How long a change of a table waits for who uses it, since everybody else waits behind it meanwhile."""

_TABLES: Final = {
    "checkpoints": (
        "thread_id text not null, checkpoint_ns text not null default '', checkpoint_id text not null, "
        "parent_checkpoint_id text, type text, checkpoint jsonb not null, "
        "metadata jsonb not null default '{}', primary key (thread_id, checkpoint_ns, checkpoint_id)"
    ),
    "checkpoint_blobs": (
        "thread_id text not null, checkpoint_ns text not null default '', channel text not null, "
        "version text not null, type text not null, blob bytea, "
        "primary key (thread_id, checkpoint_ns, channel, version)"
    ),
    "checkpoint_writes": (
        "thread_id text not null, checkpoint_ns text not null default '', checkpoint_id text not null, "
        "task_id text not null, idx integer not null, channel text not null, type text, "
        "blob bytea not null, task_path text not null default '', "
        "primary key (thread_id, checkpoint_ns, checkpoint_id, task_id, idx)"
    ),
}

_INDEXES: Final = {
    "checkpoints_thread_id_idx": "checkpoints (thread_id)",
    "checkpoint_blobs_thread_id_idx": "checkpoint_blobs (thread_id)",
    "checkpoint_writes_thread_id_idx": "checkpoint_writes (thread_id)",
    RUN_INDEX: "checkpoints ((metadata ->> 'run_id')) where (metadata ->> 'run_id') is not null",
}

_LAST: Final = 9
"""The number of LangGraph's last migration that is known here; a ledger that is further is left alone."""

_BEFORE_INDEXES: Final = 5
"""The last of its migrations before those that make indexes."""

_HINDRANCES: Final = (
    errors.LockNotAvailable,
    errors.DeadlockDetected,
    errors.UniqueViolation,
    errors.DuplicateTable,
    errors.DuplicateObject,
    errors.DuplicateColumn,
)
"""What shows that somebody else, such as LangGraph's own savers, uses or makes the tables at the moment."""

_log = logging.getLogger(__name__)


def is_current(session: Session) -> bool:
    """Tell whether nothing is left to do; takes no lock."""
    try:
        rows = session.fetch(
            "select max(v) >= %(last)s from stateroom.checkpoint_migrations", {"last": _LAST}
        )
    except (errors.UndefinedTable, errors.InvalidSchemaName):
        return False
    return bool(rows[0][0]) and (not _may_index(session) or _is_valid(session, RUN_INDEX))


def migrate_checkpoints(session: Session, schema: str) -> None:
    """Make the tables and indexes that LangGraph's ``setup`` would, and note so in its ledger.

    It waits for nobody who uses the tables for long: ``Hindered`` says that it has to be tried again, and
    indexes of tables that have rows are built beside their users. Only one process of ours at a time may
    do this (``in_turn``); LangGraph's own may do it meanwhile.
    """
    try:
        _migrate(session, schema)
    except _HINDRANCES as error:
        raise Hindered(f"schema: somebody uses the tables of checkpoints in {schema!r} ({error})") from error


def _migrate(session: Session, schema: str) -> None:
    if not session.fetch("select 1 from pg_namespace where nspname = %(schema)s", {"schema": schema}):
        session.script(f'create schema if not exists "{schema}"')
    with session.connection.transaction():
        session.script(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        is_new = _make_tables(session)
        _make_indexes_of_empty(session)
        _note(session, _BEFORE_INDEXES if _missing(session) else _LAST)
    if is_new and schema != "public":
        _mention_public(session, schema)
    for name in _missing(session):
        _build_beside(session, name, _INDEXES[name])
    _note(session, _LAST)


def _make_tables(session: Session) -> bool:
    """Make what is missing of tables and columns; tell whether there was no table of checkpoints."""
    if not _is_there(session, "checkpoint_migrations"):
        session.script("create table stateroom.checkpoint_migrations (v integer primary key)")
    # LangGraph's setup reads the ledger, does what is missing, and writes to it: it has to wait here.
    session.script("lock table stateroom.checkpoint_migrations in access exclusive mode")
    is_new = not _is_there(session, "checkpoints")
    for name, columns in _TABLES.items():
        if not _is_there(session, name):
            session.script(f"create table stateroom.{name} ({columns})")
    if _column(session, "checkpoint_blobs", "blob") == [(True,)]:
        session.script("alter table stateroom.checkpoint_blobs alter column blob drop not null")
    if not _column(session, "checkpoint_writes", "task_path"):
        session.script(
            "alter table stateroom.checkpoint_writes add column task_path text not null default ''"
        )
    return is_new


def _make_indexes_of_empty(session: Session) -> None:
    for name in _missing(session):
        table, _, _ = _INDEXES[name].partition(" ")
        if not session.fetch(f"select 1 from stateroom.{table} limit 1"):
            session.script(f"drop index if exists stateroom.{name}")
            session.script(f"create index {name} on stateroom.{_INDEXES[name]}")


def _missing(session: Session) -> list[str]:
    """Return which indexes are not there, or were begun and never finished."""
    return [
        name
        for name in _INDEXES
        if not _is_valid(session, name) and (name != RUN_INDEX or _may_index(session))
    ]


def _is_valid(session: Session, index: str) -> bool:
    sql = f"select indisvalid from pg_index where indexrelid = to_regclass('stateroom.{index}')"
    return session.fetch(sql) == [(True,)]


def _may_index(session: Session) -> bool:
    """Tell whether the tables are this user's own; of tables of others, it does without our index."""
    return session.fetch(
        "select pg_has_role(c.relowner, 'usage') from pg_class c "
        "where c.oid = to_regclass('stateroom.checkpoints')"
    ) == [(True,)]


def _build_beside(session: Session, name: str, on: str) -> None:
    """Build an index while others read and write its table."""
    table, _, _ = on.partition(" ")
    with session.connection.transaction():
        # Whoever builds another index of the table has it locked so, and may wait for our turn to end.
        session.script(f"set local lock_timeout = '{LOCK_TIMEOUT}'")
        session.script(f"lock table stateroom.{table} in share update exclusive mode")
    _log.info("building the index %s", name)
    session.script(f"drop index concurrently if exists stateroom.{name}")
    session.script(f"create index concurrently {name} on stateroom.{on}")


def _note(session: Session, last: int) -> None:
    session.execute(
        "insert into stateroom.checkpoint_migrations (v) "
        "select v from generate_series((select coalesce(max(m.v) + 1, 0) "
        "from stateroom.checkpoint_migrations m), %(last)s) v on conflict do nothing",
        {"last": last},
    )


def _is_there(session: Session, table: str) -> bool:
    return session.fetch(f"select to_regclass('stateroom.{table}') is not null") == [(True,)]


def _column(session: Session, table: str, column: str) -> list[tuple[bool]]:
    """Return whether a column refuses nulls, or nothing if there is no such column."""
    return session.fetch(
        f"select a.attnotnull from pg_attribute a where a.attrelid = to_regclass('stateroom.{table}') "
        "and a.attname = %(column)s and not a.attisdropped",
        {"column": column},
    )


def _mention_public(session: Session, schema: str) -> None:
    """Say so if LangGraph's saver has threads in this database, since a saver without any would surprise."""
    readable = session.fetch(
        "select 1 from pg_attribute a where a.attrelid = to_regclass('public.checkpoints') "
        "and a.attname = 'checkpoint_ns' and has_table_privilege(a.attrelid, 'select') "
        "and has_schema_privilege('public', 'usage')"
    )
    if readable and session.fetch("select 1 from public.checkpoints limit 1"):
        _log.warning(
            "public.checkpoints has threads of LangGraph's own saver, which a saver in the schema %r does "
            'not read: it begins empty. PostgresSaver(..., schema="public") goes on with them',
            schema,
        )
