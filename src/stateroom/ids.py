"""Ids as something that is passed in, so that tests know them."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from uuid import UUID, uuid4

__all__ = ["CountedIds", "IdSource", "random_ids"]

IdSource = Callable[[], str]
"""Returns an id that no call before it returned, as a UUID's text."""


def random_ids() -> str:
    """Return a random UUID."""
    return str(uuid4())


class CountedIds:
    """Ids that count up, for tests."""

    def __init__(self, start: int = 1) -> None:
        self._numbers = count(start)

    def __call__(self) -> str:
        return str(UUID(int=next(self._numbers)))
