"""Rows of the item table as records, and the SQL that reads them."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import orjson

from stateroom.contract.items import Get
from stateroom.model.item import Record
from stateroom.model.namespace import Namespace, decode, encode

__all__ = ["COLUMNS", "LIVE", "get", "get_all", "ids", "records_of", "to_record"]

_FACTS = "i.value, i.revision, i.created_at, i.updated_at, i.ttl, i.expires_at"

COLUMNS = f"n.path, i.key, {_FACTS}"
"""What ``to_record`` reads, from ``stateroom_item i`` joined with ``stateroom_namespace n``."""

_GET = f"""
select {_FACTS} from stateroom_namespace n
cross join stateroom_item i on i.namespace_id = n.id and i.key = ?2 where n.path = ?1
"""  # noqa: S608  # constants only

LIVE = "(i.expires_at is null or i.expires_at > ?)"
"""The condition that an item has not expired; its parameter is the present."""

_CHUNKS = (4, 16, 64, 256)
"""Numbers of addresses for which there is a statement; a list is filled up to the next of them."""

_PATHS_MAX = 10_000
_paths: dict[bytes, Namespace] = {}


def to_record(row: Sequence[Any]) -> Record:
    """Return the record of a row of ``COLUMNS``."""
    path, key, value, *rest = row
    namespace = _paths.get(path)
    if namespace is None:
        if len(_paths) >= _PATHS_MAX:
            _paths.clear()
        namespace = _paths[path] = decode(path)
    return Record(namespace, key.decode(), value, *rest)


def ids(numbers: Iterable[int]) -> str:
    """Return numbers as the JSON array that ``json_each`` reads: a list of any length in one parameter."""
    return orjson.dumps(list(numbers)).decode()


def get(connection: sqlite3.Connection, operation: Get) -> Record | None:
    """Return the record at an address, expired or not."""
    namespace, key, _ = operation
    row = connection.execute(_GET, (encode(namespace), key)).fetchone()
    return None if row is None else Record(namespace, key, *row)


def get_all(connection: sqlite3.Connection, operations: Sequence[Get]) -> list[Record | None]:
    """Return the records at many addresses, expired or not, None where there is none."""
    records: list[Record | None] = [None] * len(operations)
    for start in range(0, len(operations), _CHUNKS[-1]):
        chunk = operations[start : start + _CHUNKS[-1]]
        size = next(size for size in _CHUNKS if size >= len(chunk))
        parameters: list[Any] = []
        for place, (namespace, key, _) in enumerate(chunk, start):
            parameters += (place, encode(namespace), key)
        parameters += [None] * 3 * (size - len(chunk))
        for place, *row in connection.execute(_get_all(size), parameters):
            records[place] = Record(operations[place].namespace, operations[place].key, *row)
    return records


@cache
def _get_all(size: int) -> str:
    addresses = ", ".join(["(?, ?, ?)"] * size)
    return (
        f"with w(place, path, key) as (values {addresses}) select w.place, {_FACTS} from w "  # noqa: S608
        "cross join stateroom_namespace n on n.path = w.path "
        "cross join stateroom_item i on i.namespace_id = n.id and i.key = w.key"
    )


def records_of(connection: sqlite3.Connection, revisions: Sequence[int]) -> list[Record]:
    """Return the records of revisions that exist, in the given order."""
    if not revisions:
        return []
    rows = connection.execute(
        f"select {COLUMNS} from json_each(?) wanted "  # noqa: S608  # constants only
        "cross join stateroom_item i on i.revision = wanted.value "
        "join stateroom_namespace n on n.id = i.namespace_id order by wanted.key",
        (ids(revisions),),
    )
    return [to_record(row) for row in rows]
