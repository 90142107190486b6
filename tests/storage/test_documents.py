"""What columns take: JSON as bytes, and texts and numbers that every database can hold."""

from __future__ import annotations

import math
from collections import OrderedDict
from datetime import date
from functools import partial
from types import MappingProxyType
from typing import Any

import pytest

from stateroom.drivers.sql.documents import (
    checked_duration,
    checked_id,
    checked_text,
    maybe_state,
    merged_metadata,
    metadata_bytes,
    object_of,
    state_bytes,
)
from stateroom.errors import InvalidInput, InvalidValue, LimitExceeded
from stateroom.model.limits import DURATION_MAX, METADATA_BYTES_MAX
from stateroom.testing.storage_harness import check_id, check_refused, check_text


def test_metadata_come_back_as_json() -> None:
    given = MappingProxyType({"b": 1, "a": (1, None, {"x": date(2026, 1, 2)}), "n": 10**30, "t": "ä"})
    raw = metadata_bytes(given)
    assert isinstance(raw, bytes)
    back = object_of(raw)
    assert back == {"b": 1, "a": [1, None, {"x": "2026-01-02"}], "n": 10**30, "t": "ä"}
    assert list(back) == ["b", "a", "n", "t"]
    assert object_of(metadata_bytes({})) == {}


def test_metadata_may_be_so_large() -> None:
    most = {"x": "i" * (METADATA_BYTES_MAX - len('{"x":""}'))}
    assert len(metadata_bytes(most)) == METADATA_BYTES_MAX
    more = {"x": most["x"] + "i"}
    check_refused(LimitExceeded, "metadata", partial(metadata_bytes, more))
    check_refused(LimitExceeded, "config", partial(metadata_bytes, more, "config"))


@pytest.mark.parametrize("wrong", [object(), math.nan, math.inf, "a\0b", "\ud800", {1: 2}, b"x", {1, 2}])
def test_metadata_that_are_no_json_are_refused_by_their_place(wrong: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        metadata_bytes({"x": [0, wrong]}, "config")
    assert str(caught.value.field).startswith("config.x[1]")


def test_merged_metadata_have_each_key_of_the_change() -> None:
    kept = metadata_bytes({"a": {"x": 1}, "b": 1})
    merged = merged_metadata(kept, metadata_bytes({"c": None, "a": {"y": 2}}))
    assert object_of(merged) == {"a": {"y": 2}, "b": 1, "c": None}
    assert merged_metadata(kept, None) == merged_metadata(kept, metadata_bytes({})) == kept
    half = metadata_bytes({"x": "i" * (METADATA_BYTES_MAX // 2)})
    other = metadata_bytes({"y": "i" * (METADATA_BYTES_MAX // 2)})
    check_refused(LimitExceeded, "metadata", partial(merged_metadata, half, other))


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        0,
        10**400,
        -0.5,
        math.inf,
        "",
        "NUL \0 and half a \ud83d",
        [],
        [[{"a": [None, 1, "\0"]}]],
        {},
        {"null": None, "x": "null", "n": 2**64},
    ],
    ids=repr,
)
def test_states_come_back_as_they_were(value: Any) -> None:
    back = maybe_state(state_bytes(value, "values"))
    assert (type(back), back) == (type(value), value)


def test_states_keep_numbers_that_are_none() -> None:
    back = maybe_state(state_bytes({"x": [math.nan, -math.inf, None]}, "values"))
    assert math.isnan(back["x"][0])
    assert back["x"][1:] == [-math.inf, None]


def test_a_state_may_be_any_mapping_and_none_is_no_state() -> None:
    assert maybe_state(state_bytes(MappingProxyType({"x": 1}), "kwargs")) == {"x": 1}
    assert maybe_state(state_bytes(OrderedDict(x=OrderedDict(y=1)), "kwargs")) == {"x": {"y": 1}}
    assert maybe_state(None) is None
    assert state_bytes(None, "values") == b"null"


def test_a_state_that_is_no_json_is_refused_by_name() -> None:
    check_refused(InvalidValue, "kwargs", partial(state_bytes, {"x": object()}, "kwargs"))


def test_ids_are_texts_that_are_short_and_not_empty() -> None:
    check_id("thread_id", partial(checked_id, field="thread_id"))
    assert checked_id("ä / ?", "thread_id") == "ä / ?"
    with pytest.raises(InvalidInput, match=r"^run_id is empty; pass an id$"):
        checked_id("", "run_id")
    with pytest.raises(InvalidInput, match=r"^run_id holds a NUL character \(U\+0000\) at position 1"):
        checked_id("a\0b", "run_id")
    with pytest.raises(InvalidInput, match=r"^run_id is 7; pass a string$"):
        checked_id(7, "run_id")
    with pytest.raises(LimitExceeded, match=r"^run_id has 256 bytes; at most 255 are allowed$"):
        checked_id("ä" * 128, "run_id")


def test_texts_may_be_long_and_empty() -> None:
    check_text("name", partial(checked_text, field="name"))
    check_refused(InvalidInput, "name", partial(checked_text, None, "name"))
    assert checked_text("äöü", "name", most=6) == "äöü"
    check_refused(LimitExceeded, "name", partial(checked_text, "äöü", "name", most=5))


def test_durations_are_microseconds_that_can_be_added_to_any_time() -> None:
    assert checked_duration(0, "lease") == 0
    assert checked_duration(DURATION_MAX, "lease", least=1) == DURATION_MAX
    assert 2**62 + DURATION_MAX < 2**63
    check_refused(LimitExceeded, "lease", partial(checked_duration, DURATION_MAX + 1, "lease"))
    check_refused(InvalidInput, "lease", partial(checked_duration, 0, "lease", least=1))
    for wrong in (-1, True, 1.0, "1", None):
        check_refused(InvalidInput, "lease", partial(checked_duration, wrong, "lease"))
