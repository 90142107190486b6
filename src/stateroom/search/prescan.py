"""A small copy of a matrix of vectors that bounds their scores, so that few need be read in full."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from stateroom.search.index_config import DistanceType

__all__ = ["CHUNK_FLOATS", "UNIT_ROUNDOFF", "Doubles", "Floats", "Prescan", "Rows"]

Floats = NDArray[np.float32]
Doubles = NDArray[np.float64]
Rows = NDArray[np.intp]

LEAST_FLOATS: Final = 1 << 22
"""A matrix of fewer numbers is read in less time than a prescan could spare."""

FIRST_SEARCH: Final = 3
"""So many searches of everything come before there is a prescan: who searches once should not pay for it."""

COLUMN_SHARE: Final = 8
"""The prescan has one column for so many of the matrix."""

SAMPLE_SHARE: Final = 12
ROUNDS: Final = 3
"""The directions are found from so many rows a column, in so many rounds of subspace iteration."""

STEP_SHARE: Final = 8
TAIL_SHARE: Final = 64
"""A search adds at most 1/8 of the rows to the prescan, and only when more than 1/64 are not yet in it."""

MOST_KEPT_SHARE: Final = 16
FIRST_CREDIT: Final = 2
MOST_CREDIT: Final = 8
"""A search that keeps more than 1/16 of the rows costs a credit, others earn one; at 0 the prescan ends."""

GROUPED: Final = 16
"""The greatest bounds are looked for among the maxima of so many rows each."""

CHUNK_FLOATS: Final = 1 << 18
"""Double-precision work happens on so many numbers at a time, to stay in the cache."""

UNIT_ROUNDOFF: Final = 2.0**-24
MOST_SKEW: Final = 2.0**-43
"""The rows of the basis may miss being orthonormal by so much."""

LEAST_LENGTH: Final = 1e-12
MOST_LENGTH: Final = 1e15
"""Between these lengths no product that matters underflows or overflows single precision."""


class Prescan:
    """Bounds of the scores of a table's first rows, where the data allow good ones.

    Let B have orthonormal rows, the main directions of the data. A row x is kept as Bx and the length
    of what is left, sqrt(|x|^2 - |Bx|^2). For a query q, Cauchy-Schwarz bounds the product of the two rests:
    <q, x> <= <Bq, Bx> + sqrt(|q|^2 - |Bq|^2) * sqrt(|x|^2 - |Bx|^2), which is one product of short rows.

    Rounding: B, Bx and the lengths come from double precision; their errors are some ``dims`` * 2^-53
    (of B it is checked), which ``_rest`` allows for under the roots. Only the short product is in single
    precision. The magnitudes of its n terms add up to at most |q| * |x|, again by Cauchy-Schwarz, so that
    its error is at most 1.01 * (n + 16) * 2^-24 of that (see ``bounds`` in the module ``vectors``; the
    rounding of both factors is in the 16). That much is added, in a column of its own.
    """

    _least: int
    _count: int
    _searches: int
    _credit: int
    _basis: Doubles
    _short: Floats

    def __init__(self, dims: int, distance_type: DistanceType) -> None:
        self._dims = dims
        self._distance_type = distance_type
        self._stop(0)

    def __len__(self) -> int:
        """Return how many rows, from the first on, have bounds."""
        return self._count

    @property
    def nbytes(self) -> int:
        """The bytes of memory in use."""
        number: int = self._count * self._short.itemsize * self._short.shape[1] + self._basis.nbytes
        return number

    def near(
        self,
        matrix: Floats,
        norms: Doubles,
        alive: NDArray[np.bool_] | None,
        query: Doubles,
        k: int,
        rows_per_item: int,
        bar_of: Callable[[Rows, int], float],
    ) -> Rows | None:
        """Return the rows, ascending, that may be of the ``k`` best items; None when any row may be.

        ``alive`` tells which rows count, None: all. ``bar_of(rows, k)`` returns what more than ``k`` items
        among these rows have for their k-th score at least, -inf when they are fewer.
        """
        if not self._extend(matrix, norms) or (found := self._coefficients(query)) is None:
            return None
        # While it grows, the rows that it has stand for all: k of all are in proportion fewer of them.
        whole = (len(matrix) - self._count) * STEP_SHARE <= len(matrix)
        wanted = k if whole else -(-k * self._count // len(matrix))
        number = 2 * wanted * rows_per_item
        if number * GROUPED > self._count:
            return None
        coefficients, allowance = found
        upper = self._short[: self._count] @ coefficients
        if alive is not None:
            upper[~alive[: self._count]] = -np.inf
        bar = bar_of(_leaders(upper, number), wanted) - allowance
        near = np.flatnonzero(upper >= np.nextafter(np.float32(bar), np.float32(-np.inf)))
        rest = np.arange(self._count, len(matrix))
        pays = len(near) * MOST_KEPT_SHARE <= self._count and bar > -np.inf
        self._judge(pays, len(matrix))
        if not (pays and whole):
            return None
        return np.concatenate((near, rest if alive is None else rest[alive[rest]]))

    def compact(self, live: Rows) -> None:
        """Follow a table that keeps only these rows, ascending."""
        self._count = int(np.count_nonzero(live < self._count))
        self._short = self._short[live[: self._count]]

    def _stop(self, least: int) -> None:
        """Free the memory, and do without until the table has so many rows."""
        self._least, self._count, self._searches, self._credit = least, 0, 0, FIRST_CREDIT
        self._basis, self._short = np.empty((0, self._dims)), np.empty((0, 0), np.float32)

    def _judge(self, pays: bool, rows: int) -> None:
        self._credit = min(self._credit + 1, MOST_CREDIT) if pays else self._credit - 1
        if self._credit == 0:
            self._stop(2 * rows)

    def _extend(self, matrix: Floats, norms: Doubles) -> bool:
        """Take in some of the rows that are new, and tell whether there are bounds at all."""
        if len(matrix) < self._least or matrix.size < LEAST_FLOATS:
            if self._count:
                self._stop(0)
            return False
        self._searches += 1
        if self._searches < FIRST_SEARCH:
            return False
        if self._searches == FIRST_SEARCH:
            self._begin(matrix, norms)
        end = min(len(matrix), self._count + len(matrix) // STEP_SHARE + 1)
        step = max(1, CHUNK_FLOATS // self._dims)
        if (len(matrix) - self._count) * TAIL_SHARE > len(matrix):
            self._reserve(end, len(matrix))
            for start in range(self._count, end, step):
                stop = min(start + step, end)
                if not self._shorten(matrix[start:stop], norms[start:stop], self._short[start:stop]):
                    self._stop(2 * len(matrix))
                    return False
            self._count = end
        return True

    def _begin(self, matrix: Floats, norms: Doubles) -> None:
        columns = max(4, self._dims // COLUMN_SHARE)
        step = max(1, len(matrix) // (SAMPLE_SHARE * columns))
        self._basis = _directions(self._scaled(matrix[::step], norms[::step]), columns - 3)
        self._short = np.empty((0, columns), np.float32)

    def _reserve(self, rows: int, likely: int) -> None:
        if rows > len(self._short):
            short = np.empty((max(likely, len(self._short) * 5 // 4), self._short.shape[1]), np.float32)
            short[: self._count] = self._short[: self._count]
            self._short = short

    def _scaled(self, rows: Floats, norms: Doubles) -> Doubles:
        wide = rows.astype(np.float64)
        if self._distance_type == "cosine":
            wide /= norms[:, np.newaxis]
        return wide

    def _shorten(self, rows: Floats, norms: Doubles, out: Floats) -> bool:
        """Write the short form of some rows, and tell whether their lengths allow it."""
        wide = self._scaled(rows, norms)
        squares = np.square(wide).sum(axis=1)
        lengths = np.sqrt(squares)
        fit = (lengths >= LEAST_LENGTH) & (lengths <= MOST_LENGTH)
        if not np.all(fit | (lengths == 0.0)):
            return False
        main = wide @ self._basis.T
        out[:, :-3] = main
        out[:, -3] = self._rest(squares, np.square(main).sum(axis=1))
        out[:, -2] = lengths
        out[:, -1] = squares
        return True

    def _rest(self, squares: Doubles, main: Doubles) -> Doubles:
        """Return the lengths of the rests, from the squared lengths of wholes and main parts, rounded up."""
        rest: Doubles = np.sqrt(np.maximum(squares - main, 0.0) + self._dims * MOST_SKEW * squares)
        return rest

    def _coefficients(self, query: Doubles) -> tuple[Floats, float] | None:
        """Return what to multiply short rows with, and what the bound may still lack."""
        square = np.square(query).sum(keepdims=True)
        length = np.sqrt(square)
        if not LEAST_LENGTH <= length <= MOST_LENGTH:
            return None
        main = self._basis @ query
        slack = 1.01 * (len(main) + 3 + 16) * UNIT_ROUNDOFF
        rest = self._rest(square, np.square(main).sum(keepdims=True))
        short = np.concatenate((main, rest, slack * length, [0.0]))
        if self._distance_type != "l2":
            return short.astype(np.float32), 0.0
        # What is bounded grows with the score: 2<q, x> - |x|^2 = |q|^2 - |q - x|^2.
        short *= 2.0
        short[-1] = slack - 1.0
        return short.astype(np.float32), UNIT_ROUNDOFF * float(square[0])


def _directions(sample: Doubles, number: int) -> Doubles:
    """Return orthonormal rows near the main directions of the sample, found by subspace iteration."""
    # Any start will do as long as it is always the same one.
    columns = np.random.default_rng(0).standard_normal((sample.shape[1], number))
    for _ in range(ROUNDS):
        columns, _ = np.linalg.qr(sample.T @ (sample @ columns))
    basis = np.ascontiguousarray(columns.T)
    skew = np.abs(basis @ basis.T - np.eye(number)).max()
    # Without directions every row is all rest: weak bounds, but true ones.
    return basis if skew <= MOST_SKEW else np.zeros_like(basis)


def _leaders(upper: Floats, number: int) -> Rows:
    """Return the places of some of the greatest bounds: ``number``, at most four times as many with ties.

    The number-th greatest of the maxima of groups is no greater than that of all, and nearly as great.
    """
    groups = upper[: len(upper) - len(upper) % GROUPED].reshape(GROUPED, -1).max(axis=0)
    pivot = np.partition(groups, -number)[-number]
    # Nothing is the place of a row that does not count.
    return np.flatnonzero(upper >= max(pivot, np.finfo(np.float32).min))[: 4 * number]
