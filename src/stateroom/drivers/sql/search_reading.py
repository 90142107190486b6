"""How rows are found that fit some conditions, in an order, whatever the size of their table.

What is read does not grow with the table, wherever an index can lead to what is asked for:

- Rows of which ids are given are read and sorted.
- In the order of creation, the rows of the rarest term or equality are walked in that order.
- In another order, the rows of a term or an equality that has few are read and sorted. If it has many, the
  order is walked in bounded steps: as soon as it has no more rows than the next step, they are read and
  sorted after all.
- What terms do not tell is looked at in Python, reading on until the page is full.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from stateroom.drivers.sql.dialect import Row, Session
from stateroom.drivers.sql.search_conditions import Conditions, Listed
from stateroom.drivers.sql.search_sql import SearchSql, Source
from stateroom.model.paging import Place, Sort

__all__ = ["Found", "Reading"]

T = TypeVar("T")

Found = tuple[Place, T]
"""A row with its place."""

FEW: Final = 2_000
"""Rows of a term or an equality that are read and sorted; also the first step of a walk."""

GROWTH: Final = 8
"""How much longer each step of a walk is than the one before."""

AT_ONCE: Final = 128
"""Rows that one statement reads: for more, Postgres would rather read the whole table."""

CHUNK: Final = 64
"""Rows that are read at once where they must be looked at in Python; each may be large."""

AHEAD: Final = 1_024
"""Places of such rows that are found at once."""


class _Lead(NamedTuple):
    """A term or an equality that has all rows which fit, and how many it has, up to a bound."""

    source: Source
    rows: int


class Reading(Generic[T]):
    """Reads the rows that fit, from a place on."""

    def __init__(
        self,
        session: Session,
        listed: Listed[T],
        conditions: Conditions[T],
        sort: Sort,
        start: Place | None,
    ) -> None:
        self._session = session
        self._listed = listed
        self._conditions = conditions
        self._by_creation = sort.field == "created_at"
        self._is_nullable = listed.keys[sort.field].nullable
        self._sql = SearchSql(listed, conditions, sort)
        self._after = start
        self._skip = 0

    def rows(self, *, skip: int, most: int) -> list[Found[T]]:
        """Return the next ``most`` rows that fit after skipping some."""
        self._skip = skip
        rows: list[Found[T]] = []
        read = self._read if self._sql.is_exact else self._read_closely
        for source, until in self._sources():
            read(source, until, most, rows)
            if len(rows) == most:
                break
            self._after = until
        return rows

    def count(self, most: int) -> int:
        """Return how many rows fit, at most ``most``, which is 1 or more."""
        if not self._sql.is_exact:
            return most if self.rows(skip=most - 1, most=1) else most - 1 - self._skip
        if self._conditions.ids is not None:
            return self._count(self._sql.by_ids(), None, most)
        lead = self._rarest(FEW)
        return self._count(lead.source if lead else self._sql.walk(), None, most)

    def _sources(self) -> Iterator[tuple[Source, Place | None]]:
        """Say where to read next, and up to which place, None for all of it."""
        if self._conditions.ids is not None:
            yield self._sql.by_ids(), None
            return
        budget = FEW
        while True:
            lead = self._rarest(budget)
            if lead and self._by_creation:
                yield lead.source, None
                return
            if lead and lead.rows <= budget:
                yield lead.source._replace(sorts=True), None
                return
            until = self._place_behind(budget) if lead and not self._is_nullable else None
            yield self._sql.walk(), until
            if until is None:
                return
            budget *= GROWTH

    def _rarest(self, budget: int) -> _Lead | None:
        """Return what has the fewest rows, of which no more are counted than one above a budget."""
        leads = self._sql.leads()
        if not leads or (len(leads) == 1 and self._by_creation):
            return _Lead(leads[0], budget + 1) if leads else None
        (counts,) = self._fetch(self._sql.counts(leads), limit=budget + 1)
        least = min(counts)
        return _Lead(leads[counts.index(least)], least)

    def _read(self, source: Source, until: Place | None, most: int, rows: list[Found[T]]) -> None:
        """Add to ``rows`` what the terms say fits, until there are ``most``."""
        while len(rows) < most:
            size = most - len(rows)
            read = self._rows(source, until, size)
            if read:
                self._skip = 0
            elif self._skip and until:
                self._skip -= self._count(source, until, self._skip)
            # Two objects may have one term, if hardly ever; and a scope is nothing to be nearly right about.
            rows += [(at, row) for at, row in read if row is not None and self._fits(row)]
            if len(read) < size:
                break
            self._after = read[-1][0]

    def _read_closely(self, source: Source, until: Place | None, most: int, rows: list[Found[T]]) -> None:
        """Add to ``rows`` what fits, after a look at each, until there are ``most``."""
        ahead = AHEAD if source.sorts else CHUNK
        while True:
            places = self._places(source, until, ahead)
            for at, row in self._rows_at(places, CHUNK):
                if row is None or not self._fits(row):
                    continue
                if self._skip:
                    self._skip -= 1
                    continue
                rows.append((at, row))
                if len(rows) == most:
                    return
            if len(places) < ahead:
                break
            self._after = places[-1]
            ahead = min(4 * ahead, AHEAD)

    def _fits(self, row: T) -> bool:
        return all(hold.fits(row) for hold in self._conditions.holds)

    def _rows(self, source: Source, until: Place | None, limit: int) -> list[tuple[Place, T | None]]:
        """Return rows with their places, None for those that have gone meanwhile."""
        if limit > AT_ONCE:
            return list(self._rows_at(self._places(source, until, limit), AT_ONCE))
        sql = self._sql.rows(source, self._after, until)
        rows = self._fetch(sql, until, limit=limit, offset=self._skip)
        return [(Place(row[0], row[1]), self._listed.read(row[2:])) for row in rows]

    def _places(self, source: Source, until: Place | None, limit: int) -> list[Place]:
        sql = self._sql.places(source, self._after, until)
        offset = self._skip if self._sql.is_exact else 0
        return [Place(*row) for row in self._fetch(sql, until, limit=limit, offset=offset)]

    def _rows_at(self, places: Sequence[Place], size: int) -> Iterator[tuple[Place, T | None]]:
        """Read the rows at places, so many at once; None for those that have gone meanwhile."""
        for start in range(0, len(places), size):
            chunk = places[start : start + size]
            rows = self._session.fetch(self._sql.rows_at(), {"places": [at.id for at in chunk]})
            by_id = {row[0]: row[1:] for row in rows}
            for at in chunk:
                yield at, self._listed.read(by_id[at.id]) if at.id in by_id else None

    def _count(self, source: Source, until: Place | None, most: int) -> int:
        count: int
        ((count,),) = self._fetch(self._sql.count(source, self._after, until), until, limit=most)
        return count

    def _place_behind(self, budget: int) -> Place | None:
        """Return the place of the last row of a walk of so many, None when there are fewer."""
        rows = self._fetch(self._sql.place_behind(self._after), offset=budget - 1)
        return Place(*rows[0]) if rows else None

    def _fetch(self, sql: str, until: Place | None = None, **numbers: Any) -> list[Row]:
        parameters = {**self._sql.parameters(self._after, until), **numbers}
        return self._session.fetch(sql, parameters, planned=True)
