"""Searches and counts: pages of a table's rows, with what a caller passes checked by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.documents import metadata_bytes, object_of
from stateroom.drivers.sql.search_conditions import Conditions, Equal, Holds, Key, Listed
from stateroom.drivers.sql.search_reading import Reading
from stateroom.drivers.sql.terms import wanted_metadata
from stateroom.errors import InvalidPage, LimitExceeded
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.metadata import contains
from stateroom.model.page import check_page
from stateroom.model.paging import Page, Place, Sort, check_sort, cursor, place
from stateroom.model.text import flaw, show

__all__ = ["Conditions", "Equal", "Holds", "Key", "Listed", "counted", "found", "holds_metadata"]

T = TypeVar("T")

_INT64_MAX: Final = 2**63 - 1


def holds_metadata(
    wanted: Mapping[str, Any] | None, field: str, of: Callable[[T], Mapping[str, Any]]
) -> list[Holds[T]]:
    """Return the condition that what ``of`` returns contains ``wanted``, or none for None.

    Raises InvalidValue and LimitExceeded naming ``field``.
    """
    if wanted is None:
        return []
    plain = object_of(metadata_bytes(wanted, field))
    return [Holds(wanted_metadata(plain), lambda row: contains(of(row), plain))]


def found(
    dialect: Dialect,
    listed: Listed[T],
    conditions: Conditions[T],
    *,
    sort: Sort,
    limit: int,
    offset: int,
    after: str | None,
) -> Page[T]:
    """Return a page of the rows that fit, after checking the sort, limit, offset and cursor by name."""
    check_sort(sort, listed.keys)
    limit, offset = check_page(limit, offset)
    start = None if after is None else _checked_place(after, sort, listed.keys[sort.field])
    if not limit:
        return Page([])

    def work(session: Session) -> list[tuple[Place, T]]:
        return Reading(session, listed, conditions, sort, start).rows(skip=offset, most=limit + 1)

    rows = dialect.read(work)
    following = cursor(sort, rows[limit - 1][0]) if len(rows) > limit else None
    return Page([row for _, row in rows[:limit]], following)


def counted(dialect: Dialect, listed: Listed[T], conditions: Conditions[T], *, at_most: int | None) -> int:
    """Return how many rows fit, counting no further than ``at_most``, which is checked by name."""
    most = PAGE_NUMBER_MAX if at_most is None else _checked_bound(at_most)
    if not most:
        return 0
    return dialect.read(
        lambda session: Reading(session, listed, conditions, Sort("created_at"), None).count(most)
    )


def _checked_bound(at_most: object) -> int:
    if not isinstance(at_most, int) or isinstance(at_most, bool) or at_most < 0:
        raise InvalidPage(
            f"at_most is {show(at_most)}; pass an integer from 0, or None for no bound", field="at_most"
        )
    if at_most > PAGE_NUMBER_MAX:
        raise LimitExceeded(
            f"at_most is {show(at_most)}; at most {PAGE_NUMBER_MAX:,} is allowed", field="at_most"
        )
    return at_most


def _checked_place(after: object, sort: Sort, key: Key) -> Place:
    """Return a cursor's place; what nobody was given as a cursor may hold what no database can compare."""
    if not isinstance(after, str):
        raise InvalidPage(f"after is {show(after)}; pass what a list answered as its next", field="after")
    start = place(after, sort)
    if start.value is None:
        fits = key.nullable
    elif isinstance(start.value, str):
        fits = key.type is str and flaw(start.value) is None
    else:
        fits = key.type is int and type(start.value) is int and abs(start.value) <= _INT64_MAX
    if not fits or flaw(start.id) is not None:
        raise InvalidPage(f"after is {show(after)}, which no list answered as its next", field="after")
    return start
