"""Figures that are held against a limit instead of a peer, and the shares of calls that keep within it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from benchmarks.measure import Line

__all__ = ["AT_MOST", "Stopwatch", "each_second", "promised", "quantile"]

T = TypeVar("T")

AT_MOST: Final = "at most"
"""Stands where a peer's name would."""

QUANTILES: Final = ((0.5, "p50"), (0.99, "p99"))


def quantile(values: Sequence[float], share: float) -> float:
    """Return the least value that so large a share of the values does not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def promised(
    operation: str,
    figure: float,
    *,
    at_most: float | None = None,
    verdict: str = "",
    unit: str = "us",
    **where: Any,
) -> Line:
    """Return a figure with the limit that it is to keep, if there is one."""
    return Line(
        operation=operation,
        ours=figure,
        verdict=verdict,
        peer_name=None if at_most is None else AT_MOST,
        peer=at_most,
        target=None if at_most is None else 1.0,
        unit=unit,
        **where,
    )


def each_second(operation: str, rate: float, *, at_least: float | None = None, **where: Any) -> Line:
    """Return how long one of so many a second takes; the rates are said beside it."""
    asked = "" if at_least is None else f", to be {at_least:,.0f}"
    given = where.pop("verdict", "")
    verdict = given if given.startswith("WRONG") else f"{rate:,.0f} a second{asked}"
    limit = None if at_least is None else 1e6 / at_least
    return promised(operation, 1e6 / rate, at_most=limit, verdict=verdict, **where)


class Stopwatch:
    """Times calls by name, in microseconds."""

    def __init__(self) -> None:
        self.spent: dict[str, list[float]] = {}

    def call(self, name: str, function: Callable[[], T]) -> T:
        """Call a function and note how long it took."""
        start = time.perf_counter_ns()
        result = function()
        self.spent.setdefault(name, []).append((time.perf_counter_ns() - start) / 1e3)
        return result

    def lines(self, limits: Mapping[str, float], **where: Any) -> Iterator[Line]:
        """Return the median and the 99th percentile of each name, held against its limit."""
        for name, spent in self.spent.items():
            for share, title in QUANTILES:
                yield promised(f"{name}, {title}", quantile(spent, share), at_most=limits.get(name), **where)
