"""Which limits, offsets and depths a listing accepts."""

from __future__ import annotations

from typing import Final

from stateroom.errors import InvalidPage, LimitExceeded
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.text import show

__all__ = ["ROWS_MAX", "check_max_depth", "check_page"]


ROWS_MAX: Final = 2**61
"""More rows than any store holds, and little enough that a limit and an offset can be added anywhere."""


def check_page(limit: int, offset: int) -> tuple[int, int]:
    """Return both, at most ``ROWS_MAX``; raise InvalidPage unless they are integers from 0.

    A limit of 0 is a page of nothing, not a page without a limit. Above what databases count to
    LimitExceeded is raised.
    """
    _check_count(limit, "limit", least=0)
    _check_count(offset, "offset", least=0)
    return min(limit, ROWS_MAX), min(offset, ROWS_MAX)


def check_max_depth(max_depth: int | None) -> None:
    """Raise InvalidPage unless ``max_depth`` is None (whole namespaces) or a number of labels from 1."""
    if max_depth is not None:
        _check_count(max_depth, "max_depth", least=1)


def _check_count(count: object, field: str, *, least: int) -> None:
    if not isinstance(count, int) or isinstance(count, bool):
        raise InvalidPage(f"{field} is {show(count)}; pass an integer", field=field)
    if count < least:
        raise InvalidPage(f"{field} is {show(count)}; pass {least} or more", field=field)
    if count > PAGE_NUMBER_MAX:
        raise LimitExceeded(f"{field} is {show(count)}; at most {PAGE_NUMBER_MAX:,} is allowed", field=field)
