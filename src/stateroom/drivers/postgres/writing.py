"""Putting and deleting rows."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final
from uuid import UUID

import orjson

from stateroom.contract.items import Delete, Put, check_condition
from stateroom.drivers.postgres.arrays import bigints, byteas, doubles, integers, texts, uuids
from stateroom.drivers.postgres.documents import exact_json
from stateroom.drivers.postgres.rows import address_of, digest_of
from stateroom.drivers.postgres.session import CLOCK, LIVE, NOW, Session
from stateroom.drivers.postgres.text import TextIndex
from stateroom.errors import Conflict
from stateroom.model.item import Record
from stateroom.model.namespace import Namespace, encode
from stateroom.model.ttl import expiry

__all__ = ["delete_all", "forget_empty", "put", "put_all", "refresh", "register", "sweep"]

_REVISION: Final = "nextval('stateroom.revision')"

_STAMP: Final = f"""
stamp as materialized (
    select greatest(
        {NOW}, (select max(updated_at) from stateroom.item),
        (select s.value::bigint from stateroom.setting s where s.name = 'updated_at')
    ) as at
)
"""
"""The time of a put: never before that of an item put earlier, even if the clock has run back."""

_HOME: Final = "(select n.id from stateroom.namespace n where n.digest = {digest} for key share)"
"""The id of a namespace, which stays until the transaction ends; null if it is not there."""

_INSERT: Final = """
insert into stateroom.item as i (
    address, namespace_id, key, revision, created_at, updated_at, ttl, expires_at,
    paths, length, raw, value, terms, counts, file_size, file_modified_at
)
"""

_REPLACE: Final = f"""
on conflict (address) do update set
    namespace_id = excluded.namespace_id,
    revision = {_REVISION},
    created_at = case when {LIVE} then i.created_at else excluded.created_at end,
    updated_at = case when {LIVE} then greatest(excluded.updated_at, i.updated_at + 1)
                      else excluded.updated_at end,
    ttl = excluded.ttl,
    expires_at = excluded.expires_at,
    paths = excluded.paths,
    length = excluded.length,
    raw = excluded.raw,
    value = excluded.value,
    terms = excluded.terms,
    counts = excluded.counts,
    file_size = excluded.file_size,
    file_modified_at = excluded.file_modified_at
"""

_STAMPS: Final = "i.revision, i.created_at, i.updated_at, i.expires_at"

_PUT = f"""
{CLOCK}, {_STAMP} {_INSERT}
select %(address)s, {_HOME.format(digest="%(digest)s")}, %(key)s, {_REVISION}, stamp.at, stamp.at, %(ttl)s,
    {NOW} + %(lifetime)s::bigint, %(paths)s::text[], %(length)s, %(raw)s,
    convert_from(coalesce(%(exact)s::bytea, %(raw)s::bytea), 'UTF8')::jsonb, %(terms)s::bigint[],
    %(counts)s::integer[], %(file_size)s, %(file_modified_at)s
from stamp {_REPLACE} where not %(if_absent)s::boolean or not {LIVE}
returning {_STAMPS}
"""  # constants only

_PUT_ALL = f"""
{CLOCK}, {_STAMP} {_INSERT}
select w.address, {_HOME.format(digest="w.digest")}, w.key, {_REVISION}, stamp.at, stamp.at, w.ttl,
    {NOW} + w.lifetime, w.paths::text[], w.length, w.raw,
    convert_from(coalesce(w.exact, w.raw), 'UTF8')::jsonb,
    case when w.first is not null then (%(terms)s::bigint[])[w.first : w.last] end,
    case when w.first is not null then (%(counts)s::integer[])[w.first : w.last] end,
    w.file_size, w.file_modified_at
from stamp, unnest(
    %(addresses)s::uuid[], %(digests)s::uuid[], %(keys)s::text[], %(ttls)s::double precision[],
    %(lifetimes)s::bigint[], %(paths)s::text[], %(lengths)s::integer[], %(raws)s::bytea[],
    %(exacts)s::bytea[], %(firsts)s::integer[], %(lasts)s::integer[], %(file_sizes)s::bigint[],
    %(file_modified_ats)s::text[]
) w(
    address, digest, key, ttl, lifetime, paths, length, raw, exact, first, last, file_size, file_modified_at
) {_REPLACE}
returning i.address, {_STAMPS}
"""  # constants only

_LEVEL = f"""
update stateroom.item i set
    created_at = case when i.created_at = i.updated_at then %(latest)s else i.created_at end,
    updated_at = %(latest)s
where i.address = any(%(addresses)s::uuid[]) returning i.address, {_STAMPS}
"""

_PUT_IF_REVISION = f"""
{CLOCK}, {_STAMP}
update stateroom.item i set
    revision = {_REVISION},
    updated_at = greatest(stamp.at, i.updated_at + 1),
    ttl = %(ttl)s,
    expires_at = {NOW} + %(lifetime)s::bigint,
    paths = %(paths)s::text[],
    length = %(length)s,
    raw = %(raw)s,
    value = convert_from(coalesce(%(exact)s::bytea, %(raw)s::bytea), 'UTF8')::jsonb,
    terms = %(terms)s::bigint[],
    counts = %(counts)s::integer[],
    file_size = %(file_size)s,
    file_modified_at = %(file_modified_at)s
from stamp where i.address = %(address)s and i.revision = %(if_revision)s and {LIVE}
and not %(if_absent)s::boolean
returning {_STAMPS}
"""  # constants only

_REVISION_AT = f"""
{CLOCK} select i.revision from stateroom.item i where i.address = %(address)s and {LIVE}
"""  # constants only

_KEEP_TIME: Final = """
update stateroom.setting s set value = %(time)s::bigint::text
where s.name = 'updated_at' and s.value::bigint < %(time)s
"""
"""Remembers the time of a removed item that is ahead of the clock."""

_GONE: Final = f"i.namespace_id, i.updated_at, i.updated_at >= {NOW}"
"""What is told of removed items: where they were, their time, and whether that is ahead of the clock."""

_DELETE = f"""
{CLOCK} delete from stateroom.item i where i.address = %(address)s
and (%(if_revision)s::bigint is null or i.revision = %(if_revision)s::bigint and {LIVE})
returning {_GONE}
"""

_DELETE_ALL = f"""
{CLOCK} delete from stateroom.item i where i.address = any(%(addresses)s::uuid[]) returning {_GONE}
"""

_SWEEP = f"""
{CLOCK}, due as (
    select i.address from stateroom.item i where i.expires_at <= {NOW}
    order by i.expires_at limit %(most)s for update skip locked
)
delete from stateroom.item i using due where i.address = due.address returning i.address, {_GONE}
"""


def put(session: Session, text: TextIndex | None, operation: Put) -> Record:
    """Store one item whose namespace is registered, in one statement."""
    parameters = _parameters(text, operation)
    if parameters["terms"] is not None:
        parameters["terms"] = bigints(parameters["terms"])
        parameters["counts"] = integers(parameters["counts"])
    if operation.if_revision is not None:
        rows = session.fetch(_PUT_IF_REVISION, parameters, prepared=True)
    else:
        rows = session.fetch(_PUT, parameters, prepared=True)
    if not rows:
        found = session.fetch(_REVISION_AT, parameters, prepared=True)
        raise _conflict(operation, found[0][0] if found else None)
    return _record(operation, rows[0])


def put_all(session: Session, text: TextIndex | None, operations: Sequence[Put]) -> list[Record]:
    """Store many items, at different addresses, without conditions and in registered namespaces."""
    if len(operations) == 1:
        return [put(session, text, operations[0])]
    columns = [_parameters(text, operation) for operation in operations]
    terms: list[int] = []
    counts: list[int] = []
    bounds: list[tuple[int | None, int | None]] = []
    for column in columns:
        if column["terms"] is None:
            bounds.append((None, None))
            continue
        first = len(terms) + 1
        terms += column["terms"]
        counts += column["counts"]
        bounds.append((first, len(terms)))
    rows = session.fetch(
        _PUT_ALL,
        {
            "addresses": uuids(column["address"] for column in columns),
            "digests": uuids(column["digest"] for column in columns),
            "keys": texts(column["key"] for column in columns),
            "ttls": doubles([column["ttl"] for column in columns]),
            "lifetimes": bigints([column["lifetime"] for column in columns]),
            "paths": texts(_array(column["paths"]) for column in columns),
            "lengths": integers([column["length"] for column in columns]),
            "raws": byteas(column["raw"] for column in columns),
            "exacts": byteas(column["exact"] for column in columns),
            "terms": bigints(terms),
            "counts": integers(counts),
            "firsts": integers([first for first, _ in bounds]),
            "lasts": integers([last for _, last in bounds]),
            **_file_columns(operations),
        },
        prepared=True,
    )
    stamps = {address: stamp for address, *stamp in _levelled(session, rows)}
    return [
        _record(operation, stamps[column["address"]])
        for operation, column in zip(operations, columns, strict=True)
    ]


def _file_columns(operations: Sequence[Put]) -> dict[str, Any]:
    """Return the columns of what is known of files; shorter ones than others are filled up with nulls."""
    stats = [operation.stat for operation in operations]
    if not any(stats):
        stats = []
    return {
        "file_sizes": bigints([None if stat is None else stat.size for stat in stats]),
        "file_modified_ats": texts(None if stat is None else stat.modified_at for stat in stats),
    }


def _levelled(session: Session, rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Give items that were put together one time, by which their revisions tell the order.

    They have one already, unless the clock has not gone on since one of them was put before.
    """
    latest = max(updated_at for *_, updated_at, _ in rows)
    if all(updated_at == latest for *_, updated_at, _ in rows):
        return rows
    return session.fetch(
        _LEVEL, {"addresses": uuids(address for address, *_ in rows), "latest": latest}, prepared=True
    )


def delete_all(session: Session, operations: Sequence[Delete]) -> list[int]:
    """Remove items, all without conditions if they are several; return the ids of their namespaces."""
    addresses = [address_of(operation.namespace, operation.key) for operation in operations]
    if len(operations) > 1:
        return _left(session, session.fetch(_DELETE_ALL, {"addresses": uuids(addresses)}, prepared=True))
    (operation,) = operations
    parameters = {"address": addresses[0], "if_revision": operation.if_revision}
    rows = session.fetch(_DELETE, parameters, prepared=True)
    if not rows and operation.if_revision is not None:
        found = session.fetch(_REVISION_AT, parameters, prepared=True)
        raise _conflict(operation, found[0][0] if found else None)
    return _left(session, rows)


def register(session: Session, namespaces: Sequence[Namespace]) -> None:
    """Make sure that there is a row for each namespace."""
    session.execute(
        "insert into stateroom.namespace (digest, labels, path, path_reversed) "
        "select w.digest, array(select jsonb_array_elements_text(w.labels::jsonb)), w.path, w.path_reversed "
        "from unnest(%(digests)s::uuid[], %(labels)s::text[], %(paths)s::bytea[], %(reversed)s::bytea[]) "
        "w(digest, labels, path, path_reversed) on conflict (digest) do nothing",
        {
            "digests": uuids(digest_of(encode(namespace)) for namespace in namespaces),
            "labels": texts(orjson.dumps(namespace).decode() for namespace in namespaces),
            "paths": byteas(encode(namespace) for namespace in namespaces),
            "reversed": byteas(encode(namespace[::-1]) for namespace in namespaces),
        },
    )


def forget_empty(session: Session, namespace_ids: Sequence[int]) -> None:
    """Remove those of the namespaces that hold no row any more, in a transaction.

    The lock comes first: whoever puts meanwhile waits for it, and whoever has put is seen by the
    second statement.
    """
    rows = session.fetch(
        "select n.id from stateroom.namespace n where n.id = any(%(ids)s::bigint[]) "
        "order by n.id for update skip locked",
        {"ids": bigints(list(namespace_ids))},
    )
    session.execute(
        "delete from stateroom.namespace n where n.id = any(%(ids)s::bigint[]) "
        "and not exists (select 1 from stateroom.item i where i.namespace_id = n.id)",
        {"ids": bigints([number for (number,) in rows])},
    )


def sweep(session: Session, limit: int) -> list[tuple[UUID, int]]:
    """Remove at most ``limit`` expired items; return their addresses and the ids of their namespaces."""
    rows = session.fetch(_SWEEP, {"most": limit})
    numbers = _left(session, [gone for _, *gone in rows])
    return [(address, number) for (address, *_), number in zip(rows, numbers, strict=True)]


def _left(session: Session, rows: Sequence[Sequence[Any]]) -> list[int]:
    """Return the ids of the namespaces of removed items, so that no later put runs behind them."""
    ahead = [updated_at for _, updated_at, is_ahead in rows if is_ahead]
    if ahead:
        session.execute(_KEEP_TIME, {"time": max(ahead)}, prepared=True)
    return [number for number, *_ in rows]


def refresh(session: Session, expiries: dict[tuple[UUID, int], int]) -> None:
    """Set when items expire, by address and revision; one that has changed since stays as it is."""
    session.execute(
        "update stateroom.item i set expires_at = w.expires_at "
        "from unnest(%(addresses)s::uuid[], %(revisions)s::bigint[], %(expiries)s::bigint[]) "
        "w(address, revision, expires_at) where i.address = w.address and i.revision = w.revision",
        {
            "addresses": uuids(address for address, _ in expiries),
            "revisions": bigints([revision for _, revision in expiries]),
            "expiries": bigints(list(expiries.values())),
        },
        prepared=True,
    )


def _conflict(operation: Put | Delete, found: int | None) -> Conflict:
    """Return why a condition did not hold; ``found`` is what the item is at a moment later."""
    try:
        check_condition(operation, found)
    except Conflict as conflict:
        return conflict
    return Conflict(
        f"key {operation.key!r} in {operation.namespace!r} is being changed: read it again and retry",
        field="if_revision" if operation.if_revision is not None else "if_absent",
    )


def _parameters(text: TextIndex | None, operation: Put) -> dict[str, Any]:
    path = encode(operation.namespace)
    terms, counts, length = (None, None, 0) if text is None else text.columns(operation.raw, operation.paths)
    size, modified_at = operation.stat or (None, None)
    return {
        "address": address_of(operation.namespace, operation.key),
        "digest": digest_of(path),
        "key": operation.key,
        "ttl": operation.ttl,
        "lifetime": None if operation.ttl is None else expiry(0, operation.ttl),
        "paths": None if operation.paths is None else list(operation.paths),
        "length": length,
        "raw": operation.raw,
        "exact": exact_json(operation.raw),
        "terms": terms,
        "counts": counts,
        "if_absent": operation.if_absent,
        "if_revision": operation.if_revision,
        "file_size": size,
        "file_modified_at": modified_at,
    }


def _record(operation: Put, stamps: Sequence[Any]) -> Record:
    revision, created_at, updated_at, expires_at = stamps
    return Record(
        operation.namespace,
        operation.key,
        operation.raw,
        revision,
        created_at,
        updated_at,
        operation.ttl,
        expires_at,
    )


def _array(texts: list[str] | None) -> str | None:
    """Return the literal of an array, for lists of different lengths do not make one array."""
    if texts is None:
        return None
    quoted = ('"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"' for text in texts)
    return "{" + ",".join(quoted) + "}"
