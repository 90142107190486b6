"""Finding items by prefix and filter, latest put first, at a cost that other namespaces do not raise."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from heapq import nlargest
from typing import NamedTuple

from stateroom.drivers.sqlite.rows import COLUMNS, LIVE, ids, records_of, to_record
from stateroom.drivers.sqlite.scope import ALL, IDS_IN_SCOPE, NAMESPACE_OF, OWN, Scope, revisions_in
from stateroom.drivers.sqlite.where import Condition
from stateroom.model.item import Record

__all__ = ["Wanted", "find"]

FEW_NAMESPACES = 64
"""Namespaces up to which each is asked for its own latest items."""

NARROW_ITEMS = 2_000
"""Items of a scope up to which they are all listed and sorted."""

SHORT_OFFSET = 100
"""Items that a page may pass over together with their values."""

LED_ITEMS = 500
"""Items up to which all that a declared index leads to are looked at."""

SEVERAL_NAMESPACES = 128
"""Namespaces up to which a search lists their items before it looks at everybody's latest."""

WALK_FACTOR = 16
"""Items of everybody that a walk looks at for each one wanted, before the scope is sorted instead."""

WALK_START = 1_024
"""Items of everybody that a walk looks at beyond those."""

WALK_OWN = 4
"""Items of everybody that a walk with a filter looks at for each item of the scope, before that is sorted."""

WALK_LEAST = 4_096
"""Items that a walk with a filter looks at first."""

_NO_CONDITION = Condition("1", ())


class Wanted(NamedTuple):
    """A page of the live items of a scope that match a condition."""

    scope: Scope
    condition: Condition | None
    now: int
    limit: int
    offset: int

    @property
    def need(self) -> int:
        """How many of the latest matches the page is cut from."""
        return self.limit + self.offset

    @property
    def where(self) -> Condition:
        """The condition, or one that always holds."""
        return self.condition or _NO_CONDITION


def find(connection: sqlite3.Connection, wanted: Wanted) -> list[Record]:
    """Return the page, latest put first."""
    if wanted.scope.is_empty or wanted.limit == 0:
        return []
    if wanted.where.via is not None:
        led = _led(connection, wanted)
        if led is not None:
            return records_of(connection, led)
    if wanted.scope.is_all or wanted.scope.single is not None:
        return _straight(connection, wanted)
    return records_of(connection, _chosen(connection, wanted))


def _led(connection: sqlite3.Connection, wanted: Wanted) -> list[int] | None:
    """Follow a declared index; None when it leads to so many items that another way may be shorter."""
    _, parameters, via, bound = wanted.where
    rows = connection.execute(
        f"select i.revision from stateroom_item i indexed by {via} where {bound} limit ?",  # noqa: S608
        (parameters[0], LED_ITEMS + 1),
    ).fetchall()
    if len(rows) > LED_ITEMS:
        return None
    latest = sorted((revision for (revision,) in rows), reverse=True)
    return _picked(connection, wanted, latest)


def _picked(connection: sqlite3.Connection, wanted: Wanted, latest: list[int]) -> list[int]:
    """Return the page of those among some revisions, latest first, that are wanted."""
    # The list is the outermost loop, and read from its start, so the limit stops at the latest matches.
    rows = connection.execute(
        "select i.revision from json_each(?) w cross join stateroom_item i on i.revision = w.value "  # noqa: S608
        f"{NAMESPACE_OF} where {wanted.scope.sql} and {LIVE} and {wanted.where.sql} limit ? offset ?",
        (
            ids(latest),
            *wanted.scope.range,
            wanted.now,
            *wanted.where.parameters,
            wanted.limit,
            wanted.offset,
        ),
    )
    return [revision for (revision,) in rows]


def _straight(connection: sqlite3.Connection, wanted: Wanted) -> list[Record]:
    """Walk what is in order already: the items of one namespace, or of everybody."""
    scope, (sql, parameters, *_) = wanted.scope, wanted.where
    own = scope.single is not None
    source, where = (OWN, "i.namespace_id = ?") if own else (ALL, "1")
    if wanted.offset <= SHORT_OFFSET:
        rows = connection.execute(
            f"select {COLUMNS} from {source} {NAMESPACE_OF} where {where} and {LIVE} and {sql} "  # noqa: S608
            "order by i.revision desc limit ? offset ?",
            ((scope.single,) if own else ()) + (wanted.now, *parameters, wanted.limit, wanted.offset),
        )
        return [to_record(row) for row in rows]
    # What is passed over is passed over in the index.
    page = (
        f"select i.revision as r from {source} where {where} and {LIVE} and {sql} "  # noqa: S608
        "order by i.revision desc limit ? offset ?"
    )
    rows = connection.execute(
        f"select {COLUMNS} from ({page}) cross join stateroom_item i on i.revision = r "  # noqa: S608
        f"{NAMESPACE_OF} order by r desc",
        ((scope.single,) if own else ()) + (wanted.now, *parameters, wanted.limit, wanted.offset),
    )
    return [to_record(row) for row in rows]


def _chosen(connection: sqlite3.Connection, wanted: Wanted) -> list[int]:
    """Find the page in a scope of many namespaces, by the way that looks the shortest."""
    several = wanted.scope.namespace_ids(connection, SEVERAL_NAMESPACES + 1)
    if len(several) <= SEVERAL_NAMESPACES:
        page = _listed(connection, wanted)
        if page is not None:
            return page
        if len(several) <= FEW_NAMESPACES and wanted.need <= NARROW_ITEMS:
            return _merged(connection, wanted, several)
    return _walk(connection, wanted)


def _listed(connection: sqlite3.Connection, wanted: Wanted) -> list[int] | None:
    """List and sort the items of a narrow scope; None when it is not narrow."""
    narrow = revisions_in(connection, wanted.scope, None, wanted.now, NARROW_ITEMS + 1)
    if len(narrow) > NARROW_ITEMS:
        return None
    latest = sorted(narrow, reverse=True)
    if wanted.condition is None:
        return latest[wanted.offset : wanted.need]
    return _picked(connection, wanted, latest)


def _merged(connection: sqlite3.Connection, wanted: Wanted, namespace_ids: list[int]) -> list[int]:
    """Ask each of a few namespaces for its latest, and take the latest of those."""
    sql, parameters, *_ = wanted.where
    latest: list[int] = []
    query = (
        f"select i.revision from {OWN} where i.namespace_id = ? and {LIVE} and {sql} "  # noqa: S608
        "order by i.revision desc limit ?"
    )
    for number in namespace_ids:
        rows = connection.execute(query, (number, wanted.now, *parameters, wanted.need))
        latest += [revision for (revision,) in rows]
    return nlargest(wanted.need, latest)[wanted.offset :]


def _walk(connection: sqlite3.Connection, wanted: Wanted) -> list[int]:
    """Walk everybody's latest as long as that is not the longer way, and sort the scope otherwise."""
    (newest,) = connection.execute("select coalesce(max(revision), 0) from stateroom_item").fetchone()
    if wanted.condition is None and wanted.need > NARROW_ITEMS:
        page, is_all = _walked_page(connection, wanted, newest)
        return page if is_all or len(page) == wanted.limit else _sorted(connection, wanted)
    found: list[int] = []
    for newer, older in _windows(connection, wanted, newest):
        found += _walked(connection, wanted, wanted.need - len(found), newer, older)
        if len(found) == wanted.need or older == 0:
            return found[wanted.offset :]
    return _sorted(connection, wanted)


def _windows(connection: sqlite3.Connection, wanted: Wanted, newest: int) -> Iterator[tuple[int, int]]:
    """Yield which revisions to walk, the latest first: ever more, but in bounds of the scope's own size."""
    window = WALK_FACTOR * wanted.need + WALK_START
    if wanted.condition is not None:
        window = max(window, WALK_LEAST)
    oldest = max(0, newest - window)
    yield newest, oldest
    if wanted.condition is None or wanted.where.via is not None:
        return
    left = WALK_OWN * wanted.scope.size(connection, -1) - window
    while left > 0:
        window = min(window * 8, left)
        newest, oldest = oldest, max(0, oldest - window)
        yield newest, oldest
        left -= window


def _walked(connection: sqlite3.Connection, wanted: Wanted, need: int, newest: int, oldest: int) -> list[int]:
    """Return the latest ``need`` matches among the revisions after ``oldest`` up to ``newest``."""
    sql, parameters, *_ = wanted.where
    if newest - oldest > WALK_LEAST:
        # The ids of the scope are gathered once, which pays for a long walk only.
        scoped, source = IDS_IN_SCOPE, ALL
    else:
        scoped, source = wanted.scope.sql, f"{ALL} {NAMESPACE_OF}"
    rows = connection.execute(
        f"select i.revision from {source} where i.revision > ? and i.revision <= ? "  # noqa: S608
        f"and {scoped} and {LIVE} and {sql} order by i.revision desc limit ?",
        (oldest, newest, *wanted.scope.range, wanted.now, *parameters, need),
    )
    return [revision for (revision,) in rows]


def _walked_page(connection: sqlite3.Connection, wanted: Wanted, newest: int) -> tuple[list[int], bool]:
    """Return the page found in one long walk without a filter, and whether it went over everything."""
    oldest = max(0, newest - WALK_FACTOR * wanted.need - WALK_LEAST)
    rows = connection.execute(
        f"select i.revision from {ALL} where i.revision > ? and {IDS_IN_SCOPE} "  # noqa: S608
        f"and {LIVE} order by i.revision desc limit ? offset ?",
        (oldest, *wanted.scope.range, wanted.now, wanted.limit, wanted.offset),
    )
    return [revision for (revision,) in rows], oldest == 0


def _sorted(connection: sqlite3.Connection, wanted: Wanted) -> list[int]:
    """Read the whole scope, or all that a declared index leads to, and sort."""
    scope, (sql, parameters, via, _) = wanted.scope, wanted.where
    source = scope.source
    if via is not None:
        source = f"stateroom_item i indexed by {via} {NAMESPACE_OF}"
    rows = connection.execute(
        f"select i.revision from {source} where {scope.sql} and {LIVE} and {sql} "  # noqa: S608
        "order by i.revision desc limit ? offset ?",
        (*scope.range, wanted.now, *parameters, wanted.limit, wanted.offset),
    )
    return [revision for (revision,) in rows]
