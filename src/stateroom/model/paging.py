"""How a long list is sorted and cut into pages, and how one page says where the next begins."""

from __future__ import annotations

import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Collection
from typing import Final, Generic, NamedTuple, TypeVar

import orjson

from stateroom.errors import InvalidPage
from stateroom.model.text import show

__all__ = ["COUNTED_MAX", "NEWEST", "Page", "Place", "Sort", "check_sort", "cursor", "place"]

T = TypeVar("T")

COUNTED_MAX: Final = 10_000
"""Rows up to which a list says how many there are; beyond, only that there are more."""

Value = str | int | None


class Sort(NamedTuple):
    """By what a list is sorted. Rows that are equal in it are sorted by their id, in the same direction."""

    field: str
    descending: bool = True


NEWEST: Final = Sort("created_at")
"""What was made last comes first."""


class Place(NamedTuple):
    """A row's place in a sorted list: what it is sorted by, and its id."""

    value: Value
    id: str


class Page(NamedTuple, Generic[T]):
    """Some rows of a list, and the cursor that continues behind them, None when nothing is there."""

    rows: list[T]
    next: str | None = None


def check_sort(sort: Sort, allowed: Collection[str]) -> None:
    """Raise InvalidPage unless a list can be sorted so."""
    if sort.field not in allowed:
        raise InvalidPage(f"sort_by is {show(sort.field)}; use one of {', '.join(allowed)}", field="sort_by")


def cursor(sort: Sort, last: Place) -> str:
    """Return what ``place`` reads: the place of a page's last row in a list that is sorted so."""
    return urlsafe_b64encode(orjson.dumps([*sort, *last])).decode().rstrip("=")


def place(text: str, sort: Sort) -> Place:
    """Return the place that a cursor names; raise InvalidPage unless it comes from a list sorted so."""
    try:
        field, descending, value, identity = orjson.loads(
            urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
        )
    except (ValueError, TypeError, binascii.Error) as error:
        raise InvalidPage(
            f"after is {show(text)}, which no list answered as its next", field="after"
        ) from error
    if (field, descending) != tuple(sort):
        raise InvalidPage("after comes from a list that is sorted in another way", field="after")
    if not isinstance(value, str | int | None) or not isinstance(identity, str):
        raise InvalidPage(f"after is {show(text)}, which no list answered as its next", field="after")
    return Place(value, identity)
