"""The rules for times to live."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.clock import microseconds_to_datetime, system_clock
from stateroom.errors import InvalidTTL, LimitExceeded, Misconfigured
from stateroom.model.limits import TTL_MINUTES_MAX
from stateroom.model.ttl import TTLSettings, check_ttl, expiry, parse_ttl_config


@pytest.mark.parametrize("ttl", [0.4, 1, 1.5, 1e-9, TTL_MINUTES_MAX])
def test_a_positive_number_of_minutes_is_kept_with_its_fraction(ttl: float) -> None:
    checked = check_ttl(ttl)
    assert checked == ttl
    assert type(checked) is float


def test_none_never_expires() -> None:
    assert check_ttl(None) is None


@pytest.mark.parametrize("ttl", [0, 0.0, -1, -math.inf, math.inf, math.nan, True, "5", Fraction(1)])
def test_what_is_no_number_of_minutes_is_refused(ttl: Any) -> None:
    with pytest.raises(InvalidTTL, match=r"^ops ") as caught:
        check_ttl(ttl, "ops")
    assert caught.value.field == "ops"


@pytest.mark.parametrize("ttl", [TTL_MINUTES_MAX + 1, 1e300, 10**5000], ids=["one more", "float", "huge"])
def test_a_time_to_live_beyond_the_calendar_is_refused(ttl: float) -> None:
    with pytest.raises(LimitExceeded, match="at most 525,600,000") as caught:
        check_ttl(ttl)
    assert caught.value.field == "ttl"


def test_the_longest_time_to_live_ends_on_a_date() -> None:
    assert microseconds_to_datetime(expiry(system_clock(), TTL_MINUTES_MAX)).year > 3000


def test_expiry_keeps_fractions_of_minutes() -> None:
    assert expiry(1_000, 0.4) == 1_000 + 24_000_000
    assert expiry(1_000, 1.5) == 1_000 + 90_000_000


@given(st.integers(0, 2**52), st.floats(min_value=0, max_value=TTL_MINUTES_MAX, exclude_min=True))
def test_expiry_is_always_later_than_now(now: int, ttl: float) -> None:
    assert expiry(now, ttl) > now


@given(st.floats(1e-6, 1e6), st.floats(1e-6, 1e6))
def test_a_longer_time_to_live_never_ends_earlier(one: float, other: float) -> None:
    assert expiry(0, min(one, other)) <= expiry(0, max(one, other))


@pytest.mark.parametrize("config", [None, {}, {"omit_expired": True}])
def test_a_store_that_is_told_nothing_has_the_documented_defaults(config: Any) -> None:
    assert parse_ttl_config(config) == TTLSettings(None, True, 60.0)


def test_every_setting_is_read() -> None:
    config = {"default_ttl": 5, "refresh_on_read": False, "sweep_interval_minutes": 0.5}
    assert parse_ttl_config(config) == TTLSettings(5.0, False, 0.5)
    assert parse_ttl_config({"sweep_interval_minutes": None}).sweep_interval_minutes is None


@pytest.mark.parametrize(
    ("config", "field"),
    [
        ([], "ttl"),
        ({"defualt_ttl": 5}, "ttl.defualt_ttl"),
        ({"default_ttl": "5"}, "ttl.default_ttl"),
        ({"default_ttl": 0}, "ttl.default_ttl"),
        ({"default_ttl": TTL_MINUTES_MAX + 1}, "ttl.default_ttl"),
        ({"sweep_interval_minutes": -1}, "ttl.sweep_interval_minutes"),
        ({"refresh_on_read": 1}, "ttl.refresh_on_read"),
        ({"refresh_on_read": None}, "ttl.refresh_on_read"),
        ({"omit_expired": False}, "ttl.omit_expired"),
        ({"omit_expired": "yes"}, "ttl.omit_expired"),
    ],
)
def test_a_setting_that_cannot_work_is_refused_by_name(config: Any, field: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse_ttl_config(config)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
