"""Rows of the item table as records, and the statements that read them by address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID

from stateroom.contract.items import Get
from stateroom.drivers.postgres.arrays import bigints, uuids
from stateroom.drivers.postgres.session import CLOCK, NOW, Session
from stateroom.model.item import Record
from stateroom.model.namespace import Namespace, decode, encode

__all__ = [
    "COLUMNS",
    "Changed",
    "Found",
    "Read",
    "address_of",
    "digest_of",
    "get_all",
    "records_of",
    "to_record",
]

_FACTS: Final = "i.raw, i.revision, i.created_at, i.updated_at, i.ttl, i.expires_at"

COLUMNS: Final = f"n.path, i.key, {_FACTS}"
"""What ``to_record`` reads, from ``stateroom.item i`` joined with ``stateroom.namespace n``."""

_GET = f"""
{CLOCK} select {_FACTS}, case when i.expires_at is not null then {NOW} end
from stateroom.item i where i.address = %(address)s
"""  # constants only

_GET_ALL = f"""
{CLOCK} select w.place, {_FACTS}, case when i.expires_at is not null then {NOW} end
from unnest(%(addresses)s::uuid[]) with ordinality w(address, place)
cross join lateral (select * from stateroom.item where address = w.address) i
"""  # constants only

_RECORDS = f"""
select {COLUMNS}
from unnest(%(addresses)s::uuid[], %(revisions)s::bigint[]) with ordinality w(address, revision, place)
join stateroom.item i on i.address = w.address and i.revision = w.revision
join stateroom.namespace n on n.id = i.namespace_id order by w.place
"""  # constants only


class Changed(Exception):  # what happened, which is no error
    """An item that one statement found was changed before the next one read it: look again."""


class Found(NamedTuple):
    """An item that a statement found, as it was put."""

    address: UUID
    revision: int


class Read(NamedTuple):
    """A record that was read, expired or not, and the time then where that matters."""

    record: Record
    now: int | None


def address_of(namespace: Namespace, key: str) -> UUID:
    """Return the primary key of an item: a digest, since namespaces and keys may be of any length.

    Its first four bytes are the namespace's alone, so that items of one are neighbours in the index; the
    other twelve are of both. No label and no key holds a NUL, so the last one is where the key begins.
    """
    path, home = _home(namespace)
    return UUID(bytes=home + blake2b(path + key.encode(), digest_size=12).digest())


def digest_of(path: bytes) -> UUID:
    """Return what a namespace with this path is found by."""
    return UUID(bytes=blake2b(path, digest_size=16).digest())


def to_record(row: Sequence[Any]) -> Record:
    """Return the record of a row of ``COLUMNS``."""
    path, *rest = row
    return Record(_namespace(path), *rest)


def get_all(session: Session, operations: Sequence[Get]) -> list[Read | None]:
    """Return what is at many addresses, expired or not, None where there is nothing."""
    if len(operations) == 1:
        namespace, key, _ = operations[0]
        rows = session.fetch(_GET, {"address": address_of(namespace, key)}, prepared=True)
        return [_read(operations[0], rows[0]) if rows else None]
    addresses = uuids(address_of(namespace, key) for namespace, key, _ in operations)
    found: list[Read | None] = [None] * len(operations)
    for place, *row in session.fetch(_GET_ALL, {"addresses": addresses}, prepared=True):
        found[place - 1] = _read(operations[place - 1], row)
    return found


def records_of(session: Session, found: Sequence[Found]) -> list[Record]:
    """Return the records of what was found, in the given order; raise ``Changed`` if one is gone."""
    if not found:
        return []
    rows = session.fetch(
        _RECORDS,
        {
            "addresses": uuids(address for address, _ in found),
            "revisions": bigints([revision for _, revision in found]),
        },
        prepared=True,
    )
    if len(rows) < len(found):
        raise Changed
    return [to_record(row) for row in rows]


def _read(operation: Get, row: Sequence[Any]) -> Read:
    *facts, now = row
    return Read(Record(operation.namespace, operation.key, *facts), now)


@lru_cache(maxsize=10_000)
def _home(namespace: Namespace) -> tuple[bytes, bytes]:
    path = encode(namespace)
    return path, blake2b(path, digest_size=4).digest()


@lru_cache(maxsize=10_000)
def _namespace(path: bytes) -> Namespace:
    return decode(path)
