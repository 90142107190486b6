"""How one page says where the next begins."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import InvalidPage
from stateroom.model.paging import NEWEST, Page, Place, Sort, check_sort, cursor, place
from tests.model.strategies import json_texts

sorts = st.builds(Sort, st.sampled_from(["created_at", "name", "thread_id"]), st.booleans())
places = st.builds(Place, st.one_of(st.none(), json_texts, st.integers(-(2**63), 2**63 - 1)), json_texts)


@given(sorts, places)
def test_a_cursor_says_where_a_row_is(sort: Sort, last: Place) -> None:
    text = cursor(sort, last)
    assert place(text, sort) == last
    # It fits into an address as it is.
    assert text.isascii()
    assert text.replace("-", "").replace("_", "").isalnum()


@given(sorts, sorts, places)
def test_a_cursor_is_for_a_list_that_is_sorted_in_the_same_way(one: Sort, other: Sort, last: Place) -> None:
    if one == other:
        assert place(cursor(one, last), other) == last
        return
    with pytest.raises(InvalidPage, match="sorted in another way") as caught:
        place(cursor(one, last), other)
    assert caught.value.field == "after"


@pytest.mark.parametrize(
    "text",
    ["", "x", "%%%%", "é", "a" * 1001, "bnVsbA", "W10", "eyJhIjoxfQ", "WyJjcmVhdGVkX2F0Iix0cnVlLFtdLCJ4Il0"],
    ids=[
        "nothing",
        "a letter",
        "no base64",
        "no ASCII",
        "noise",
        "null",
        "[]",
        "an object",
        "a list as value",
    ],
)
def test_what_no_list_answered_is_refused(text: str) -> None:
    with pytest.raises(InvalidPage) as caught:
        place(text, NEWEST)
    assert caught.value.field == "after"


@given(st.text(max_size=30))
def test_whatever_is_passed_as_a_cursor_is_read_or_refused(text: str) -> None:
    with suppress(InvalidPage):
        assert isinstance(place(text, NEWEST), Place)


@pytest.mark.parametrize("id", [1, None, ["a"]])
def test_a_cursor_without_an_id_is_refused(id: Any) -> None:
    with pytest.raises(InvalidPage) as caught:
        place(cursor(NEWEST, Place(1, id)), NEWEST)
    assert caught.value.field == "after"


def test_a_list_is_sorted_by_what_it_allows() -> None:
    check_sort(Sort("name", descending=False), ("id", "name"))
    for wrong in ("", "Name", "secret", "name; drop table"):
        with pytest.raises(InvalidPage, match="use one of id, name") as caught:
            check_sort(Sort(wrong), ("id", "name"))
        assert caught.value.field == "sort_by"


def test_usually_the_newest_come_first_and_nothing_follows() -> None:
    assert NEWEST == ("created_at", True)
    assert Page([1]).next is None
