"""What is searched, and what rows must fit to be found."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, NamedTuple, TypeVar

from stateroom.drivers.sql.dialect import Row
from stateroom.drivers.sql.terms import Wanted

__all__ = ["Conditions", "Equal", "Holds", "Key", "Listed"]

T = TypeVar("T")


class Key(NamedTuple):
    """A column that rows can be sorted by: its type, and whether it may be null."""

    type: type[str] | type[int]
    nullable: bool = False


@dataclass(frozen=True, slots=True)
class Listed(Generic[T]):
    """A table whose rows are searched, with an index on each sort that grows: ``(column, id)``.

    In SQL the table is ``r``; it has the column ``created_at``. ``columns`` are what ``read`` makes an object
    of, from the table and from what is joined to it by ``joins``, one row each. ``terms`` is its table of
    terms. None of these comes from a caller.
    """

    table: str
    id: str
    terms: str
    columns: str
    joins: str
    keys: Mapping[str, Key]
    read: Callable[[Row], T]


class Equal(NamedTuple):
    """A condition that a column has a value; ``leads`` if an index has ``(column, created_at, id)``."""

    column: str
    value: str | bool
    leads: bool = False


class Holds(NamedTuple, Generic[T]):
    """A condition by containment: the terms that it needs, and the rule itself."""

    wanted: Wanted
    fits: Callable[[T], bool]


class Conditions(NamedTuple, Generic[T]):
    """What rows must fit, all of it; ``ids`` None are all."""

    equal: Sequence[Equal] = ()
    holds: Sequence[Holds[T]] = ()
    ids: Sequence[str] | None = None
