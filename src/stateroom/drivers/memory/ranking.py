"""Ranking the entries under a node for a query, by text, by vector or by both."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from heapq import nsmallest
from itertools import islice, takewhile
from typing import TYPE_CHECKING, Any

from stateroom.contract.items import Query, Search
from stateroom.drivers.memory.finding import Finder
from stateroom.drivers.memory.postings import Postings
from stateroom.drivers.memory.tree import Entry, Node
from stateroom.model.filter import Filter, compile_filter
from stateroom.search.bm25 import Statistics
from stateroom.search.fusion import fuse, pool_size
from stateroom.search.index_config import DistanceType, IndexSettings
from stateroom.search.text import Document, TextIndexing, rank

if TYPE_CHECKING:
    from stateroom.search.vectors import VectorTable

__all__ = ["Ranked", "Ranking"]

SCAN_MAX = 1_000
"""Entries below a node up to which a text search reads them all; beyond, it goes by the inverted index."""

SIFT_MAX = 256
"""Ranked vectors that are checked against a filter, before what it matches is found first."""

Ranked = tuple[Entry, float, float | None, float | None]
"""An entry with its score, and what text and vector search thought of it."""

Matcher = Callable[[Mapping[str, Any]], bool]


class Ranking:
    """The text and vector indexes of one store."""

    def __init__(self, settings: IndexSettings) -> None:
        self._text = TextIndexing(settings) if settings.text else None
        self._vectors = _table(settings.dims, settings.distance_type) if settings.dims else None
        self._terms: Postings | None = None
        self._changes = 0
        self._sum = Statistics(0, 0)
        self._summed: tuple[Node, int] | None = None

    def add(self, entry: Entry) -> None:
        """Note a new entry and its vectors."""
        self._changes += 1
        if self._terms is not None:
            self._terms.add(entry)
        if entry.vectors and self._vectors is not None:
            self._vectors.add(entry.record.revision, [embedded.vector for embedded in entry.vectors])

    def discard(self, entry: Entry) -> None:
        """Forget an entry."""
        self._changes += 1
        if self._terms is not None:
            self._terms.discard()
        if entry.vectors and self._vectors is not None:
            self._vectors.remove(entry.record.revision)

    def search(self, node: Node, operation: Search, root: Node, finder: Finder) -> Iterator[Ranked]:
        """Yield the matching entries under ``node``, best first, ties by the latest put."""
        query = operation.query
        assert query is not None
        matches = compile_filter(operation.filter) if operation.filter else None
        if query.mode == "text":
            scores = self._by_text(node, query, matches, root)
            best = _best(scores, operation.offset + operation.limit)
            return ((entry, score, score, None) for entry, score in best)
        vectors = self._by_vector(node, query, operation.filter, finder)
        if query.mode == "vector":
            found = _strong(vectors, query.min_score)
            return ((entry, score, None, score) for entry, score in found)
        pool = pool_size(operation.offset + operation.limit)
        best = _best(self._by_text(node, query, matches, root), pool)
        return self._by_both(node, query, best, islice(vectors, pool))

    def _by_both(
        self,
        node: Node,
        query: Query,
        best: Iterable[tuple[Entry, float]],
        nearest: Iterable[tuple[Entry, float]],
    ) -> Iterator[Ranked]:
        text = {entry.record.revision: score for entry, score in best}
        vector = {entry.record.revision: score for entry, score in nearest}
        assert self._vectors is not None
        assert query.vector is not None
        vector |= self._vectors.score_of(query.vector, [key for key in text if key not in vector])
        fused = fuse(text, vector)
        order = sorted(fused, key=lambda key: (-fused[key].score, -key))
        return ((node.recent[key], fused[key].score, text.get(key), vector.get(key)) for key in order)

    def _by_vector(
        self, node: Node, query: Query, condition: Filter | None, finder: Finder
    ) -> Iterator[tuple[Entry, float]]:
        assert self._vectors is not None
        assert query.vector is not None
        keys = None if len(node.recent) * 2 > len(self._vectors) else node.recent.keys()
        matches = compile_filter(condition) if condition else None
        sifted: set[int] = set()
        for key, score in self._vectors.ranked(query.vector, keys):
            if matches is not None:
                if len(sifted) == SIFT_MAX:
                    break
                sifted.add(key)
            entry = node.recent.get(key)
            if entry is not None and (matches is None or matches(entry.value)):
                yield entry, score
        else:
            return
        # So few match that it is better to find them first.
        found = [entry.record.revision for entry in finder.find(node, condition)]
        for key, score in self._vectors.ranked(query.vector, found):
            if key not in sifted:
                yield node.recent[key], score

    def _by_text(self, node: Node, query: Query, matches: Matcher | None, root: Node) -> dict[Entry, float]:
        assert self._text is not None
        terms = self._text.query_terms(query.text)
        if not terms:
            return {}
        if len(node.recent) <= SCAN_MAX:
            found = self._scan(node.recent.values(), terms)
        else:
            found = self._look_up(node, terms, root)
        frequency = dict.fromkeys(terms, 0)
        for document in found.values():
            for term, count in zip(terms, document.frequencies, strict=True):
                frequency[term] += count > 0
        wanted = found.items()
        if matches is not None:
            wanted = {entry: document for entry, document in wanted if matches(entry.value)}.items()
        return rank(terms, self._statistics(node), frequency, wanted)

    def _scan(self, entries: Iterable[Entry], terms: list[str]) -> dict[Entry, Document]:
        found = {}
        for entry in entries:
            held = self._terms_of(entry)
            frequencies = [held.get(term, 0) for term in terms]
            if any(frequencies):
                found[entry] = Document(frequencies, entry.length)
        return found

    def _look_up(self, node: Node, terms: list[str], root: Node) -> dict[Entry, Document]:
        if self._terms is None:
            self._terms = Postings(self._terms_of, root.recent.values())
        held = [self._terms.find(term) for term in terms]
        scope = node.recent
        entries = dict.fromkeys(
            entry for holders in held for entry in holders if entry.alive and entry.record.revision in scope
        )
        return {
            entry: Document([holders.get(entry, 0) for holders in held], entry.length) for entry in entries
        }

    def _statistics(self, node: Node) -> Statistics:
        """Sum up the documents under a node; what was summed last holds until anything is put or deleted."""
        if self._summed != (node, self._changes):
            lengths = [entry.length for entry in node.recent.values() if self._terms_of(entry)]
            self._sum = Statistics(documents=len(lengths), length=sum(lengths))
            self._summed = node, self._changes
        return self._sum

    def _terms_of(self, entry: Entry) -> dict[str, int]:
        if entry.terms is None:
            assert self._text is not None
            terms = self._text.terms(entry.value, entry.paths)
            entry.terms = dict(Counter(terms))
            entry.length = len(terms)
        return entry.terms


def _table(dims: int, distance_type: DistanceType) -> VectorTable:
    # It brings NumPy, which only those who have vectors are to wait for.
    from stateroom.search.vectors import VectorTable

    return VectorTable(dims, distance_type)


def _strong(found: Iterator[tuple[Entry, float]], least: float | None) -> Iterator[tuple[Entry, float]]:
    """Stop at the first score below the least one."""
    return found if least is None else takewhile(lambda scored: scored[1] >= least, found)


def _best(scores: Mapping[Entry, float], number: int) -> list[tuple[Entry, float]]:
    """Return the best entries, ties by the latest put."""
    return nsmallest(number, scores.items(), key=lambda scored: (-scored[1], -scored[0].record.revision))
