"""The list of namespaces of one file, kept in memory and checked against the file at every use."""

from __future__ import annotations

import sqlite3
import threading

from stateroom.contract.items import ListNamespaces
from stateroom.drivers.sqlite.rows import LIVE
from stateroom.model.listing import select_namespaces
from stateroom.model.namespace import Namespace, decode

__all__ = ["Namespaces"]


class Namespaces:
    """Lists namespaces; new ones are added as they come, and the list is read anew after removals."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._names: list[Namespace] = []
        self._last_id = 0
        self._forgotten = -1

    def select(
        self, connection: sqlite3.Connection, operation: ListNamespaces, now: int, *, uncommitted: bool
    ) -> list[Namespace]:
        """Apply a ``ListNamespaces``; a transaction with uncommitted changes reads the table itself."""
        names = sorted(_names_after(connection, 0)) if uncommitted else self._current(connection)
        if dead := _expired(connection, now):
            names = [name for name in names if name not in dead]
        return select_namespaces(
            names, operation.matches, operation.max_depth, operation.limit, operation.offset
        )

    def _current(self, connection: sqlite3.Connection) -> list[Namespace]:
        with self._lock:
            forgotten, last_id = connection.execute(
                "select value, coalesce((select max(id) from stateroom_namespace), 0) "
                "from stateroom_setting where name = 'namespaces_forgotten'"
            ).fetchone()
            if forgotten != self._forgotten:
                self._names, self._last_id = [], 0
            if last_id != self._last_id:
                self._names = sorted(self._names + _names_after(connection, self._last_id))
            self._forgotten, self._last_id = forgotten, last_id
            return self._names


def _names_after(connection: sqlite3.Connection, last_id: int) -> list[Namespace]:
    rows = connection.execute("select path from stateroom_namespace where id > ?", (last_id,))
    return [decode(path) for (path,) in rows]


def _expired(connection: sqlite3.Connection, now: int) -> set[Namespace]:
    """Return the namespaces whose items have all expired and wait to be swept."""
    rows = connection.execute(
        "select path from stateroom_namespace n where id in ("  # noqa: S608  # constants only
        "select namespace_id from stateroom_item indexed by stateroom_item_expiry where expires_at <= ?) "
        f"and not exists (select 1 from stateroom_item i where i.namespace_id = n.id and {LIVE})",
        (now, now),
    )
    return {decode(path) for (path,) in rows}
