"""Terms: what contains an object has all of its terms, and where they suffice, nothing else has."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from stateroom.drivers.sql.terms import metadata_terms, values_terms, wanted_metadata, wanted_values
from stateroom.model.metadata import contains
from tests.model.strategies import json_objects, json_texts

_scalars: st.SearchStrategy[Any] = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-1, 2),
    st.sampled_from([0.0, -0.0, 1.0, 1.5]),
    st.sampled_from(["a", "1", ""]),
)
_small: st.SearchStrategy[Any] = st.recursive(
    _scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("ab"), inner, max_size=2)
    ),
    max_leaves=6,
)
_objects = st.one_of(st.dictionaries(st.sampled_from("ab"), _small, max_size=2), json_objects)


@given(_objects, _objects)
@example({"a": [{"a": 1}, {"b": 2}]}, {"a": [{"a": 1, "b": 2}]})
@example({"a": {}}, {"a": []})
@example({"a": [[1], [2]]}, {"a": [[1, 2]]})
@example({"a": [[1], [2]]}, {"a": [[1], [2]]})
@example({"a": 2**70}, {"a": float(2**70)})
def test_terms_of_metadata_are_those_of_containment(held: dict[str, Any], wanted: dict[str, Any]) -> None:
    needed = wanted_metadata(wanted)
    has_all = needed.terms <= metadata_terms(held)
    assert has_all or not contains(held, wanted)
    if needed.suffice:
        assert has_all == contains(held, wanted)


@given(_objects, _objects)
@example({"a": {"b": 1}}, {"a": {"b": 1.0}})
@example({"a": {"b": {"c": 1}}}, {"a": {"b": {}}})
def test_terms_of_values_are_those_of_containment(held: dict[str, Any], wanted: dict[str, Any]) -> None:
    needed = wanted_values(wanted)
    has_all = needed.terms <= values_terms(held)
    assert has_all or not contains(held, wanted)
    if needed.suffice:
        assert has_all == contains(held, wanted)


@given(_objects)
def test_what_contains_something_of_everything_does(held: dict[str, Any]) -> None:
    assert wanted_metadata(held).terms <= metadata_terms(held)
    assert wanted_values(held).terms <= values_terms(held)
    assert not metadata_terms(held) & values_terms(held)


@given(st.lists(json_texts, min_size=2, max_size=2, unique=True))
def test_different_ways_to_a_leaf_have_different_terms(keys: list[str]) -> None:
    one, other = keys
    spelled: list[dict[str, Any]] = [
        {one: {other: 1}},
        {other: {one: 1}},
        {one + other: 1},
        {one: [1]},
        {one: [[1]]},
        {one: {other: [1]}},
        {one: [{other: 1}]},
        {one: f'"{len(other)}:{other}#1'},
    ]
    terms = [wanted_metadata(each).terms for each in spelled]
    assert len({term for each in terms for term in each}) == len(spelled)


@pytest.mark.parametrize(
    ("one", "other"), [(1, 1.0), (0, -0.0), (2**53, float(2**53)), (10**30, 10**30), (1e300, int(1e300))]
)
def test_equal_numbers_have_one_term(one: Any, other: Any) -> None:
    assert metadata_terms({"a": one}) == metadata_terms({"a": other})


@pytest.mark.parametrize(
    ("one", "other"), [(1, True), (0, False), (0, None), ("", None), ("1", 1), ({}, []), (1.5, 1)]
)
def test_different_values_have_different_terms(one: Any, other: Any) -> None:
    assert not metadata_terms({"a": one}) & metadata_terms({"a": other})


def test_terms_fit_into_a_column_and_never_change() -> None:
    terms = metadata_terms({"a": 1, "b": {"c": [None, "x"]}})
    assert all(-(2**63) <= term < 2**63 for term in terms)
    # They are kept in databases: another way to work them out would find nothing that is there.
    assert wanted_metadata({"owner": "ana"}).terms == {-8595618504400236832}
    assert wanted_values({"owner": "ana"}).terms == {6434178371850885535}


def test_large_states_have_few_terms() -> None:
    messages = [{"type": "human", "content": "hello"}] * 1000
    deep = {"a": {"b": {"c": list(range(1000))}}}
    assert len(values_terms({"messages": messages, "step": 1, "by": {"who": "me"}, **deep})) == 2


def test_values_that_are_no_object_have_none() -> None:
    for values in (None, [], ["a"], "text", 1):
        assert values_terms(values) == frozenset()


def test_what_is_kept_as_a_text_is_found_as_one() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert values_terms({"at": moment}) == values_terms({"at": "2026-01-02T00:00:00+00:00"})


def test_nan_equals_nothing() -> None:
    assert not wanted_values({"a": math.nan}).suffice
