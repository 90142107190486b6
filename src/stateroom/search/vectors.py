"""Exact nearest-neighbour search over item vectors held in memory."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from stateroom.errors import InvalidValue
from stateroom.search.index_config import DistanceType
from stateroom.search.prescan import CHUNK_FLOATS, UNIT_ROUNDOFF, Doubles, Floats, Prescan, Rows

__all__ = ["VectorTable"]

NO_ROWS: Final = np.empty(0, np.intp)

FIRST_CAPACITY: Final = 64
DEAD_ROWS_KEPT: Final = 1_024
"""So many rows of removed items may stay; then, once they are more than half, the table is compacted."""

FIRST_BLOCK: Final = 256
BLOCK_GROWTH: Final = 16
"""``ranked`` sorts so many items first, and so many times more whenever it runs out."""

GATHER_FLOATS: Final = 1 << 16
"""Scattered rows are copied and multiplied so many numbers at a time, to stay in the cache."""

GATHER_SHARE: Final = 4
"""Reading scattered rows costs about so many times as much as reading them all in order."""

LEAST_NORMAL: Final = 2.0**-126

BYTES_PER_ENTRY: Final = 110
"""What Python's dict spends on one item: its slot, its key and its row number."""


class VectorTable:
    """The vectors of items, each item named by a non-negative integer key; not thread safe.

    Scores are cosine similarities, inner products, or negative Euclidean distances (``l2``): higher is
    better. An item with several vectors has the best of their scores; equal scores rank the
    higher key first. The cosine of a zero vector is 0.0. Every answer is exact: a scan in single
    precision, where it helps after a prescan of fewer numbers, only preselects, with a proven error
    bound, what is then scored in double precision.
    """

    def __init__(self, dims: int, distance_type: DistanceType) -> None:
        self.dims = dims
        self.distance_type = distance_type
        self._count = 0
        self._dead = 0
        self._version = 0
        self._normed = 0
        self._matrix: Floats = np.empty((FIRST_CAPACITY, dims), np.float32)
        self._keys: NDArray[np.int64] = np.empty(FIRST_CAPACITY, np.int64)
        self._alive: NDArray[np.bool_] = np.empty(FIRST_CAPACITY, np.bool_)
        self._norms: Doubles = np.empty(FIRST_CAPACITY, np.float64)
        self._prescan = Prescan(dims, distance_type)
        # The rows of an item are neighbours: its first row, and their number where it is not 1.
        self._first: dict[int, int] = {}
        self._several: dict[int, int] = {}

    def __len__(self) -> int:
        """Return the number of items."""
        return len(self._first)

    def __contains__(self, key: int) -> bool:
        """Tell whether the item has vectors here."""
        return key in self._first

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use, those of removed and not yet compacted rows included."""
        row = self._matrix.itemsize * self.dims + self._keys.itemsize + self._norms.itemsize + 1
        return self._count * row + len(self._first) * BYTES_PER_ENTRY + self._prescan.nbytes

    def add(self, key: int, vectors: Sequence[Floats]) -> None:
        """Set the vectors of an item, each of shape ``(dims,)``; they are copied."""
        for vector in vectors:
            if vector.shape != (self.dims,):
                raise InvalidValue(
                    f"vector must have the shape ({self.dims},), not {vector.shape}", field="vector"
                )
        if key in self._first:
            self.remove(key)
        if not vectors:
            return
        start, number = self._reserve(len(vectors)), len(vectors)
        for row, vector in enumerate(vectors, start):
            self._matrix[row] = vector
        self._keys[start : start + number] = key
        self._first[key] = start
        if number > 1:
            self._several[key] = number

    def add_block(self, keys: NDArray[np.int64], matrix: Floats) -> None:
        """Set the vectors of many items at once: row i of ``matrix`` (n, dims) belongs to ``keys[i]``."""
        if matrix.shape != (len(keys), self.dims):
            raise InvalidValue(
                f"matrix must have the shape ({len(keys)}, {self.dims}), not {matrix.shape}", field="matrix"
            )
        if len(keys) == 0:
            return
        if np.any(keys[1:] < keys[:-1]):
            order = np.argsort(keys, kind="stable")
            keys, matrix = keys[order], matrix[order]
        starts = _starts(keys)
        names = keys[starts].tolist()
        for key in self._first.keys() & set(names):
            self.remove(key)
        start = self._reserve(len(keys))
        self._matrix[start : self._count] = matrix
        self._keys[start : self._count] = keys
        self._first.update(zip(names, (starts + start).tolist(), strict=True))
        if len(names) < len(keys):
            numbers = np.diff(starts, append=len(keys)).tolist()
            self._several.update((key, n) for key, n in zip(names, numbers, strict=True) if n > 1)

    def remove(self, key: int) -> None:
        """Forget an item; an absent one is fine."""
        first = self._first.pop(key, None)
        if first is None:
            return
        number = self._several.pop(key, 1)
        self._alive[first : first + number] = False
        self._dead += number
        self._version += 1
        if self._dead > DEAD_ROWS_KEPT and self._dead * 2 > self._count:
            self._compact()

    def top(
        self,
        query: Floats,
        k: int,
        keys: Collection[int] | None = None,
        exclude: Collection[int] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the ``k`` best items and their scores, best first.

        ``keys`` restricts the search to those items, at a cost by their number; ``exclude`` leaves some out.
        """
        if k <= 0:
            return []
        target = _Target(query, self.dims, self.distance_type)
        if keys is not None:
            wanted = [key for key in keys if key not in exclude] if exclude else keys
            return self._best(self._scan(target, self._rows(wanted)), k)
        without = self._rows(exclude) if exclude else NO_ROWS
        scan = self._scan(target, self._near(target, k, without))
        if scan.rows is None and exclude:
            scan.drop(without)
        return self._best(scan, k)

    def ranked(self, query: Floats, keys: Collection[int] | None = None) -> Iterator[tuple[int, float]]:
        """Iterate over all items (or those of ``keys``) and their scores, best first.

        They are sorted only as far as they are read. Reading on after the table has changed raises
        RuntimeError.
        """
        target = _Target(query, self.dims, self.distance_type)
        rows = self._near(target, FIRST_BLOCK, NO_ROWS) if keys is None else self._rows(keys)
        return self._read(self._scan(target, rows), self._version, keys is None and rows is not None)

    def scores(self, query: Floats) -> tuple[NDArray[np.int64], Doubles]:
        """Return the keys of all items, ascending, and their scores."""
        rows = np.flatnonzero(self._alive[: self._count])
        keys, scores = self._keys[rows], self._exact(rows, _Target(query, self.dims, self.distance_type))
        order = np.lexsort((-scores, keys))
        best = order[_starts(keys[order])]
        return keys[best], scores[best]

    def score_of(self, query: Floats, keys: Collection[int]) -> dict[int, float]:
        """Return the scores of the given items; absent ones are left out."""
        rows = self._rows(keys)
        scores = self._exact(rows, _Target(query, self.dims, self.distance_type)).tolist()
        found: dict[int, float] = {}
        for key, score in zip(self._keys[rows].tolist(), scores, strict=True):
            found[key] = max(score, found.get(key, score))
        return found

    def _reserve(self, number: int) -> int:
        """Make room for so many rows at the end, mark them alive, and return the first."""
        start, end = self._count, self._count + number
        if end > len(self._keys):
            self._resize(max(end, 2 * len(self._keys)))
        self._alive[start:end] = True
        self._count = end
        self._version += 1
        return start

    def _resize(self, capacity: int) -> None:
        for name in ("_matrix", "_keys", "_alive", "_norms"):
            old = getattr(self, name)
            new = np.empty((capacity, *old.shape[1:]), old.dtype)
            new[: self._count] = old[: self._count]
            setattr(self, name, new)

    def _compact(self) -> None:
        """Drop the dead rows; the order of the others stays, so that an item's rows stay neighbours."""
        live = np.flatnonzero(self._alive[: self._count])
        self._prescan.compact(live)
        self._normed = int(np.count_nonzero(live < self._normed))
        self._matrix, self._keys, self._norms = self._matrix[live], self._keys[live], self._norms[live]
        self._alive = np.ones(len(live), np.bool_)
        self._count, self._dead = len(live), 0
        # Rows of one key are one item here: every earlier bearer of the key is dead and gone.
        starts = _starts(self._keys)
        self._first = dict(zip(self._keys[starts].tolist(), starts.tolist(), strict=True))

    def _rows(self, keys: Collection[int]) -> Rows:
        """Return the rows of the given items, ascending."""
        found = np.fromiter(map(self._first.get, keys, repeat(-1)), np.intp, len(keys))
        if self._several:
            others = [
                range(self._first[key] + 1, self._first[key] + self._several[key])
                for key in keys
                if key in self._several
            ]
            found = np.concatenate((found, np.fromiter(chain.from_iterable(others), np.intp)))
        found.sort()
        found = found[np.searchsorted(found, 0) :]
        return found[_starts(found)]

    def _near(self, target: _Target, k: int, without: Rows) -> Rows | None:
        """Return the rows, ascending, that may be of the ``k`` best items; None when any row may be."""
        self._norm()
        count, alive = self._count, None
        if self._dead or len(without):
            alive = self._alive[:count].copy()
            alive[without] = False

        def bar(rows: Rows, number: int) -> float:
            return self._bar(self._scan(target, rows), number)

        per_item = -(-count // max(1, len(self)))
        return self._prescan.near(
            self._matrix[:count], self._norms[:count], alive, target.double, k, per_item, bar
        )

    def _scan(self, target: _Target, rows: Rows | None) -> _Scan:
        """Bound the score of every row that is asked for, from one product in single precision."""
        self._norm()
        norms = self._norms[: self._count] if rows is None else self._norms[rows]
        with np.errstate(over="ignore", invalid="ignore"):
            scan = _Scan(target, rows, *target.bounds(self._product(target.single, rows), norms))
        if rows is None and self._dead:
            scan.drop(~self._alive[: self._count])
        return scan

    def _product(self, single: Floats, rows: Rows | None) -> Floats:
        """Multiply the rows with a vector in single precision."""
        if rows is None or len(rows) * GATHER_SHARE > self._count:
            everything = self._matrix[: self._count] @ single
            return everything if rows is None else everything[rows]
        product = np.empty(len(rows), np.float32)
        step = max(1, GATHER_FLOATS // self.dims)
        for start in range(0, len(rows), step):
            np.matmul(self._matrix[rows[start : start + step]], single, out=product[start : start + step])
        return product

    def _norm(self) -> None:
        """Compute the Euclidean norms that are still missing."""
        step = max(1, CHUNK_FLOATS // self.dims)
        for start in range(self._normed, self._count, step):
            chunk = self._matrix[start : min(start + step, self._count)].astype(np.float64)
            self._norms[start : start + len(chunk)] = _lengths(chunk, self.distance_type)
        self._normed = self._count

    def _read(self, scan: _Scan, version: int, partial: bool) -> Iterator[tuple[int, float]]:
        taken, block = 0, FIRST_BLOCK
        while True:
            if self._version != version:
                raise RuntimeError("the vector table changed while its ranking was being read")
            if partial and taken:
                scan, partial = self._scan(scan.target, None), False
            best = self._best(scan, block)
            yield from best[taken:]
            if len(best) < block:
                return
            taken, block = block, block * BLOCK_GROWTH

    def _best(self, scan: _Scan, k: int) -> list[tuple[int, float]]:
        """Return the ``k`` best items: score exactly the rows that may belong to them, and sort those."""
        near = np.flatnonzero(scan.upper >= max(self._bar(scan, k), np.finfo(np.float64).min))
        rows = near if scan.rows is None else scan.rows[near]
        names = self._keys[rows]
        scores = self._exact(rows, scan.target)
        order = np.lexsort((-names, -scores))
        if self._several:
            order = order[np.sort(np.unique(names[order], return_index=True)[1])]
        order = order[:k]
        return list(zip(names[order].tolist(), scores[order].tolist(), strict=True))

    def _bar(self, scan: _Scan, k: int) -> float:
        """Return what the k best items score at least, -inf when there are no more than k."""
        lower = scan.lower
        if self._several:
            keys = self._keys[: self._count] if scan.rows is None else self._keys[scan.rows]
            lower = np.maximum.reduceat(lower, _starts(keys))
        return float(np.partition(lower, -k)[-k]) if k < len(lower) else -np.inf

    def _exact(self, rows: Rows, target: _Target) -> Doubles:
        """Score rows in double precision, each by the same sequence of operations wherever it stands."""
        self._norm()
        scores = np.empty(len(rows), np.float64)
        step = max(1, CHUNK_FLOATS // self.dims)
        for start in range(0, len(rows), step):
            some = rows[start : start + step]
            scores[start : start + step] = target.exact(self._matrix[some], self._norms[some])
        return scores


class _Target:
    """What a query asks of one row: its score, and bounds of it that cost less."""

    def __init__(self, query: Floats, dims: int, distance_type: DistanceType) -> None:
        if query.shape != (dims,):
            raise InvalidValue(f"query must have the shape ({dims},), not {query.shape}", field="query")
        self._distance_type = distance_type
        self.double = query.astype(np.float64)
        self._norm = float(np.sqrt(np.square(self.double).sum()))
        if distance_type == "cosine" and self._norm > 0.0:
            self.double /= self._norm
            self._norm = 1.0
        self.single = self.double.astype(np.float32)

    def exact(self, rows: Floats, norms: Doubles) -> Doubles:
        """Return the score of each row of a matrix, given the norms of the rows."""
        # A sum along each row: unlike a BLAS product it treats equal rows equally, so that ties stay ties.
        if self._distance_type == "l2":
            distance: Doubles = np.sqrt(np.square(rows - self.double).sum(axis=1))
            return -distance
        product: Doubles = (rows * self.double).sum(axis=1)
        if self._distance_type == "inner_product":
            return product
        cosine: Doubles = np.clip(product / norms, -1.0, 1.0)
        return cosine

    def bounds(self, product: Floats, norms: Doubles) -> tuple[Doubles, Doubles]:
        """Return a lower and an upper bound of each score, given ``single``'s product with each row.

        For ``l2`` they bound a number that grows with the score. The error of a product of n terms in
        precision u is at most n*u/(1-n*u) of the product of the norms, in whatever order they are
        summed (Higham, Accuracy and Stability of Numerical Algorithms, 3.1), plus what underflows. The
        16 terms and the hundredth more than that cover the rounding of the query, of the norms, of these
        lines and of ``exact``.
        """
        dims = len(self.single)
        gamma, tiny = 1.01 * (dims + 16) * UNIT_ROUNDOFF, dims * LEAST_NORMAL
        middle = product.astype(np.float64)
        slack = norms * (gamma * self._norm + tiny)
        slack += tiny * (1.0 + self._norm)
        if self._distance_type == "cosine":
            middle /= norms
            slack /= norms
        elif self._distance_type == "l2":
            squares = np.square(norms)
            middle = 2.0 * middle - squares
            slack = 2.0 * slack + UNIT_ROUNDOFF * (squares + self._norm**2)
        if not np.isfinite(middle.sum()):
            # Single precision overflowed: nothing is known about these rows.
            unknown = ~np.isfinite(middle)
            middle[unknown], slack[unknown] = 0.0, np.inf
        lower = middle - slack
        middle += slack
        return lower, middle


@dataclass(slots=True)
class _Scan:
    """The rows that a query looks at (None: all), and bounds of their scores."""

    target: _Target
    rows: Rows | None
    lower: Doubles
    upper: Doubles

    def drop(self, places: NDArray[Any]) -> None:
        """Take the rows at some places (indexes or a mask) out of the running."""
        self.lower[places] = self.upper[places] = -np.inf


def _lengths(rows: Doubles, distance_type: DistanceType) -> Doubles:
    """Return the Euclidean norm of each row, for cosine in a form to divide by: 1 for a zero vector."""
    lengths: Doubles = np.sqrt(np.square(rows).sum(axis=1))
    if distance_type == "cosine":
        lengths[lengths == 0.0] = 1.0
    return lengths


def _starts(keys: NDArray[np.integer[Any]]) -> Rows:
    """Return where each run of equal keys begins."""
    begins = np.empty(len(keys), np.bool_)
    begins[:1] = True
    np.not_equal(keys[1:], keys[:-1], out=begins[1:])
    return np.flatnonzero(begins)
