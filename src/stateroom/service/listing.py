"""How many rows a list has in all, asked for no more often than need be."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from stateroom.model.paging import COUNTED_MAX, Page

__all__ = ["total_of"]


def total_of(page: Page[Any], count: Callable[[int], int], *, offset: int, after: str | None) -> int | None:
    """Return how many rows the list has of which a page is read, None for more than ``COUNTED_MAX``.

    ``count`` counts no further than it is told. A last page by itself says how many there are.
    """
    if page.next is None and after is None and (page.rows or not offset):
        total = offset + len(page.rows)
    else:
        total = count(COUNTED_MAX + 1)
    return total if total <= COUNTED_MAX else None
