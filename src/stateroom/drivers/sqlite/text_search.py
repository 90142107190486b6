"""Ranking the items of a scope by their words."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from stateroom.drivers.sqlite.rows import LIVE, ids
from stateroom.drivers.sqlite.scope import Scope
from stateroom.drivers.sqlite.text import PENDING, TextIndex, fits, marks, pack
from stateroom.drivers.sqlite.where import Condition
from stateroom.model.namespace import Namespace, encode
from stateroom.search.bm25 import Statistics
from stateroom.search.text import Document, rank

__all__ = ["search_text"]

SCAN_MAX = 1_000
"""Documents of a scope up to which all are read and scored, without FTS5."""

EXACT_MAX = 5_000
"""Matching documents up to which all are scored; beyond, FTS5 chooses the first ``BLOCK`` of them."""

BLOCK = 1_000
"""Documents that FTS5's own ranking puts before all others when too many match."""


class _Found(NamedTuple):
    """What a query met in a scope: its documents, and how many of them hold each term."""

    statistics: Statistics
    frequency: dict[str, int]
    documents: dict[int, Document]


class _Fresh(NamedTuple):
    """How the scope differs from what FTS5 knows: documents it lacks, and documents it should not have."""

    added: dict[int, tuple[bytes, int]]
    gone: dict[int, tuple[bytes, int]]


def search_text(
    connection: sqlite3.Connection,
    index: TextIndex,
    prefix: Namespace,
    scope: Scope,
    query: str,
    condition: Condition | None,
    now: int,
    need: int,
) -> list[tuple[int, float]]:
    """Return revisions and BM25 scores of the live items that match, best first.

    There are at least ``need`` of them, if as many match. The statistics are those of the scope,
    whatever the condition.
    """
    terms = index.indexing.query_terms(query)
    if not terms or scope.is_empty:
        return []
    indexed, removed = marks(connection)
    narrow = scope.size(connection, SCAN_MAX + 1) <= SCAN_MAX
    # A narrow scope is read item by item, and what is gone is not among them.
    gone = {} if narrow else _gone(connection, prefix, indexed, removed, now)
    fresh = _Fresh(_pending(connection, index, prefix, indexed, now), gone)
    search = _Search(connection, prefix, terms, fresh, now)
    if condition is not None:
        search.admitted = set(_allowed(connection, fresh.added, condition, now))
    found = search.scan(scope) if narrow else search.look_up()
    if found is None:
        return search.preselected(condition, need)
    if condition is not None and found.documents:
        allowed = _allowed(connection, found.documents, condition, now)
        found = found._replace(documents={key: found.documents[key] for key in allowed})
    return _ranked(terms, found)


class _Search:
    """One query over one scope."""

    def __init__(
        self,
        connection: sqlite3.Connection,
        prefix: Namespace,
        terms: Sequence[str],
        fresh: _Fresh,
        now: int,
    ) -> None:
        self._connection = connection
        self._terms = terms
        self._needles = [fits(term) for term in terms]
        self._fresh = fresh
        self.admitted: Iterable[int] = fresh.added.keys()
        self._now = now
        row = connection.execute(
            "select id, documents, length, documents = (select documents from stateroom_text_scope "
            "where path = x'') from stateroom_text_scope where path = ?",
            (encode(prefix),),
        ).fetchone()
        scope_id, documents, length, is_all = row or (0, 0, 0, False)
        # A scope that holds every document need not be asked for.
        self._scoped = "" if is_all else f'scope : "{scope_id}" AND '
        added, gone = fresh
        self._statistics = Statistics(
            documents=documents + len(added) - len(gone),
            length=length + _total(added.values()) - _total(gone.values()),
        )

    def scan(self, scope: Scope) -> _Found:
        """Read every document of the scope."""
        rows = self._connection.execute(
            f"select d.revision, d.terms, d.length from {scope.source} "  # noqa: S608
            "cross join stateroom_text_document d on d.revision = i.revision "
            f"where {scope.sql} and {LIVE}",
            (*scope.range, self._now),
        )
        documents = {revision: (terms, length) for revision, terms, length in rows}
        documents |= self._fresh.added
        statistics = Statistics(len(documents), _total(documents.values()))
        return self._count(statistics, documents.items())

    def look_up(self) -> _Found | None:
        """Let FTS5 find the documents that match; None when they are too many to score them all."""
        frequency = self._frequencies()
        if sum(frequency.values()) > EXACT_MAX:
            return None
        rows = self._connection.execute(
            "select d.revision, d.terms, d.length from stateroom_text_index x "
            "cross join stateroom_text_document d on d.revision = x.rowid "
            "where x.stateroom_text_index match ?",
            (self._match(self._terms),),
        )
        documents = {
            revision: (terms, length) for revision, terms, length in rows if revision not in self._fresh.gone
        }
        documents |= self._fresh.added
        found = self._count(self._statistics, documents.items())
        return found._replace(frequency=frequency)

    def preselected(self, condition: Condition | None, need: int) -> list[tuple[int, float]]:
        """Score FTS5's own first block and, should a page reach behind it, everything else.

        So the order is one and the same for every page. Scores never rise from the block to the rest.
        """
        frequency = self._frequencies()
        found = _Found(self._statistics, frequency, {})
        block = self._rows(condition, f"order by rank limit {BLOCK}")
        first = _ranked(self._terms, self._scored(found, block))
        if need <= BLOCK or len(block) < BLOCK:
            return first
        chosen = {revision for revision, _ in first}
        others = [row for row in self._rows(condition, "") if row[0] not in chosen]
        lowest = first[-1][1]
        rest = _ranked(self._terms, self._scored(found, others))
        return first + [(revision, min(score, lowest)) for revision, score in rest if revision not in chosen]

    def _rows(self, condition: Condition | None, ending: str) -> list[tuple[int, bytes, int]]:
        sql, parameters = ("1", ()) if condition is None else condition[:2]
        return self._connection.execute(
            "select d.revision, d.terms, d.length from stateroom_text_index x "  # noqa: S608
            "cross join stateroom_item i on i.revision = x.rowid "
            "cross join stateroom_text_document d on d.revision = x.rowid "
            f"where x.stateroom_text_index match ? and {LIVE} and {sql} {ending}",
            (self._match(self._terms), self._now, *parameters),
        ).fetchall()

    def _scored(self, found: _Found, rows: Iterable[tuple[int, bytes, int]]) -> _Found:
        documents = {revision: (terms, length) for revision, terms, length in rows}
        documents |= {revision: self._fresh.added[revision] for revision in self.admitted}
        counted = self._count(found.statistics, documents.items())
        return found._replace(documents=counted.documents)

    def _count(self, statistics: Statistics, documents: Iterable[tuple[int, tuple[bytes, int]]]) -> _Found:
        found = {}
        frequency = dict.fromkeys(self._terms, 0)
        for revision, (terms, length) in documents:
            counts = [terms.count(needle) for needle in self._needles]
            if any(counts):
                found[revision] = Document(counts, length)
                for term, number in zip(self._terms, counts, strict=True):
                    frequency[term] += number > 0
        return _Found(statistics, frequency, found)

    def _frequencies(self) -> dict[str, int]:
        """Count the documents of the scope that hold each term."""
        counts = {}
        for term, needle in zip(self._terms, self._needles, strict=True):
            (number,) = self._connection.execute(
                "select count(*) from stateroom_text_index where stateroom_text_index match ?",
                (self._match([term]),),
            ).fetchone()
            number += sum(needle in terms for terms, _ in self._fresh.added.values())
            counts[term] = number - sum(needle in terms for terms, _ in self._fresh.gone.values())
        return counts

    def _match(self, terms: Sequence[str]) -> str:
        quoted = " OR ".join('"' + term.replace('"', '""') + '"' for term in terms)
        return f"{self._scoped}terms : ({quoted})"


def _ranked(terms: Sequence[str], found: _Found) -> list[tuple[int, float]]:
    scores = rank(terms, found.statistics, found.frequency, found.documents.items())
    return sorted(scores.items(), key=lambda scored: (-scored[1], -scored[0]))


def _total(documents: Iterable[tuple[bytes, int]]) -> int:
    return sum(length for _, length in documents)


def _pending(
    connection: sqlite3.Connection, index: TextIndex, prefix: Namespace, indexed: int, now: int
) -> dict[int, tuple[bytes, int]]:
    """Analyse the live items of the scope that FTS5 does not have yet."""
    low = encode(prefix)
    rows = connection.execute(PENDING.replace("where", f"where {LIVE} and"), (now, indexed, -1))
    documents = {}
    for revision, path, value, paths in rows:
        if path.startswith(low):
            terms = index.terms(value, paths)
            if terms:
                documents[revision] = (pack(terms).encode(), len(terms))
    return documents


def _gone(
    connection: sqlite3.Connection, prefix: Namespace, indexed: int, removed: int, now: int
) -> dict[int, tuple[bytes, int]]:
    """Return the documents of the scope that FTS5 still has though their items are removed or expired."""
    (scope_id,) = connection.execute(
        "select coalesce((select id from stateroom_text_scope where path = ?), 0)", (encode(prefix),)
    ).fetchone()
    columns = "select d.revision, d.scope, d.terms, d.length from"
    join = "cross join stateroom_text_document d on d.revision ="
    rows: list[Any] = connection.execute(
        f"{columns} stateroom_removal r {join} r.revision where r.sequence > ? and r.revision <= ?",
        (removed, indexed),
    ).fetchall()
    rows += connection.execute(
        f"{columns} stateroom_item i indexed by stateroom_item_expiry {join} i.revision "
        "where i.expires_at <= ? and i.revision <= ?",
        (now, indexed),
    )
    wanted = str(scope_id).encode()
    return {revision: (terms, length) for revision, scope, terms, length in rows if wanted in scope.split()}


def _allowed(
    connection: sqlite3.Connection, documents: Iterable[int], condition: Condition, now: int
) -> list[int]:
    """Return those of the documents whose items match the condition."""
    rows = connection.execute(
        "select i.revision from json_each(?) wanted "  # noqa: S608
        "cross join stateroom_item i on i.revision = wanted.value "
        f"where {LIVE} and {condition.sql}",
        (ids(documents), now, *condition.parameters),
    )
    return [revision for (revision,) in rows]
