"""Ranking the items of a scope for a query, by text, by vector or by both."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from stateroom.contract.items import Query
from stateroom.drivers.sqlite.rows import LIVE, ids
from stateroom.drivers.sqlite.scope import Scope, matches_in, revisions_in
from stateroom.drivers.sqlite.text import TextIndex
from stateroom.drivers.sqlite.text_search import search_text
from stateroom.drivers.sqlite.where import Condition
from stateroom.model.namespace import Namespace
from stateroom.search.fusion import fuse, pool_size

if TYPE_CHECKING:
    from stateroom.drivers.sqlite.vectors import Vectors

__all__ = ["Asked", "Ranked", "Ranking"]

KEYED_ITEMS = 5_000
"""Items of a scope up to which their own vectors are looked up, rather than all ranked and sifted."""

FIRST_SIFT = 64
"""Ranked vectors that are checked against scope and filter at first; each later lot is eight times larger."""

SIFT_MAX = 500
"""Vectors checked in vain before those that scope and filter admit are found first."""

SIFT_SHARE = 8
"""Where more than one of so many is admitted, sifting goes on."""

Ranked = tuple[int, float, float | None, float | None]
"""A revision with its score, and what text and vector search thought of it."""


class Asked(NamedTuple):
    """One query, and what it is asked of: ``need`` hits at least, if there are as many."""

    prefix: Namespace
    scope: Scope
    condition: Condition | None
    query: Query
    now: int
    need: int
    uncommitted: bool


class Ranking:
    """The text and vector indexes of one file."""

    def __init__(self, text: TextIndex | None, vectors: Vectors | None) -> None:
        self._text = text
        self._vectors = vectors

    def search(self, connection: sqlite3.Connection, asked: Asked) -> list[Ranked]:
        """Return the live items that match, best first, ties by the latest put."""
        if asked.scope.is_empty or asked.need == 0:
            return []
        if asked.query.mode == "text":
            return [(r, score, score, None) for r, score in self._by_text(connection, asked)]
        if asked.query.mode == "vector":
            found = islice(self._by_vector(connection, asked), asked.need)
            return [(r, score, None, score) for r, score in found]
        return self._by_both(connection, asked)

    def _by_both(self, connection: sqlite3.Connection, asked: Asked) -> list[Ranked]:
        assert self._vectors is not None
        assert asked.query.vector is not None
        pool = pool_size(asked.need)
        text = dict(self._by_text(connection, asked._replace(need=pool))[:pool])
        vector = dict(islice(self._by_vector(connection, asked), pool))
        missing = [key for key in text if key not in vector]
        vector |= self._vectors.score_of(connection, asked.query.vector, missing)
        fused = fuse(text, vector)
        order = sorted(fused, key=lambda key: (-fused[key].score, -key))
        return [(key, fused[key].score, text.get(key), vector.get(key)) for key in order]

    def _by_text(self, connection: sqlite3.Connection, asked: Asked) -> list[tuple[int, float]]:
        assert self._text is not None
        return search_text(
            connection,
            self._text,
            asked.prefix,
            asked.scope,
            asked.query.text,
            asked.condition,
            asked.now,
            asked.need,
        )

    def _by_vector(self, connection: sqlite3.Connection, asked: Asked) -> Iterator[tuple[int, float]]:
        least = asked.query.min_score
        for revision, score in self._sifted(connection, asked):
            if least is not None and score < least:
                return
            yield revision, score

    def _sifted(self, connection: sqlite3.Connection, asked: Asked) -> Iterator[tuple[int, float]]:
        """Yield what scope, filter and expiry admit of the ranked vectors."""
        if asked.scope.size(connection, KEYED_ITEMS) < KEYED_ITEMS:
            yield from self._keyed(connection, asked)
            return
        ranked = self._ranked(connection, asked, None)
        done: set[int] = set()
        admitted, lot = 0, FIRST_SIFT
        while block := list(islice(ranked, lot)):
            allowed = _admitted(connection, asked, [revision for revision, _ in block])
            yield from (scored for scored in block if scored[0] in allowed)
            done.update(revision for revision, _ in block)
            admitted += len(allowed)
            rare = admitted < asked.need and admitted * SIFT_SHARE < len(done)
            if rare and len(done) >= SIFT_MAX:
                # Few of everybody's nearest are in the scope or match, so those that do are found first.
                rest = self._ranked(connection, asked, _matching(connection, asked))
                yield from (scored for scored in rest if scored[0] not in done)
                return
            lot *= 8

    def _keyed(self, connection: sqlite3.Connection, asked: Asked) -> Iterator[tuple[int, float]]:
        keys = revisions_in(connection, asked.scope, asked.condition, asked.now)
        return self._ranked(connection, asked, keys)

    def _ranked(
        self, connection: sqlite3.Connection, asked: Asked, keys: list[int] | None
    ) -> Iterator[tuple[int, float]]:
        assert self._vectors is not None
        assert asked.query.vector is not None
        rank = self._vectors.scan if asked.uncommitted else self._vectors.ranked
        return rank(connection, asked.query.vector, keys)


def _matching(connection: sqlite3.Connection, asked: Asked) -> list[int]:
    if asked.condition is None:
        return revisions_in(connection, asked.scope, None, asked.now)
    return matches_in(connection, asked.scope, asked.condition, asked.now)


def _admitted(connection: sqlite3.Connection, asked: Asked, revisions: list[int]) -> set[int]:
    sql, parameters = ("1", ()) if asked.condition is None else asked.condition[:2]
    scoped = "1" if asked.scope.is_all else "n.path >= ? and n.path < ?"
    rows = connection.execute(
        "select i.revision from json_each(?) wanted "  # noqa: S608  # constants only
        "cross join stateroom_item i on i.revision = wanted.value "
        "cross join stateroom_namespace n on n.id = i.namespace_id "
        f"where {scoped} and {LIVE} and {sql}",
        (ids(revisions), *asked.scope.range, asked.now, *parameters),
    )
    return {revision for (revision,) in rows}
