"""BM25 obeys the algebra that makes it a ranking, to the same bits however it is called."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.search.bm25 import K1, B, Scorer, Statistics, score, weights

COUNTS = st.integers(0, 1_000)
FREQUENCIES = st.lists(st.tuples(st.integers(1, 500), COUNTS), min_size=1, max_size=8)
LENGTHS = st.integers(1, 10_000)


def scorer(document_frequency: list[int], documents: int = 500, average: int = 20) -> Scorer:
    return Scorer(Statistics(documents, documents * average), document_frequency)


def test_one_term_scores_as_the_formula_says() -> None:
    weight = math.log(1 + (10 - 3 + 0.5) / (3 + 0.5))
    expected = weight * 2 / (2 + K1 * (1 - B + B * 6 / 4))
    assert Scorer(Statistics(10, 40), [3]).score([2], 6) == pytest.approx(expected, rel=1e-12)


def test_weights_keep_the_order_of_the_query() -> None:
    assert list(weights(Statistics(10, 40), {"zebra": 1, "ant": 9, "mole": 4})) == ["zebra", "ant", "mole"]


def test_frequencies_of_another_length_than_the_query_are_refused() -> None:
    with pytest.raises(ValueError, match="shorter"):
        scorer([1, 2]).score([1], 5)


def test_an_empty_scope_has_average_length_zero_and_scores_are_finite() -> None:
    empty = Statistics(0, 0)
    assert empty.average_length == 0.0
    assert math.isfinite(Scorer(empty, [0]).score([1], 3))


def test_a_scope_of_empty_documents_scores_without_dividing_by_zero() -> None:
    assert Scorer(Statistics(3, 0), [0]).score([0], 0) == 0.0


@given(st.integers(0, 10_000), st.integers(0, 20_000))
def test_a_weight_is_never_negative_even_when_the_count_exceeds_the_scope(documents: int, count: int) -> None:
    assert weights(Statistics(documents, documents), {"term": count})["term"] >= 0.0


@given(st.integers(0, 999))
def test_a_rarer_term_weighs_more(count: int) -> None:
    found = weights(Statistics(1_000, 9_000), {"rare": count, "common": count + 1})
    assert found["rare"] > found["common"]


@given(st.integers(1, 500), st.integers(1, 500))
def test_documents_without_a_term_make_it_weigh_more(documents: int, added: int) -> None:
    count = documents // 2
    before = weights(Statistics(documents, 1), {"term": count})["term"]
    assert weights(Statistics(documents + added, 1), {"term": count})["term"] > before


@given(FREQUENCIES, LENGTHS, st.data())
def test_one_more_occurrence_never_lowers_a_score(
    pairs: list[tuple[int, int]], length: int, data: st.DataObject
) -> None:
    frequencies = [frequency for _, frequency in pairs]
    place = data.draw(st.integers(0, len(pairs) - 1))
    more = [frequency + (at == place) for at, frequency in enumerate(frequencies)]
    ranked = scorer([count for count, _ in pairs])
    assert ranked.score(more, length) >= ranked.score(frequencies, length)


@given(st.integers(1, 499), st.integers(1, 1_000), st.integers(1, 10_000))
def test_a_longer_document_with_the_same_occurrences_scores_lower(count: int, seen: int, length: int) -> None:
    assert scorer([count]).score([seen], length + 1) < scorer([count]).score([seen], length)


@given(FREQUENCIES, LENGTHS)
def test_a_score_lies_between_zero_and_the_sum_of_the_weights(
    pairs: list[tuple[int, int]], length: int
) -> None:
    ranked = scorer([count for count, _ in pairs])
    assert 0.0 <= ranked.score([frequency for _, frequency in pairs], length) <= sum(ranked.weights)


@given(FREQUENCIES, LENGTHS)
def test_scorer_and_score_agree_to_the_bit(pairs: list[tuple[int, int]], length: int) -> None:
    statistics = Statistics(500, 9_137)
    counts = {f"term{place}": count for place, (count, _) in enumerate(pairs)}
    seen = {f"term{place}": frequency for place, (_, frequency) in enumerate(pairs) if frequency}
    single = score(weights(statistics, counts), seen, length, statistics.average_length)
    many = Scorer(statistics, counts.values()).score([frequency for _, frequency in pairs], length)
    assert single == many


@given(FREQUENCIES, LENGTHS)
def test_a_term_that_is_absent_changes_nothing(pairs: list[tuple[int, int]], length: int) -> None:
    counts = [count for count, _ in pairs]
    frequencies = [frequency for _, frequency in pairs]
    assert scorer([*counts, 7]).score([*frequencies, 0], length) == scorer(counts).score(frequencies, length)
