"""Storages of every kind for random machines, which no fixture can be given to, empty for each history."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from tempfile import TemporaryDirectory
from typing import Any, ClassVar, TypeAlias

import psycopg
from hypothesis.stateful import RuleBasedStateMachine
from psycopg import sql

from stateroom.clock import ManualClock
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.search.index_config import parse_index_config
from stateroom.testing.machine import machine_settings

__all__ = ["Makes", "histories", "in_file", "in_memory", "in_postgres", "machine_of"]

Makes: TypeAlias = Callable[[ManualClock, ExitStack], SqlStorage]
"""Makes a storage that goes by a clock, and is closed with a stack."""

POOL: Mapping[str, Any] = {"min_size": 1, "max_size": 2}
TABLES = "thread, stateroom.thread_state, stateroom.thread_term, stateroom.deletion, stateroom.run"


def machine_of(machine: type[RuleBasedStateMachine], make: Makes, **attributes: Any) -> type[Any]:
    """Return the test of a machine on a kind of storage."""
    made: type[Any] = type("Machine", (machine,), {"make": staticmethod(make), **attributes})
    made.TestCase.settings = machine_settings()
    case: type[Any] = made.TestCase
    return case


def in_memory(clock: ManualClock, stack: ExitStack) -> SqlStorage:
    """Make a storage in this process."""
    storage = SqliteStorage(":memory:", parse_index_config(None), clock=clock)
    stack.callback(storage.close)
    return storage


def in_file(clock: ManualClock, stack: ExitStack) -> SqlStorage:
    """Make a storage in a file."""
    folder = stack.enter_context(TemporaryDirectory())
    storage = SqliteStorage(f"{folder}/server.db", parse_index_config(None), clock=clock)
    stack.callback(storage.close)
    return storage


class _Server:
    """The server that all tests share."""

    uri: ClassVar[str]
    schema: ClassVar[str]


@contextmanager
def histories(postgres: str, name: str) -> Iterator[None]:
    """Have ``in_postgres`` use a schema, which goes in the end; a module's tests do so in their fixture."""
    _Server.uri, _Server.schema = postgres, f"{name}_{os.getpid()}"
    yield
    with psycopg.connect(postgres, autocommit=True) as connection:
        schema = sql.Identifier(_Server.schema)
        connection.execute(sql.SQL("drop schema if exists {} cascade").format(schema))


def in_postgres(clock: ManualClock, stack: ExitStack) -> SqlStorage:
    """Make a storage in the schema of ``histories``."""
    storage = PostgresStorage(
        _Server.uri, parse_index_config(None), clock=clock, schema=_Server.schema, pool=POOL
    )
    storage.open()
    storage.dialect.write(lambda session: session.execute(f"truncate stateroom.{TABLES}"))
    stack.callback(storage.close)
    return storage
