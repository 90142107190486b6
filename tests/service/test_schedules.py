"""When crons are due: against a clock that is looked at minute by minute, and at the changes of clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.clock import microseconds_to_datetime
from stateroom.errors import InvalidSchedule
from stateroom.service.schedules import check_schedule, next_occurrence, parse_moment

MINUTE = 60_000_000
MINUTES_LOOKED_AT = 3 * 24 * 60


def at(text: str) -> int:
    return parse_moment(text, "x")


def times(schedule: str, zone: str | None, after: str, many: int) -> list[str]:
    """Return the first moments behind one, as the clock of the zone shows them."""
    found, moment = [], at(after)
    for _ in range(many):
        moment = next_occurrence(schedule, zone, after=moment) or 0
        shown = microseconds_to_datetime(moment).astimezone(ZoneInfo(zone or "UTC"))
        found.append(shown.isoformat(timespec="minutes"))
    return found


# ---- Against a simple oracle.

numbers = {0: (0, 59), 1: (0, 23), 2: (1, 31), 3: (1, 12), 4: (0, 7)}


@st.composite
def fields(draw: st.DrawFn, place: int) -> tuple[str, frozenset[int]]:
    """Draw one field, and what it means."""
    least, most = numbers[place]
    everything = range(least, most + 1)
    kind = draw(st.sampled_from(["any", "any", "step", "one", "some", "range"]))
    one = draw(st.integers(least, most))
    if kind == "any":
        return "*", frozenset(everything)
    if kind == "step":
        step = draw(st.integers(1, 15))
        return f"*/{step}", frozenset(everything[::step])
    if kind == "range":
        other = draw(st.integers(one, most))
        return f"{one}-{other}", frozenset(range(one, other + 1))
    if kind == "some":
        others = draw(st.sets(st.integers(least, most), min_size=1, max_size=4))
        return ",".join(map(str, sorted(others))), frozenset(others)
    return str(one), frozenset({one})


@st.composite
def schedules(draw: st.DrawFn) -> tuple[str, list[frozenset[int]]]:
    parts = [draw(fields(place)) for place in range(5)]
    return " ".join(text for text, _ in parts), [meant for _, meant in parts]


def fits(text: str, meant: list[frozenset[int]], moment: datetime) -> bool:
    minutes, hours, days, months, weekdays = meant
    _, _, day, _, weekday = text.split()
    today = moment.day in days
    this_weekday = not {moment.isoweekday() % 7, moment.isoweekday()}.isdisjoint(weekdays)
    # As cron has it: where both are restricted, one of them is enough.
    both = day.startswith("*") or weekday.startswith("*")
    fitting = (today and this_weekday) if both else (today or this_weekday)
    return moment.minute in minutes and moment.hour in hours and moment.month in months and fitting


@given(
    schedules(),
    st.integers(at("2024-01-01"), at("2040-01-01")),
    # Zones whose clocks do not change, so that there is nothing to decide.
    st.sampled_from([None, "UTC", "Asia/Kolkata", "Asia/Tokyo", "America/Phoenix"]),
)
def test_the_next_occurrence_is_the_first_minute_that_fits(
    schedule: tuple[str, list[frozenset[int]]], after: int, zone: str | None
) -> None:
    text, meant = schedule
    try:
        found = next_occurrence(text, zone, after=after)
    except InvalidSchedule:
        # Days that no month has.
        assert min(meant[2]) > 29
        return
    local = ZoneInfo(zone or "UTC")
    first = after // MINUTE * MINUTE + MINUTE
    expected = next(
        (
            moment
            for moment in range(first, first + MINUTES_LOOKED_AT * MINUTE, MINUTE)
            if fits(text, meant, microseconds_to_datetime(moment).astimezone(local))
        ),
        None,
    )
    if expected is not None:
        assert found == expected
    else:
        assert found is None or found >= first + MINUTES_LOOKED_AT * MINUTE


# ---- Where clocks change.


@pytest.mark.parametrize(
    ("after", "expected"),
    [
        (
            "2026-03-27T12:00Z",
            ["2026-03-28T09:00+01:00", "2026-03-29T09:00+02:00", "2026-03-30T09:00+02:00"],
        ),
        (
            "2026-10-23T12:00Z",
            ["2026-10-24T09:00+02:00", "2026-10-25T09:00+01:00", "2026-10-26T09:00+01:00"],
        ),
    ],
)
def test_nine_in_berlin_is_nine_on_either_side_of_a_change(after: str, expected: list[str]) -> None:
    assert times("0 9 * * *", "Europe/Berlin", after, 3) == expected


def test_without_a_zone_it_is_utc() -> None:
    assert times("0 9 * * *", None, "2026-03-28T12:00Z", 2) == [
        "2026-03-29T09:00+00:00",
        "2026-03-30T09:00+00:00",
    ]


def test_a_time_that_the_clock_leaves_out_comes_at_the_change() -> None:
    assert times("30 2 * * *", "Europe/Berlin", "2026-03-28T12:00Z", 2) == [
        "2026-03-29T03:00+02:00",
        "2026-03-30T02:30+02:00",
    ]


@pytest.mark.parametrize("after", ["2026-10-25T00:10Z", "2026-10-25T00:30Z", "2026-10-25T01:10Z"])
def test_a_time_that_the_clock_repeats_comes_once(after: str) -> None:
    first = "2026-10-25T02:30+02:00" if after == "2026-10-25T00:10Z" else "2026-10-26T02:30+01:00"
    assert times("30 2 * * *", "Europe/Berlin", after, 1) == [first]


def test_every_half_hour_goes_by_real_time() -> None:
    found, moment = [], at("2026-10-25T00:00Z")
    for _ in range(5):
        moment = next_occurrence("*/30 * * * *", "Europe/Berlin", after=moment) or 0
        found.append(moment)
    steps = {later - earlier for earlier, later in pairwise(found)}
    assert steps == {30 * MINUTE}


def test_an_occurrence_is_behind_the_moment_and_never_at_it() -> None:
    assert next_occurrence("* * * * *", None, after=0) == MINUTE
    assert next_occurrence("* * * * *", None, after=1) == MINUTE
    assert next_occurrence("* * * * *", None, after=MINUTE - 1) == MINUTE
    assert next_occurrence("* * * * *", None, after=MINUTE) == 2 * MINUTE


def test_the_end_counts_as_well() -> None:
    assert next_occurrence("* * * * *", None, after=0, until=MINUTE) == MINUTE
    assert next_occurrence("* * * * *", None, after=0, until=MINUTE - 1) is None


# ---- What is refused.


@pytest.mark.parametrize(
    "schedule",
    [
        *("", "@daily", "* * * *", "* * * * * *", "60 * * * *", "* 24 * * *", "* * 0 * *", "* * * 13 *"),
        *("a b c d e", "*/0 * * * *", "5-1 * * * *", "0 0 31 2 *", "\0 * * * *", "1" * 5000 + " * * * *"),
    ],
)
def test_a_schedule_that_means_nothing_is_refused(schedule: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule(schedule, None)
    assert caught.value.field == "schedule"


@pytest.mark.parametrize(
    "zone", ["", "Mars/Base", "Europe", "../etc/passwd", "/etc/passwd", "zone.tab", "\0", "a" * 5000]
)
def test_a_zone_that_is_none_is_refused(zone: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        check_schedule("0 9 * * *", zone)
    assert caught.value.field == "timezone"


@pytest.mark.parametrize("text", ["soon", "", "2026-13-01", "tomorrow 9:00", "1790000000"])
def test_an_end_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(InvalidSchedule) as caught:
        parse_moment(text, "end_time")
    assert caught.value.field == "end_time"


@pytest.mark.parametrize(
    "text",
    ["2026-12-01T10:00:00Z", "2026-12-01T10:00:00", "2026-12-01T12:00:00+02:00", "2026-12-01T05:00-05:00"],
)
def test_an_end_may_name_utc_an_offset_or_nothing(text: str) -> None:
    assert parse_moment(text, "end_time") == 1_796_119_200_000_000


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_moment_is_exact_to_the_microsecond(moment: datetime) -> None:
    found: Any = microseconds_to_datetime(parse_moment(moment.isoformat(), "x"))
    assert found - moment == timedelta(0)
