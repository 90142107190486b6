"""Finding items and namespaces in a foreign store, of which no more is believed than that it has them.

Everything is a plan: a generator that yields operations of LangGraph's for the store and is sent their
results, so that the same lines serve sync and async callers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from functools import partial
from itertools import islice
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from langgraph.store.base import GetOp, ListNamespacesOp, MatchCondition, Op, SearchOp

from stateroom.contract.items import Count, ListKeys, ListNamespaces, Query, Search
from stateroom.contract.keys import list_keys
from stateroom.model.filter import Filter, compile_filter
from stateroom.model.item import Hit, KeyEntry
from stateroom.model.listing import select_namespaces
from stateroom.model.namespace import WILDCARD, Match, Namespace
from stateroom.model.page import ROWS_MAX
from stateroom.search.bm25 import Statistics
from stateroom.search.fusion import fuse, pool_size
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import Document, TextIndexing, rank
from stateroom.stores.foreign_rows import Address, Row, distinct, in_order, is_ours

__all__ = ["PAGE", "Finding", "Plan"]

T = TypeVar("T")
Plan: TypeAlias = Generator[list[Op], list[Any], T]

PAGE: Final = 1_000
"""How many items or namespaces a foreign store is asked for at once."""

PROBES: Final = 100
"""How many namespaces are looked into at once for whether they hold an item."""

KNOWN_VALUES: Final = 20_000
KNOWN_BYTES: Final = 2_000
"""The terms of so many values of so many bytes of JSON are remembered from one text search to the next."""

VECTORS_EACH: Final = 8
"""How many vectors an item may have before others could be missing from an answer with room for so many."""

_REFUSALS: Final = (ValueError, TypeError, NotImplementedError)
"""With one of these a store refuses a search that names no namespace."""


class Ranked(NamedTuple):
    """A row with its score, and what text and vector search thought of it."""

    row: Row
    score: float | None = None
    text: float | None = None
    vector: float | None = None


class Finding:
    """The searches and listings of one foreign store."""

    def __init__(self, settings: IndexSettings, *, refreshes: bool) -> None:
        self._text = TextIndexing(settings) if settings.text else None
        self._refreshes = refreshes
        self._refuses_everything = False
        self._known: dict[bytes, tuple[Mapping[str, int], int]] = {}

    def search(self, operation: Search) -> Plan[list[Hit]]:
        """Apply one ``Search``; reading it all first, only what is answered is refreshed."""
        if operation.limit == 0:
            return []
        ranked = yield from self._ranked(operation)
        page = ranked[operation.offset : operation.offset + operation.limit]
        if operation.refresh and self._refreshes and page:
            yield [GetOp(*found.row.address, refresh_ttl=True) for found in page]
        return [Hit(found.row.record, *found[1:]) for found in page]

    def count(self, operation: Count) -> Plan[int]:
        """Apply one ``Count``."""
        return len(_matching((yield from self._scan(operation.prefix)), operation.filter))

    def keys(self, operation: ListKeys) -> Plan[list[KeyEntry]]:
        """Apply one ``ListKeys``, for which everything at and below the namespace is read."""
        namespace = operation.namespace
        if operation.limit == 0 or not namespace:
            return []
        rows = yield from self._scan(namespace)
        own = {key: row for (where, key), row in rows.items() if where == namespace}
        return list_keys(operation, sorted(own), own)

    def namespaces(self, operation: ListNamespaces) -> Plan[list[Namespace]]:
        """Apply one ``ListNamespaces``: what the store lists is asked whether it still holds an item."""
        wanted, depth = operation.offset + operation.limit, operation.max_depth
        if operation.limit == 0:
            return []
        listed = yield from self._listed(_common_prefix(operation.matches))
        candidates = select_namespaces(listed, operation.matches, None, ROWS_MAX, 0)
        living: list[Namespace] = []
        for some in _chunks(candidates):
            living += yield from self._living(some)
            if len({name[:depth] for name in living}) >= wanted:
                break
        return select_namespaces(living, (), depth, operation.limit, operation.offset)

    def _ranked(self, operation: Search) -> Plan[list[Ranked]]:
        query = operation.query
        if query is None:
            rows = _matching((yield from self._scan(operation.prefix)), operation.filter)
            return [Ranked(row) for row in rows.values()]
        need = operation.offset + operation.limit
        if query.mode == "vector":
            near = yield from self._near(operation, query, need)
            scored = {address: row.score for address, row in near.items() if _is_strong(row, query)}
            return [Ranked(near[address], score, None, score) for address, score in _best(scored)]
        rows = yield from self._scan(operation.prefix)
        text = self._by_text(rows, query, operation.filter)
        if query.mode == "text":
            return [Ranked(rows[address], score, score) for address, score in _best(text)]
        pool = pool_size(need)
        near = yield from self._near(operation, query, pool)
        return _both(rows | near, dict(islice(_best(text), pool)), near)

    def _by_text(
        self, rows: Mapping[Address, Row], query: Query, condition: Filter | None
    ) -> dict[Address, float]:
        assert self._text is not None
        terms = self._text.query_terms(query.text)
        documents, length, frequency = 0, 0, dict.fromkeys(terms, 0)
        matching: dict[Address, Document] = {}
        for address, row in rows.items():
            counts, size = self._analysed(row)
            documents, length = documents + bool(size), length + size
            document = Document([counts.get(term, 0) for term in terms], size)
            if any(document.frequencies):
                matching[address] = document
                for term in terms:
                    frequency[term] += term in counts
        wanted = _matching({address: rows[address] for address in matching}, condition)
        return rank(
            terms,
            Statistics(documents, length),
            frequency,
            ((address, matching[address]) for address in wanted),
        )

    def _analysed(self, row: Row) -> tuple[Mapping[str, int], int]:
        """Return how often each term occurs in a row, and how many terms it has; values are remembered."""
        known = self._known.get(row.raw)
        if known is None:
            assert self._text is not None
            terms = self._text.terms(row.value, None)
            known = Counter(terms), len(terms)
            if len(row.raw) <= KNOWN_BYTES:
                self._known[row.raw] = known
                if len(self._known) > KNOWN_VALUES:
                    self._known.clear()
        return known

    def _near(self, operation: Search, query: Query, need: int) -> Plan[dict[Address, Row]]:
        """Return the nearest rows, in order: at least ``need`` that match, or all that have a score.

        The offset is always 0, since pages of vectors repeat and skip items in LangGraph's own stores. They
        answer less than they are asked for as well, where vectors of one item crowd out those of others; so
        an answer is the whole one if it is short by far, or no longer than the one before.
        """
        limit, seen = pool_size(need), -1
        while True:
            answers = yield from self._over(operation.prefix, partial(_ask, limit=limit, query=query.text))
            items = [item for answer in answers for item in answer if item.score is not None]
            rows = distinct(items, operation.prefix)
            near = _matching(in_order(rows), operation.filter)
            if len(near) >= need or len(rows) * VECTORS_EACH < limit or len(rows) <= seen:
                return near
            limit, seen = limit * 2, len(rows)

    def _scan(self, prefix: Namespace) -> Plan[dict[Address, Row]]:
        """Return every row at or below ``prefix``, in order."""
        parts = yield from self._over(prefix, _pages)
        return in_order(distinct((item for part in parts for item in part), prefix))

    def _over(self, prefix: Namespace, look: Callable[[Namespace], Plan[T]]) -> Plan[list[T]]:
        """Look below ``prefix``, or below each root label if the store refuses to look at everything."""
        if not prefix and not self._refuses_everything:
            try:
                return [(yield from look(prefix))]
            except _REFUSALS:
                self._refuses_everything = True
        places = [prefix]
        if not prefix:
            listed = yield from self._listed(())
            places = sorted({name[:1] for name in listed})
        found = []
        for place in places:
            found.append((yield from look(place)))
        return found

    def _listed(self, prefix: Namespace) -> Plan[list[Namespace]]:
        """Return what the store lists below ``prefix``, sorted, ghosts included."""
        conditions = (MatchCondition("prefix", prefix),) if prefix else None
        names: set[Namespace] = set()
        offset = 0
        while True:
            (page,) = yield [ListNamespacesOp(conditions, None, PAGE, offset)]
            known = len(names)
            names.update(tuple(name) for name in page)
            if len(names) == known:
                break
            offset += len(page)
        return sorted(filter(is_ours, names))

    def _living(self, names: Sequence[Namespace]) -> Plan[list[Namespace]]:
        answers = yield [SearchOp(name, None, 1, 0, None, False) for name in names]
        living = []
        for name, answer in zip(names, answers, strict=True):
            found = {address[0] for address in distinct(answer, name)}
            if answer and name not in found:
                # What was answered lies deeper, or elsewhere; the namespace itself may still hold an item.
                found = {address[0] for address in (yield from self._scan(name))}
            if name in found:
                living.append(name)
        return living


def _ask(
    prefix: Namespace, *, limit: int = PAGE, offset: int = 0, query: str | None = None
) -> Plan[list[Any]]:
    (items,) = yield [SearchOp(prefix, None, limit, offset, query, False)]
    return list(items)


def _pages(prefix: Namespace) -> Plan[list[Any]]:
    """Return all that a store answers, page by page, until one brings nothing new.

    A short page is not the end: the store may have a limit of its own.
    """
    items: list[Any] = []
    seen: set[tuple[Any, Any]] = set()
    while True:
        page = yield from _ask(prefix, offset=len(items))
        known = len(seen)
        seen.update((tuple(item.namespace), item.key) for item in page)
        if len(seen) == known:
            return items
        items += page


def _matching(rows: Mapping[Address, Row], condition: Filter | None) -> dict[Address, Row]:
    if condition is None:
        return dict(rows)
    matches = compile_filter(condition)
    return {address: row for address, row in rows.items() if matches(row.value)}


def _is_strong(row: Row, query: Query) -> bool:
    return row.score is not None and (query.min_score is None or row.score >= query.min_score)


def _best(scores: Mapping[Address, Any]) -> list[tuple[Address, Any]]:
    """Return the best first; equal ones in the order that they have."""
    return sorted(scores.items(), key=lambda scored: -scored[1])


def _both(
    rows: Mapping[Address, Row], text: Mapping[Address, float], near: Mapping[Address, Row]
) -> list[Ranked]:
    vector = {address: row.score for address, row in near.items() if row.score is not None}
    fused = fuse(text, vector)
    ordered = {address: fused[address].score for address in in_order(rows) if address in fused}
    return [
        Ranked(rows[address], score, text.get(address), vector.get(address))
        for address, score in _best(ordered)
    ]


def _common_prefix(matches: Sequence[Match]) -> Namespace:
    """Return the labels with which every namespace that satisfies ``matches`` begins, as far as one says."""
    for match in matches:
        if match.kind == "prefix":
            plain = match.path.index(WILDCARD) if WILDCARD in match.path else len(match.path)
            return match.path[:plain]
    return ()


def _chunks(names: Sequence[Namespace]) -> Iterator[Sequence[Namespace]]:
    return (names[start : start + PROBES] for start in range(0, len(names), PROBES))
