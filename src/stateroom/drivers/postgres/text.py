"""The text of items as the terms, counts and length in their rows."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Mapping, Sequence
from hashlib import blake2b
from itertools import accumulate
from typing import Any, Final, NamedTuple
from uuid import UUID

from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.text_statistics import KnownStatistics
from stateroom.model.json_values import decode_value
from stateroom.search.text import TextIndexing

__all__ = ["TextColumns", "TextIndex", "term_id"]

BATCH_ITEMS = 1_000
"""Items that one statement indexes."""

BATCH_BYTES = 16 * 1024 * 1024
"""Bytes of JSON that are read for one such statement, unless a single item has more."""

TERMS_KNOWN = 65_536
"""Terms whose digests this process remembers."""

_NEXT = """
select address, revision, raw, paths from (
    select i.*, sum(octet_length(i.raw)) over (order by i.address) - octet_length(i.raw) as bytes_before
    from (
        select i.address, i.revision, i.raw, i.paths from stateroom.item i
        where {which} and (%(after)s::uuid is null or i.address > %(after)s::uuid)
        order by i.address limit %(items)s
    ) i
) i where bytes_before < %(bytes)s order by address
"""

# Nobody waits here who has other rows locked, so nobody can be waiting in a circle.
_WRITE = """
with free as materialized (
    select i.address from stateroom.item i where i.address = any(%(addresses)s::uuid[])
    for update {waiting}
)
update stateroom.item i set
    length = w.length,
    terms = (%(terms)s::bigint[])[w.first : w.last],
    counts = (%(counts)s::integer[])[w.first : w.last]
from free, unnest(
    %(addresses)s::uuid[], %(revisions)s::bigint[], %(lengths)s::integer[], %(firsts)s::integer[],
    %(lasts)s::integer[]
) w(address, revision, length, first, last)
where i.address = free.address and i.address = w.address and i.revision = w.revision
returning i.address
"""

_SET = """
insert into stateroom.setting (name, value) values (%(name)s, %(value)s)
on conflict (name) do update set value = excluded.value
"""

_SIGNATURE: Final = "text_signature"
_PROGRESS: Final = "text_progress"

_log = logging.getLogger(__name__)


class TextColumns(NamedTuple):
    """What an item's row says of its text: distinct terms, how often each occurs, and the sum of those."""

    terms: list[int]
    counts: list[int]
    length: int


class _Row(NamedTuple):
    """An item to index."""

    address: UUID
    revision: int
    raw: bytes
    paths: list[str] | None


class TextIndex:
    """The terms of one schema's items.

    A put writes them with the item. Rows without any are of stores that have no text index, and are
    indexed when a search meets many of them; few are analysed for the search alone.
    """

    def __init__(self, indexing: TextIndexing) -> None:
        self.indexing = indexing
        self.known = KnownStatistics()

    def columns(self, raw: bytes, paths: Sequence[str] | None) -> TextColumns:
        """Return the columns of an item's value; ``paths`` None is the configured fields, () nothing."""
        if paths is not None and not paths:
            return TextColumns([], [], 0)
        terms = self.indexing.terms(decode_value(raw), None if paths is None else tuple(paths))
        counts = Counter(terms)
        return TextColumns([_term_ids[term] for term in counts], list(counts.values()), len(terms))

    def is_prepared(self, session: Session) -> bool:
        """Tell whether all items that have terms have those of today's rules."""
        return _setting(session, _SIGNATURE) == self.indexing.signature

    def prepare(self, session: Session) -> None:
        """Index all items anew, unless it has been done by today's rules.

        The caller sees to it that one process does so at a time, outside transactions. Each batch is
        written by itself, and whoever comes after one that ended half-way goes on from there.
        """
        if self.is_prepared(session):
            return
        signature = self.indexing.signature
        # From here on no rules can be sure that all terms are theirs.
        session.execute("delete from stateroom.setting where name = %(name)s", {"name": _SIGNATURE})
        address, _, begun_by = (_setting(session, _PROGRESS) or "").partition(" ")
        after = UUID(address) if address and begun_by == signature else None
        ((total,),) = session.fetch("select count(*) from stateroom.item")
        indexed = 0
        while rows := _next(session, after, "true", {}):
            self._index(session, rows, waits=True)
            after, indexed = rows[-1].address, indexed + len(rows)
            session.execute(_SET, {"name": _PROGRESS, "value": f"{after} {signature}"})
            _log.info("indexing the text: %d of %d items", indexed, total)
        session.execute(_SET, {"name": _SIGNATURE, "value": signature})
        session.execute("delete from stateroom.setting where name = %(name)s", {"name": _PROGRESS})

    def catch_up(self, session: Session, scope: Scope) -> bool:
        """Index the items of a scope that have no terms, except what others are writing just now.

        Return whether any was; where nothing may be written, none is.
        """
        writable = session.fetch(
            "select current_setting('transaction_read_only') = 'off' "
            "and has_table_privilege((select i.tableoid from stateroom.item i limit 1), 'update')"
        )
        indexed, after = 0, None
        if writable == [(True,)]:
            which = f"i.terms is null and {scope.sql}"
            while rows := _next(session, after, which, scope.parameters):
                indexed += self._index(session, rows, waits=False)
                after = rows[-1].address
                _log.info("indexing the text of %s: %d items so far", scope.prefix, indexed)
        return indexed > 0

    def _index(self, session: Session, rows: Sequence[_Row], *, waits: bool) -> int:
        """Write the terms of rows that are still as they were read; return of how many.

        With ``waits``, which is for use outside transactions, those that others have locked are waited for.
        """
        documents = [(row, self.columns(row.raw, row.paths)) for row in rows]
        written = _write(session, documents, "skip locked")
        if waits:
            for document in documents:
                if document[0].address not in written:
                    written |= _write(session, [document], "")
        return len(written)


def term_id(term: str) -> int:
    """Return the signed 64-bit number that stands for a term.

    That two terms of one item share a number is as good as impossible, and would only mix up the two.
    """
    return _term_ids[term]


class _TermIds(dict[str, int]):
    """The digests of terms, each computed when it is first asked for."""

    def __missing__(self, term: str) -> int:
        digest = blake2b(term.encode(), digest_size=8).digest()
        number = int.from_bytes(digest, "big", signed=True)
        if len(self) >= TERMS_KNOWN:
            self.clear()
        self[term] = number
        return number


_term_ids = _TermIds()


def _next(session: Session, after: UUID | None, which: str, parameters: Mapping[str, Any]) -> list[_Row]:
    """Return the first of the rows behind an address that meet a condition."""
    rows = session.fetch(
        _NEXT.format(which=which),
        {**parameters, "after": after, "items": BATCH_ITEMS, "bytes": BATCH_BYTES},
    )
    return [_Row(*row) for row in rows]


def _write(session: Session, documents: Sequence[tuple[_Row, TextColumns]], waiting: str) -> set[UUID]:
    """Write the columns of rows that are still as they were read; return the addresses of those."""
    ends = list(accumulate((len(columns.terms) for _, columns in documents), initial=0))
    rows = session.fetch(
        _WRITE.format(waiting=waiting),
        {
            "addresses": [row.address for row, _ in documents],
            "revisions": [row.revision for row, _ in documents],
            "lengths": [columns.length for _, columns in documents],
            "firsts": [end + 1 for end in ends[:-1]],
            "lasts": ends[1:],
            "terms": [term for _, columns in documents for term in columns.terms],
            "counts": [count for _, columns in documents for count in columns.counts],
        },
    )
    return {address for (address,) in rows}


def _setting(session: Session, name: str) -> str | None:
    rows = session.fetch("select value from stateroom.setting where name = %(name)s", {"name": name})
    return rows[0][0] if rows else None
