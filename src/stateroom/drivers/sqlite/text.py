"""Text search over SQLite's FTS5, which catches up with the items in bulk rather than at every put.

Everything is kept by revision: a document whose revision is gone is simply not joined any more, and
what has been put since the setting ``text_revision`` is analysed when a search asks. So a put pays
for none of it, a crash leaves nothing to repair, and the index always agrees with the items.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

import orjson

from stateroom.model.json_values import decode_value
from stateroom.model.namespace import Namespace, decode, encode
from stateroom.search.text import TextIndexing

__all__ = ["PENDING", "TextIndex", "fits", "marks", "pack"]

CATCH_UP_MAX = 5_000
"""Items that one transaction indexes."""

PENDING = """
select i.revision, n.path, i.value, i.paths from stateroom_item i
join stateroom_namespace n on n.id = i.namespace_id
where i.revision > ? order by i.revision limit ?
"""


class TextIndex:
    """Writes the text tables of one file."""

    def __init__(self, indexing: TextIndexing) -> None:
        self.indexing = indexing

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Start over when the file was indexed by other rules than today's."""
        if self._is_current(connection):
            return
        connection.execute("begin immediate")
        if self._is_current(connection):
            # Another process has done so while this one waited.
            connection.execute("rollback")
            return
        connection.execute("delete from stateroom_text_document")
        connection.execute("insert into stateroom_text_index (stateroom_text_index) values ('rebuild')")
        connection.execute("delete from stateroom_text_scope")
        _set(connection, "text_revision", 0)
        _set(connection, "text_removal", _last_removal(connection))
        _set(connection, "text_signature", self.indexing.signature)
        connection.execute("commit")

    def _is_current(self, connection: sqlite3.Connection) -> bool:
        row = connection.execute(
            "select value from stateroom_setting where name = 'text_signature'"
        ).fetchone()
        return row is not None and row[0].decode() == self.indexing.signature

    def catch_up(self, connection: sqlite3.Connection) -> bool:
        """Index what was put and drop what was removed, up to a bound; return whether that was all."""
        indexed, removed = marks(connection)
        last_removal = _last_removal(connection)
        scopes = _Scopes(connection)
        self._drop_removed(connection, indexed, removed, scopes)
        rows = connection.execute(PENDING, (indexed, CATCH_UP_MAX)).fetchall()
        documents = [(revision, path, self.terms(value, paths)) for revision, path, value, paths in rows]
        scopes.add((revision, path, terms) for revision, path, terms in documents if terms)
        scopes.write()
        if rows:
            _set(connection, "text_revision", rows[-1][0])
        _set(connection, "text_removal", last_removal)
        return len(rows) < CATCH_UP_MAX

    def terms(self, value: bytes, paths: bytes | None) -> list[str]:
        """Return the terms of a row's value."""
        selected = None if paths is None else tuple(orjson.loads(paths))
        return [] if selected == () else self.indexing.terms(decode_value(value), selected)

    def _drop_removed(
        self, connection: sqlite3.Connection, indexed: int, removed: int, scopes: _Scopes
    ) -> None:
        gone = connection.execute(
            "select d.revision, d.scope, d.terms, d.length from stateroom_removal r "
            "cross join stateroom_text_document d on d.revision = r.revision "
            "where r.sequence > ? and r.revision <= ?",
            (removed, indexed),
        ).fetchall()
        connection.executemany(
            "insert into stateroom_text_index (stateroom_text_index, rowid, scope, terms) "
            "values ('delete', ?, ?, ?)",
            [(revision, scope.decode(), terms.decode()) for revision, scope, terms, _ in gone],
        )
        connection.executemany(
            "delete from stateroom_text_document where revision = ?", [(row[0],) for row in gone]
        )
        for _, scope, _, length in gone:
            scopes.remove(scope.decode(), length)


class _Scopes:
    """The text_scope rows that one catching up touches, and the documents that it adds."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._ids: dict[Namespace, int] = {}
        self._lineages: dict[bytes, str] = {}
        self._changes: Counter[str] = Counter()
        self._lengths: Counter[str] = Counter()

    def add(self, documents: Iterable[tuple[int, bytes, list[str]]]) -> None:
        """Add documents to the index, and to the sums of every scope that they are in."""
        rows = []
        for revision, path, terms in documents:
            scope = self._lineages.get(path)
            if scope is None:
                numbers = [self._id(namespace) for namespace in _lineage(decode(path))]
                scope = self._lineages[path] = " ".join(map(str, numbers))
            self._changes[scope] += 1
            self._lengths[scope] += len(terms)
            rows.append((revision, scope, pack(terms), len(terms)))
        self._connection.executemany(
            "insert into stateroom_text_document (revision, scope, terms, length) values (?, ?, ?, ?)", rows
        )
        self._connection.executemany(
            "insert into stateroom_text_index (rowid, scope, terms) values (?, ?, ?)",
            [row[:3] for row in rows],
        )

    def remove(self, scope: str, length: int) -> None:
        """Take a document out of the sums of the scopes that it was in."""
        self._changes[scope] -= 1
        self._lengths[scope] -= length

    def write(self) -> None:
        """Write the sums."""
        documents: Counter[int] = Counter()
        lengths: Counter[int] = Counter()
        for scope, change in self._changes.items():
            for number in map(int, scope.split()):
                documents[number] += change
                lengths[number] += self._lengths[scope]
        self._connection.executemany(
            "update stateroom_text_scope set documents = documents + ?, length = length + ? where id = ?",
            [(change, lengths[number], number) for number, change in documents.items()],
        )

    def _id(self, namespace: Namespace) -> int:
        number = self._ids.get(namespace)
        if number is None:
            number = self._ids[namespace] = self._stored_id(encode(namespace))
        return number

    def _stored_id(self, path: bytes) -> int:
        row = self._connection.execute(
            "select id from stateroom_text_scope where path = ?", (path,)
        ).fetchone()
        if row is not None:
            return row[0]  # type: ignore[no-any-return]
        number = self._connection.execute(
            "insert into stateroom_text_scope (path, documents, length) values (?, 0, 0)", (path,)
        ).lastrowid
        assert number is not None
        return number


def marks(connection: sqlite3.Connection) -> tuple[int, int]:
    """Return the last indexed revision, and the last removal that the index has followed."""
    rows = connection.execute(
        "select value from stateroom_setting where name in ('text_removal', 'text_revision') order by name"
    ).fetchall()
    (removed,), (indexed,) = rows
    return indexed, removed


def pack(terms: Sequence[str]) -> str:
    """Return terms as one text in which each stands between spaces of its own."""
    return f" {'  '.join(terms)} "


def fits(term: str) -> bytes:
    """Return what to count in packed terms for the number of times that ``term`` occurs."""
    return f" {term} ".encode()


def _lineage(namespace: Namespace) -> list[Namespace]:
    return [namespace[:depth] for depth in range(len(namespace) + 1)]


def _set(connection: sqlite3.Connection, name: str, value: Any) -> None:
    connection.execute("insert or replace into stateroom_setting (name, value) values (?, ?)", (name, value))


def _last_removal(connection: sqlite3.Connection) -> int:
    (last,) = connection.execute("select coalesce(max(sequence), 0) from stateroom_removal").fetchone()
    return last  # type: ignore[no-any-return]
