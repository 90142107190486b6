"""Listing the keys of one namespace in their order, at the cost of what is shown and not of what is there."""

from __future__ import annotations

import sqlite3
from typing import Any, Final, NamedTuple

from stateroom.contract.items import ListKeys
from stateroom.drivers.sqlite.rows import LIVE
from stateroom.model.file import PATH_START
from stateroom.model.item import KeyEntry
from stateroom.model.keys import first_behind, rolled_up, upper_bound
from stateroom.model.namespace import encode

__all__ = ["list_keys"]

_PATHS_END: Final = "0"
"""The least key behind all that begin with ``PATH_START``."""

_BY_ADDRESS = "stateroom_item i indexed by stateroom_item_address", "1"
_BY_PATH = "stateroom_item i indexed by stateroom_item_path", "substr(i.key, 1, 1) = '/'"

_BEHIND_ALL = b""
"""SQLite sorts every blob behind every text."""


class _Stretch(NamedTuple):
    """Keys that are read by one index: the table with its condition, from where up to where, and the rest."""

    source: tuple[str, str]
    start: str
    stop: str | None
    rest: str | None


def list_keys(connection: sqlite3.Connection, operation: ListKeys, now: int) -> list[KeyEntry]:
    """Return what the operation lists."""
    listed: list[KeyEntry] = []
    start: str | None = operation.prefix
    if operation.after is not None:
        behind = first_behind(operation.after, operation.prefix, operation.delimiter)
        start = None if behind is None else max(operation.prefix, behind)
    while start is not None and len(listed) < operation.limit:
        stretch = _stretch(start, upper_bound(operation.prefix))
        start = _list_on(connection, operation, now, stretch, listed)
    return listed


def _stretch(start: str, bound: str | None) -> _Stretch:
    """Return the first of the keys from one up to another; those of files have an index of their own."""
    source, end = _BY_ADDRESS, None
    if start < PATH_START:
        end = PATH_START
    elif start < _PATHS_END:
        source, end = _BY_PATH, _PATHS_END
    if bound is not None and (end is None or bound <= end):
        return _Stretch(source, start, bound, None)
    return _Stretch(source, start, end, end)


def _list_on(
    connection: sqlite3.Connection, operation: ListKeys, now: int, stretch: _Stretch, listed: list[KeyEntry]
) -> str | None:
    """List the keys of a stretch up to one that is rolled up; return the key to go on from, if any."""
    prefix, delimiter = operation.prefix, operation.delimiter
    rows = connection.execute(*_query(operation, now, stretch, operation.limit - len(listed)))
    for name, revision, updated_at, size, modified_at, raw in rows:
        key = name.decode()
        if delimiter is not None and key.find(delimiter, len(prefix)) >= 0:
            # What else it stands for is passed over by a seek, however much that is.
            rows.close()
            shown = rolled_up(key, prefix, delimiter)
            listed.append(KeyEntry(shown))
            return first_behind(shown, prefix, delimiter)
        said = None if modified_at is None else modified_at.decode()
        listed.append(KeyEntry(key, revision, updated_at, size, said, raw))
    return stretch.rest


def _query(operation: ListKeys, now: int, stretch: _Stretch, limit: int) -> tuple[str, list[Any]]:
    """Return the statement that reads a stretch, and its parameters.

    A row makes at most one entry, so as many rows are enough as entries are wanted.
    """
    table, condition = stretch.source
    where = f"i.key >= ? and i.key < ? and {condition} and {LIVE}"
    parameters: list[Any] = [encode(operation.namespace), stretch.start, stretch.stop or _BEHIND_ALL, now]
    if operation.suffix:
        where += " and substr(i.key, ?) = ?"
        parameters += [-len(operation.suffix), operation.suffix]
    if operation.containing is not None:
        where += " and instr(i.value, ?)"
        parameters.append(operation.containing.decode())
    value = "i.value" if operation.with_values else "null"
    sql = (
        f"select i.key, i.revision, i.updated_at, i.file_size, i.file_modified_at, {value} "  # noqa: S608
        f"from stateroom_namespace n cross join {table} on i.namespace_id = n.id "
        f"where n.path = ? and {where} order by i.key limit ?"
    )
    return sql, [*parameters, limit]
