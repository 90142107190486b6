"""Looking at a Postgres server from beside a store: its sessions, what they wait for, and cutting them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg import sql

__all__ = ["Watch", "named", "set_to", "until"]

EDGE_MS = 5_000
"""How long the server is given to end a session."""


def named(uri: str, name: str) -> str:
    """Return a URI under which sessions are found by a name, which is an identifier."""
    return _with(uri, "application_name", name)


def set_to(uri: str, name: str, value: str) -> str:
    """Return a URI whose sessions begin with a setting of the server's."""
    return _with(uri, "options", quote(f"-c {name}=" + value.replace(" ", "\\ ")))


def _with(uri: str, name: str, value: str) -> str:
    return f"{uri}{'&' if '?' in uri else '?'}{name}={value}"


def until(is_so: Callable[[], object]) -> None:
    """Look again and again until something is so; pytest's time limit ends what never comes."""
    while not is_so():
        pass


class Watch:
    """What a superuser sees and does of the sessions of one application and of the tables of one schema."""

    def __init__(self, uri: str, name: str) -> None:
        self.uri, self.name = uri, name

    def execute(self, statement: str, *arguments: Any) -> list[tuple[Any, ...]]:
        """Execute one statement, in which ``{}`` is the schema and ``%s`` an argument; return its rows."""
        with psycopg.connect(self.uri, autocommit=True) as connection:
            cursor = connection.execute(self._spelled(statement), arguments)
            return cursor.fetchall() if cursor.description else []

    @contextmanager
    def holding(self, statement: str, *arguments: Any) -> Iterator[psycopg.Connection[Any]]:
        """Keep a transaction open, with the locks that a statement took."""
        with psycopg.connect(self.uri) as connection:
            connection.execute(self._spelled(statement), arguments)
            yield connection
            connection.rollback()

    def sessions(self) -> set[int]:
        """Return the processes that serve the application."""
        rows = self.execute("select pid from pg_stat_activity where application_name = %s", self.name)
        return {process for (process,) in rows}

    def waiting(self, wanted: str = "%") -> int:
        """Return how many of its sessions wait for a lock in a statement like that."""
        ((number,),) = self.execute(
            "select count(*) from pg_stat_activity where application_name = %s "
            "and wait_event_type = 'Lock' and query ilike %s",
            self.name,
            wanted,
        )
        return int(number)

    def cut(self) -> int:
        """End all of its sessions, wait until they are gone, and return how many they were."""
        rows = self.execute(
            "select pg_terminate_backend(pid, %s) from pg_stat_activity where application_name = %s",
            EDGE_MS,
            self.name,
        )
        assert all(done for (done,) in rows)
        return len(rows)

    def cut_waiting(self) -> int:
        """End those of its sessions that wait for a lock."""
        rows = self.execute(
            "select pg_terminate_backend(pid, %s) from pg_stat_activity "
            "where application_name = %s and wait_event_type = 'Lock'",
            EDGE_MS,
            self.name,
        )
        return len(rows)

    def _spelled(self, statement: str) -> sql.Composed:
        return sql.SQL(statement).format(*[sql.Identifier(self.name)] * statement.count("{}"))
