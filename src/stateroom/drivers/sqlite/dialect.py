"""Portable SQL on SQLite."""

from __future__ import annotations

import json
import re
import sqlite3
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, TypeVar

from typing_extensions import override

from stateroom.clock import Clock
from stateroom.drivers.sql.dialect import NONE, Dialect, Row, Session
from stateroom.drivers.sqlite.database import Database

__all__ = ["SqliteDialect"]

T = TypeVar("T")

_EACH = re.compile(r"\{each (?:bigint )?:(\w+)\}")
_LOCK = re.compile(r"\s*\{(?:lock|share|exists)(?: skipping)?\}")


class SqliteDialect(Dialect):
    """The repositories' side of a ``Database``, on whose one writer they take turns with the items."""

    def __init__(
        self, database: Database, clock: Clock, *, require: Callable[[], None] = lambda: None
    ) -> None:
        """``require`` is called before each piece of work, and raises what forbids it."""
        self._database = database
        self._clock = clock
        self._require = require

    @override
    def read(self, work: Callable[[Session], T]) -> T:
        return self._database.read(lambda connection: self._done(connection, work))

    @override
    def read_together(self, work: Callable[[Session], T]) -> T:
        def together(connection: sqlite3.Connection) -> T:
            connection.execute("begin")
            result = self._done(connection, work)
            connection.execute("commit")
            return result

        return self._database.read(together)

    @override
    def write(self, work: Callable[[Session], T], *, repeats: bool = False) -> T:
        return self._database.write(lambda connection: self._done(connection, work))

    def _done(self, connection: sqlite3.Connection, work: Callable[[Session], T]) -> T:
        self._require()
        # The items read texts as bytes, over the same connections.
        before, connection.text_factory = connection.text_factory, str
        try:
            return work(_SqliteSession(connection, self._clock))
        finally:
            connection.text_factory = before


class _SqliteSession:
    """Statements on one connection."""

    __slots__ = ("_clock", "_connection")

    def __init__(self, connection: sqlite3.Connection, clock: Clock) -> None:
        self._connection = connection
        self._clock = clock

    # SQLite plans each statement once, without looking at its parameters.
    def fetch(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> list[Row]:  # noqa: ARG002
        return self._run(sql, parameters).fetchall()

    def execute(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> int:  # noqa: ARG002
        cursor = self._run(sql, parameters)
        # A statement that returns rows has touched them all when they have been fetched.
        cursor.fetchall()
        if cursor.rowcount >= 0:
            return cursor.rowcount
        # Python counts for none that begins with "with".
        ((touched,),) = self._connection.execute("select changes()")
        return int(touched)

    def now(self) -> int:
        return self._clock()

    def _run(self, sql: str, parameters: Mapping[str, Any]) -> sqlite3.Cursor:
        bound = {
            name: json.dumps(value) if isinstance(value, list) else value
            for name, value in parameters.items()
        }
        if ":now" in sql:
            bound.setdefault("now", self._clock())
        return self._connection.execute(_spelled(sql), bound)


@lru_cache(maxsize=1024)
def _spelled(sql: str) -> str:
    return _EACH.sub(r"json_each(:\1)", _LOCK.sub("", sql)).replace("stateroom.", "stateroom_")
