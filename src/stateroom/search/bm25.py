"""BM25: the one formula by which a document's terms become its score for a query."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

__all__ = ["K1", "B", "Scorer", "Statistics", "score", "weights"]

K1: Final = 0.9
"""How slowly repeats of a term stop counting: a term seen once gives 1 / (1 + K1) of its weight."""

B: Final = 0.4
"""How much a long document must repeat a term to equal a short one: 0 not at all, 1 in proportion."""


@dataclass(frozen=True, slots=True)
class Statistics:
    """The searched scope: how many documents it has, and their summed length in terms."""

    documents: int
    length: int

    @property
    def average_length(self) -> float:
        """The mean length of a document in terms; 0.0 for an empty scope."""
        return self.length / self.documents if self.documents else 0.0


def weights(statistics: Statistics, document_frequency: Mapping[str, int]) -> dict[str, float]:
    """Return the weight of each term: the rarer in the scope, the heavier; never negative.

    ``document_frequency`` says in how many documents of the scope each term of the query occurs; its
    order is the order of the query's terms, and the result keeps it.
    """
    return {term: _weight(statistics.documents, count) for term, count in document_frequency.items()}


def score(
    weights: Mapping[str, float], term_frequency: Mapping[str, int], length: int, average_length: float
) -> float:
    """Return the score of one document: at least 0.0, below the sum of the weights.

    ``length`` is the document's, ``average_length`` the scope's, both in terms. Terms of the query
    that ``term_frequency`` lacks count as absent.
    """
    frequencies = [term_frequency.get(term, 0) for term in weights]
    return _sum(weights.values(), frequencies, *_damping(average_length), length)


class Scorer:
    """Scores many documents for one query, to the same bits as ``score``.

    ``document_frequency`` says in how many documents of the scope each term of the query occurs, in
    the query's order. Sums run in that order, so that every back end arrives at the same bits.
    """

    __slots__ = ("floor", "slope", "weights")

    def __init__(self, statistics: Statistics, document_frequency: Iterable[int]) -> None:
        self.weights = tuple(_weight(statistics.documents, count) for count in document_frequency)
        self.floor, self.slope = _damping(statistics.average_length)

    def score(self, frequencies: Iterable[int], length: int) -> float:
        """Return the score of a document of ``length`` terms.

        ``frequencies`` says how often each term of the query occurs in it, in the query's order; it
        must be as long as ``weights``, or ``ValueError`` is raised.
        """
        return _sum(self.weights, frequencies, self.floor, self.slope, length)


def _weight(documents: int, count: int) -> float:
    # This is Lucene's ln(1 + (N - n + 0.5) / (n + 0.5)), simplified. A count taken a moment after the
    # statistics may exceed them: then the term says nothing, rather than something against a document.
    return max(0.0, math.log((documents + 1) / (count + 0.5)))


def _damping(average_length: float) -> tuple[float, float]:
    # K1 * (1 - B + B * length / average_length), as the part that is fixed and the part per term of length.
    return (K1 * (1.0 - B), K1 * B / average_length) if average_length else (K1, 0.0)


def _sum(
    weights: Iterable[float], frequencies: Iterable[int], floor: float, slope: float, length: int
) -> float:
    damping = floor + slope * length
    total = 0.0
    for weight, frequency in zip(weights, frequencies, strict=True):
        if frequency:
            total += weight * (frequency / (frequency + damping))
    return total
