"""Hybrid scores are bounded, fair to both lists, and ordered by the one list when there is only one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.search.fusion import CANDIDATES, TEXT_WEIGHT, Fused, fuse, pool_size

KEYS = st.integers(0, 20)
TEXT = st.dictionaries(KEYS, st.floats(0.001, 50, allow_nan=False), max_size=15)
VECTOR = st.dictionaries(KEYS, st.floats(-100, 100, allow_nan=False), max_size=15)


def order(fused: dict[int, Fused]) -> list[int]:
    return sorted(fused, key=lambda key: (-fused[key].score, key))


def ranked(scores: dict[int, float]) -> list[int]:
    return sorted(scores, key=lambda key: (-scores[key], key))


def test_the_best_of_both_lists_scores_one_and_the_least_similar_without_words_zero() -> None:
    fused = fuse({"a": 3.0, "b": 1.5}, {"a": 0.9, "b": 0.5, "c": 0.1})
    assert fused["a"] == Fused(1.0, 3.0, 0.9)
    assert fused["b"].score == pytest.approx(TEXT_WEIGHT * 0.5 + (1 - TEXT_WEIGHT) * 0.5)
    assert fused["c"] == Fused(0.0, None, 0.1)


def test_a_candidate_without_a_vector_keeps_its_words() -> None:
    fused = fuse({"a": 2.0}, {"b": 0.4, "c": 0.2})
    assert fused["a"] == Fused(TEXT_WEIGHT, 2.0, None)


def test_words_outweigh_similarity_when_they_disagree() -> None:
    fused = fuse({"words": 2.0}, {"words": 0.1, "meaning": 0.9})
    assert fused["words"].score > fused["meaning"].score


def test_nothing_fused_with_nothing_is_nothing() -> None:
    assert fuse({}, {}) == {}


def test_equal_scores_count_in_full() -> None:
    fused = fuse({"a": 2.0, "b": 2.0}, {"a": 0.5, "b": 0.5})
    assert fused["a"].score == fused["b"].score == 1.0


@given(st.dictionaries(KEYS, st.integers(1, 1_000).map(float), max_size=15))
def test_without_vectors_the_order_is_that_of_the_words(text: dict[int, float]) -> None:
    assert order(fuse(text, {})) == ranked(text)


@given(st.dictionaries(KEYS, st.integers(-1_000, 1_000).map(float), max_size=15))
def test_without_words_the_order_is_that_of_the_vectors(vector: dict[int, float]) -> None:
    assert order(fuse({}, vector)) == ranked(vector)


@given(TEXT, VECTOR)
def test_every_candidate_of_either_list_gets_a_score_from_zero_to_one(
    text: dict[int, float], vector: dict[int, float]
) -> None:
    fused = fuse(text, vector)
    assert fused.keys() == text.keys() | vector.keys()
    assert all(0.0 <= one.score <= 1.0 for one in fused.values())
    assert all((one.text, one.vector) == (text.get(key), vector.get(key)) for key, one in fused.items())


@given(st.dictionaries(KEYS, st.tuples(st.floats(0.001, 50), st.floats(-1, 1)), min_size=2, max_size=15))
def test_better_in_both_lists_is_never_worse_in_the_hybrid(both: dict[int, tuple[float, float]]) -> None:
    fused = fuse(
        {key: words for key, (words, _) in both.items()}, {key: near for key, (_, near) in both.items()}
    )
    for one, (words, near) in both.items():
        for other, (fewer, farther) in both.items():
            if words >= fewer and near >= farther:
                assert fused[one].score >= fused[other].score


@given(TEXT, VECTOR, st.sampled_from([0.25, 2.0, 1024.0]))
def test_the_scale_of_text_scores_and_similarities_does_not_matter(
    text: dict[int, float], vector: dict[int, float], factor: float
) -> None:
    # Powers of two scale floats without rounding.
    scaled = fuse(
        {key: value * factor for key, value in text.items()},
        {key: value * factor for key, value in vector.items()},
    )
    plain = fuse(text, vector)
    assert {key: one.score for key, one in scaled.items()} == pytest.approx(
        {key: one.score for key, one in plain.items()}, abs=1e-9
    )


@pytest.mark.parametrize(
    ("rows", "pool"),
    [
        (0, CANDIDATES),
        (CANDIDATES, CANDIDATES),
        (CANDIDATES + 1, 2 * CANDIDATES),
        (2 * CANDIDATES, 2 * CANDIDATES),
        (2 * CANDIDATES + 1, 4 * CANDIDATES),
    ],
)
def test_a_pool_is_doubled_until_it_holds_the_rows(rows: int, pool: int) -> None:
    assert pool_size(rows) == pool
