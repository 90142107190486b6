"""LangGraph's tables of checkpoints in an SQLite file, as LangGraph's own saver makes them."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import groupby
from typing import Any, Final

from stateroom.drivers.sql.checkpoint_rows import Key, Link, Measured, Query, Stored, Write
from stateroom.drivers.sql.dialect import Row, Session
from stateroom.drivers.sql.marks import Place, mark_of, marked
from stateroom.drivers.sql.queries import named
from stateroom.drivers.sqlite.database import Database

__all__ = ["SqliteCheckpoints"]

TABLES: Final = ("writes", "checkpoints")
"""In the order in which rows go: what is left when a removal is broken off still has its checkpoint."""

INDEXES: Final = ("stateroom_checkpoint_run", "stateroom_checkpoint_root")

_CONDITIONS: Final = {
    "thread_id": "thread_id = :thread_id",
    "ns": "checkpoint_ns = :ns",
    "checkpoint_id": "checkpoint_id = :checkpoint_id",
    "before": "checkpoint_id < :before",
    "after": "(checkpoint_id < :after"
    " or checkpoint_id = :after and (thread_id, checkpoint_ns) > (:after_thread, :after_ns))",
}
"""What a query may ask for, by the parameter that must be given."""


@cache
def _statements() -> Mapping[str, str]:
    return named(files("stateroom.drivers.sqlite").joinpath("checkpoints.sql").read_text(encoding="utf-8"))


class SqliteCheckpoints:
    """Implements ``SaverTables`` for sessions of an ``SqliteDialect``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set_up(self) -> None:
        """See ``CheckpointTables``; any number of processes may do so at once, LangGraph's own among them."""
        if not self._database.read(_missing):
            return

        def work(connection: sqlite3.Connection) -> None:
            for name in _missing(connection):
                connection.execute(_statements()[name])

        self._database.write(work)

    # ---- One checkpoint.

    def insert(self, session: Session, stored: Stored) -> None:
        """See ``SaverTables``."""
        session.execute(_statements()["insert"], {**stored._asdict(), **stored.key._asdict()})

    def insert_writes(self, session: Session, key: Key, writes: Sequence[Write], *, replace: bool) -> None:
        """See ``SaverTables``."""
        sql = _statements()["replace_write" if replace else "add_write"]
        for write in writes:
            session.execute(sql, {**write._asdict(), **key._asdict()})

    def load(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str | None
    ) -> tuple[Stored, list[Write]] | None:
        """See ``SaverTables``."""
        if checkpoint_id is None:
            checkpoint_id = next((found for found, _ in self.newest(session, thread_id, ns, 1)), None)
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_id": checkpoint_id}
        for *key, parent_id, kind, checkpoint, metadata in _rows(session, "load", asked):
            stored = Stored(Key(*key), parent_id, kind, checkpoint, metadata)
            return stored, self._pending(session, stored.key)
        return None

    def load_all(self, session: Session, keys: Sequence[Key]) -> list[tuple[Stored, list[Write]]]:
        """See ``SaverTables``."""
        return [found for key in keys if (found := self.load(session, *key))]

    def exists(self, session: Session, key: Key) -> bool:
        """See ``SaverTables``."""
        return bool(_rows(session, "exists", key._asdict()))

    def parent(self, session: Session, key: Key) -> str | None:
        """See ``SaverTables``."""
        return next((found for (found,) in _rows(session, "parent", key._asdict())), None)

    def lineage(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str, count: int
    ) -> list[Link]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_id": checkpoint_id, "count": count}
        return [Link(*row) for row in _rows(session, "lineage", asked)]

    def writes_to(
        self,
        session: Session,
        thread_id: str,
        ns: str,
        checkpoint_ids: Sequence[str],
        channels: Sequence[str],
    ) -> list[tuple[str, Write]]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "ids": [*checkpoint_ids], "channels": [*channels]}
        return [(found, Write(*row)) for found, *row in _rows(session, "writes_to", asked)]

    # ---- Many.

    def keys(
        self, session: Session, query: Query, *, after: Key | None, limit: int, metadata: bool
    ) -> list[tuple[Key, bytes | None]]:
        """See ``SaverTables``; ``contains`` is passed over."""
        asked = {**query._asdict(), "after": after and after.checkpoint_id, "limit": limit}
        conditions = [sql for name, sql in _CONDITIONS.items() if asked[name] is not None]
        if after is not None:
            asked |= {"after_thread": after.thread_id, "after_ns": after.ns}
        sql = (
            "select thread_id, checkpoint_ns, checkpoint_id, "  # noqa: S608  # nothing but our own texts
            f"{'cast(metadata as blob)' if metadata else 'null'} from checkpoints "
            f"where {' and '.join(conditions) or 'true'} "
            "order by checkpoint_id desc, thread_id, checkpoint_ns limit :limit"
        )
        return [(Key(*key), raw) for *key, raw in session.fetch(sql, asked, planned=True)]

    def namespaces(self, session: Session, thread_id: str) -> list[str]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id}
        rows = [row for table in TABLES for row in _rows(session, f"{table}_namespaces", asked)]
        return sorted({ns for (ns,) in rows})

    def newest(self, session: Session, thread_id: str, ns: str, count: int) -> list[tuple[str, str | None]]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "count": count}
        return [(found, parent_id) for found, parent_id in _rows(session, "newest", asked)]

    def newest_not_of(self, session: Session, thread_id: str, ns: str, run_id: str) -> str | None:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "run_id": run_id}
        return next((found for (found,) in _rows(session, "newest_not_of", asked)), None)

    def others(
        self, session: Session, thread_id: str, ns: str, before: str, kept: Sequence[str], limit: int
    ) -> list[str]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "before": before, "kept": [*kept], "limit": limit}
        return [found for (found,) in _rows(session, "others", asked)]

    def children(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> list[str]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "ids": [*checkpoint_ids]}
        return [found for (found,) in _rows(session, "children", asked)]

    def of_run(self, session: Session, run_id: str) -> list[Key]:
        """See ``SaverTables``."""
        return [Key(*row) for row in _rows(session, "of_run", {"run_id": run_id})]

    def measure(self, session: Session, thread_id: str) -> Measured:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id}
        ((checkpoints, checkpoint_bytes),) = _rows(session, "checkpoints_measure", asked)
        ((writes, write_bytes),) = _rows(session, "writes_measure", asked)
        return Measured(checkpoints, checkpoint_bytes, writes, write_bytes, {})

    # ---- Removing and copying.

    def remove(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> None:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "ids": [*checkpoint_ids]}
        for table in TABLES:
            session.execute(_statements()[f"{table}_remove"], asked)

    def erase(self, session: Session, thread_id: str, limit: int) -> bool:
        """See ``CheckpointTables``."""
        return _erase(session, "erase", {"thread_id": thread_id}, limit)

    def erase_namespace(self, session: Session, thread_id: str, ns: str, limit: int) -> bool:
        """See ``SaverTables``."""
        return _erase(session, "erase_namespace", {"thread_id": thread_id, "ns": ns}, limit)

    def copy(self, session: Session, thread_id: str, new_id: str) -> None:
        """See ``CheckpointTables``."""
        for table in TABLES:
            session.execute(_statements()[f"{table}_copy"], {"thread_id": thread_id, "new_id": new_id})

    def mark(self, session: Session, thread_id: str, checkpoint_id: str | None) -> bytes:
        """See ``CheckpointTables``."""
        newest = self.newest(session, thread_id, "", 1)
        start = checkpoint_id or next((found for found, _ in newest), None)
        return mark_of(self._places(session, thread_id, start) if start else [])

    def roll_back(self, session: Session, thread_id: str, run_id: str, mark: bytes | None) -> None:
        """See ``CheckpointTables``."""
        keys = sorted(key for key in self.of_run(session, run_id) if key.thread_id == thread_id)
        for ns, group in groupby(keys, lambda key: key.ns):
            self.remove(session, thread_id, ns, [key.checkpoint_id for key in group])
        for ns, checkpoint_id, writes in marked(mark):
            asked = {"thread_id": thread_id, "ns": ns, "ids": [checkpoint_id]}
            session.execute(_statements()["writes_remove"], asked)
            self.insert_writes(session, Key(thread_id, ns, checkpoint_id), writes, replace=True)
        # What the run wrote for checkpoints that it did not come to save, or that are gone since.
        session.execute(_statements()["remove_stray"], {"thread_id": thread_id})

    def _places(self, session: Session, thread_id: str, start: str) -> list[Place]:
        """Return where a run that starts from a checkpoint may add writes, with those that are there."""
        asked = {"thread_id": thread_id, "root": start}
        made_in = [Key(thread_id, *row) for row in sorted(_rows(session, "made_in", asked))]
        # Subgraphs that remember go on from their latest, in whichever call that was made.
        remembering = [
            Key(thread_id, ns, head)
            for ns in self.namespaces(session, thread_id)
            if ns and ":" not in ns
            for head, _ in self.newest(session, thread_id, ns, 1)
        ]
        keys = dict.fromkeys([Key(thread_id, "", start), *made_in, *remembering])
        return [(key.ns, key.checkpoint_id, self._pending(session, key)) for key in keys]

    def _pending(self, session: Session, key: Key) -> list[Write]:
        return [Write(*row) for row in _rows(session, "pending", key._asdict())]


def _rows(session: Session, name: str, parameters: Mapping[str, Any]) -> list[Row]:
    return session.fetch(_statements()[name], parameters)


def _erase(session: Session, name: str, asked: Mapping[str, Any], limit: int) -> bool:
    for table in TABLES:
        limit -= session.execute(_statements()[f"{table}_{name}"], {**asked, "limit": limit})
        if limit <= 0:
            return False
    return True


def _missing(connection: sqlite3.Connection) -> list[str]:
    """Return the names of the statements that bring a file up to date."""
    there, columns = (
        {str(name, "utf-8") for (name,) in connection.execute(_statements()[asked])}
        for asked in ("names", "columns")
    )
    missing = [name for name in (*TABLES, *INDEXES) if name not in there]
    return missing if "writes" in missing or "task_path" in columns else [*missing, "task_path"]
