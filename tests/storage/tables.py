"""A bare look into the tables of a storage."""

from __future__ import annotations

from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.storage import SqlStorage


def rows(storage: SqlStorage, *tables: str) -> list[int]:
    """Return how many rows each table has."""

    def count(session: Session, table: str) -> int:
        number: int
        ((number,),) = session.fetch(f"select count(*) from stateroom.{table}")  # noqa: S608  # a constant
        return number

    return storage.dialect.read(lambda session: [count(session, table) for table in tables])
