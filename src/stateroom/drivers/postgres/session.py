"""Statements on one connection, in the schema and by the clock of a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from typing import Any, Final

import psycopg
from psycopg.pq import Format
from psycopg.rows import tuple_row

from stateroom.drivers.postgres.arrays import teach
from stateroom.drivers.postgres.timing import Timing

__all__ = ["CLOCK", "IDLE_SECONDS", "LIVE", "NOW", "Session"]

CLOCK: Final = (
    "with clock as (select coalesce(%(now)s::bigint, "
    "(extract(epoch from clock_timestamp()) * 1000000)::bigint) as now)"
)
"""What a statement that needs the time begins with; ``Session`` fills in its parameter."""

NOW: Final = "(select now from clock)"
"""The present in a statement that begins with ``CLOCK``, in microseconds since 1970 UTC."""

LIVE: Final = f"(i.expires_at is null or i.expires_at > {NOW})"
"""The condition that an item ``i`` has not expired."""

IDLE_SECONDS: Final = 3
"""How long a transaction may rest between two statements before Postgres undoes it, and frees its locks.

No code of a user runs inside one. What rests as long is a process that hangs, or one whose connection is
gone without a word, which Postgres would otherwise wait for as long as its machine does: up to hours.
"""

CACHED_LENGTH: Final = 10_000
"""Characters of a statement up to which its spelling for a schema is remembered."""

_NONE: Final[Mapping[str, Any]] = {}


class Session:
    """Runs statements that are written for the schema ``stateroom``.

    Parameters are named, as in ``%(name)s``; ``now`` is always there: the injected clock's reading, or
    None where the database's own clock rules. Results come in binary: ``bytea`` as bytes, ``bigint`` as
    int. A statement is ``prepared`` when its plan never depends on its parameters, and otherwise
    planned anew with them, since a plan for any filter and any range is a plan for none.
    """

    __slots__ = ("_cursor", "_schema", "_timing", "connection", "prepares")

    def __init__(
        self, connection: psycopg.Connection[Any], schema: str, timing: Timing, *, prepares: bool
    ) -> None:
        self.connection = connection
        teach(connection.adapters)
        # Not connection.cursor: the connection may come from a pool that makes cursors of another kind.
        self._cursor = psycopg.Cursor(connection, row_factory=tuple_row)
        self._cursor.format = Format.BINARY
        self._schema = schema
        self._timing = timing
        self.prepares = prepares

    def fetch(
        self, sql: str, parameters: Mapping[str, Any] = _NONE, *, prepared: bool = False
    ) -> list[tuple[Any, ...]]:
        """Run a statement and return its rows."""
        return self._run(sql, parameters, prepared).fetchall()

    def execute(self, sql: str, parameters: Mapping[str, Any] = _NONE, *, prepared: bool = False) -> int:
        """Run a statement and return how many rows it touched."""
        return self._run(sql, parameters, prepared).rowcount

    def _run(self, sql: str, parameters: Mapping[str, Any], prepared: bool) -> psycopg.Cursor[Any]:
        if "%(now)s" in sql:
            parameters = {**parameters, "now": self._timing.parameter}
        return self._cursor.execute(
            _spelled(sql, self._schema), parameters, prepare=prepared and self.prepares
        )

    @contextmanager
    def transaction(self, mode: str = "isolation level read committed") -> Iterator[None]:
        """Run what is inside as one transaction, of a ``mode`` as SQL spells it; others' locks wait for it.

        The limit is set in the same message, so that it costs no answer, and in the transaction alone, since
        a pooler would hand it on.
        """
        self.script(f"begin {mode}; set local idle_in_transaction_session_timeout = '{IDLE_SECONDS}s'")
        try:
            yield
        except BaseException:
            # A connection that is lost has nothing to undo, and its loss is the news.
            with suppress(psycopg.Error):
                self.script("rollback")
            raise
        self.script("commit")

    def script(self, sql: str) -> None:
        """Run statements that have no parameters and answer nothing."""
        self.connection.execute(_spelled(sql, self._schema), prepare=False)


def _spelled(sql: str, schema: str) -> bytes:
    # The largest filters are hardly asked twice, and would fill the memory.
    return _respelled(sql, schema) if len(sql) <= CACHED_LENGTH else _respelled.__wrapped__(sql, schema)


@lru_cache(maxsize=1024)
def _respelled(sql: str, schema: str) -> bytes:
    return sql.replace("stateroom.", f'"{schema}".').encode()
