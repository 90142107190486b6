"""When a file's text index catches up, and when the log of removals is cut."""

from __future__ import annotations

import logging
import sqlite3

from stateroom.drivers.sqlite.database import Database
from stateroom.drivers.sqlite.text import TextIndex, marks

__all__ = ["Upkeep"]

WRITES_BETWEEN = 512
"""Writes of this process after which it does the upkeep, as part of its commit."""

FRESH_MAX = 64
"""Items that a text search analyses by itself, before it would rather have them indexed."""

REMOVALS_KEPT = 10_000
"""Removals that stay in the log for the vectors in other processes' memory; one that lags more reads anew."""


_log = logging.getLogger(__name__)


class Upkeep:
    """Does in bulk what puts and deletes leave undone."""

    def __init__(self, text: TextIndex | None) -> None:
        self._text = text
        self._writes = 0

    def note(self, connection: sqlite3.Connection, writes: int) -> None:
        """Count writes of the running transaction, and do the upkeep in it when it is time."""
        self._writes += writes
        if self._writes >= WRITES_BETWEEN:
            self._do(connection)

    def freshen(self, database: Database) -> None:
        """Index what a search would have to analyse by itself, unless that meant waiting for a writer."""
        if self._text is None or not database.read(_is_behind):
            return
        while database.write_if_idle(self._text.catch_up) is False:
            _log.info("indexing the text of %s: %d items so far", database.path, database.read(_indexed))

    def _do(self, connection: sqlite3.Connection) -> None:
        self._writes = 0
        if self._text is not None:
            # Once is enough: it indexes many more than were written since the last time.
            self._text.catch_up(connection)
        else:
            # Without documents in the text index nobody waits for the log on its behalf.
            connection.execute(
                "update stateroom_setting set value = "
                "coalesce((select max(sequence) from stateroom_removal), 0) where name = 'text_removal' "
                "and not exists (select 1 from stateroom_text_document)"
            )
        connection.execute(
            "delete from stateroom_removal where sequence <= min("
            "(select value from stateroom_setting where name = 'text_removal'), "
            "(select max(sequence) from stateroom_removal) - ?)",
            (REMOVALS_KEPT,),
        )


def _indexed(connection: sqlite3.Connection) -> int:
    (number,) = connection.execute("select count(*) from stateroom_text_document").fetchone()
    return number  # type: ignore[no-any-return]


def _is_behind(connection: sqlite3.Connection) -> bool:
    indexed, removed = marks(connection)
    (behind,) = connection.execute(
        "select (select count(*) from (select 1 from stateroom_item where revision > ? limit ?)) + "
        "(select count(*) from (select 1 from stateroom_removal where sequence > ? limit ?))",
        (indexed, FRESH_MAX + 1, removed, FRESH_MAX + 1),
    ).fetchone()
    return behind > FRESH_MAX  # type: ignore[no-any-return]
