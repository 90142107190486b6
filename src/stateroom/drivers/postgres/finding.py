"""Finding items by prefix and filter, latest put first, at a cost that other namespaces do not raise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from stateroom.contract.items import Search
from stateroom.drivers.postgres.arrays import bigints, byteas
from stateroom.drivers.postgres.estimating import estimate
from stateroom.drivers.postgres.rows import COLUMNS, Found, records_of, to_record
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
    select i.key, i.raw, i.revision, i.created_at, i.updated_at, i.ttl, i.expires_at from stateroom.item i
    where scope.number = 1 and i.namespace_id = scope.id and {LIVE} {LATEST}
    limit w.wanted offset w.passed
) i on true
"""  # constants only


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
    def parameters(self) -> dict[str, Any]:
        """The parameters of scope, condition and page."""
        page = {"limit": self.limit, "offset": self.offset, "need": self.need}
        return {**self.scope.parameters, **self.condition.parameters, **page}


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
    rows = session.fetch(
        _IN_NAMESPACES,
        {
            "lows": byteas(low for low, _ in ranges),
            "highs": byteas(high for _, high in ranges),
            "limits": bigints([search.limit for search in searches]),
            "offsets": bigints([search.offset for search in searches]),
        },
        prepared=True,
    )
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
        return records_of(session, _chosen(session, wanted))
    if condition is None:
        return records_of(session, _merged(session, wanted))
    return records_of(session, _page(session, wanted, _UNINDEXED))


def _chosen(session: Session, wanted: _Wanted) -> list[Found]:
    """Walk everybody's latest as long as that is not the longer way, and sort all that matches otherwise."""
    if wanted.condition is _ANY:
        walked = _walked(session, wanted, WALK_FACTOR * wanted.need + WALK_START)
        if walked is not None:
            return walked
    estimated = estimate(session, wanted.scope, wanted.condition)
    if wanted.need <= estimated.matching * estimated.share:
        # To look at as many as there are to be sorted at most doubles the time, should it be in vain.
        walked = _walked(session, wanted, estimated.matching + wanted.need)
        if walked is not None:
            return walked
    return _page(session, wanted, _UNINDEXED)


def _straight(session: Session, wanted: _Wanted) -> list[Record]:
    """Walk what is in order already: the items of one namespace, or of everybody."""
    if wanted.offset > SHORT_OFFSET:
        return records_of(session, _page(session, wanted, LATEST))
    rows = session.fetch(
        f"{CLOCK} select {COLUMNS} from (select i.* from stateroom.item i "
        f"where {wanted.scope.sql} and {LIVE} and {wanted.condition.sql} {LATEST} "
        f"limit %(limit)s offset %(offset)s) i join stateroom.namespace n on n.id = i.namespace_id {LATEST}",
        wanted.parameters,
    )
    return [to_record(row) for row in rows]


def _page(session: Session, wanted: _Wanted, order: str) -> list[Found]:
    """Return what is on a page; what is passed over is looked at in the index alone."""
    scope = wanted.scope
    rows = session.fetch(
        f"{CLOCK} select i.address, i.revision from stateroom.item i {scope.join} "
        f"where {scope.joined} and {LIVE} and {wanted.condition.sql} {order} "
        "limit %(limit)s offset %(offset)s",
        wanted.parameters,
    )
    return [Found(*row) for row in rows]


def _merged(session: Session, wanted: _Wanted) -> list[Found]:
    """Ask each of a few namespaces for its latest, and take the latest of those."""
    rows = session.fetch(
        f"{CLOCK} select i.address, i.revision from unnest(%(namespaces)s::bigint[]) w(id) "
        "cross join lateral (select i.address, i.updated_at, i.revision from stateroom.item i "
        f"where i.namespace_id = w.id and {LIVE} {LATEST} limit %(need)s) i "
        f"{LATEST} limit %(limit)s offset %(offset)s",
        wanted.parameters,
        prepared=True,
    )
    return [Found(*row) for row in rows]


def _walked(session: Session, wanted: _Wanted, walk: int) -> list[Found] | None:
    """Look for the page among so many of everybody's latest; None when they do not fill it.

    Of those, the index alone tells which are in the scope, and only their values are looked at.
    """
    scope = wanted.scope
    latest = (
        "select i.address, i.revision, i.updated_at, i.namespace_id, i.expires_at from stateroom.item i "
        f"{LATEST} limit %(walk)s"
    )
    # A few are looked up one by one as they come; many are told apart by the list of all that belong.
    belongs = scope.sql if wanted.need > FEW_LOOKED_UP else scope.looked_up
    source = f"(select * from ({latest}) i where {belongs} and {LIVE} {LATEST} offset 0) w"
    if wanted.condition is not _ANY:
        source += (
            " cross join lateral (select i.value from stateroom.item i "
            f"where i.address = w.address and i.revision = w.revision and {wanted.condition.sql} offset 0) i"
        )
    rows = session.fetch(
        f"{CLOCK} select w.address, w.revision from {source} "
        "order by w.updated_at desc, w.revision desc limit %(limit)s offset %(offset)s",
        {**wanted.parameters, "walk": walk},
    )
    return [Found(*row) for row in rows] if len(rows) == wanted.limit else None
