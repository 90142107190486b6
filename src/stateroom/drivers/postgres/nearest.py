"""Exact search for the vectors nearest to a query."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

from stateroom.drivers.postgres.pgvector import Dialect, encoded
from stateroom.drivers.postgres.session import CLOCK, LIVE, Session
from stateroom.drivers.postgres.target import Target
from stateroom.drivers.postgres.text_search import Scored

__all__ = ["ORDER", "best_of_items", "exact"]

ORDER: Final = "v.score desc, v.updated_at desc, v.revision desc"
"""The order of a result: the best score first, ties by the latest put."""

SPARE = 16
"""Vectors that a search of everything reads beyond those wanted, since some may be of no live item."""

_SCORES = """
select v.address, {score} as score, v.updated_at, v.revision from stateroom.vector v where {where}
"""

_SCORES_OF_ITEMS = """
select v.address, max({score}) as score, v.updated_at, v.revision from stateroom.vector v where {where}
group by v.address, v.updated_at, v.revision
"""

# What an array holds is looked up in order, which is quicker than a join that reads as many vectors.
_IN_TARGET = "v.revision = any(array(select i.revision from stateroom.item i where {where}))"

_BEST = """
{CLOCK} select v.address, v.score, v.updated_at, v.revision from ({scores}) v order by {ORDER} limit %(limit)s
"""

_BEST_OF_ALL = """
{CLOCK} select v.address, v.score, v.updated_at, v.revision, i.revision is not null from (
    select v.* from ({scores}) v order by {ORDER} limit %(limit)s
) v left join stateroom.item i on i.address = v.address and i.revision = v.revision and {LIVE}
order by {ORDER}
"""


def exact(session: Session, dialect: Dialect, target: Target, limit: int, *, several: bool) -> list[Scored]:
    """Return the nearest vectors, at most ``limit``, best first.

    An item has as many hits as vectors, but one, the best, where it is known that there are ``several``.
    """
    scores = (_SCORES_OF_ITEMS if several else _SCORES).replace("{score}", dialect.score(dialect.distance))
    parameters = {"query": encoded(target.vector, dialect.vector_type)}
    if target.is_everything:
        sql = _BEST_OF_ALL.format(CLOCK=CLOCK, LIVE=LIVE, ORDER=ORDER, scores=scores.format(where="true"))
        rows = session.fetch(sql, {**parameters, "limit": limit + SPARE})
        found = [Scored(*row) for *row, is_live in rows if is_live]
        if len(found) >= limit or len(rows) < limit + SPARE:
            return found[:limit]
    where = _IN_TARGET.format(where=target.where)
    sql = _BEST.format(CLOCK=CLOCK, ORDER=ORDER, scores=scores.format(where=where))
    rows = session.fetch(sql, {**target.parameters, **parameters, "limit": limit})
    return [Scored(*row) for row in rows]


def best_of_items(hits: Iterable[Scored]) -> list[Scored]:
    """Return the best hit of each item, in the order of the hits, which is best first."""
    best: dict[Any, Scored] = {}
    for hit in hits:
        best.setdefault(hit.address, hit)
    return list(best.values())
