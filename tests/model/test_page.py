"""The rules for limits, offsets and depths."""

from __future__ import annotations

import sys
from typing import Any

import pytest

from stateroom.errors import InvalidPage, LimitExceeded
from stateroom.model.limits import PAGE_NUMBER_MAX
from stateroom.model.page import check_max_depth, check_page


@pytest.mark.parametrize(("limit", "offset"), [(0, 0), (10, 0), (1, 10**9), (sys.maxsize, PAGE_NUMBER_MAX)])
def test_numbers_from_zero_are_a_page(limit: int, offset: int) -> None:
    check_page(limit, offset)


@pytest.mark.parametrize("bad", [-1, True, 1.0, "1", None, float("nan")])
def test_anything_else_is_refused_by_name(bad: Any) -> None:
    with pytest.raises(InvalidPage, match=r"^limit ") as caught:
        check_page(bad, 0)
    assert caught.value.field == "limit"
    with pytest.raises(InvalidPage, match=r"^offset ") as caught:
        check_page(0, bad)
    assert caught.value.field == "offset"


@pytest.mark.parametrize("offset", [PAGE_NUMBER_MAX + 1, 10**5000], ids=["one more", "huge"])
def test_a_number_above_what_databases_count_to_is_refused(offset: int) -> None:
    with pytest.raises(LimitExceeded, match="at most 9,223,372,036,854,775,807") as caught:
        check_page(0, offset)
    assert caught.value.field == "offset"


@pytest.mark.parametrize("depth", [None, 1, 1000])
def test_a_depth_is_none_or_counts_labels(depth: int | None) -> None:
    check_max_depth(depth)


@pytest.mark.parametrize("depth", [0, -1, True, 1.5, "2"])
def test_a_depth_that_leaves_no_label_is_refused(depth: Any) -> None:
    with pytest.raises(InvalidPage) as caught:
        check_max_depth(depth)
    assert caught.value.field == "max_depth"
