"""Looking for an id in every column of every table of a storage, LangGraph's included."""

from __future__ import annotations

from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage

__all__ = ["holding"]

_OF_SQLITE = (
    "select '\"' || name || '\"' from sqlite_master where type = 'table' and sql not like '%virtual table%'"
)
_OF_POSTGRES = (
    "select format('stateroom.%I', relname) from pg_class where relkind = 'r' and relnamespace = "
    "(select relnamespace from pg_class where oid = to_regclass('stateroom.run'))"
)


def holding(storage: SqlStorage, *ids: str) -> dict[str, list[str]]:
    """Return the tables in any column of which any of the ids occurs, with the rows that have it.

    Every value is looked at as bytes, so that neither JSON nor what is packed hides one.
    """

    def work(session: Session) -> dict[str, list[str]]:
        tables = session.fetch(_OF_SQLITE if isinstance(storage, SqliteStorage) else _OF_POSTGRES)
        assert len(tables) > 10
        found = {}
        for (table,) in tables:
            rows = session.fetch(f"select * from {table}", planned=True)  # noqa: S608  # from the catalogue
            if held := [repr(row) for row in rows if _holds(row, ids)]:
                found[table] = held
        return found

    return storage.dialect.read_together(work)


def _holds(row: tuple[object, ...], ids: tuple[str, ...]) -> bool:
    return any(name.encode() in _bytes(value) for value in row for name in ids)


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else repr(value).encode()
