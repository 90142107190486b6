"""JSON containment of metadata."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.model.metadata import contains
from tests.model.strategies import json_objects


@pytest.mark.parametrize(
    ("metadata", "wanted", "held"),
    [
        ({"vip": True, "n": 3, "p": {"q": None}}, {"vip": True}, True),
        ({"vip": True}, {"vip": 1}, False),
        ({"vip": 1}, {"vip": True}, False),
        ({"n": 3}, {"n": 3.0}, True),
        ({"n": 3}, {"n": "3"}, False),
        ({"p": {"q": None}}, {"p": {"q": None}}, True),
        ({"p": {}}, {"p": {"q": None}}, False),
        ({"p": {"q": 1, "r": 2}}, {"p": {"r": 2}}, True),
        ({"p": 1}, {"p": {}}, False),
        ({"p": {}}, {"p": []}, False),
        ({"p": []}, {"p": {}}, False),
        ({"t": ["x", "y"]}, {"t": ["y"]}, True),
        ({"t": ["x", "y"]}, {"t": ["y", "x", "y"]}, True),
        ({"t": ["x"]}, {"t": ["x", "y"]}, False),
        ({"t": ["x"]}, {"t": "x"}, False),
        ({"t": "x"}, {"t": ["x"]}, False),
        ({"t": ["x"]}, {"t": []}, True),
        ({"t": [{"a": 1, "b": 2}]}, {"t": [{"b": 2}]}, True),
        ({"t": [{"a": 1}, {"b": 2}]}, {"t": [{"a": 1, "b": 2}]}, False),
        ({"t": [[1, 2]]}, {"t": [[2]]}, True),
        ({"t": [1, 2]}, {"t": [[2]]}, False),
        ({"t": [True]}, {"t": [1]}, False),
        ({}, {"a": None}, False),
        ({"a.b": 1}, {"a": {"b": 1}}, False),
    ],
)
def test_containment_is_that_of_postgres(metadata: Any, wanted: Any, held: bool) -> None:
    assert contains(metadata, wanted) is held


@given(json_objects)
def test_everything_contains_itself_and_nothing_at_all(metadata: dict[str, Any]) -> None:
    assert contains(metadata, metadata)
    assert contains(metadata, {})


@given(json_objects, st.data())
def test_containment_is_transitive(metadata: dict[str, Any], data: st.DataObject) -> None:
    middle = _thinned(metadata, data)
    wanted = _thinned(middle, data)
    assert contains(metadata, middle)
    assert contains(middle, wanted)
    assert contains(metadata, wanted)


@given(json_objects, json_objects, json_objects)
def test_containment_is_transitive_for_unrelated_objects(a: Any, b: Any, c: Any) -> None:
    if contains(a, b) and contains(b, c):
        assert contains(a, c)


def _thinned(value: Any, data: st.DataObject) -> Any:
    """Return ``value`` with some members of its objects and elements of its arrays left out."""
    if isinstance(value, dict):
        return {key: _thinned(part, data) for key, part in value.items() if data.draw(st.booleans())}
    if isinstance(value, list):
        return [_thinned(part, data) for part in value if data.draw(st.booleans())]
    return value
