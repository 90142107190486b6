"""Rows of the item table as records, and the statements that read them by address."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from hashlib import blake2b
from typing import Any, Final, NamedTuple
from uuid import UUID

from stateroom.contract.items import Get
from stateroom.drivers.postgres.arrays import uuids
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

# A list rather than a table of addresses: for it the plan that is kept is as good as any.
_GET_ALL = f"""
{CLOCK} select i.address, {_FACTS}, case when i.expires_at is not null then {NOW} end
from stateroom.item i where i.address = any(%(addresses)s::uuid[])
"""

_RECORDS = f"""
select i.address, {COLUMNS} from stateroom.item i join stateroom.namespace n on n.id = i.namespace_id
where i.address = any(%(addresses)s::uuid[])
"""


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
    addresses = [address_of(namespace, key) for namespace, key, _ in operations]
    rows = session.fetch(_GET_ALL, {"addresses": uuids(addresses)}, prepared=True)
    found = {address: row for address, *row in rows}
    return [
        _read(operation, found[address]) if address in found else None
        for operation, address in zip(operations, addresses, strict=True)
    ]


def records_of(session: Session, found: Sequence[Found]) -> list[Record]:
    """Return the records of what was found, in the given order; raise ``Changed`` if one is gone."""
    if not found:
        return []
    addresses = uuids(address for address, _ in found)
    rows = session.fetch(_RECORDS, {"addresses": addresses}, prepared=True)
    records = {address: to_record(row) for address, *row in rows}
    if any(address not in records or records[address].revision != revision for address, revision in found):
        raise Changed
    return [records[address] for address, _ in found]


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
