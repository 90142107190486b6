"""Putting and deleting rows, inside a transaction that somebody else commits."""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from typing import Any, NamedTuple

import orjson

from stateroom.contract.items import Delete, Put, check_condition
from stateroom.drivers.sqlite.rows import ids
from stateroom.errors import LimitExceeded
from stateroom.model.item import Record
from stateroom.model.json_values import is_exotic
from stateroom.model.namespace import encode
from stateroom.model.ttl import expiry

__all__ = ["VECTORS_PER_ITEM_MAX", "delete", "delete_all", "put", "put_all", "refresh", "sweep"]

VECTORS_PER_ITEM_MAX = 65_536
"""Vectors of one item: as many ordinals as its revision leaves room for in the id of a vector."""

_LAST = """
(select max(revision) from stateroom_item),
(select updated_at from stateroom_item where revision = (select max(revision) from stateroom_item)),
(select value from stateroom_setting where name = 'revision'),
(select value from stateroom_setting where name = 'updated_at')
"""

_FIND = f"""
select n.id, i.revision, i.created_at, i.updated_at, i.expires_at, {_LAST}
from (select ? as path)
left join stateroom_namespace n using (path)
left join stateroom_item i on i.namespace_id = n.id and i.key = ?
"""  # noqa: S608  # constants only

_ADDRESS = """
select n.id, i.revision, i.expires_at from stateroom_namespace n
cross join stateroom_item i on i.namespace_id = n.id and i.key = ?2
where n.path = ?1
"""

_FIND_ALL = """
select w.key, i.revision, i.created_at, i.updated_at, i.expires_at from json_each(?) w
cross join stateroom_item i
on i.namespace_id = json_extract(w.value, '$[0]') and i.key = json_extract(w.value, '$[1]')
"""

_FACTS = "revision, namespace_id, key, created_at, updated_at, ttl, expires_at, paths, exotic, value"

_INSERT = f"insert into stateroom_item ({_FACTS}) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"  # noqa: S608

_INSERT_FILE = f"""
insert into stateroom_item ({_FACTS}, file_size, file_modified_at) values (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
"""  # noqa: S608  # constants only

_FORGET = """
delete from stateroom_namespace where id = ?1
and not exists (select 1 from stateroom_item where namespace_id = ?1)
"""


class _Old(NamedTuple):
    """The row that is at an address before a put."""

    revision: int
    created_at: int
    updated_at: int
    expires_at: int | None

    def is_live(self, now: int) -> bool:
        """Tell whether the row has not expired."""
        return self.expires_at is None or self.expires_at > now


class _Stamps:
    """The last revision and time given out, from which the next ones follow."""

    def __init__(
        self, newest: int | None, updated_at: int | None, least_revision: int, least_time: int
    ) -> None:
        self.revision = max(newest or 0, least_revision)
        self.updated_at = max(updated_at or 0, least_time)

    def record(self, operation: Put, old: _Old | None, now: int) -> Record:
        """Return what a put makes of the row at its address: its own one goes on, an expired one does not."""
        self.revision += 1
        self.updated_at = created_at = max(now, self.updated_at)
        if old is not None and old.is_live(now):
            self.updated_at = max(self.updated_at, old.updated_at + 1)
            created_at = old.created_at
        due = None if operation.ttl is None else expiry(now, operation.ttl)
        return Record(
            operation.namespace,
            operation.key,
            operation.raw,
            self.revision,
            created_at,
            self.updated_at,
            operation.ttl,
            due,
        )


def put(connection: sqlite3.Connection, operation: Put, now: int) -> Record:
    """Store one item and its vectors."""
    path = encode(operation.namespace)
    namespace_id, old, stamps = _look(connection, path, operation.key)
    check_condition(operation, old.revision if old and old.is_live(now) else None)
    if old is not None:
        connection.execute("delete from stateroom_item where revision = ?", (old.revision,))
    if namespace_id is None:
        namespace_id = _new_namespace(connection, path)
    record = stamps.record(operation, old, now)
    if operation.stat is None:
        connection.execute(_INSERT, _row(operation, record, namespace_id))
    else:
        connection.execute(_INSERT_FILE, _row_of_file(operation, record, namespace_id))
    if operation.vectors:
        _insert_vectors(connection, [operation], [record])
    return record


def put_all(connection: sqlite3.Connection, operations: Sequence[Put], now: int) -> list[Record]:
    """Store many items, at different addresses and without conditions, in a few statements."""
    namespaces = _namespaces(connection, [encode(operation.namespace) for operation in operations])
    old = _find_all(connection, operations, namespaces)
    _delete_rows(connection, [row.revision for row in old.values()])
    stamps = _Stamps(*connection.execute(f"select {_LAST}").fetchone())  # constants only
    records = [stamps.record(operation, old.get(n), now) for n, operation in enumerate(operations)]
    # Two columns more would cost each other item a twentieth of its put.
    if any(operation.stat for operation in operations):
        connection.executemany(_INSERT_FILE, map(_row_of_file, operations, records, namespaces))
    else:
        connection.executemany(_INSERT, map(_row, operations, records, namespaces))
    _insert_vectors(connection, operations, records)
    return records


def delete(connection: sqlite3.Connection, operation: Delete, now: int) -> None:
    """Remove one item, and its namespace when that is empty now."""
    row = connection.execute(_ADDRESS, (encode(operation.namespace), operation.key)).fetchone()
    namespace_id, revision, expires_at = row or (None, None, None)
    is_live = row is not None and (expires_at is None or expires_at > now)
    check_condition(operation, revision if is_live else None)
    if row is not None:
        connection.execute("delete from stateroom_item where revision = ?", (revision,))
        connection.execute(_FORGET, (namespace_id,))


def delete_all(connection: sqlite3.Connection, operations: Sequence[Delete]) -> None:
    """Remove many items, without conditions, and the namespaces that are empty then."""
    namespaces: list[int | None] = []
    known: dict[bytes, int | None] = {}
    for operation in operations:
        path = encode(operation.namespace)
        if path not in known:
            known[path] = _namespace_id(connection, path)
        namespaces.append(known[path])
    old = _find_all(connection, operations, namespaces)
    _delete_rows(connection, [row.revision for row in old.values()])
    _forget_empty(connection, {namespaces[n] for n in old})


def sweep(connection: sqlite3.Connection, now: int, limit: int) -> int:
    """Remove at most ``limit`` expired items, and return how many."""
    rows = connection.execute(
        "select revision, namespace_id from stateroom_item indexed by stateroom_item_expiry "
        "where expires_at <= ? order by expires_at limit ?",
        (now, limit),
    ).fetchall()
    _delete_rows(connection, [revision for revision, _ in rows])
    _forget_empty(connection, {number for _, number in rows})
    return len(rows)


def refresh(connection: sqlite3.Connection, expiries: dict[int, int]) -> None:
    """Set when items expire, by their revision; one that is gone stays gone."""
    connection.executemany(
        "update stateroom_item set expires_at = ? where revision = ? and expires_at is not null",
        [(expires_at, revision) for revision, expires_at in expiries.items()],
    )


def _look(connection: sqlite3.Connection, path: bytes, key: str) -> tuple[int | None, _Old | None, _Stamps]:
    """Return the id of a namespace, the row of a key in it, and the last stamps."""
    namespace_id, revision, created_at, updated_at, expires_at, *last = connection.execute(
        _FIND, (path, key)
    ).fetchone()
    old = None if revision is None else _Old(revision, created_at, updated_at, expires_at)
    return namespace_id, old, _Stamps(*last)


def _find_all(
    connection: sqlite3.Connection, operations: Sequence[Put | Delete], namespaces: Sequence[int | None]
) -> dict[int, _Old]:
    """Return the rows at the addresses of operations, by the place of the operation."""
    pairs = [(number, operation.key) for number, operation in zip(namespaces, operations, strict=True)]
    rows = connection.execute(_FIND_ALL, (orjson.dumps(pairs).decode(),))
    return {place: _Old(*row) for place, *row in rows}


def _namespaces(connection: sqlite3.Connection, paths: Sequence[bytes]) -> list[int]:
    """Return the ids of namespaces, new ones where need be."""
    known: dict[bytes, int] = {}
    for path in paths:
        if path not in known:
            known[path] = _namespace_id(connection, path) or _new_namespace(connection, path)
    return [known[path] for path in paths]


def _namespace_id(connection: sqlite3.Connection, path: bytes) -> int | None:
    row = connection.execute("select id from stateroom_namespace where path = ?", (path,)).fetchone()
    return None if row is None else row[0]


def _new_namespace(connection: sqlite3.Connection, path: bytes) -> int:
    number = connection.execute("insert into stateroom_namespace (path) values (?)", (path,)).lastrowid
    assert number is not None
    return number


def _row(operation: Put, record: Record, namespace_id: int) -> tuple[Any, ...]:
    return (
        record.revision,
        namespace_id,
        record.key,
        record.created_at,
        record.updated_at,
        record.ttl,
        record.expires_at,
        None if operation.paths is None else orjson.dumps(operation.paths).decode(),
        is_exotic(record.raw),
        record.raw.decode(),
    )


def _row_of_file(operation: Put, record: Record, namespace_id: int) -> tuple[Any, ...]:
    return *_row(operation, record, namespace_id), *(operation.stat or (None, None))


def _delete_rows(connection: sqlite3.Connection, revisions: Sequence[int]) -> None:
    if revisions:
        connection.execute(
            "delete from stateroom_item where revision in (select value from json_each(?))", (ids(revisions),)
        )


def _forget_empty(connection: sqlite3.Connection, namespace_ids: set[int | None]) -> None:
    """Remove those of the namespaces that hold nothing any more."""
    connection.executemany(_FORGET, [(number,) for number in namespace_ids])


def _insert_vectors(
    connection: sqlite3.Connection, operations: Sequence[Put], records: Sequence[Record]
) -> None:
    rows = []
    for operation, record in zip(operations, records, strict=True):
        if len(operation.vectors) > VECTORS_PER_ITEM_MAX:
            raise LimitExceeded(
                f"value: {len(operation.vectors):,} texts to embed; at most {VECTORS_PER_ITEM_MAX:,} are "
                "allowed, so name fewer paths in index",
                field="value",
            )
        for ordinal, embedded in enumerate(operation.vectors):
            blob = embedded.vector.astype("float32").tobytes()
            rows.append(((record.revision << 16) + ordinal, embedded.digest, blob))
    if rows:
        connection.executemany("insert into stateroom_vector (id, digest, embedding) values (?, ?, ?)", rows)
