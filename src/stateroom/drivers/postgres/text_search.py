"""Ranking the items of a scope by their words."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from heapq import nlargest
from itertools import accumulate
from typing import Any, NamedTuple
from uuid import UUID

from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import CLOCK, LIVE, NOW, Session
from stateroom.drivers.postgres.text import TextIndex, term_id
from stateroom.drivers.postgres.text_statistics import Moment
from stateroom.drivers.postgres.where import Condition
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.search.bm25 import Scorer, Statistics

__all__ = ["Scored", "search_text"]

SCAN_MAX = 1_000
"""Documents of a scope up to which one statement reads them all; beyond, the index on terms finds them."""

PENDING_MAX = 100
"""Items without terms that a search analyses by itself, before it would rather have them indexed."""

FIRST_LOOK = 1_000
"""Documents with the rarest terms that are looked at first, or more if it takes more to fill a page."""


class Scored(NamedTuple):
    """A live item that matches, and its BM25 score."""

    address: UUID
    score: float
    updated_at: int
    revision: int


Row = tuple[Any, ...]
"""A live item: its address, length, updated_at and revision; whether it holds a term of the query and meets
the condition, None if its terms are lacking; then how often it holds each term of the query."""


def search_text(
    session: Session, index: TextIndex, scope: Scope, query: str, condition: Condition | None, need: int
) -> list[Scored]:
    """Return the live items of a scope that match, best first, ties by the latest put.

    There are at least ``need`` of them, if as many match. The statistics are those of the scope,
    whatever the condition.
    """
    terms = index.indexing.query_terms(query)
    if not terms or scope.is_empty:
        return []
    search = _Search(session, index, scope, terms, condition, need)
    if not index.known.has(scope.prefix):
        rows = search.scan()
        if len(rows) <= SCAN_MAX:
            return search.rank(rows)
    return search.look_up()


class _Search:
    """One query over one scope."""

    def __init__(
        self,
        session: Session,
        index: TextIndex,
        scope: Scope,
        terms: Sequence[str],
        condition: Condition | None,
        need: int,
    ) -> None:
        self._session = session
        self._index = index
        self._scope = scope
        self._terms = terms
        self._need = need
        self._condition, parameters = condition or Condition("true", {})
        numbers = [term_id(term) for term in terms]
        self._parameters: dict[str, Any] = {**scope.parameters, **parameters, "terms": numbers}
        self._parameters |= {f"t{place}": number for place, number in enumerate(numbers)}
        # Most of a store may hold a common term, and the index still is the shortest way to it. The
        # planner would not believe that, so it is not told which terms they are.
        self._holds = "i.terms && (select {}::bigint[])" if scope.is_all else "i.terms && {}::bigint[]"

    def scan(self) -> list[Row]:
        """Read all documents of the scope, or one more than ``SCAN_MAX``."""
        rows = self._scan()
        lacking = sum(row[4] is None for row in rows)
        if lacking > PENDING_MAX and self._index.catch_up(self._session, self._scope):
            rows = self._scan()
        return rows

    def _scan(self) -> list[Row]:
        return self._session.fetch(
            f"{CLOCK} select i.address, i.length, i.updated_at, i.revision, case when i.terms is null "
            f"then null when i.terms && %(terms)s::bigint[] then {self._condition} else false end, "
            f"{', '.join(self._frequencies)} from stateroom.item i "
            f"where {self._scope.sql} and {LIVE} and (i.length > 0 or i.terms is null) limit %(most)s",
            {**self._parameters, "most": SCAN_MAX + 1},
        )

    def rank(self, rows: list[Row]) -> list[Scored]:
        """Rank the documents of the scope."""
        if any(row[4] is None for row in rows):
            rows = _joined(rows, self._pending())
        return self._ranked(Scorer(*_tally(rows, len(self._terms))), rows)

    def look_up(self) -> list[Scored]:
        """Let the index on terms find the documents, and rank them."""
        moment, lacking, held = self._survey()
        if lacking > PENDING_MAX and self._index.catch_up(self._session, self._scope):
            moment, lacking, held = self._survey()
        pending = self._pending() if lacking else []
        known = self._statistics(moment)
        fresh, more = _tally(pending, len(self._terms))
        statistics = Statistics(known.documents + fresh.documents, known.length + fresh.length)
        scorer = Scorer(statistics, [number + extra for number, extra in zip(held, more, strict=True)])
        return self._ranked(scorer, _joined(self._best(scorer, held), pending))

    def _survey(self) -> tuple[Moment, int, list[int]]:
        """Return when this is, how many items have no terms, and how many documents hold each term."""
        counts, source = self._holders()
        ((revision, now, lacking, *held),) = self._session.fetch(
            f"{CLOCK} select (select last_value from stateroom.revision), {NOW}, "
            "(select count(*) from (select 1 from stateroom.item i "
            f"where i.terms is null and {self._scope.sql} and {LIVE} limit %(most)s) p), "
            f"{', '.join(counts)} {source}",
            {**self._parameters, "most": PENDING_MAX + 1},
        )
        return Moment(revision, now), lacking, held

    def _holders(self) -> tuple[list[str], str]:
        """Return columns that count the holders of each term, and what they are selected from."""
        terms = [f"array[%(t{place})s::bigint]" for place in range(len(self._terms))]
        if self._scope.is_all:
            # Term by term the index says it all, and no row's terms are looked at.
            return [f"(select count(*) {self._holding(term)})" for term in terms], ""
        counts = [f"count(*) filter (where i.terms @> {term})" for term in terms]
        return counts, self._holding("%(terms)s")

    def _holding(self, terms: str) -> str:
        """Return the clauses that select the documents that hold one of some terms."""
        return (
            f"from stateroom.item i where {self._scope.sql} and {LIVE} and i.length > 0 "
            f"and {self._holds.format(terms)}"
        )

    def _statistics(self, moment: Moment) -> Statistics:
        known = self._index.known.find(self._scope.prefix, moment)
        if known is None:
            ((documents, length),) = self._session.fetch(
                f"{CLOCK} select count(*), coalesce(sum(i.length), 0)::bigint "
                f"from stateroom.item i where {self._scope.sql} and {LIVE} and i.length > 0",
                self._parameters,
            )
            known = Statistics(documents, length)
            self._index.known.note(self._scope.prefix, known, moment, is_wide=documents > SCAN_MAX)
        return known

    def _best(self, scorer: Scorer, held: Sequence[int]) -> list[Row]:
        """Return the best documents, without looking at those that hold common terms alone if that will do.

        What holds the rarest terms gives a score that the page's last one is not below. Terms whose weights
        together are less cannot put a document on the page, unless it holds another one.
        """
        weights = scorer.weights
        places = sorted(range(len(weights)), key=lambda place: -weights[place])
        reached = list(accumulate(held[place] for place in places))
        first = places[: max(bisect_left(reached, self._need) + 1, bisect_right(reached, FIRST_LOOK))]
        found = self._top(scorer, first)
        if len(first) == len(places):
            return found
        least = scorer.score(found[-1][5:], found[-1][1]) if len(found) == self._need else 0.0
        rest = list(accumulate(weights[place] for place in reversed(places)))
        telling = places[: len(places) - bisect_left(rest, least)]
        return found if len(telling) <= len(first) else self._top(scorer, telling)

    def _top(self, scorer: Scorer, places: Iterable[int]) -> list[Row]:
        """Return the best of the documents that hold a term at one of some places of the query."""
        weights = {f"w{place}": weight for place, weight in enumerate(scorer.weights)}
        names = [f"f{place}" for place in range(len(self._terms))]
        columns = [f"{count} as {name}" for count, name in zip(self._frequencies, names, strict=True)]
        # The same operations in the same order as in Python, and so the same bits.
        score = " + ".join(
            f"%(w{place})s::float8 * ({name} / ({name} + damping))" for place, name in enumerate(names)
        )
        return self._session.fetch(
            f"{CLOCK} select address, length, updated_at, revision, true, {', '.join(names)} from ("
            "select i.address, i.length, i.updated_at, i.revision, "
            f"%(floor)s::float8 + %(slope)s::float8 * i.length as damping, {', '.join(columns)} "
            # With an offset the frequencies are computed once a row, rather than where they are used.
            f"{self._holding('%(telling)s')} and {self._condition} offset 0"
            f") d order by {score} desc, updated_at desc, revision desc limit %(need)s",
            {
                **self._parameters,
                **weights,
                "floor": scorer.floor,
                "slope": scorer.slope,
                "telling": [self._parameters["terms"][place] for place in places],
                "need": min(self._need, PAGE_NUMBER_MAX),
            },
        )

    def _pending(self) -> list[Row]:
        """Analyse the items of the scope that have no terms."""
        rows = self._session.fetch(
            f"{CLOCK} select i.address, i.updated_at, i.revision, {self._condition}, "
            "i.raw, i.paths from stateroom.item i "
            f"where i.terms is null and {self._scope.sql} and {LIVE}",
            self._parameters,
        )
        documents: list[Row] = []
        for address, updated_at, revision, meets, raw, paths in rows:
            terms, counts, length = self._index.columns(raw, paths)
            held = dict(zip(terms, counts, strict=True))
            frequencies = [held.get(number, 0) for number in self._parameters["terms"]]
            admitted = meets and any(frequencies)
            if terms:
                documents.append((address, length, updated_at, revision, admitted, *frequencies))
        return documents

    def _ranked(self, scorer: Scorer, rows: list[Row]) -> list[Scored]:
        scored = [(scorer.score(row[5:], row[1]), row[2], row[3], row[0]) for row in rows if row[4]]
        best = nlargest(self._need, scored)
        return [Scored(address, score, updated_at, revision) for score, updated_at, revision, address in best]

    @property
    def _frequencies(self) -> list[str]:
        """Columns that say how often a document holds each term."""
        return [
            f"coalesce(i.counts[array_position(i.terms, %(t{place})s::bigint)], 0)"
            for place in range(len(self._terms))
        ]


def _tally(rows: Sequence[Row], terms: int) -> tuple[Statistics, list[int]]:
    """Sum up documents, and count for each term of the query those that hold it."""
    _, lengths, _, _, _, *columns = zip(*rows, strict=True) if rows else [()] * (5 + terms)
    statistics = Statistics(documents=len(rows), length=sum(lengths))
    return statistics, [len(rows) - column.count(0) for column in columns]


def _joined(rows: Sequence[Row], pending: list[Row]) -> list[Row]:
    """Put the documents that were just analysed in the place of what was read of them."""
    # One that was read with terms may have been put anew without.
    anew = {row[0] for row in pending}
    return [row for row in rows if row[0] not in anew and row[4] is not None] + pending
