"""Bringing the schema of an SQLite file up to date, safely with several processes at once."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from importlib.resources import files

from stateroom.errors import Misconfigured
from stateroom.model.file import stat_of

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
            if version in _FILLS:
                _FILLS[version](connection)
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


def _fill_stats(connection: sqlite3.Connection) -> None:
    """Note the size and the time of each file that is there, as its put would have done."""
    revisions = connection.execute(
        "select revision from stateroom_item where substr(key, 1, 1) = '/'"
    ).fetchall()
    # One value at a time, since all of them may be larger than the memory.
    for row in revisions:
        key, raw = connection.execute(
            "select key, value from stateroom_item where revision = ?", row
        ).fetchone()
        if stat := stat_of(key.decode(), raw):
            connection.execute(
                "update stateroom_item set file_size = ?, file_modified_at = ? where revision = ?",
                (*stat, *row),
            )


_FILLS: dict[int, Callable[[sqlite3.Connection], None]] = {2: _fill_stats}
"""What SQL cannot say of migrations, by number; done after their statements, in the same transaction."""
