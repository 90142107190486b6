"""How many items match, as far as Postgres knows without looking at them."""

from __future__ import annotations

from typing import Final, NamedTuple

from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.where import Condition

__all__ = ["Estimate", "estimate"]

_NO_LIMIT: Final = 1_000_000_000_000


class Estimate(NamedTuple):
    """How many items match, of how many that there are; each at least 1."""

    matching: int
    total: int

    @property
    def share(self) -> float:
        """The part of all items that matches."""
        return min(1.0, self.matching / self.total)


def estimate(session: Session, scope: Scope | None, condition: Condition | None) -> Estimate:
    """Return the planner's estimate of the items that match, of a scope or (None) of all."""
    sql, parameters = condition or Condition("true", {})
    join, within, place = ("", "true", {}) if scope is None else (scope.join, scope.joined, scope.parameters)
    # Each half of the union is limited by what all searches may be: a limit keeps the estimate in one piece.
    (((plan,),),) = session.fetch(
        "explain (format json) "
        f"(select 1 from stateroom.item i {join} where {within} and {sql} limit %(most)s) "
        "union all (select 1 from stateroom.item i limit %(most)s)",
        {**place, **parameters, "most": _NO_LIMIT},
    )
    matching, total = (max(1, part["Plan Rows"]) for part in plan["Plan"]["Plans"])
    return Estimate(matching, total)
