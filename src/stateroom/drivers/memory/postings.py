"""An inverted index over entries that is built on first use and catches up when it is asked."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from stateroom.drivers.memory.tree import Entry

__all__ = ["Postings", "scalar_token"]

Token = Any
"""A term, or what ``scalar_token`` makes of a field's value."""


class Postings:
    """Maps tokens to the live entries that hold them, each with a weight, in the order of their puts.

    Removal is lazy, since an entry that is gone says so itself: its places are freed by a rebuild
    once they outnumber the living.
    """

    def __init__(self, extract: Callable[[Entry], Mapping[Token, int]], entries: Iterable[Entry]) -> None:
        self._extract = extract
        self._pending: list[Entry] = list(entries)
        self._table: dict[Token, dict[Entry, int]] = {}
        self._sorted: dict[type, list[Token]] = {}
        self._held = 0
        self._dead = 0

    def add(self, entry: Entry) -> None:
        """Note a new entry; its tokens are worked out when somebody asks."""
        self._pending.append(entry)

    def discard(self) -> None:
        """Note that an entry is gone: it says so itself."""
        self._dead += 1

    def find(self, token: Token) -> dict[Entry, int]:
        """Return the entries that hold a token; some may be dead."""
        self._catch_up()
        return self._table.get(token, {})

    def between(self, low: Token, high: Token, kind: type) -> list[Token]:
        """Return the tokens from ``low`` to ``high`` (None: open) that carry a value of ``kind``."""
        self._catch_up()
        tokens = self._sorted.get(kind)
        if tokens is None:
            tokens = self._sorted[kind] = sorted(t for t in self._table if t[0] is kind)
        start = 0 if low is None else bisect_left(tokens, low)
        stop = len(tokens) if high is None else bisect_right(tokens, high)
        return tokens[start:stop]

    def _catch_up(self) -> None:
        if self._dead > max(1_000, self._held // 2):
            living = dict.fromkeys(entry for holders in self._table.values() for entry in holders)
            self._pending = [*sorted(living, key=_revision), *self._pending]
            self._table, self._sorted = {}, {}
            self._held = self._dead = 0
        for entry in self._pending:
            if entry.alive:
                self._held += 1
                for token, weight in self._extract(entry).items():
                    holders = self._table.get(token)
                    if holders is None:
                        self._table[token] = {entry: weight}
                        self._sorted.clear()
                    else:
                        holders[entry] = weight
        self._pending = []


def _revision(entry: Entry) -> int:
    return entry.record.revision


def scalar_token(value: object) -> Token | None:
    """Return what stands for a scalar in a field index, or None for a list or an object.

    1 and 1.0 are one number; true is not 1.
    """
    if isinstance(value, bool) or value is None:
        return (bool, value)
    if isinstance(value, int | float):
        return (float, value)
    if isinstance(value, str):
        return (str, value)
    return None
