"""Putting and deleting rows, inside a transaction that somebody else commits."""

from __future__ import annotations

import sqlite3
from typing import Any

import numpy as np
import orjson

from stateroom.contract.items import Delete, Put, check_condition
from stateroom.errors import LimitExceeded
from stateroom.model.item import Record
from stateroom.model.json_values import is_exotic
from stateroom.model.namespace import encode
from stateroom.model.ttl import expiry

__all__ = ["VECTORS_PER_ITEM_MAX", "delete", "forget_empty_namespaces", "put", "refresh", "sweep"]

VECTORS_PER_ITEM_MAX = 65_536
"""Vectors of one item: as many ordinals as its revision leaves room for in the id of a vector."""

_FIND = """
select n.id, i.revision, i.created_at, i.updated_at, i.expires_at,
    (select updated_at from stateroom_item order by revision desc limit 1)
from (select ? as path)
left join stateroom_namespace n using (path)
left join stateroom_item i on i.namespace_id = n.id and i.key = ?
"""

_INSERT = """
insert into stateroom_item
    (namespace_id, key, created_at, updated_at, ttl, expires_at, paths, exotic, value)
values (?, ?, ?, ?, ?, ?, ?, ?, ?)
"""

_FORGET = """
delete from stateroom_namespace where id = ?1
and not exists (select 1 from stateroom_item where namespace_id = ?1)
"""


def put(connection: sqlite3.Connection, operation: Put, now: int) -> Record:
    """Store one item and its vectors."""
    path = encode(operation.namespace)
    namespace_id, revision, created_at, updated_at, expires_at, newest = _look(
        connection, path, operation.key
    )
    is_live = revision is not None and (expires_at is None or expires_at > now)
    check_condition(operation, revision if is_live else None)
    stamp: int = max(now, newest or 0)
    if is_live:
        stamp = max(stamp, updated_at + 1)
    if revision is not None:
        connection.execute("delete from stateroom_item where revision = ?", (revision,))
    if namespace_id is None:
        cursor = connection.execute("insert into stateroom_namespace (path) values (?)", (path,))
        namespace_id = cursor.lastrowid
    if not is_live:
        created_at = stamp
    due = None if operation.ttl is None else expiry(now, operation.ttl)
    new = _insert(connection, operation, namespace_id, created_at, stamp, due)
    return Record(
        operation.namespace, operation.key, operation.raw, new, created_at, stamp, operation.ttl, due
    )


def delete(connection: sqlite3.Connection, operation: Delete, now: int) -> None:
    """Remove one item, and its namespace when that is empty now."""
    namespace_id, revision, _, _, expires_at, _ = _look(
        connection, encode(operation.namespace), operation.key
    )
    is_live = revision is not None and (expires_at is None or expires_at > now)
    check_condition(operation, revision if is_live else None)
    if revision is not None:
        connection.execute("delete from stateroom_item where revision = ?", (revision,))
        connection.execute(_FORGET, (namespace_id,))


def sweep(connection: sqlite3.Connection, now: int, limit: int) -> int:
    """Remove at most ``limit`` expired items, and return how many."""
    rows = connection.execute(
        "select revision, namespace_id from stateroom_item indexed by stateroom_item_expiry "
        "where expires_at <= ? order by expires_at limit ?",
        (now, limit),
    ).fetchall()
    connection.executemany("delete from stateroom_item where revision = ?", [(r,) for r, _ in rows])
    forget_empty_namespaces(connection, {number for _, number in rows})
    return len(rows)


def forget_empty_namespaces(connection: sqlite3.Connection, namespace_ids: set[int]) -> None:
    """Remove those of the namespaces that hold nothing any more."""
    connection.executemany(_FORGET, [(number,) for number in namespace_ids])


def refresh(connection: sqlite3.Connection, expiries: dict[int, int]) -> None:
    """Set when items expire, by their revision; one that is gone stays gone."""
    connection.executemany(
        "update stateroom_item set expires_at = ? where revision = ? and expires_at is not null",
        [(expires_at, revision) for revision, expires_at in expiries.items()],
    )


def _look(connection: sqlite3.Connection, path: bytes, key: str) -> tuple[Any, ...]:
    """Return what ``_FIND`` says of an address: None for each thing that does not exist."""
    return connection.execute(_FIND, (path, key)).fetchone()  # type: ignore[no-any-return]


def _insert(
    connection: sqlite3.Connection,
    operation: Put,
    namespace_id: int | None,
    created_at: int,
    updated_at: int,
    expires_at: int | None,
) -> int:
    paths = None if operation.paths is None else orjson.dumps(operation.paths).decode()
    cursor = connection.execute(
        _INSERT,
        (
            namespace_id,
            operation.key,
            created_at,
            updated_at,
            operation.ttl,
            expires_at,
            paths,
            is_exotic(operation.raw),
            operation.raw.decode(),
        ),
    )
    revision = cursor.lastrowid
    assert revision is not None
    if operation.vectors:
        _insert_vectors(connection, operation, revision)
    return revision


def _insert_vectors(connection: sqlite3.Connection, operation: Put, revision: int) -> None:
    if len(operation.vectors) > VECTORS_PER_ITEM_MAX:
        raise LimitExceeded(
            f"value: {len(operation.vectors):,} texts to embed; at most {VECTORS_PER_ITEM_MAX:,} are "
            "allowed, so name fewer paths in index",
            field="value",
        )
    connection.executemany(
        "insert into stateroom_vector (id, digest, embedding) values (?, ?, ?)",
        [
            ((revision << 16) + ordinal, embedded.digest, embedded.vector.astype(np.float32).tobytes())
            for ordinal, embedded in enumerate(operation.vectors)
        ],
    )
