"""The prescan changes what a search reads, and never what it answers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from stateroom.search import prescan, vectors
from stateroom.search.index_config import DistanceType
from stateroom.search.vectors import VectorTable

DIMS = 12
METRICS: tuple[DistanceType, ...] = ("cosine", "l2", "inner_product")
KINDS = ("low rank", "close", "equal", "zero", "one hot", "duplicates", "random", "magnitudes", "several")
Matrix = NDArray[np.float32]


@contextmanager
def lowered(**others: int) -> Iterator[None]:
    """Let the smallest of tables use a prescan, from the first search on, however little it spares."""
    limits = {
        "LEAST_FLOATS": 1,
        "FIRST_SEARCH": 1,
        "COLUMN_SHARE": 2,
        "MOST_KEPT_SHARE": 1,
        "FIRST_CREDIT": 1_000,
        "MOST_CREDIT": 1_000,
        "TAIL_SHARE": 8,
        "GROUPED": 2,
    }
    with pytest.MonkeyPatch.context() as patch:
        for name, value in (limits | others).items():
            patch.setattr(prescan, name, value)
        yield


def data(kind: str, count: int, random: np.random.Generator, dims: int = DIMS, scale: float = 1.0) -> Matrix:
    """Make rows that are easy, hard or impossible for a prescan."""
    noise = random.standard_normal((count, dims))
    if kind == "low rank":
        made = random.standard_normal((count, 2)) @ random.standard_normal((2, dims)) + 1e-2 * noise
    elif kind == "close":
        made = random.standard_normal(dims) + 1e-7 * noise
    elif kind == "equal":
        made = np.tile(noise[:1], (count, 1))
    elif kind == "zero":
        made = noise * (random.random((count, 1)) < 0.5)
    elif kind == "one hot":
        made = np.eye(dims)[random.integers(dims, size=count)]
    elif kind == "duplicates":
        made = noise[random.integers(max(1, count // 8), size=count)]
    elif kind == "magnitudes":
        made = noise * 10.0 ** random.uniform(-30, 30, (count, 1))
    else:
        made = noise
    return np.clip(made * scale, -3e38, 3e38).astype(np.float32)


def best(table: VectorTable, query: Matrix, without: set[int]) -> list[tuple[int, float]]:
    """Rank everything by scoring everything, which no bound has a part in."""
    keys, scores = table.scores(query)
    order = np.lexsort((-keys, -scores))
    return [
        hit for hit in zip(keys[order].tolist(), scores[order].tolist(), strict=True) if hit[0] not in without
    ]


def plain(metric: DistanceType, matrix: Matrix, query: NDArray[Any]) -> NDArray[np.float64]:
    wide, target = matrix.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        distances: NDArray[np.float64] = np.sqrt(np.square(wide - target).sum(axis=1))
        return -distances
    product: NDArray[np.float64] = wide @ target
    if metric == "cosine":
        lengths = np.linalg.norm(wide, axis=1) * np.linalg.norm(target)
        product = np.divide(product, lengths, out=np.zeros(len(product)), where=lengths > 0)
    return product


@settings(max_examples=300, deadline=None)
@given(
    metric=st.sampled_from(METRICS),
    kind=st.sampled_from(KINDS),
    seed=st.integers(0, 2**32 - 1),
    count=st.integers(1, 300),
    k=st.integers(1, 12),
    scale=st.sampled_from([1e-30, 1e-13, 1e-11, 1.0, 1e14, 1e16, 1e30]),
    asked=st.sampled_from(KINDS),
    steps=st.lists(st.sampled_from(["add", "block", "remove", "search"]), max_size=12),
)
def test_every_answer_is_that_of_scoring_everything_whatever_the_data_and_the_changes(
    metric: DistanceType, kind: str, seed: int, count: int, k: int, scale: float, asked: str, steps: list[str]
) -> None:
    random = np.random.default_rng(seed)
    with lowered(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "DEAD_ROWS_KEPT", 20)
        patch.setattr(vectors, "FIRST_BLOCK", 4)
        patch.setattr(vectors, "BLOCK_GROWTH", 3)
        matrix = data(kind, count, random, scale=scale)
        table = VectorTable(DIMS, metric)
        table.add_block(
            np.sort(random.integers(count, size=count)) if kind == "several" else np.arange(count), matrix
        )
        for step in ["search"] * 9 + steps:
            query = data(asked, 1, random)[0] if random.random() < 0.5 else matrix[random.integers(count)]
            fresh = data(kind, 5, random, scale=scale)
            if step == "add":
                table.add(int(random.integers(2 * count)), list(fresh[: random.integers(3)]))
            elif step == "block":
                table.add_block(random.integers(2 * count, size=5), fresh)
            elif step == "remove":
                for key in random.integers(count, size=max(1, count // 4)).tolist():
                    table.remove(key)
            without = set(random.integers(count, size=3).tolist())
            everything = best(table, query, set())
            assert table.top(query, k) == everything[:k]
            assert table.top(query, k, exclude=without) == best(table, query, without)[:k]
            assert list(islice(table.ranked(query), 3)) == everything[:3]
            assert list(table.ranked(query)) == everything


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(METRICS), st.sampled_from(KINDS), st.integers(0, 2**32 - 1))
def test_scores_are_those_of_plain_double_precision(metric: DistanceType, kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    matrix = data(kind, 200, random)
    query = matrix[0] + matrix[1]
    table = VectorTable(DIMS, metric)
    table.add_block(np.arange(200), matrix)
    with lowered():
        found = [table.top(query, 9) for _ in range(12)][-1]
    scores = plain(metric, matrix, query)
    floor = (
        1e-12
        * float(np.abs(matrix).max())
        * (float(np.abs(query).max()) if metric == "inner_product" else 1.0)
    )
    assert [value for _, value in found] == pytest.approx(np.sort(scores)[::-1][:9], rel=1e-9, abs=floor)


@pytest.mark.parametrize("metric", METRICS)
def test_a_search_of_data_with_few_directions_reads_few_rows(metric: DistanceType) -> None:
    random = np.random.default_rng(1)
    matrix = (random.standard_normal((20_000, 4)) @ random.standard_normal((4, 64))).astype(np.float32)
    matrix += 0.05 * data("random", 20_000, random, 64)
    table = VectorTable(64, metric)
    table.add_block(np.arange(20_000), matrix)
    read: list[int] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(prescan, "LEAST_FLOATS", 1)
        product = VectorTable._product

        def counted(self: VectorTable, single: Matrix, rows: Any) -> Matrix:
            read.append(20_000 if rows is None else len(rows))
            return product(self, single, rows)

        patch.setattr(VectorTable, "_product", counted)
        for number in range(12):
            read.clear()
            assert table.top(matrix[number], 10) == best(table, matrix[number], set())[:10]
    assert sum(read) < 2_000


def grown(table: VectorTable, matrix: Matrix, searches: int) -> list[int]:
    """Search so many times, and return by how many bytes that made the table larger each time."""
    before, seen = table.nbytes, []
    for query in matrix[:searches]:
        table.top(query, 3)
        seen.append(table.nbytes - before)
    return seen


def test_the_first_searches_pay_nothing_and_later_ones_a_share_each() -> None:
    matrix = data("low rank", 4_000, np.random.default_rng(2))
    table = VectorTable(DIMS, "cosine")
    table.add_block(np.arange(4_000), matrix)
    with lowered(FIRST_SEARCH=3):
        sizes = grown(table, matrix, 12)
    assert sizes[:2] == [0, 0]
    assert sizes[2:9] == sorted(set(sizes[2:9]))
    # An eighth of the rows may stay out, here.
    assert sizes[10] == sizes[11] <= (4_000 * 4 * DIMS // 2) + (DIMS // 2 - 3) * DIMS * 8


def test_a_small_table_has_no_prescan() -> None:
    matrix = data("low rank", 100, np.random.default_rng(3))
    table = VectorTable(DIMS, "cosine")
    table.add_block(np.arange(100), matrix)
    assert grown(table, matrix, 10) == [0] * 10


@pytest.mark.parametrize("kind", ["random", "equal", "magnitudes"])
def test_a_prescan_that_spares_little_is_freed_and_tried_again_when_the_table_has_doubled(kind: str) -> None:
    random = np.random.default_rng(4)
    table = VectorTable(DIMS, "inner_product")
    with lowered(FIRST_SEARCH=3, MOST_KEPT_SHARE=16, FIRST_CREDIT=2):
        table.add_block(np.arange(3_000), data(kind, 3_000, random))
        queries = data("random", 20, random)
        assert grown(table, queries, 20)[10:] == [0] * 10
        low = data("low rank", 6_999, random)
        table.add_block(np.arange(3_000, 5_999), low[:2_999])
        assert grown(table, queries, 20) == [0] * 20
        for key in range(3_000):
            table.remove(key)
        table.add_block(np.arange(6_000, 10_000), low[2_999:])
        assert grown(table, low, 20)[19] > 0


def test_a_table_that_shrinks_below_the_least_frees_its_prescan() -> None:
    matrix = data("low rank", 4_000, np.random.default_rng(5))
    table = VectorTable(DIMS, "l2")
    table.add_block(np.arange(4_000), matrix)
    twin = VectorTable(DIMS, "l2")
    twin.add_block(np.arange(4_000), matrix)
    with lowered(LEAST_FLOATS=2_000 * DIMS):
        assert grown(table, matrix, 9)[8] > 0
        for key in range(2_500):
            table.remove(key)
            twin.remove(key)
        assert table.nbytes > twin.nbytes
        assert table.top(matrix[5], 3) == best(table, matrix[5], set())[:3]
        assert table.nbytes == twin.nbytes


def test_an_item_whose_many_vectors_lead_alone_does_not_bring_back_what_was_removed() -> None:
    random = np.random.default_rng(7)
    matrix = data("low rank", 200, random)
    table = VectorTable(DIMS, "cosine")
    table.add_block(np.arange(200), matrix)
    table.add(500, [matrix[0]] * 60)
    for key in range(100):
        table.remove(key)
    with lowered():
        for _ in range(12):
            assert table.top(matrix[0], 3) == best(table, matrix[0], set())[:3]


def left_out(metric: DistanceType, matrix: Matrix, query: NDArray[np.float64], scores: Any) -> int:
    """Count the rows that reach the bar of a search for the 20 best, and that the prescan leaves out."""
    norms = np.ones(len(matrix)) if metric == "cosine" else np.linalg.norm(matrix.astype(np.float64), axis=1)
    scan = prescan.Prescan(len(query), metric)
    bars: list[float] = []

    def bar_of(rows: NDArray[np.intp], k: int) -> float:
        bars.append(float(np.sort(scores[rows])[-k]))
        return bars[-1]

    with lowered():
        for _ in range(12):
            near = scan.near(matrix, norms, None, query, 20, 1, bar_of)
    assert near is not None
    return len(set(np.flatnonzero(scores >= bars[-1]).tolist()) - set(near.tolist()))


@pytest.mark.parametrize("metric", METRICS)
@pytest.mark.parametrize("seed", range(20))
def test_rounding_never_leaves_out_a_row_that_is_as_good_as_the_bar(metric: DistanceType, seed: int) -> None:
    random = np.random.default_rng(seed)
    # All but exactly in as many directions as there are columns, so that only rounding is left to allow for;
    # and made so that what is bounded is near zero, where the rounding of its terms is large beside it.
    made = random.standard_normal((1_000, 29)) @ random.standard_normal((29, 64))
    query = made[0] + made[1]
    query /= np.linalg.norm(query)
    noise = 1e-6 * random.standard_normal((1_000, 1))
    along = (made @ query)[:, np.newaxis]
    if metric == "l2":
        made *= 2.0 * along / np.square(made).sum(axis=1, keepdims=True) * (1.0 + noise)
    else:
        made += (noise - along) * query
        made /= np.linalg.norm(made, axis=1, keepdims=True)
    matrix = made.astype(np.float32)
    # Lengths are 1 but for rounding, so that a cosine is a product here.
    scores = plain("l2" if metric == "l2" else "inner_product", matrix, query)
    grows = 1.0 - np.square(scores) if metric == "l2" else scores
    assert left_out(metric, matrix, query, grows) == 0


def test_rows_too_short_to_change_the_distance_are_all_equally_near() -> None:
    random = np.random.default_rng(9)
    matrix = data("low rank", 1_000, random, scale=1e-11)
    query = np.zeros(DIMS)
    query[0] = 3.0
    scores = plain("l2", matrix, query)
    scores[:] = scores.max()
    assert left_out("l2", matrix, query, 9.0 - np.square(scores)) == 0


def test_a_ranking_read_past_the_prescan_goes_on_with_everything_and_refuses_changes() -> None:
    matrix = data("low rank", 2_000, np.random.default_rng(6))
    table = VectorTable(DIMS, "cosine")
    table.add_block(np.arange(2_000), matrix)
    with lowered(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "FIRST_BLOCK", 10)
        assert grown(table, matrix, 9)[8] > 0
        ranking = table.ranked(matrix[1])
        query = matrix[1].copy()
        everything = best(table, query, set())
        assert list(islice(ranking, 10)) == everything[:10]
        assert list(ranking) == everything[10:]
        ranking = table.ranked(query)
        assert next(ranking) == everything[0]
        table.remove(1_999)
        assert list(islice(ranking, 9)) == everything[1:10]
        with pytest.raises(RuntimeError, match="changed while its ranking was being read"):
            next(ranking)
