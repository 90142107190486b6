"""Where a storage of a test of faults is, how every process opens it, and what is in its tables."""

from __future__ import annotations

import mmap
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from stateroom.clock import Clock, system_clock
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.search.index_config import parse_index_config

__all__ = ["Place", "SharedClock", "open_storage", "storage_at"]

START = 1_800_000_000_000_000


class SharedClock:
    """A clock that stands still for all processes until one moves it: a number in a file."""

    def __init__(self, path: str) -> None:
        if not Path(path).exists():
            Path(path).write_bytes(START.to_bytes(8, "little"))
        with Path(path).open("r+b") as file:
            self._number = mmap.mmap(file.fileno(), 8)

    def __call__(self) -> int:
        return int.from_bytes(self._number[:8], "little")

    def advance(self, microseconds: int) -> None:
        """Move on by so much."""
        self._number[:8] = (self() + microseconds).to_bytes(8, "little")


class Place(NamedTuple):
    """Where a storage is: a file of SQLite's, or a schema of the Postgres database at a URI.

    ``clock`` is the file of the clock that it goes by, None: the machine's, or the server's.
    """

    at: str
    schema: str = ""
    clock: str | None = None

    @property
    def is_file(self) -> bool:
        """Whether it is SQLite's."""
        return not self.schema

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """Return the rows of a query, in which ``stateroom.`` stands before the names of our tables."""
        if self.is_file:
            with closing(sqlite3.connect(self.at)) as connection:
                return connection.execute(statement.replace("stateroom.", "stateroom_")).fetchall()
        with psycopg.connect(self.at, autocommit=True) as connection:
            spelled = statement.replace("stateroom.", f"{self.schema}.").encode()
            return connection.execute(spelled).fetchall()


def storage_at(place: Place, **options: Any) -> SqlStorage:
    """Return a storage at a place, not yet opened."""
    clock: Clock = SharedClock(place.clock) if place.clock else system_clock
    settings = parse_index_config(None)
    if place.is_file:
        return SqliteStorage(place.at, settings, clock=clock, **options)
    return PostgresStorage(place.at, settings, schema=place.schema, clock=clock, **options)


@contextmanager
def open_storage(place: Place, **options: Any) -> Iterator[SqlStorage]:
    """Open a storage for a while."""
    storage = storage_at(place, **options)
    try:
        storage.open()
        yield storage
    finally:
        storage.close()
