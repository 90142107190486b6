"""What the repositories need of a database: sessions that run portable SQL, and transactions around them.

Portable SQL is Postgres's for the schema ``stateroom``, with these spellings:

- ``:name`` is a parameter. ``:now`` is always there: the present, in microseconds since 1970 UTC.
- ``{each :names}`` is a table with one column ``value`` of a list of texts, ``{each bigint :terms}`` one of
  numbers.
- ``{lock}`` at a query's end locks its rows until the transaction ends; ``{share}`` only keeps others from
  changing or locking them, ``{exists}`` from removing them; ``{lock skipping}`` and ``{share skipping}`` pass
  over rows that are locked. SQLite has one writer at a time, so that these say nothing there.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol, TypeVar

__all__ = ["NONE", "Dialect", "Row", "Session"]

T = TypeVar("T")

Row = tuple[Any, ...]

NONE: Final[Mapping[str, Any]] = {}
"""No parameters."""


class Session(Protocol):
    """Runs statements within a piece of work that a ``Dialect`` does.

    Texts come back as str, JSON and other bytes as bytes, numbers as int or float; what is boolean comes
    back as something that is true or false. A statement is ``planned`` anew where its plan depends on its
    parameters, as with conditions that are put together.
    """

    def fetch(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> list[Row]:
        """Run a statement of portable SQL and return its rows."""

    def execute(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> int:
        """Run a statement of portable SQL and return how many rows it touched."""

    def now(self) -> int:
        """Return the time that the database goes by, in microseconds since 1970 UTC."""


class Dialect(ABC):
    """One database, as the repositories see it. Its native errors come out as ours."""

    @abstractmethod
    def read(self, work: Callable[[Session], T]) -> T:
        """Let ``work`` read; each statement sees the latest commit."""

    @abstractmethod
    def read_together(self, work: Callable[[Session], T]) -> T:
        """Let ``work`` read one snapshot with all its statements."""

    @abstractmethod
    def write(self, work: Callable[[Session], T], *, repeats: bool = False) -> T:
        """Let ``work`` write in a transaction, which commits unless an exception comes out of it.

        ``work`` may be called again, with all that it did undone, when another transaction was in its way.
        ``repeats`` says that doing it twice does no harm, so that it may also be done again when nobody
        knows whether it was committed.
        """
