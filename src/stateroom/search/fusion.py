"""Fusion: the one rule by which a text ranking and a vector ranking become a hybrid one."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from dataclasses import dataclass
from typing import Final, TypeVar

__all__ = ["CANDIDATES", "TEXT_WEIGHT", "Fused", "fuse", "pool_size"]

CANDIDATES: Final = 200
"""How many of the best of each list are fused, whatever the page, as far as it reaches."""

TEXT_WEIGHT: Final = 0.7
"""The share of the words in a hybrid score; the rest is the share of the vectors."""

K = TypeVar("K", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Fused:
    """A hybrid score from 0.0 to 1.0, beside the scores it comes from (None: not in that list)."""

    score: float
    text: float | None
    vector: float | None


def pool_size(rows: int) -> int:
    """Return how many of the best of each list to fuse so that ``rows`` hybrid hits can be served.

    It is ``CANDIDATES``, doubled until it reaches ``rows``: pages of one query draw from one pool
    nearly always, and so agree on the order, and a page beyond the pool is still there.
    """
    pool = CANDIDATES
    while pool < rows:
        pool *= 2
    return pool


def fuse(
    text: Mapping[K, float], vector: Mapping[K, float], *, text_weight: float = TEXT_WEIGHT
) -> dict[K, Fused]:
    """Return the hybrid score of every key of both lists.

    ``text`` holds the positive BM25 scores of the best ``CANDIDATES`` by words; ``vector`` the
    similarities (higher is nearer, any scale) of the best ``CANDIDATES`` by vector and of every key of
    ``text`` that has one. Text counts as a share of the best text score, since no match is a true
    zero. Vectors count from the least to the most similar candidate, since similarities have no
    zero that means "unrelated"; when all are equal, each counts in full. A key that one list lacks
    gets nothing from it, so if a list is empty the other alone gives the order. ``text_weight`` is there
    for the benchmark that justifies its default.
    """
    best = max(text.values(), default=0.0)
    least = min(vector.values(), default=0.0)
    spread = max(vector.values(), default=0.0) - least
    fused: dict[K, Fused] = {}
    for key in {**text, **vector}:
        words, meaning = text.get(key), vector.get(key)
        share = _share(words, 0.0, best)
        near = _share(meaning, least, spread)
        fused[key] = Fused(text_weight * share + (1.0 - text_weight) * near, words, meaning)
    return fused


def _share(value: float | None, least: float, spread: float) -> float:
    if value is None:
        return 0.0
    return (value - least) / spread if spread > 0.0 else 1.0
