"""Bringing the schema of an SQLite file up to date, safely with several processes at once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Iterator
from importlib.resources import files

from stateroom.errors import Misconfigured

__all__ = ["migrate", "versions"]

_NAME = re.compile(r"(\d{4})_\w+\.sql")


def migrate(connection: sqlite3.Connection) -> None:
    """Apply the migrations that are missing, all in one transaction; nothing is locked when none is.

    Raises ``Misconfigured`` for a file that a newer release has migrated further.
    """
    known = versions()
    if _applied(connection) == set(known):
        return
    connection.execute("begin immediate")
    try:
        connection.execute("create table if not exists stateroom_migration (version integer primary key)")
        # Another process may have been faster while this one waited for the lock.
        applied = _applied(connection)
        if unknown := applied - set(known):
            raise Misconfigured(
                f"path: the file has schema version {max(unknown)}, this release knows up to {max(known)}; "
                "upgrade stateroom",
                field="path",
            )
        for version in sorted(set(known) - applied):
            for statement in _statements(known[version]):
                connection.execute(statement)
            connection.execute("insert into stateroom_migration (version) values (?)", (version,))
        connection.execute("commit")
    except BaseException:
        connection.execute("rollback")
        raise


def versions() -> dict[int, str]:
    """Return the SQL of each migration by its number."""
    found = {}
    for entry in files("stateroom.drivers.sqlite").joinpath("schema").iterdir():
        if match := _NAME.fullmatch(entry.name):
            found[int(match[1])] = entry.read_text(encoding="utf-8")
    return found


def _applied(connection: sqlite3.Connection) -> set[int]:
    ledger = connection.execute("select 1 from sqlite_master where name = 'stateroom_migration'").fetchone()
    if ledger is None:
        return set()
    return {version for (version,) in connection.execute("select version from stateroom_migration")}


def _statements(script: str) -> Iterator[str]:
    """Yield the statements of a script, whose triggers hold semicolons of their own."""
    pending = ""
    for line in script.splitlines(keepends=True):
        pending += line
        if sqlite3.complete_statement(pending):
            yield pending
            pending = ""
