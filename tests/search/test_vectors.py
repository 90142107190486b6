"""Exact nearest-neighbour search in memory, compared with plain arithmetic."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from stateroom.errors import InvalidValue
from stateroom.search import vectors
from stateroom.search.index_config import DistanceType
from stateroom.search.vectors import DEAD_ROWS_KEPT, FIRST_BLOCK, VectorTable

DIMS = 3
METRICS = st.sampled_from(["cosine", "l2", "inner_product"])
# Few distinct small integers, so that ties, parallel vectors and zero vectors are common.
VECTORS = arrays(np.float32, DIMS, elements=st.integers(-2, 2).map(float))
Items = dict[int, list[NDArray[np.float32]]]


def score(metric: DistanceType, query: NDArray[Any], vector: NDArray[Any]) -> float:
    """Score one vector the slow and obvious way."""
    q, v = [float(x) for x in query], [float(x) for x in vector]
    if metric == "l2":
        return -math.sqrt(math.fsum((a - b) ** 2 for a, b in zip(q, v, strict=True)))
    product = math.fsum(a * b for a, b in zip(q, v, strict=True))
    norms = math.hypot(*q) * math.hypot(*v)
    if metric == "inner_product":
        return product
    return product / norms if norms else 0.0


def expected(metric: DistanceType, query: NDArray[Any], items: Items) -> dict[int, float]:
    return {key: max(score(metric, query, v) for v in vs) for key, vs in items.items()}


def assert_ranking(found: list[tuple[int, float]], scores: dict[int, float], count: int) -> None:
    """``found`` are the best ``count`` of ``scores`` in the documented order."""
    assert found == sorted(found, key=lambda hit: (-hit[1], -hit[0]))
    assert len({key for key, _ in found}) == len(found) == min(count, len(scores))
    for key, value in found:
        assert value == pytest.approx(scores[key], abs=1e-5, rel=1e-6)
    if found:
        left_out = [value for key, value in scores.items() if key not in dict(found)]
        assert all(value <= found[-1][1] + 1e-9 + 1e-6 * abs(value) for value in left_out)


def table_of(items: Items, metric: DistanceType = "cosine", dims: int = DIMS) -> VectorTable:
    table = VectorTable(dims, metric)
    for key, several in items.items():
        table.add(key, several)
    return table


OPERATIONS: st.SearchStrategy[list[tuple[str, Any, list[NDArray[np.float32]]]]] = st.lists(
    st.one_of(
        st.tuples(st.just("add"), st.integers(0, 30), st.lists(VECTORS, max_size=3)),
        st.tuples(st.just("remove"), st.integers(0, 30), st.just([])),
        st.tuples(
            st.just("block"),
            st.lists(st.integers(0, 30), max_size=8),
            st.lists(VECTORS, min_size=8, max_size=8),
        ),
    ),
    max_size=25,
)


def apply(operations: list[tuple[str, Any, list[NDArray[np.float32]]]], table: VectorTable) -> Items:
    """Do the operations to the table and to a dict, with a search before each."""
    items: Items = {}
    for name, target, several in operations:
        table.top(np.ones(DIMS, np.float32), 1)
        if name == "block":
            block = np.array(several[: len(target)], np.float32).reshape(len(target), DIMS)
            table.add_block(np.array(target, np.int64), block)
            for key in target:
                items[key] = [v for k, v in zip(target, several, strict=False) if k == key]
            continue
        items.pop(target, None)
        if name == "remove":
            table.remove(target)
        else:
            table.add(target, several)
            if several:
                items[target] = several
    return items


@settings(max_examples=200)
@given(METRICS, OPERATIONS, VECTORS, st.integers(0, 12), st.lists(st.integers(0, 35)), st.integers(0, 4))
def test_every_answer_is_that_of_plain_arithmetic_after_any_changes(
    metric: DistanceType,
    operations: list[tuple[str, Any, list[NDArray[np.float32]]]],
    query: NDArray[np.float32],
    k: int,
    keys: list[int],
    dead_rows_kept: int,
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vectors, "DEAD_ROWS_KEPT", dead_rows_kept)
        patch.setattr(vectors, "FIRST_BLOCK", 2)
        patch.setattr(vectors, "BLOCK_GROWTH", 2)
        table = VectorTable(DIMS, metric)
        items = apply(operations, table)
        scores = expected(metric, query, items)
        assert len(table) == len(items)
        assert all((key in table) == (key in items) for key in range(36))

        assert_ranking(table.top(query, k), scores, k)
        chosen = {key: scores[key] for key in keys if key in scores}
        assert_ranking(table.top(query, k, keys=keys), chosen, k)
        rest = {key: value for key, value in scores.items() if key not in keys}
        assert_ranking(table.top(query, k, exclude=keys), rest, k)
        assert table.top(query, 5, keys=keys, exclude=keys) == []
        assert_ranking(list(table.ranked(query)), scores, len(scores))
        assert list(table.ranked(query)) == table.top(query, 100)
        assert list(table.ranked(query, keys)) == table.top(query, 100, keys=keys)
        assert table.score_of(query, keys) == dict(table.top(query, 100, keys=keys))
        names, values = table.scores(query)
        assert names.tolist() == sorted(items)
        assert dict(zip(names.tolist(), values.tolist(), strict=True)) == dict(table.top(query, 100))


@pytest.mark.parametrize("metric", ["cosine", "l2", "inner_product"])
@given(
    st.integers(0, 2**32 - 1),
    st.sampled_from([1e-38, 1e-22, 1e-21, 1e-3, 1.0, 1e6, 1e19, 1e37]),
    st.sampled_from([1e-6, 1e-2, 1.0]),
)
@settings(max_examples=25)
def test_the_order_is_that_of_double_precision_where_single_precision_cannot_tell(
    metric: DistanceType, seed: int, scale: float, spread: float
) -> None:
    random = np.random.default_rng(seed)
    centre = random.standard_normal(64)
    matrix = ((centre + spread * random.standard_normal((500, 64))) * scale).astype(np.float32)
    query = (centre * scale).astype(np.float32)
    table = VectorTable(64, metric)
    table.add_block(np.arange(500), matrix)
    wide, target = matrix.astype(np.float64), query.astype(np.float64)
    if metric == "l2":
        scores = -np.linalg.norm(wide - target, axis=1)
    else:
        scores = wide @ target
        if metric == "cosine":
            scores /= np.linalg.norm(wide, axis=1) * np.linalg.norm(target)
    found = table.top(query, 20)
    assert [value for _, value in found] == pytest.approx(sorted(scores, reverse=True)[:20], rel=1e-12)
    assert found == list(table.ranked(query))[:20]


def test_equal_vectors_have_equal_scores_and_rank_the_higher_key_first() -> None:
    random = np.random.default_rng(5)
    vector = random.standard_normal(384).astype(np.float32)
    table = VectorTable(384, "cosine")
    table.add_block(np.arange(1_000), np.tile(vector, (1_000, 1)))
    found = table.top(random.standard_normal(384).astype(np.float32), 300)
    assert [key for key, _ in found] == list(range(999, 699, -1))
    assert len({value for _, value in found}) == 1


def test_a_cosine_of_a_zero_vector_is_zero_and_never_nan() -> None:
    zero, one = np.zeros(2, np.float32), np.array([-1, 0], np.float32)
    table = table_of({1: [zero], 2: [one]}, dims=2)
    assert table.top(-one, 5) == [(1, 0.0), (2, -1.0)]
    assert table.top(zero, 5) == [(2, 0.0), (1, 0.0)]


def test_the_extremes_of_single_precision_are_scored_right() -> None:
    huge, tiny = np.full(2, 3e38, np.float32), np.full(2, 1e-45, np.float32)
    for metric, scores in {
        "cosine": {1: 1.0, 2: 1.0},
        "inner_product": {1: score("inner_product", huge, huge), 2: score("inner_product", huge, tiny)},
        "l2": {1: 0.0, 2: score("l2", huge, tiny)},
    }.items():
        table = table_of({1: [huge], 2: [tiny]}, metric, dims=2)  # type: ignore[arg-type]
        assert dict(table.top(huge, 2)) == pytest.approx(scores)


def test_a_sum_that_overflows_single_precision_on_its_way_is_scored_right() -> None:
    cancelling, small = np.array([1e30, -1e30, 1], np.float32), np.array([0, 0, -1], np.float32)
    table = table_of({1: [cancelling], 2: [small]}, "inner_product")
    query = np.full(3, 1e30, np.float32)
    assert [key for key, _ in table.top(query, 2)] == [1, 2]
    assert table.top(query * np.array([1, 1, 0], np.float32), 1) == [(2, 0.0)]


def test_sums_that_overflow_both_ways_are_scored_right_and_without_a_warning() -> None:
    up = np.full(3, 1e30, np.float32)
    table = table_of({1: [up], 2: [-up]}, "inner_product")
    assert [key for key, _ in table.top(up, 2)] == [1, 2]
    assert [key for key, _ in table.top(-up, 2)] == [2, 1]


def test_an_item_scores_by_the_best_of_its_vectors() -> None:
    east, north = np.array([1, 0], np.float32), np.array([0, 1], np.float32)
    table = table_of({1: [east, north], 2: [-east]}, dims=2)
    assert table.top(east, 2) == [(1, 1.0), (2, -1.0)]
    assert table.top(north, 1) == [(1, 1.0)]
    table.add(1, [-east])
    assert table.top(north, 2) == [(2, 0.0), (1, 0.0)]


def test_vectors_are_copied() -> None:
    vector = np.array([1, 0], np.float32)
    table = table_of({1: [vector]}, dims=2)
    vector[:] = 0
    assert table.top(np.array([1, 0], np.float32), 1) == [(1, 1.0)]


@pytest.mark.parametrize("count", [FIRST_BLOCK - 1, FIRST_BLOCK, FIRST_BLOCK + 1, 20 * FIRST_BLOCK])
def test_a_ranking_is_whole_on_both_sides_of_its_blocks(count: int) -> None:
    matrix = np.random.default_rng(count).standard_normal((count, 4)).astype(np.float32)
    table = VectorTable(4, "l2")
    table.add_block(np.arange(count), matrix)
    ranking = list(table.ranked(matrix[0]))
    assert ranking == table.top(matrix[0], count)
    assert sorted(key for key, _ in ranking) == list(range(count))


def test_a_ranking_read_on_after_a_change_is_refused_rather_than_wrong() -> None:
    count = FIRST_BLOCK + 1
    table = VectorTable(1, "l2")
    table.add_block(np.arange(count), np.arange(count, dtype=np.float32).reshape(-1, 1))
    ranking = table.ranked(np.zeros(1, np.float32))
    assert next(ranking) == (0, 0.0)
    table.remove(5)
    with pytest.raises(RuntimeError, match="changed while its ranking was being read"):
        list(ranking)


def test_removed_rows_are_compacted_once_they_are_many_and_the_majority() -> None:
    count = 2 * DEAD_ROWS_KEPT + 1
    table = VectorTable(1, "l2")
    table.add_block(np.arange(count), np.arange(count, dtype=np.float32).reshape(-1, 1))
    row = (table.nbytes - VectorTable(1, "l2").nbytes) // count
    for key in range(DEAD_ROWS_KEPT):
        table.remove(key)
    kept = table.nbytes
    table.remove(DEAD_ROWS_KEPT)
    assert kept - table.nbytes > DEAD_ROWS_KEPT * (row - vectors.BYTES_PER_ENTRY)
    assert len(table) == DEAD_ROWS_KEPT
    assert table.top(np.zeros(1, np.float32), 1) == [(DEAD_ROWS_KEPT + 1, -(DEAD_ROWS_KEPT + 1.0))]


def test_memory_in_use_grows_with_the_rows() -> None:
    table = VectorTable(100, "cosine")
    assert table.nbytes == 0
    table.add(1, [np.ones(100, np.float32)] * 10)
    assert 4_000 <= table.nbytes < 5_000


def test_wrong_shapes_are_refused_naming_both() -> None:
    table = VectorTable(3, "cosine")
    good, bad = np.ones(3, np.float32), np.ones(1, np.float32)
    with pytest.raises(InvalidValue, match=r"vector must have the shape \(3,\), not \(1,\)"):
        table.add(1, [good, bad])
    with pytest.raises(InvalidValue, match=r"matrix must have the shape \(2, 3\), not \(1, 3\)"):
        table.add_block(np.arange(2), good.reshape(1, 3))
    with pytest.raises(InvalidValue, match=r"query must have the shape \(3,\), not \(1,\)"):
        table.top(bad, 1)
    assert len(table) == 0
