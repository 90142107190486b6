"""Finding items by prefix and filter, latest put first, at a cost that other namespaces do not raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stateroom.contract.items import Search
from stateroom.drivers.postgres.arrays import bigints, byteas
from stateroom.drivers.postgres.estimating import estimate
from stateroom.drivers.postgres.rows import COLUMNS, to_record
from stateroom.drivers.postgres.scope import PATH_BYTES, Scope
from stateroom.drivers.postgres.session import CLOCK, LIVE, Session
from stateroom.drivers.postgres.where import Condition
from stateroom.model.item import Record
from stateroom.model.namespace import prefix_range

__all__ = ["LATEST", "find", "find_in_namespaces", "is_simple"]

SHORT_OFFSET = 100
"""Items that a page may pass over together with their values."""

WALK_FACTOR = 16
"""Items of everybody that a first walk looks at for each one wanted."""

WALK_START = 1_024
"""Items of everybody that a first walk looks at beyond those."""

LATEST: Final = "order by i.updated_at desc, i.revision desc"
"""The order without a query."""

FEW_LOOKED_UP = 2_000
"""Items wanted up to which the namespace of each that a walk meets is looked up."""

_UNINDEXED: Final = "order by i.updated_at + 0 desc, i.revision desc"
"""The same order, sorted rather than walked: a walk over everybody's items may be long."""

_ANY: Final = Condition("true", {})

_FACTS: Final = "i.key, i.raw, i.revision, i.created_at, i.updated_at, i.ttl, i.expires_at"

_IN_NAMESPACES = f"""
{CLOCK} select w.place, scope.number, scope.path, i.*
from unnest(%(lows)s::bytea[], %(highs)s::bytea[], %(limits)s::bigint[], %(offsets)s::bigint[])
    with ordinality w(low, high, wanted, passed, place)
cross join lateral (
    select count(*) as number, min(s.id) as id, (array_agg(s.path))[1] as path from (
        select n.id, n.path from stateroom.namespace n
        where substring(n.path for {PATH_BYTES}) >= w.low and substring(n.path for {PATH_BYTES}) < w.high
        limit 2
    ) s
) scope
left join lateral (
    select {_FACTS} from stateroom.item i
    where scope.number = 1 and i.namespace_id = scope.id and {LIVE} {LATEST}
    limit w.wanted offset w.passed
) i on true
"""

# The same for one search, whose limits are part of the text: with them, one plan is good for all prefixes.
_IN_NAMESPACE = f"""
{CLOCK}, scope as materialized (
    select count(*) as number, min(s.id) as id, (array_agg(s.path))[1] as path from (
        select n.id, n.path from stateroom.namespace n
        where substring(n.path for {PATH_BYTES}) >= %(low)s and substring(n.path for {PATH_BYTES}) < %(high)s
        limit 2
    ) s
)
select 1, scope.number, scope.path, i.* from scope left join lateral (
    select {_FACTS} from stateroom.item i
    where scope.number = 1 and i.namespace_id = scope.id and {LIVE} {LATEST}
    limit {{limit}} offset {{offset}}
) i on true
"""


class _Wanted(NamedTuple):
    """A page of the live items of a scope that match a condition."""

    scope: Scope
    condition: Condition
    limit: int
    offset: int

    @property
    def need(self) -> int:
        """How many of the latest matches the page is cut from."""
        return self.limit + self.offset

    @property
    def page(self) -> str:
        """The clause that cuts the page; as text, since a plan without it would be one for any page."""
        return f"limit {self.limit} offset {self.offset}"

    @property
    def parameters(self) -> dict[str, Any]:
        """The parameters of scope and condition."""
        return {**self.scope.parameters, **self.condition.parameters}


def is_simple(search: Search) -> bool:
    """Tell whether a search just lists below a prefix that the index on paths holds whole."""
    return (
        search.query is None
        and search.filter is None
        and bool(search.prefix)
        and search.offset <= SHORT_OFFSET
        and len(prefix_range(search.prefix)[0]) <= PATH_BYTES
    )


def find_in_namespaces(session: Session, searches: Sequence[Search]) -> list[list[Record] | None]:
    """Return the page of each simple search; None for one whose prefix has several namespaces."""
    ranges = [prefix_range(search.prefix) for search in searches]
    if len(searches) == 1:
        (search,), ((low, high),) = searches, ranges
        sql = _IN_NAMESPACE.format(limit=search.limit, offset=search.offset)
        rows = session.fetch(sql, {"low": low, "high": high}, prepared=True)
    else:
        columns = {
            "lows": byteas(low for low, _ in ranges),
            "highs": byteas(high for _, high in ranges),
            "limits": bigints([search.limit for search in searches]),
            "offsets": bigints([search.offset for search in searches]),
        }
        rows = session.fetch(_IN_NAMESPACES, columns)
    pages: list[list[Record] | None] = [[] for _ in searches]
    for place, number, path, key, *facts in rows:
        page = pages[place - 1]
        if number > 1:
            pages[place - 1] = None
        elif key is not None and page is not None:
            page.append(to_record((path, key, *facts)))
    return pages


def find(
    session: Session, scope: Scope, condition: Condition | None, limit: int, offset: int
) -> list[Record]:
    """Return a page, latest put first."""
    if scope.is_empty or limit == 0:
        return []
    wanted = _Wanted(scope, condition or _ANY, limit, offset)
    if scope.single is not None or (scope.is_all and condition is None):
        return _straight(session, wanted)
    if scope.is_wide:
        return _chosen(session, wanted)
    return _records(session, wanted, _merged() if condition is None else _sorted(wanted, _UNINDEXED))


def _chosen(session: Session, wanted: _Wanted) -> list[Record]:
    """Walk everybody's latest as long as that is not the longer way, and sort all that matches otherwise."""
    if wanted.condition is _ANY:
        found = _records(session, wanted, _walked(wanted, WALK_FACTOR * wanted.need + WALK_START))
        if len(found) == wanted.limit:
            return found
    filtered = wanted.condition is not _ANY
    estimated = estimate(session, None if filtered else wanted.scope, wanted.condition)
    if wanted.need <= estimated.matching * estimated.share:
        # To look at as many as there are to be sorted at most doubles the time, should it be in vain.
        found = _records(session, wanted, _walked(wanted, estimated.matching + wanted.need))
        if len(found) == wanted.limit:
            return found
    return _records(session, wanted, _sorted(wanted, _UNINDEXED))


def _straight(session: Session, wanted: _Wanted) -> list[Record]:
    """Walk what is in order already: the items of one namespace, or of everybody."""
    if wanted.offset > SHORT_OFFSET:
        return _records(session, wanted, _sorted(wanted, LATEST))
    rows = session.fetch(
        f"{CLOCK} select {COLUMNS} from (select i.* from stateroom.item i "
        f"where {wanted.scope.sql} and {LIVE} and {wanted.condition.sql} {LATEST} {wanted.page}) i "
        f"join stateroom.namespace n on n.id = i.namespace_id {LATEST}",
        wanted.parameters,
        prepared=wanted.condition is _ANY,
    )
    return [to_record(row) for row in rows]


def _records(session: Session, wanted: _Wanted, found: str) -> list[Record]:
    """Cut the page out of what a query finds, and read its items; what is passed over is not read."""
    rows = session.fetch(
        f"{CLOCK} select {COLUMNS} from ({found} {wanted.page}) f "
        "join stateroom.item i on i.address = f.address "
        "join stateroom.namespace n on n.id = i.namespace_id order by f.updated_at desc, f.revision desc",
        wanted.parameters | {"need": wanted.need},
        prepared=wanted.condition is _ANY,
    )
    return [to_record(row) for row in rows]


def _sorted(wanted: _Wanted, order: str) -> str:
    """Return the query that puts all that matches in order."""
    scope = wanted.scope
    return (
        f"select i.address, i.updated_at, i.revision from stateroom.item i {scope.join} "
        f"where {scope.joined} and {LIVE} and {wanted.condition.sql} {order}"
    )


def _merged() -> str:
    """Return the query that asks each of a few namespaces for its latest, and puts those in order."""
    return (
        "select i.address, i.updated_at, i.revision from unnest(%(namespaces)s::bigint[]) w(id) "
        "cross join lateral (select i.address, i.updated_at, i.revision from stateroom.item i "
        f"where i.namespace_id = w.id and {LIVE} {LATEST} limit %(need)s) i {LATEST}"
    )


def _walked(wanted: _Wanted, walk: int) -> str:
    """Return the query that looks among so many of everybody's latest, by the index alone if it can."""
    scope, columns = wanted.scope, "i.address, i.revision, i.updated_at, i.namespace_id, i.expires_at"
    if wanted.condition is not _ANY:
        columns += ", i.value"
    # A few are looked up one by one as they come; many are told apart by the list of all that belong.
    belongs = f"({scope.sql}) is true" if wanted.need > FEW_LOOKED_UP else scope.looked_up
    return (
        f"select i.address, i.updated_at, i.revision from (select {columns} from stateroom.item i {LATEST} "
        f"limit {walk}) i where {LIVE} and {wanted.condition.sql} and {belongs} {LATEST}"
    )
