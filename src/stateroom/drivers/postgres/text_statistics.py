"""The size of wide scopes, which is not counted anew for every search."""

from __future__ import annotations

from typing import NamedTuple

from stateroom.model.namespace import Namespace
from stateroom.search.bm25 import Statistics

__all__ = ["KnownStatistics", "Moment"]

STATISTICS_EXACT = 10_000
"""Documents of a scope up to which they are counted for every search."""

PUTS_SHARE = 0.01
"""Puts to the store, as a share of a scope's documents, after which those are counted anew."""

AGE_MAX = 60_000_000
"""Microseconds after which they are counted anew in any case."""

SCOPES_KNOWN = 1_000
"""Scopes that are remembered."""


class Moment(NamedTuple):
    """When something was seen: the store's last revision, and the time in microseconds since 1970 UTC."""

    revision: int
    now: int


class _Counted(NamedTuple):
    statistics: Statistics
    at: Moment


class KnownStatistics:
    """What was counted last of each wide scope.

    Counting takes time in proportion to the scope, and hardly any put moves a sum of ten thousand or
    more: a hundredth more documents change every score by less than a hundredth, all of them alike.
    """

    def __init__(self) -> None:
        self._counted: dict[Namespace, _Counted] = {}

    def has(self, prefix: Namespace) -> bool:
        """Tell whether a scope was wide when it was last counted."""
        return prefix in self._counted

    def find(self, prefix: Namespace, moment: Moment) -> Statistics | None:
        """Return what was counted of a scope, unless it may be too far from the truth by now."""
        counted = self._counted.get(prefix)
        if counted is None or counted.statistics.documents <= STATISTICS_EXACT:
            return None
        puts = moment.revision - counted.at.revision
        is_fresh = abs(moment.now - counted.at.now) <= AGE_MAX
        return counted.statistics if is_fresh and puts <= counted.statistics.documents * PUTS_SHARE else None

    def note(self, prefix: Namespace, statistics: Statistics, moment: Moment, *, is_wide: bool) -> None:
        """Remember what was just counted."""
        if not is_wide:
            self._counted.pop(prefix, None)
            return
        if len(self._counted) >= SCOPES_KNOWN:
            self._counted.clear()
        self._counted[prefix] = _Counted(statistics, moment)
