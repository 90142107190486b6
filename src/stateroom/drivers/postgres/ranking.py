"""Ranking the items of a scope for a query, by text, by vector or by both."""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple
from uuid import UUID

from stateroom.contract.items import Query
from stateroom.drivers.postgres.rows import Found
from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.target import Target
from stateroom.drivers.postgres.text import TextIndex
from stateroom.drivers.postgres.text_search import Scored, search_text
from stateroom.drivers.postgres.where import Condition
from stateroom.search.fusion import fuse, pool_size

if TYPE_CHECKING:
    from stateroom.drivers.postgres.vectors import Vectors

__all__ = ["Asked", "Ranked", "Ranking"]


class Asked(NamedTuple):
    """One query, and what it is asked of: ``need`` hits at least, if there are as many."""

    scope: Scope
    condition: Condition | None
    query: Query
    need: int


class Ranked(NamedTuple):
    """An item with its score, and what text and vector search thought of it."""

    found: Found
    score: float
    text: float | None
    vector: float | None


class Ranking:
    """The text and vector indexes of one database."""

    def __init__(self, text: TextIndex | None, vectors: Vectors | None) -> None:
        self._text = text
        self._vectors = vectors

    def search(self, session: Session, asked: Asked) -> list[Ranked]:
        """Return the live items that match, best first, ties by the latest put."""
        if asked.scope.is_empty or asked.need == 0:
            return []
        if asked.query.mode == "text":
            return [Ranked(_found(hit), hit.score, hit.score, None) for hit in self._by_text(session, asked)]
        if asked.query.mode == "vector":
            found = self._by_vector(session, asked)
            return [Ranked(_found(hit), hit.score, None, hit.score) for hit in found]
        return self._by_both(session, asked)

    def _by_text(self, session: Session, asked: Asked) -> list[Scored]:
        assert self._text is not None
        return search_text(session, self._text, asked.scope, asked.query.text, asked.condition, asked.need)

    def _by_vector(self, session: Session, asked: Asked) -> list[Scored]:
        assert self._vectors is not None
        assert asked.query.vector is not None
        least = asked.query.min_score
        target = Target(asked.scope, asked.condition, asked.query.vector, least)
        found = self._vectors.search(session, target, asked.need)
        return found if least is None else list(takewhile(lambda hit: hit.score >= least, found))

    def _by_both(self, session: Session, asked: Asked) -> list[Ranked]:
        assert self._vectors is not None
        assert asked.query.vector is not None
        pool = asked._replace(need=pool_size(asked.need), query=asked.query._replace(min_score=None))
        # An item that is put between the two statements is in both lists, at different revisions.
        hits: dict[UUID, Scored] = {}
        text, vector = {}, {}
        for hit in self._by_text(session, pool)[: pool.need]:
            hits[hit.address] = hit
            text[hit.address] = hit.score
        for hit in self._by_vector(session, pool):
            hits[hit.address] = hit
            vector[hit.address] = hit.score
        missing = {hits[address].revision: address for address in text if address not in vector}
        scores = self._vectors.score_of(session, asked.query.vector, list(missing))
        vector |= {missing[revision]: score for revision, score in scores.items()}
        ranked = [
            Ranked(_found(hits[address]), fused.score, text.get(address), vector.get(address))
            for address, fused in fuse(text, vector).items()
        ]
        return sorted(ranked, key=lambda one: (one.score, *hits[one.found.address][2:]), reverse=True)


def _found(hit: Scored) -> Found:
    return Found(hit.address, hit.revision)
