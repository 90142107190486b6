"""Portable SQL on Postgres."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, Final, TypeVar

from typing_extensions import override

from stateroom.drivers.postgres.arrays import Sent, bigints, texts
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.session import Session as Native
from stateroom.drivers.sql.dialect import NONE, Dialect, Row, Session

__all__ = ["PostgresDialect"]

T = TypeVar("T")

# The time at which the statement came in, so that all of it goes by one; transactions may last long.
_NOW: Final = "coalesce(%(now)s::bigint, (extract(epoch from statement_timestamp()) * 1000000)::bigint)"

_EACH = re.compile(r"\{each (bigint )?:(\w+)\}")
_LOCK = re.compile(r"\{(lock|share|exists)( skipping)?\}")

# No key ever changes, so that whom a row's mere existence concerns is not locked out by who changes it.
_LOCKS: Final = {"lock": "for no key update", "share": "for share", "exists": "for key share"}
_PARAMETER = re.compile(r"(?<![:\w]):(\w+)")


class PostgresDialect(Dialect):
    """The repositories' side of a ``Database``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    @override
    def read(self, work: Callable[[Session], T]) -> T:
        return self._database.read(lambda native: work(_PostgresSession(native)))

    @override
    def read_together(self, work: Callable[[Session], T]) -> T:
        return self._database.read_together(lambda native: work(_PostgresSession(native)))

    @override
    def write(self, work: Callable[[Session], T], *, repeats: bool = False) -> T:
        return self._database.write(lambda native: work(_PostgresSession(native)), repeats=repeats)

    def write_statement(self, work: Callable[[Session], T]) -> T:
        """Let ``work`` write with one statement, a transaction by itself that may be done twice."""
        return self._database.write_statement(lambda native: work(_PostgresSession(native)), repeats=True)


class _PostgresSession:
    """Statements on one connection."""

    __slots__ = ("_native",)

    def __init__(self, native: Native) -> None:
        self._native = native

    def fetch(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> list[Row]:
        return self._native.fetch(_spelled(sql), _sent(sql, parameters), prepared=not planned)

    def execute(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> int:
        return self._native.execute(_spelled(sql), _sent(sql, parameters), prepared=not planned)

    def now(self) -> int:
        now: int
        ((now,),) = self.fetch("select :now")
        return now


def _sent(sql: str, parameters: Mapping[str, Any]) -> Mapping[str, Any]:
    lists = _lists(sql)
    if not lists:
        return parameters
    return {**parameters, **{name: encode(parameters[name]) for name, encode in lists.items()}}


@lru_cache(maxsize=1024)
def _lists(sql: str) -> Mapping[str, Callable[[Any], Sent]]:
    """Return which parameters are lists, and how each is sent."""
    return {name: bigints if kind else texts for kind, name in _EACH.findall(sql)}


@lru_cache(maxsize=1024)
def _spelled(sql: str) -> str:
    sql = _LOCK.sub(_locking, sql.replace("%", "%%"))
    sql = _EACH.sub(lambda m: f"unnest(:{m[2]}::{'bigint' if m[1] else 'text'}[]) each(value)", sql)
    return _PARAMETER.sub(lambda m: _NOW if m[1] == "now" else f"%({m[1]})s", sql)


def _locking(match: re.Match[str]) -> str:
    return _LOCKS[match[1]] + (" skip locked" if match[2] else "")
