"""LangGraph's tables of checkpoints in a schema of a Postgres database, as rows."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from itertools import chain
from typing import Any, Final

from psycopg_pool import ConnectionPool

from stateroom.clock import system_clock
from stateroom.drivers.postgres.arrays import byteas, integers
from stateroom.drivers.postgres.checkpoint_migrations import is_current, migrate_checkpoints
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.errors import raise_ours
from stateroom.drivers.postgres.migrations import in_turn
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.sql.checkpoint_rows import Key, Link, Measured, Query, Stored, Value, Write
from stateroom.drivers.sql.dialect import NONE, Row, Session
from stateroom.drivers.sql.marks import mark_of, marked
from stateroom.drivers.sql.queries import named

__all__ = ["ALLOWED", "ONE", "PostgresCheckpoints", "checkpoint_database", "statements"]

ONE: Final = "(values (cast(:thread_id as text), cast(:ns as text), cast(:checkpoint_id as text), 1))"
"""The key of one checkpoint; apart from ``_SEVERAL``, of whose number a lasting plan would know nothing."""

_SEVERAL: Final = "unnest(:thread_ids::text[], :nss::text[], :checkpoint_ids::text[]) with ordinality"

ALLOWED: Final = "select 1"
"""What ``insert_if`` needs for what may be done in any case."""


@cache
def statements() -> Mapping[str, str]:
    """Return the statements of ``checkpoints.sql`` by their names."""
    return named(files("stateroom.drivers.postgres").joinpath("checkpoints.sql").read_text(encoding="utf-8"))


def checkpoint_database(
    uri: str | None, *, schema: str, pool: ConnectionPool[Any] | Mapping[str, Any] | None, prepares: bool
) -> Database:
    """Return a database that has no tables of ours but LangGraph's, which are made when it is opened."""
    return Database(
        uri,
        schema=schema,
        timing=Timing(system_clock),
        pool=pool,
        prepares=prepares,
        prepare=lambda session: migrate_checkpoints(session, schema),
        is_prepared=is_current,
        forked=lambda: None,
        migrates=False,
    )


class PostgresCheckpoints:
    """Implements ``SaverTables`` for sessions of a ``PostgresDialect``."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def set_up(self) -> None:
        """See ``CheckpointTables``; any number of processes may do so at once, LangGraph's own among them."""
        schema = self._database.schema
        try:
            with self._database.session() as session:
                if is_current(session):
                    return
                in_turn(self._database.session, schema, lambda: migrate_checkpoints(session, schema))
        except Exception as error:
            raise_ours(error)

    # ---- One checkpoint.

    def insert(self, session: Session, stored: Stored) -> None:
        """See ``SaverTables``."""
        self.insert_if(session, stored, ALLOWED)

    def insert_if(
        self, session: Session, stored: Stored, held: str, parameters: Mapping[str, Any] = NONE
    ) -> bool:
        """Do what ``insert`` does in one statement if the query ``held`` has a row; tell whether it has."""
        values = stored.values
        given = {
            **stored.key._asdict(),
            "parent_id": stored.parent_id,
            "type": stored.type,
            "checkpoint": stored.checkpoint.decode(),
            "metadata": (stored.metadata or b"{}").decode(),
            "channels": [value.channel for value in values],
            "versions": [value.version for value in values],
            "types": [value.type for value in values],
            "blobs": byteas(value.blob for value in values),
        }
        return bool(_run(session, "insert", {**given, **parameters}, held=held))

    def insert_writes(self, session: Session, key: Key, writes: Sequence[Write], *, replace: bool) -> None:
        """See ``SaverTables``."""
        self.insert_writes_if(session, key, writes, ALLOWED, replace=replace)

    def insert_writes_if(
        self,
        session: Session,
        key: Key,
        writes: Iterable[Write],
        held: str,
        parameters: Mapping[str, Any] = NONE,
        *,
        replace: bool,
    ) -> bool:
        """Do what ``insert_writes`` does in one statement if ``held`` has a row; tell whether it has."""
        statement = "replace_writes" if replace else "insert_writes"
        given = {**key._asdict(), **_columns(_distinct(writes, replace=replace)), **parameters}
        return bool(_run(session, statement, given, held=held))

    def load(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str | None
    ) -> tuple[Stored, list[Write]] | None:
        """See ``SaverTables``; it is one statement."""
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_id": checkpoint_id}
        rows = _run(session, "load", asked, keys=ONE)
        return _loaded(rows[0]) if rows else None

    def load_all(self, session: Session, keys: Sequence[Key]) -> list[tuple[Stored, list[Write]]]:
        """See ``SaverTables``; it is one statement."""
        names = ("thread_ids", "nss", "checkpoint_ids")
        asked = {name: [key[part] for key in keys] for part, name in enumerate(names)}
        return [_loaded(row) for row in _run(session, "load", asked, keys=_SEVERAL)]

    def parent(self, session: Session, key: Key) -> str | None:
        """See ``SaverTables``."""
        rows = _run(session, "parent", key._asdict())
        return rows[0][0] if rows else None

    def writes(self, session: Session, key: Key) -> list[Write]:
        """Return a checkpoint's pending writes, in LangGraph's order."""
        return [Write(*row) for row in _run(session, "writes", key._asdict())]

    def exists(self, session: Session, key: Key) -> bool:
        """See ``SaverTables``."""
        return bool(_run(session, "exists", key._asdict()))

    # ---- Several.

    def writes_to(
        self,
        session: Session,
        thread_id: str,
        ns: str,
        checkpoint_ids: Sequence[str],
        channels: Sequence[str],
    ) -> list[tuple[str, Write]]:
        """See ``SaverTables``."""
        asked = {
            "thread_id": thread_id,
            "ns": ns,
            "checkpoint_ids": list(checkpoint_ids),
            "channels": list(channels),
        }
        return [(row[0], Write(*row[1:])) for row in _run(session, "writes_to", asked)]

    def keys(
        self, session: Session, query: Query, *, after: Key | None, limit: int, metadata: bool
    ) -> list[tuple[Key, bytes | None]]:
        """See ``SaverTables``."""
        asked = {
            **query._asdict(),
            "contains": None if query.contains is None else query.contains.decode(),
            "after_thread": after.thread_id if after else None,
            "after_ns": after.ns if after else None,
            "after_id": after.checkpoint_id if after else None,
            "limit": limit,
            "wants_metadata": metadata,
        }
        # Planned anew, since which index serves depends on what is asked for.
        rows = session.fetch(statements()["keys"], asked, planned=True)
        return [(Key(*row[:3]), None if row[3] is None else row[3].encode()) for row in rows]

    def namespaces(self, session: Session, thread_id: str) -> list[str]:
        """See ``SaverTables``."""
        return [ns for (ns,) in _run(session, "namespaces", {"thread_id": thread_id})]

    def newest(self, session: Session, thread_id: str, ns: str, count: int) -> list[tuple[str, str | None]]:
        """See ``SaverTables``."""
        return _run(session, "newest", {"thread_id": thread_id, "ns": ns, "count": count})

    def newest_not_of(self, session: Session, thread_id: str, ns: str, run_id: str) -> str | None:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "run_id": run_id}
        rows = _run(session, "newest_not_of", asked)
        return rows[0][0] if rows else None

    def lineage(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str, count: int
    ) -> list[Link]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_id": checkpoint_id, "most": count + 1}
        # One more than asked for shows whether the parent of the last one is there.
        line: dict[str, str] = dict(_run(session, "lineage", asked))
        parents = chain(list(line)[1:], [None])
        return [
            Link(checkpoint_id, next(parents), metadata.encode()) for checkpoint_id, metadata in line.items()
        ][:count]

    def children(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> list[str]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_ids": list(checkpoint_ids)}
        return [checkpoint_id for (checkpoint_id,) in _run(session, "children", asked)]

    def others(
        self, session: Session, thread_id: str, ns: str, before: str, kept: Collection[str], limit: int
    ) -> list[str]:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "before": before, "kept": list(kept), "limit": limit}
        return [checkpoint_id for (checkpoint_id,) in _run(session, "others", asked)]

    def of_run(self, session: Session, run_id: str) -> list[Key]:
        """See ``SaverTables``."""
        return [Key(*row) for row in _run(session, "of_run", {"run_id": run_id})]

    # ---- Removal, copies, and what is there.

    def remove(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> None:
        """See ``SaverTables``."""
        asked = {"thread_id": thread_id, "ns": ns, "checkpoint_ids": list(checkpoint_ids)}
        session.execute(statements()["remove"], asked)

    def erase(self, session: Session, thread_id: str, limit: int) -> bool:
        """See ``CheckpointTables``."""
        return self._erase(session, thread_id, None, limit)

    def erase_namespace(self, session: Session, thread_id: str, ns: str, limit: int) -> bool:
        """See ``SaverTables``."""
        return self._erase(session, thread_id, ns, limit)

    def _erase(self, session: Session, thread_id: str, ns: str | None, limit: int) -> bool:
        ((_, found),) = _run(session, "erase", {"thread_id": thread_id, "ns": ns, "limit": limit})
        return bool(found < limit)

    def copy(self, session: Session, thread_id: str, new_id: str) -> None:
        """See ``CheckpointTables``."""
        session.execute(statements()["copy"], {"thread_id": thread_id, "new_id": new_id})

    def measure(self, session: Session, thread_id: str) -> Measured:
        """See ``SaverTables``; bytes are those of the values before Postgres compresses them."""
        asked = {"thread_id": thread_id}
        ((checkpoints, checkpoint_bytes),) = _run(session, "measure", asked)
        ((writes, write_bytes),) = _run(session, "measure_writes", asked)
        values: dict[str, int] = dict(_run(session, "measure_values", asked))
        return Measured(checkpoints, checkpoint_bytes, writes, write_bytes, values)

    def measure_inline(self, session: Session, thread_id: str) -> dict[str, int]:
        """Return, by channel, the bytes of the values that are in the checkpoints' own rows."""
        return dict(_run(session, "measure_inline", {"thread_id": thread_id}))

    # ---- Taking a run back.

    def mark(self, session: Session, thread_id: str, checkpoint_id: str | None) -> bytes:
        """See ``CheckpointTables``."""
        starts = _run(session, "starts", {"thread_id": thread_id, "checkpoint_id": checkpoint_id})
        return mark_of((ns, start, self.writes(session, Key(thread_id, ns, start))) for ns, start in starts)

    def roll_back(self, session: Session, thread_id: str, run_id: str, mark: bytes | None) -> None:
        """See ``CheckpointTables``."""
        made: dict[str, list[str]] = {}
        for ns, checkpoint_id in _run(session, "made_by", {"thread_id": thread_id, "run_id": run_id}):
            made.setdefault(ns, []).append(checkpoint_id)
        for ns, checkpoint_ids in made.items():
            self.remove(session, thread_id, ns, checkpoint_ids)
        session.execute(statements()["remove_strays"], {"thread_id": thread_id})
        for ns, checkpoint_id, writes in marked(mark):
            key = Key(thread_id, ns, checkpoint_id)
            if self.exists(session, key):
                session.execute(statements()["remove_writes"], key._asdict())
                self.insert_writes(session, key, writes, replace=False)


def _run(
    session: Session, name: str, parameters: Mapping[str, Any], *, held: str = ALLOWED, keys: str = ""
) -> list[Row]:
    return session.fetch(_with(name, held, keys), parameters)


@cache
def _with(name: str, held: str, keys: str) -> str:
    return statements()[name].replace("{held}", held).replace("{keys}", keys)


def _loaded(row: Row) -> tuple[Stored, list[Write]]:
    thread_id, ns, checkpoint_id, parent_id, kind, checkpoint, metadata = row[:7]
    values = [Value(*value) for value in _rows(row[7:11])]
    key = Key(thread_id, ns, checkpoint_id)
    stored = Stored(key, parent_id, kind, checkpoint.encode(), metadata.encode(), values)
    writes = [Write(*write) for write in _rows(row[11:17])]
    return stored, sorted(writes, key=lambda write: (write.task_path, write.task_id, write.idx))


def _rows(columns: Sequence[Any]) -> Iterable[tuple[Any, ...]]:
    """Return the rows of columns that were each gathered in an array; null if there are no rows."""
    return zip(*columns, strict=True) if columns[0] is not None else ()


def _distinct(writes: Iterable[Write], *, replace: bool) -> list[Write]:
    """Leave one write of each task and index, since one statement cannot write a row twice."""
    found: dict[tuple[str, int], Write] = {}
    for write in writes:
        if replace:
            found[write.task_id, write.idx] = write
        else:
            found.setdefault((write.task_id, write.idx), write)
    return list(found.values())


def _columns(writes: Sequence[Write]) -> dict[str, Any]:
    return {
        "task_ids": [write.task_id for write in writes],
        "task_paths": [write.task_path for write in writes],
        "idxs": integers([write.idx for write in writes]),
        "channels": [write.channel for write in writes],
        "types": [write.type for write in writes],
        "blobs": byteas(write.blob for write in writes),
    }
