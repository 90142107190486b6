"""What a text search ought to answer, worked out from the rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.data import Rows, row_of
from benchmarks.measure import WRONG
from stateroom.search.bm25 import K1, B

__all__ = ["ranked"]

TOLERANCE = 1e-9


def ranked(
    rows: Rows, words: Callable[[Any], Sequence[str]], scope: NDArray[np.bool_], *, exact: bool = True
) -> Any:
    """Return a check of the first ten: BM25 over the rows of ``scope``, ties by the latest row.

    Without ``exact`` the scores must be right and in order, but a store may have chosen its candidates
    by another ranking; how many of the true ten it found is noted.
    """

    def check(_store: Any, argument: Any, got: Any, _ours: bool) -> str | None:
        scores = _scores(rows, words(argument), scope)
        order = np.lexsort((-np.arange(len(scores)), -scores))
        expected = [int(row) for row in order[:10] if scores[row] > 0.0]
        found = [row_of(item.key) for item in got]
        if len(found) != len(expected):
            return f"{WRONG}: {len(found)} of {len(expected)} items"
        reported = np.array([item.score for item in got])
        if not np.allclose(reported, scores[found], rtol=TOLERANCE, atol=0.0):
            return f"{WRONG}: scores"
        if np.any(np.diff(reported) > 0.0):
            return f"{WRONG}: not in order"
        if exact:
            return None if found == expected else f"{WRONG}: not the best"
        least = scores[expected[-1]] * (1 - TOLERANCE) if expected else 0.0
        best = int((scores[found] >= least).sum())
        return None if best == len(expected) else f"{best} of the best {len(expected)}"

    return check


def _scores(rows: Rows, words: Sequence[str], scope: NDArray[np.bool_]) -> NDArray[np.float64]:
    """Return the BM25 score of every row; 0 outside the scope and where no word occurs."""
    total = len(scope)
    counts = rows.counts(words, total) * scope[:, None]
    # The number that a text begins with is a term as well.
    lengths = rows.lengths[:total] + 1
    documents = int(scope.sum())
    weights = np.log((documents + 1) / ((counts > 0).sum(axis=0) + 0.5))
    damping = K1 * (1 - B + B * lengths / lengths[scope].mean())
    scores: NDArray[np.float64] = (weights * (counts / (counts + damping[:, None]))).sum(axis=1)
    return scores
