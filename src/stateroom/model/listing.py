"""Selecting namespaces from a sorted list without looking at those that cannot match."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import islice

from stateroom.model.namespace import WILDCARD, Match, Namespace

__all__ = ["select_namespaces"]

_END: Namespace = ("\U0010ffff" * 300,)
"""Behind every namespace: no label is as long."""


def select_namespaces(
    names: Sequence[Namespace], matches: Sequence[Match], max_depth: int | None, limit: int, offset: int
) -> list[Namespace]:
    """Return a page of the distinct namespaces that satisfy every one of ``matches``, cut to ``max_depth``.

    ``names`` are distinct and sorted, and so is the result.
    """
    for match in matches:
        if match.kind == "suffix" and match.path and match.path[-1] != WILDCARD:
            last = match.path[-1]
            names = [name for name in names if name[-1] == last]
    found = _selected(names, matches, max_depth)
    return list(islice(found, offset, offset + limit))


def _selected(
    names: Sequence[Namespace], matches: Sequence[Match], max_depth: int | None
) -> Iterator[Namespace]:
    prefixes = [match.path for match in matches if match.kind == "prefix"]
    suffixes = [match for match in matches if match.kind == "suffix"]
    # Once a namespace cut to max_depth has been found, those that are cut to the same can be passed over.
    place, end = 0, len(names)
    while place < end:
        name = names[place]
        target = _first_after_mismatch(name, prefixes)
        if target is not None:
            place = bisect_left(names, target, place + 1)
        elif not all(match.matches(name) for match in suffixes):
            place += 1
        elif max_depth is None or len(name) <= max_depth:
            yield name
            place += 1
            if max_depth is not None and len(name) == max_depth:
                place = bisect_left(names, _after(name), place)
        else:
            cut = name[:max_depth]
            yield cut
            place = bisect_left(names, _after(cut), place + 1)


def _first_after_mismatch(name: Namespace, prefixes: Sequence[Namespace]) -> Namespace | None:
    """Return a bound below which no later namespace can match, or None when ``name`` matches."""
    for path in prefixes:
        for depth, wanted in enumerate(path):
            if depth == len(name):
                return (*name, wanted) if wanted != WILDCARD else (*name, "")
            label = name[depth]
            if wanted not in (WILDCARD, label):
                if label < wanted:
                    return (*name[:depth], wanted)
                return _after(name[:depth]) if depth else _END
    return None


def _after(name: Namespace) -> Namespace:
    """Return the least tuple behind everything at or below a namespace: labels hold no NUL."""
    return (*name[:-1], name[-1] + "\0")
