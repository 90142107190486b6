"""The SQL of searches: where candidates come from, the conditions on them, their order, and places in it.

It is put together from the texts of ``Listed`` and of this module alone; what callers pass are parameters.
"""

# ruff: noqa: S608  # as said above

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

from stateroom.drivers.sql.search_conditions import Conditions, Listed
from stateroom.model.paging import Place, Sort

__all__ = ["TERMS_MAX", "SearchSql", "Source"]

T = TypeVar("T")

TERMS_MAX: Final = 16
"""Terms that one statement tests; what is wanted beyond is looked at in Python."""


class Source(NamedTuple):
    """Where candidates come from: tables, how they are found in them, and how they spell two columns.

    ``has_row``: the tables have the row itself, ``r``. ``sorts``: all of it is read, and then sorted.
    ``passed`` is the parameter of the condition that it fulfils by itself.
    """

    tables: str
    where: tuple[str, ...]
    created: str
    id: str
    has_row: bool = True
    sorts: bool = False
    passed: str = ""


class SearchSql(Generic[T]):
    """Spells the statements of one search."""

    def __init__(self, listed: Listed[T], conditions: Conditions[T], sort: Sort) -> None:
        self._listed = listed
        self._sort = sort
        self._is_nullable = listed.keys[sort.field].nullable
        needed = {term for hold in conditions.holds for term in hold.wanted.terms}
        self._terms = {f"term{number}": term for number, term in enumerate(sorted(needed)[:TERMS_MAX])}
        self._equal = {f"equal{number}": equal for number, equal in enumerate(conditions.equal)}
        self._ids = conditions.ids
        self.is_exact = len(needed) <= TERMS_MAX and all(hold.wanted.suffice for hold in conditions.holds)

    def parameters(self, after: Place | None, until: Place | None) -> dict[str, Any]:
        """Return what every statement needs, and how it names its places."""
        named = {"after": after, "until": until}
        places = {
            f"{name}_{part}": at._asdict()[part] for name, at in named.items() if at for part in at._fields
        }
        equal = {name: equal.value for name, equal in self._equal.items()}
        ids = {} if self._ids is None else {"ids": list(self._ids)}
        return {**self._terms, **equal, **ids, **places}

    def leads(self) -> list[Source]:
        """Return the sources of which each has all rows that fit, in the order of their creation."""
        listed = self._listed
        by_term = [
            Source(f"{listed.terms} t", (f"t.term = :{name}",), "t.created_at", "t.id", False, False, name)
            for name in self._terms
        ]
        return [*by_term, *(self._from_row(name) for name, equal in self._equal.items() if equal.leads)]

    def walk(self) -> Source:
        """Return all rows, or those of an equality in what they are sorted by."""
        names = [name for name, equal in self._equal.items() if equal.column == self._sort.field]
        return self._from_row(*names[:1])

    def by_ids(self) -> Source:
        """Return the rows of which the ids are given."""
        row = f"from {self._listed.table} r where r.{self._listed.id} = i.id"
        return Source(
            tables="(select distinct value as id from {each :ids}) i",
            where=(f"exists (select 1 {row} limit 1 offset 0)",),
            created=f"(select r.created_at {row})",
            id="i.id",
            has_row=False,
            sorts=True,
        )

    def _from_row(self, name: str = "") -> Source:
        listed = self._listed
        where = (f"r.{self._equal[name].column} = :{name}",) if name else ()
        return Source(f"{listed.table} r", where, "r.created_at", f"r.{listed.id}", passed=name)

    def rows(self, source: Source, after: Place | None, until: Place | None) -> str:
        """Select places and rows, at most ``:limit`` after skipping ``:offset``."""
        listed = self._listed
        return (
            f"{self._picked(source, after, until)} select p.k, p.id, {listed.columns} from picked p "
            f"join {listed.table} r on r.{listed.id} = p.id {listed.joins} "
            f"order by {self.order('p.k', 'p.id')}"
        )

    def places(self, source: Source, after: Place | None, until: Place | None) -> str:
        """Select places alone."""
        picked = self._picked(source, after, until)
        return f"{picked} select k, id from picked order by {self.order('k', 'id')}"

    def rows_at(self) -> str:
        """Select the ids and rows of ``:places``, which are ids."""
        listed = self._listed
        return (
            f"select r.{listed.id}, {listed.columns} from (select value as id from {{each :places}}) i "
            f"join {listed.table} r on r.{listed.id} = i.id {listed.joins}"
        )

    def count(self, source: Source, after: Place | None, until: Place | None) -> str:
        """Count candidates, up to ``:limit``."""
        tests = [*self._tests(source), *self.range(self.key(source), source.id, after, until)]
        return f"select count(*) from (select 1 from {source.tables}{self.all_of(tests)} limit :limit) c"

    def counts(self, leads: Sequence[Source]) -> str:
        """Count the rows of each lead, whatever else they fit, up to ``:limit``."""
        counts = (
            f"(select count(*) from (select 1 from {lead.tables}{self.all_of(lead.where)} limit :limit) c)"
            for lead in leads
        )
        return f"select {', '.join(counts)}"

    def place_behind(self, after: Place | None) -> str:
        """Select the place of the row that comes after skipping ``:offset`` rows of a walk."""
        walk = self.walk()
        key = self.key(walk)
        conditions = [*walk.where, *self.range(key, walk.id, after, None)]
        order = self.order(key, walk.id)
        return (
            f"select {key}, {walk.id} from {walk.tables}{self.all_of(conditions)} "
            f"order by {order} limit 1 offset :offset"
        )

    def _picked(self, source: Source, after: Place | None, until: Place | None) -> str:
        """Return what a statement begins with: the places ``picked`` that come first."""
        key, id = self.key(source), source.id
        if source.sorts:
            # Said in two steps, so that nobody thinks of walking the order instead.
            tests = self.all_of(self._tests(source))
            begin = f"given as materialized (select {key} as k, {id} as id from {source.tables}{tests}), "
            key, id = "k", "id"
            places = f"select k, id from given{self.all_of(self.range(key, id, after, until))}"
        else:
            begin = ""
            tests = self.all_of([*self._tests(source), *self.range(key, id, after, until)])
            places = f"select {key} as k, {id} as id from {source.tables}{tests}"
        order = self.order(key, id)
        return f"with {begin}picked as materialized ({places} order by {order} limit :limit offset :offset)"

    def _tests(self, source: Source) -> list[str]:
        return [*source.where, *self._term_tests(source), *self._equality_tests(source)]

    def _term_tests(self, source: Source) -> Iterator[str]:
        for name in self._terms:
            if name != source.passed:
                # Its offset keeps a test what it is, whatever else a database would make of it.
                yield (
                    f"exists (select 1 from {self._listed.terms} x where x.term = :{name} "
                    f"and x.created_at = {source.created} and x.id = {source.id} limit 1 offset 0)"
                )

    def _equality_tests(self, source: Source) -> Iterator[str]:
        listed = self._listed
        for name, equal in self._equal.items():
            if name == source.passed:
                continue
            # So spelled, an index that leads does not lead away from the walk.
            column = f"coalesce(r.{equal.column}, '')" if equal.leads else f"r.{equal.column}"
            test = f"{column} = :{name}"
            row = f"select 1 from {listed.table} r where r.{listed.id} = {source.id} and {test}"
            yield test if source.has_row else f"exists ({row} limit 1 offset 0)"

    def key(self, source: Source) -> str:
        """Spell what a source's candidates are sorted by."""
        listed, field = self._listed, self._sort.field
        if field == "created_at":
            return source.created
        if field == listed.id:
            return source.id
        if source.has_row:
            return f"r.{field}"
        # Row by row: whoever may join reads the whole table for it.
        return f"(select r.{field} from {listed.table} r where r.{listed.id} = {source.id})"

    def order(self, key: str, id: str) -> str:
        """Spell the order of candidates whose columns are spelled so."""
        direction = "desc" if self._sort.descending else "asc"
        if self._sort.field == self._listed.id:
            return f"{id} {direction}"
        return f"{key} {direction}{' nulls last' if self._is_nullable else ''}, {id} {direction}"

    def range(self, key: str, id: str, after: Place | None, until: Place | None) -> list[str]:
        """Spell the conditions that a candidate is behind ``after``, and not behind ``until``."""
        behind, before = ("<", ">=") if self._sort.descending else (">", "<=")
        is_id = self._sort.field == self._listed.id
        spelled = []
        if after is not None:
            if is_id:
                spelled.append(f"{id} {behind} :after_id")
            elif after.value is None:
                spelled.append(f"{key} is null and {id} {behind} :after_id")
            else:
                is_behind = f"({key}, {id}) {behind} (:after_value, :after_id)"
                spelled.append(f"({is_behind} or {key} is null)" if self._is_nullable else is_behind)
        if until is not None:
            spelled.append(
                f"{id} {before} :until_id" if is_id else f"({key}, {id}) {before} (:until_value, :until_id)"
            )
        return spelled

    @staticmethod
    def all_of(conditions: Sequence[str]) -> str:
        """Spell that all conditions hold, as a statement goes on behind its tables."""
        return f" where {' and '.join(conditions)}" if conditions else ""
