"""Which terms an item has, and how a scope of documents is ranked for a query."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from stateroom.search.analysis import Analyzer
from stateroom.search.bm25 import Scorer, Statistics
from stateroom.search.fields import leaves
from stateroom.search.index_config import IndexSettings

__all__ = ["Document", "TextIndexing", "rank"]

K = TypeVar("K")


class Document(NamedTuple):
    """A document's part in one query: how often each query term occurs, and its length in terms."""

    frequencies: Sequence[int]
    length: int


class TextIndexing:
    """The text side of an index: which leaves of a value count, and their analysis."""

    def __init__(self, settings: IndexSettings) -> None:
        self.fields = settings.fields
        self.analyzer = Analyzer(settings.language)
        self.signature = f"{self.analyzer.signature}|{'|'.join(settings.fields)}"

    def terms(self, value: Mapping[str, Any], paths: tuple[str, ...] | None) -> list[str]:
        """Return the terms of an item's value, in order and with repeats; ``paths`` None is the fields."""
        selected = self.fields if paths is None else paths
        # No word goes on over the end of a line, so all leaves can be analysed at once.
        return self.analyzer.terms("\n".join(leaves(value, selected)))

    def query_terms(self, text: str) -> list[str]:
        """Return the distinct terms that a query asks for."""
        return self.analyzer.query_terms(text)


def rank(
    terms: Sequence[str],
    statistics: Statistics,
    document_frequency: Mapping[str, int],
    documents: Iterable[tuple[K, Document]],
) -> dict[K, float]:
    """Score the documents that hold at least one of ``terms``; the others are left out."""
    scorer = Scorer(statistics, [document_frequency.get(term, 0) for term in terms])
    return {
        key: scorer.score(document.frequencies, document.length)
        for key, document in documents
        if any(document.frequencies)
    }
