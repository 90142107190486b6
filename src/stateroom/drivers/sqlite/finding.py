"""Finding items by prefix and filter, latest put first, at a cost that other namespaces do not raise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import nlargest
from typing import Any

from stateroom.drivers.sqlite.rows import COLUMNS, LIVE, records_of, to_record
from stateroom.drivers.sqlite.where import Condition
from stateroom.model.item import Record
from stateroom.model.namespace import Namespace, prefix_range

__all__ = ["Scope", "count", "find", "revisions_in"]

FEW_NAMESPACES = 64
"""Namespaces up to which each is asked for its own latest items."""

SEVERAL_NAMESPACES = 256
"""Namespaces up to which a search counts their items before it decides how to find the latest."""

NARROW_ITEMS = 2_000
"""Items of a scope up to which they are all read and sorted."""

WALK_FACTOR = 16
"""Items of everybody that a walk looks at for each one wanted, before the scope is sorted instead."""

WALK_OWN = 4
"""Items of everybody that a walk with a filter looks at for each item of the scope, before that is sorted."""

WALK_LEAST = 4_096
"""Items that a walk with a filter looks at first."""

_OWN = "stateroom_item i indexed by stateroom_item_in_namespace"
_RECENT = "stateroom_item i not indexed"
Parameters = tuple[Any, ...]


class Scope:
    """The namespaces at or below a prefix, as a search meets them."""

    def __init__(self, connection: sqlite3.Connection, prefix: Namespace) -> None:
        self.is_all = not prefix
        low, high = prefix_range(prefix)
        self.range: Parameters = () if self.is_all else (low, high)
        self.namespace_ids: list[int] = []
        if not self.is_all:
            rows = connection.execute(
                "select id from stateroom_namespace where path >= ? and path < ? limit ?",
                (low, high, SEVERAL_NAMESPACES + 1),
            )
            self.namespace_ids = [number for (number,) in rows]

    @property
    def is_empty(self) -> bool:
        """Whether no namespace holds anything."""
        return not self.is_all and not self.namespace_ids

    @property
    def is_few(self) -> bool:
        """Whether ``namespace_ids`` are all the namespaces of the scope."""
        return not self.is_all and len(self.namespace_ids) <= FEW_NAMESPACES

    @property
    def is_several(self) -> bool:
        """Whether the namespaces are so few that counting their items costs next to nothing."""
        return not self.is_all and len(self.namespace_ids) <= SEVERAL_NAMESPACES

    @property
    def source(self) -> str:
        """The tables ``i`` (and ``n``) of the scope, namespace by namespace; goes with ``sql``."""
        if self.is_all:
            return "stateroom_item i"
        return f"stateroom_namespace n cross join {_OWN} on i.namespace_id = n.id"

    @property
    def sql(self) -> str:
        """The condition that ``n`` is in the scope; its parameters are ``range``."""
        return "1" if self.is_all else "n.path >= ? and n.path < ?"

    def size(self, connection: sqlite3.Connection, most: int) -> int:
        """Count the rows of the scope, expired ones included, up to ``most`` (-1: all)."""
        (number,) = connection.execute(
            f"select count(*) from (select 1 from {self.source} where {self.sql} limit ?)",  # noqa: S608
            (*self.range, most),
        ).fetchone()
        return number  # type: ignore[no-any-return]


def find(
    connection: sqlite3.Connection,
    scope: Scope,
    condition: Condition | None,
    now: int,
    limit: int,
    offset: int,
) -> list[Record]:
    """Return a page of the live items of a scope that match, latest put first."""
    if scope.is_empty or limit == 0:
        return []
    if len(scope.namespace_ids) == 1 or scope.is_all:
        if condition is None or condition.via is None:
            return _straight(connection, scope, condition, now, limit, offset)
        return records_of(connection, _sorted(connection, scope, condition, now, limit, offset))
    if condition is None and scope.is_few and limit + offset <= NARROW_ITEMS:
        return records_of(connection, _merged(connection, scope, now, limit, offset))
    return records_of(connection, _chosen(connection, scope, condition, now, limit, offset))


def count(connection: sqlite3.Connection, scope: Scope, condition: Condition | None, now: int) -> int:
    """Count the live items of a scope that match."""
    sql, parameters = ("1", ()) if condition is None else condition[:2]
    (number,) = connection.execute(
        f"select count(*) from {scope.source} where {scope.sql} and {LIVE} and {sql}",  # noqa: S608
        (*scope.range, now, *parameters),
    ).fetchone()
    return number  # type: ignore[no-any-return]


def revisions_in(
    connection: sqlite3.Connection, scope: Scope, condition: Condition | None, now: int
) -> list[int]:
    """Return the revisions of the live items of a scope that match, in no particular order."""
    sql, parameters = ("1", ()) if condition is None else condition[:2]
    rows = connection.execute(
        f"select i.revision from {scope.source} where {scope.sql} and {LIVE} and {sql}",  # noqa: S608
        (*scope.range, now, *parameters),
    )
    return [revision for (revision,) in rows]


def _straight(
    connection: sqlite3.Connection,
    scope: Scope,
    condition: Condition | None,
    now: int,
    limit: int,
    offset: int,
) -> list[Record]:
    """Walk one index that is in order already: one namespace's, or everybody's."""
    where, parameters = ("1", ()) if scope.is_all else ("i.namespace_id = ?", (scope.namespace_ids[0],))
    if condition is not None:
        table = _RECENT if scope.is_all else _OWN
        sql = (
            f"select {COLUMNS} from {table} "  # noqa: S608
            "join stateroom_namespace n on n.id = i.namespace_id "
            f"where {where} and {LIVE} and {condition.sql} order by i.revision desc limit ? offset ?"
        )
        rows = connection.execute(sql, (*parameters, now, *condition.parameters, limit, offset))
        return [to_record(row) for row in rows]
    table = _RECENT if scope.is_all else _OWN
    page = (
        f"select i.revision as r from {table} where {where} and {LIVE} "  # noqa: S608
        "order by i.revision desc limit ? offset ?"
    )
    rows = connection.execute(
        f"select {COLUMNS} from ({page}) cross join stateroom_item i on i.revision = r "  # noqa: S608
        "cross join stateroom_namespace n on n.id = i.namespace_id order by r desc",
        (*parameters, now, limit, offset),
    )
    return [to_record(row) for row in rows]


def _merged(connection: sqlite3.Connection, scope: Scope, now: int, limit: int, offset: int) -> list[int]:
    """Ask each of a few namespaces for its latest, and take the latest of those."""
    need = limit + offset
    latest: list[int] = []
    sql = (
        f"select i.revision from {_OWN} where i.namespace_id = ? and {LIVE} "  # noqa: S608
        "order by i.revision desc limit ?"
    )
    for number in scope.namespace_ids:
        latest += [revision for (revision,) in connection.execute(sql, (number, now, need))]
    return nlargest(need, latest)[offset:]


def _chosen(
    connection: sqlite3.Connection,
    scope: Scope,
    condition: Condition | None,
    now: int,
    limit: int,
    offset: int,
) -> list[int]:
    """Sort a narrow scope; walk the latest of a wide one, as long as that is not the longer way."""
    if condition is not None and condition.via is not None:
        return _sorted(connection, scope, condition, now, limit, offset)
    need = limit + offset
    if scope.is_several and scope.size(connection, NARROW_ITEMS) < NARROW_ITEMS:
        return _sorted(connection, scope, condition, now, limit, offset)
    found: list[int] = []
    for newest, oldest in _windows(connection, scope, condition, need):
        found += _walked(connection, scope, condition, now, need - len(found), newest, oldest)
        if len(found) == need or oldest == 0:
            return found[offset:]
    return _sorted(connection, scope, condition, now, limit, offset)


def _windows(
    connection: sqlite3.Connection, scope: Scope, condition: Condition | None, need: int
) -> Iterator[tuple[int, int]]:
    """Yield which revisions to walk, the latest first: ever more, but in bounds of the scope's own size."""
    (newest,) = connection.execute("select coalesce(max(revision), 0) from stateroom_item").fetchone()
    window = WALK_FACTOR * need + 1_024
    if condition is not None:
        window = max(window, WALK_LEAST)
    oldest = max(0, newest - window)
    yield newest, oldest
    if condition is None:
        return
    left = WALK_OWN * scope.size(connection, -1) - window
    while left > 0:
        window = min(window * 8, left)
        newest, oldest = oldest, max(0, oldest - window)
        yield newest, oldest
        left -= window


def _walked(
    connection: sqlite3.Connection,
    scope: Scope,
    condition: Condition | None,
    now: int,
    limit: int,
    newest: int,
    oldest: int,
) -> list[int]:
    """Return the latest matches among the revisions after ``oldest`` and up to ``newest``."""
    sql, parameters = ("1", ()) if condition is None else condition[:2]
    if limit > NARROW_ITEMS:
        # The ids of the scope are gathered once, which pays for a long walk only.
        scoped = "i.namespace_id in (select id from stateroom_namespace where path >= ? and path < ?)"
        source = _RECENT
    else:
        scoped = scope.sql
        source = f"{_RECENT} cross join stateroom_namespace n on n.id = i.namespace_id"
    # Other people's values are not to be parsed, so the filter waits until the scope has been looked at.
    rows = connection.execute(
        f"select i.revision from {source} where i.revision > ? and i.revision <= ? "  # noqa: S608
        f"and case when {scoped} then {LIVE} and {sql} else 0 end order by i.revision desc limit ?",
        (oldest, newest, *scope.range, now, *parameters, limit),
    )
    return [revision for (revision,) in rows]


def _sorted(
    connection: sqlite3.Connection,
    scope: Scope,
    condition: Condition | None,
    now: int,
    limit: int,
    offset: int,
) -> list[int]:
    """Read the whole scope, or what a declared index leads to, and sort."""
    sql, parameters, via = condition or Condition("1", ())
    source = scope.source
    if via is not None and (scope.is_all or scope.size(connection, NARROW_ITEMS) == NARROW_ITEMS):
        source = (
            f"stateroom_item i indexed by {via} cross join stateroom_namespace n on n.id = i.namespace_id"
        )
    rows = connection.execute(
        f"select i.revision from {source} where {scope.sql} and {LIVE} and {sql} "  # noqa: S608
        "order by i.revision desc limit ? offset ?",
        (*scope.range, now, *parameters, limit, offset),
    )
    return [revision for (revision,) in rows]
