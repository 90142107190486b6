"""How what graphs take and leave behind is kept: whatever JSON can say comes back as it was."""

from __future__ import annotations

import json
import math
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import InvalidValue
from stateroom.model.state import decode_state, encode_state

_texts = st.text(max_size=8)
# Two surrogates that make a pair are one character in JSON, so that each is alone.
_exotic = st.builds("{}x{}".format, st.characters(categories=["Cs", "Cc"]), st.characters(categories=["Cs"]))
_any_json: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(),
        st.booleans(),
        st.integers(),
        st.integers(-(10**400), 10**400),
        st.floats(),
        _texts,
        _exotic,
    ),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(st.one_of(_texts, _exotic), inner, max_size=4),
    ),
    max_leaves=12,
)


@given(_any_json)
def test_what_json_can_say_comes_back_as_it_was(value: Any) -> None:
    # By its spelling, since NaN equals nothing, 1 is 1.0, and -0.0 is 0.0.
    assert repr(decode_state(encode_state(value, field="values"))) == repr(value)


@pytest.mark.parametrize(
    "value",
    [
        None,
        [],
        {},
        "",
        "\0",
        "\ud800",
        {"\udfff": "\0"},
        {"b": 1, "a": 2},
        2**63,
        -(2**200),
        10**4000,
        1e300,
        -0.0,
        math.inf,
        [None, -math.inf],
        {"a": None, "b": [1.5, math.inf]},
        {"null": "null"},
        "nullify",
        " a",
    ],
    ids=lambda value: repr(value)[:20],
)
def test_nothing_is_refused_or_changed(value: Any) -> None:
    assert repr(decode_state(encode_state(value, field="values"))) == repr(value)


def test_nan_comes_back() -> None:
    value = decode_state(encode_state({"a": [math.nan, None]}, field="values"))
    assert math.isnan(value["a"][0])
    assert value["a"][1] is None


def test_plain_json_is_kept_as_everybody_reads_it() -> None:
    assert json.loads(encode_state({"a": ["é", 1, None]}, field="values")) == {"a": ["é", 1, None]}
    assert not encode_state({"a": "é\0"}, field="values").startswith(b" ")


def test_dates_are_texts() -> None:
    moment = datetime(2026, 1, 2, tzinfo=UTC)
    assert decode_state(encode_state({"at": moment}, field="values")) == {"at": "2026-01-02T00:00:00+00:00"}


@pytest.mark.parametrize("value", [object(), b"bytes", {"a": {1, 2}}, [object()], 1j, {(1, 2): 3}])
def test_what_is_no_json_is_refused_by_its_field(value: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        encode_state(value, field="values")
    assert str(caught.value.field).startswith("values")


def test_a_cycle_is_refused() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(InvalidValue) as caught:
        encode_state(value, field="values")
    assert str(caught.value.field).startswith("values")
