"""Finding entries under a node by filter: by walking the latest first, or through an index of a field."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Any

from stateroom.drivers.memory.postings import Postings, Token, scalar_token
from stateroom.drivers.memory.tree import Entry, Node
from stateroom.model.filter import And, Compare, Filter, compile_filter

__all__ = ["Finder"]

WALK_MAX = 1_000
"""Entries that a search looks at, latest first, before it has an index built for the field it filters on."""

Matcher = Callable[[Mapping[str, Any]], bool]


class Finder:
    """Finds entries by filter; a field gets an index once a walk has been long, or at once if declared."""

    def __init__(self, root: Node, index_keys: tuple[str, ...]) -> None:
        self._root = root
        self._declared = frozenset(index_keys)
        self._fields: dict[str, Postings] = {}

    def add(self, entry: Entry) -> None:
        """Note a new entry."""
        for postings in self._fields.values():
            postings.add(entry)

    def discard(self) -> None:
        """Note that an entry is gone."""
        for postings in self._fields.values():
            postings.discard()

    def find(self, node: Node, condition: Filter | None) -> Iterator[Entry]:
        """Yield the entries under ``node`` that match, latest put first."""
        if condition is None:
            return reversed(node.recent.values())
        matches = compile_filter(condition)
        helpful = _helpful(condition)
        indexed = [one for one in helpful if one.key in self._fields or one.key in self._declared]
        if indexed:
            return self._by_index(node, indexed, matches)
        return self._by_walk(node, helpful, matches)

    def _by_walk(self, node: Node, helpful: list[Compare], matches: Matcher) -> Iterator[Entry]:
        """Look at the latest entries and, when there are many more, make an index find the others."""
        equalities = [compare for compare in helpful if compare.operator == "$eq"]
        newest = reversed(node.recent.values())
        if not equalities or len(node.recent) <= WALK_MAX:
            yield from (entry for entry in newest if matches(entry.value))
            return
        last = None
        for entry in islice(newest, WALK_MAX):
            last = entry
            if matches(entry.value):
                yield entry
        assert last is not None
        for entry in self._by_index(node, equalities, matches):
            if entry.record.revision < last.record.revision:
                yield entry

    def _by_index(self, node: Node, helpful: list[Compare], matches: Matcher) -> Iterator[Entry]:
        holders = min((self._holders(compare) for compare in helpful), key=len)
        scope = node.recent
        candidates = reversed(scope.values()) if len(holders) > len(scope) else reversed(holders)
        return (
            entry
            for entry in candidates
            if entry.alive and entry.record.revision in scope and matches(entry.value)
        )

    def _holders(self, compare: Compare) -> dict[Entry, Any]:
        """Return the entries whose field may satisfy one condition, in the order of their puts."""
        postings = self._fields.get(compare.key)
        if postings is None:
            postings = self._fields[compare.key] = Postings(
                _extractor(compare.key), self._root.recent.values()
            )
        if compare.operator == "$eq":
            token = scalar_token(compare.operand)
            return postings.find(token) if token is not None else {}
        tokens = _tokens_of_range(postings, compare)
        found = {entry for token in tokens for entry in postings.find(token)}
        return dict.fromkeys(sorted(found, key=lambda entry: entry.record.revision))


def _extractor(key: str) -> Callable[[Entry], Mapping[Token, int]]:
    def extract(entry: Entry) -> Mapping[Token, int]:
        if key not in entry.value:
            return {}
        token = scalar_token(entry.value[key])
        return {} if token is None else {token: 1}

    return extract


def _tokens_of_range(postings: Postings, compare: Compare) -> list[Token]:
    if compare.operator == "$in":
        tokens = [scalar_token(operand) for operand in compare.operand]
        return list(dict.fromkeys(token for token in tokens if token is not None))
    token = scalar_token(compare.operand)
    kind = float if isinstance(compare.operand, int | float) else str
    if compare.operator in ("$gt", "$gte"):
        return postings.between(token, None, kind)
    return postings.between(None, token, kind)


def _helpful(condition: Filter) -> list[Compare]:
    """Return the conditions, all of which must hold, that an index of their field can answer."""
    if isinstance(condition, And):
        return [compare for part in condition.parts for compare in _helpful(part)]
    if not isinstance(condition, Compare):
        return []
    if condition.operator == "$in":
        scalar = all(scalar_token(operand) is not None for operand in condition.operand)
        return [condition] if scalar else []
    if condition.operator in ("$gt", "$gte", "$lt", "$lte"):
        return [condition]
    if condition.operator == "$eq" and scalar_token(condition.operand) is not None:
        return [condition]
    return []
