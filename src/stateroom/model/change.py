"""A value that says that nothing was said: what a change leaves as it is."""

from __future__ import annotations

from enum import Enum
from typing import Final, Literal, TypeAlias, TypeVar

__all__ = ["UNSET", "Unset", "given"]

T = TypeVar("T")


class Unset(Enum):
    """The type of ``UNSET``, so that a type checker tells it from None."""

    UNSET = "unset"


UNSET: Final = Unset.UNSET
"""Not given: keep what is there. None, where it is allowed, is a value: it clears."""

Maybe: TypeAlias = T | Literal[Unset.UNSET]


def given(change: Maybe[T], kept: T) -> T:
    """Return what a change says, or what is there if it says nothing."""
    return kept if change is UNSET else change
