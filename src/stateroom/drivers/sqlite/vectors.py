"""The vectors of one file in this process's memory, kept equal to what each search's snapshot holds."""

from __future__ import annotations

import sqlite3
import threading
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from stateroom.drivers.sqlite.rows import ids
from stateroom.errors import Misconfigured
from stateroom.model.namespace import Namespace, encode
from stateroom.search.index_config import IndexSettings
from stateroom.search.vectors import VectorTable

__all__ = ["Vectors", "known"]

BLOCK = 20_000
"""Vectors read at once."""

_BYTES_PER_NUMBER = 4

_KNOWN = """
select v.digest, v.embedding from stateroom_namespace n
cross join stateroom_item i on i.namespace_id = n.id and i.key = ?
cross join stateroom_vector v on v.id between i.revision << 16 and (i.revision << 16) + 65535
where n.path = ?
"""

_OF_ITEMS = """
select v.id >> 16, v.embedding from json_each(?) w
cross join stateroom_vector v on v.id between w.value << 16 and (w.value << 16) + 65535
"""


def known(connection: sqlite3.Connection, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
    """Return the vectors of an item, by the digest of their text."""
    rows = connection.execute(_KNOWN, (key, encode(namespace))).fetchall()
    return {digest: np.frombuffer(embedding, np.float32) for digest, embedding in rows}


class Vectors:
    """Gives a search the scores of vectors, from a table in memory or, beyond the budget, from disk.

    A search holds ``lock`` from before its snapshot begins until it has read its scores. Searches
    therefore take their snapshots in the order in which they bring the table forward, so that the
    table never is ahead of the snapshot that uses it.
    """

    def __init__(self, settings: IndexSettings) -> None:
        assert settings.dims is not None
        self.dims = settings.dims
        self._distance_type = settings.distance_type
        # An embedder in an object or a function has no name to recognise it by.
        named = {"embed": settings.embed} if isinstance(settings.embed, str) else {}
        self._pins: dict[str, int | str] = {"dims": settings.dims} | named
        self._budget = settings.vector_cache_mb * 1024 * 1024
        self.lock = threading.RLock()
        self.forget()

    def forget(self) -> None:
        """Start over with an empty table."""
        self._table = VectorTable(self.dims, self._distance_type)
        self._last_id = -1
        self._read = 0
        self._last_removal = 0

    def prepare(self, connection: sqlite3.Connection) -> None:
        """Pin dimensions and embedder on first use; raise ``Misconfigured`` when the file has others."""
        old = _pinned(connection)
        if all(old.get(name) == value for name, value in self._pins.items()):
            return
        connection.execute("begin immediate")
        try:
            self._pin(connection)
            connection.execute("commit")
        except BaseException:
            connection.execute("rollback")
            raise

    def _pin(self, connection: sqlite3.Connection) -> None:
        old = _pinned(connection)
        if connection.execute("select 1 from stateroom_vector limit 1").fetchone():
            for name, value in old.items():
                if name in self._pins and self._pins[name] != value:
                    raise Misconfigured(
                        f"index.{name} is {self._pins[name]!r}, but the file holds vectors made with "
                        f"{value!r}: set index.{name} to that, or put the items into a new file",
                        field=f"index.{name}",
                    )
        connection.executemany(
            "insert or replace into stateroom_setting (name, value) values (?, ?)",
            [(f"vector_{name}", value) for name, value in self._pins.items()],
        )

    def ranked(
        self, connection: sqlite3.Connection, query: NDArray[np.float32], keys: list[int] | None
    ) -> Iterator[tuple[int, float]]:
        """Yield revisions and scores, best first: of the items ``keys``, or of all, removed ones included.

        Call it inside a read transaction, holding ``lock``.
        """
        if keys is not None and len(keys) <= BLOCK and not self._is_worth_it(connection, keys):
            return self._few(connection, query, keys)
        if self._fits(connection):
            self._bring_forward(connection)
            return self._table.ranked(query, keys)
        return self._from_disk(connection, query, None if keys is None else set(keys))

    def score_of(
        self, connection: sqlite3.Connection, query: NDArray[np.float32], keys: list[int]
    ) -> dict[int, float]:
        """Return the scores of the given items, without those that have no vector."""
        return dict(self._few(connection, query, keys))

    def scan(
        self, connection: sqlite3.Connection, query: NDArray[np.float32], keys: list[int] | None
    ) -> Iterator[tuple[int, float]]:
        """Do what ``ranked`` does without the table, for a transaction that has uncommitted changes."""
        if keys is not None and len(keys) <= BLOCK:
            return self._few(connection, query, keys)
        return self._from_disk(connection, query, None if keys is None else set(keys))

    def _is_worth_it(self, connection: sqlite3.Connection, keys: list[int]) -> bool:
        """Tell whether to bring the table forward for a search of a few items.

        They are read from disk at first, and it pays once as many have been read as the table lacks.
        """
        self._read += sum(key not in self._table for key in keys)
        if self._read == 0:
            return False
        (last,) = connection.execute("select coalesce(max(id), -1) from stateroom_vector").fetchone()
        if self._read < (last - self._last_id) >> 16:
            return False
        self._read = 0
        return True

    def _few(
        self, connection: sqlite3.Connection, query: NDArray[np.float32], keys: list[int]
    ) -> Iterator[tuple[int, float]]:
        """Take what the table has, and read the rest from disk."""
        missing = [key for key in keys if key not in self._table]
        if not missing:
            return self._table.ranked(query, keys)
        scores = self._table.score_of(query, [key for key in keys if key in self._table])
        rows = connection.execute(_OF_ITEMS, (ids(sorted(missing)),)).fetchall()
        if rows:
            table = VectorTable(self.dims, self._distance_type)
            table.add_block(*_matrix(rows, self.dims))
            scores |= table.score_of(query, [number for number, _ in rows])
        return iter(sorted(scores.items(), key=lambda scored: (-scored[1], -scored[0])))

    def _from_disk(
        self, connection: sqlite3.Connection, query: NDArray[np.float32], keys: set[int] | None
    ) -> Iterator[tuple[int, float]]:
        """Score everything block by block, remembering scores but no vectors."""
        scores: dict[int, float] = {}
        for numbers, matrix in _blocks(connection, -1, self.dims):
            table = VectorTable(self.dims, self._distance_type)
            table.add_block(numbers, matrix)
            found, values = table.scores(query)
            for key, score in zip(found.tolist(), values.tolist(), strict=True):
                if keys is None or key in keys:
                    scores[key] = max(score, scores.get(key, score))
        return iter(sorted(scores.items(), key=lambda scored: (-scored[1], -scored[0])))

    def _fits(self, connection: sqlite3.Connection) -> bool:
        if self._table.nbytes > self._budget:
            self.forget()
            return False
        (number,) = connection.execute(
            "select count(*) from stateroom_vector where id > ?", (self._last_id,)
        ).fetchone()
        return self._table.nbytes + number * self.dims * _BYTES_PER_NUMBER <= self._budget  # type: ignore[no-any-return]

    def _bring_forward(self, connection: sqlite3.Connection) -> None:
        """Apply what was removed and added since the last search."""
        first, last = connection.execute(
            "select coalesce((select min(sequence) from stateroom_removal), 0), "
            "coalesce((select max(sequence) from stateroom_removal), 0)"
        ).fetchone()
        if self._last_removal < last and (first == 0 or first > self._last_removal + 1):
            # The log no longer reaches back to where this table stands.
            self.forget()
        else:
            for (revision,) in connection.execute(
                "select revision from stateroom_removal where sequence > ?", (self._last_removal,)
            ):
                self._table.remove(revision)
        self._last_removal = last
        for numbers, matrix in _blocks(connection, self._last_id, self.dims):
            self._table.add_block(numbers, matrix)
        (self._last_id,) = connection.execute(
            "select coalesce(max(id), ?) from stateroom_vector where id > ?", (self._last_id, self._last_id)
        ).fetchone()


def _pinned(connection: sqlite3.Connection) -> dict[str, int | str]:
    """Return what the vectors in the file were made with."""
    rows = connection.execute(
        "select substr(name, 8), value from stateroom_setting where name in ('vector_dims', 'vector_embed')"
    )
    return {name.decode(): value.decode() if isinstance(value, bytes) else value for name, value in rows}


def _blocks(
    connection: sqlite3.Connection, after: int, dims: int
) -> Iterator[tuple[NDArray[np.int64], NDArray[np.float32]]]:
    """Yield revisions and the matrix of their vectors, without ever splitting an item over two blocks."""
    held: list[tuple[int, bytes]] = []
    cursor = connection.execute(
        "select id >> 16, embedding from stateroom_vector where id > ? order by id", (after,)
    )
    while rows := cursor.fetchmany(BLOCK):
        held += rows
        last = held[-1][0]
        ready = [row for row in held if row[0] != last]
        held = held[len(ready) :]
        if ready:
            yield _matrix(ready, dims)
    if held:
        yield _matrix(held, dims)


def _matrix(rows: list[tuple[int, bytes]], dims: int) -> tuple[NDArray[np.int64], NDArray[np.float32]]:
    numbers = np.array([number for number, _ in rows], np.int64)
    matrix = np.frombuffer(b"".join(blob for _, blob in rows), np.float32).reshape(len(rows), dims)
    return numbers, matrix
