"""What callers and configurations may say about how long threads live."""

from __future__ import annotations

import math
from typing import Any

import pytest

from stateroom.errors import InvalidTTL, LimitExceeded, Misconfigured
from stateroom.model.limits import TTL_MINUTES_MAX
from stateroom.model.thread import ThreadTTL, TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings, parse_thread_ttl, parse_thread_ttl_config

DELETE, KEEP = TTLStrategy.DELETE, TTLStrategy.KEEP_LATEST


@pytest.mark.parametrize(
    ("ttl", "parsed"),
    [
        (5, ThreadTTL(5.0, DELETE)),
        (0.4, ThreadTTL(0.4, DELETE)),
        ({"ttl": 5}, ThreadTTL(5.0, DELETE)),
        ({"ttl": 1.5, "strategy": "delete"}, ThreadTTL(1.5, DELETE)),
        ({"ttl": 1.5, "strategy": "keep_latest"}, ThreadTTL(1.5, KEEP)),
        ({"ttl": TTL_MINUTES_MAX, "strategy": KEEP}, ThreadTTL(TTL_MINUTES_MAX, KEEP)),
    ],
)
def test_a_number_of_minutes_and_a_mapping_say_how_long_and_what_then(ttl: object, parsed: ThreadTTL) -> None:
    assert parse_thread_ttl(ttl) == parsed


@pytest.mark.parametrize("ttl", [None, {}, {"ttl": None}, {"strategy": "keep_latest"}])
def test_no_minutes_pin_the_thread(ttl: object) -> None:
    assert parse_thread_ttl(ttl) is None


@pytest.mark.parametrize("ttl", [5, {"ttl": 5}])
def test_who_names_no_strategy_gets_the_one_that_is_usual(ttl: object) -> None:
    assert parse_thread_ttl(ttl, strategy=KEEP) == ThreadTTL(5.0, KEEP)


def test_who_names_a_strategy_gets_it() -> None:
    assert parse_thread_ttl({"ttl": 5, "strategy": "delete"}, strategy=KEEP) == ThreadTTL(5.0, DELETE)


@pytest.mark.parametrize("ttl", [0, -1, math.nan, math.inf, True, "5", [5]])
def test_what_is_no_number_of_minutes_is_refused_by_the_name_of_its_field(ttl: Any) -> None:
    with pytest.raises(InvalidTTL, match=r"^ttl is ") as caught:
        parse_thread_ttl(ttl)
    assert caught.value.field == "ttl"
    with pytest.raises(InvalidTTL, match=r"^body\.ttl\.ttl is ") as caught:
        parse_thread_ttl({"ttl": ttl}, field="body.ttl")
    assert caught.value.field == "body.ttl.ttl"


def test_a_time_to_live_beyond_the_calendar_is_refused() -> None:
    with pytest.raises(LimitExceeded, match="at most") as caught:
        parse_thread_ttl({"ttl": TTL_MINUTES_MAX + 1})
    assert caught.value.field == "ttl.ttl"


@pytest.mark.parametrize("strategy", ["archive", "DELETE", "", None, 1, ["delete"]])
def test_an_unknown_strategy_is_refused_and_told_which_there_are(strategy: object) -> None:
    with pytest.raises(InvalidTTL, match="delete or keep_latest") as caught:
        parse_thread_ttl({"ttl": 5, "strategy": strategy})
    assert caught.value.field == "ttl.strategy"


def test_an_unknown_key_is_refused_by_its_name() -> None:
    with pytest.raises(InvalidTTL, match=r"ttl\.minutes is not known") as caught:
        parse_thread_ttl({"ttl": 5, "minutes": 5})
    assert caught.value.field == "ttl.minutes"


# ---- configurations


@pytest.mark.parametrize("config", [None, {}])
def test_without_a_configuration_threads_never_expire_and_are_swept_every_five_minutes(
    config: dict[str, Any] | None,
) -> None:
    assert parse_thread_ttl_config(config) == ThreadTTLSettings(
        default=None, strategy=DELETE, sweep_interval_minutes=1.0, sweep_limit=1000
    )


def test_a_configuration_says_everything() -> None:
    config = {
        "strategy": "keep_latest",
        "default_ttl": 43_200,
        "sweep_interval_minutes": 0.5,
        "sweep_limit": 7,
    }
    assert parse_thread_ttl_config(config) == ThreadTTLSettings(
        default=ThreadTTL(43_200.0, KEEP), strategy=KEEP, sweep_interval_minutes=0.5, sweep_limit=7
    )


def test_the_strategy_of_a_configuration_counts_without_a_default() -> None:
    settings = parse_thread_ttl_config({"strategy": "keep_latest"})
    assert (settings.default, settings.strategy) == (None, KEEP)


def test_an_interval_of_none_is_the_usual_one() -> None:
    assert parse_thread_ttl_config({"sweep_interval_minutes": None}).sweep_interval_minutes == 1.0


@pytest.mark.parametrize(
    ("config", "field"),
    [
        (5, "checkpointer.ttl"),
        ("5", "checkpointer.ttl"),
        ({"ttl": 5}, "checkpointer.ttl.ttl"),
        ({"strategy": "archive"}, "checkpointer.ttl.strategy"),
        ({"default_ttl": 0}, "checkpointer.ttl.default_ttl"),
        ({"default_ttl": "5"}, "checkpointer.ttl.default_ttl"),
        ({"default_ttl": TTL_MINUTES_MAX + 1}, "checkpointer.ttl.default_ttl"),
        ({"sweep_interval_minutes": 0}, "checkpointer.ttl.sweep_interval_minutes"),
        ({"sweep_interval_minutes": "1"}, "checkpointer.ttl.sweep_interval_minutes"),
        ({"sweep_limit": 0}, "checkpointer.ttl.sweep_limit"),
        ({"sweep_limit": 1.5}, "checkpointer.ttl.sweep_limit"),
        ({"sweep_limit": True}, "checkpointer.ttl.sweep_limit"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused_by_the_name_of_its_key(config: Any, field: str) -> None:
    with pytest.raises(Misconfigured) as caught:
        parse_thread_ttl_config(config)
    assert caught.value.field == field
    assert str(caught.value).startswith(field)
