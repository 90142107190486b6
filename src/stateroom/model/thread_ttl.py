"""How long threads live: what callers and configurations may say about it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stateroom.errors import InvalidTTL, LimitExceeded, Misconfigured
from stateroom.model.text import show
from stateroom.model.thread import ThreadTTL, TTLStrategy
from stateroom.model.ttl import check_ttl

__all__ = ["ThreadTTLSettings", "parse_thread_ttl", "parse_thread_ttl_config"]


@dataclass(frozen=True, slots=True)
class ThreadTTLSettings:
    """What happens to threads whose caller says nothing about their time to live.

    ``default`` None means that they never expire. ``sweep_interval_minutes`` is the pause between two
    sweeps, which take ``sweep_limit`` threads at a time. ``strategy`` is that of whoever names only minutes.
    """

    default: ThreadTTL | None = None
    strategy: TTLStrategy = TTLStrategy.DELETE
    sweep_interval_minutes: float = 1.0
    sweep_limit: int = 1000


def parse_thread_ttl(
    ttl: object, *, strategy: TTLStrategy = TTLStrategy.DELETE, field: str = "ttl"
) -> ThreadTTL | None:
    """Return the time to live that a caller gives a thread; None pins it.

    It is a number of minutes, or ``{"ttl": minutes, "strategy": "delete" or "keep_latest"}``, where
    ``strategy`` is what is taken for one that is not there. Raises InvalidTTL and LimitExceeded.
    """
    if not isinstance(ttl, Mapping):
        minutes = check_ttl(ttl, field)
        return None if minutes is None else ThreadTTL(minutes, strategy)
    for key in ttl:
        if key not in ("ttl", "strategy"):
            raise InvalidTTL(f"{field}.{key} is not known; use ttl and strategy", field=f"{field}.{key}")
    minutes = check_ttl(ttl.get("ttl"), f"{field}.ttl")
    chosen = _strategy(ttl.get("strategy", strategy), f"{field}.strategy")
    return None if minutes is None else ThreadTTL(minutes, chosen)


def _strategy(value: object, field: str) -> TTLStrategy:
    try:
        return TTLStrategy(value)  # type: ignore[arg-type]  # whatever is no strategy is refused
    except ValueError:
        raise InvalidTTL(f"{field} is {show(value)}; use {_STRATEGIES}", field=field) from None


_STRATEGIES: Final = " or ".join(TTLStrategy)

_KEYS: Final = ("strategy", "default_ttl", "sweep_interval_minutes", "sweep_limit")


def parse_thread_ttl_config(config: Mapping[str, Any] | None) -> ThreadTTLSettings:
    """Read ``checkpointer.ttl`` of a ``langgraph.json``; raise Misconfigured for what cannot work."""
    usual = ThreadTTLSettings()
    if config is None:
        return usual
    place = "checkpointer.ttl"
    if not isinstance(config, Mapping):
        raise Misconfigured(
            f"{place} is {show(config)}; pass a mapping such as {{'default_ttl': 43200}}", field=place
        )
    for key in config:
        if key not in _KEYS:
            raise Misconfigured(
                f"{place}.{key} is not a setting; the settings are {', '.join(_KEYS)}",
                field=f"{place}.{key}",
            )
    try:
        strategy = _strategy(config.get("strategy", usual.strategy), f"{place}.strategy")
        default = parse_thread_ttl(config.get("default_ttl"), strategy=strategy, field=f"{place}.default_ttl")
        pause = check_ttl(
            config.get("sweep_interval_minutes", usual.sweep_interval_minutes),
            f"{place}.sweep_interval_minutes",
        )
    except (InvalidTTL, LimitExceeded) as error:
        raise Misconfigured(str(error), field=error.field) from error
    return ThreadTTLSettings(
        default=default,
        strategy=strategy,
        sweep_interval_minutes=usual.sweep_interval_minutes if pause is None else pause,
        sweep_limit=_limit(config.get("sweep_limit", usual.sweep_limit), f"{place}.sweep_limit"),
    )


def _limit(value: object, field: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        raise Misconfigured(f"{field} is {show(value)}; pass a number of threads from 1", field=field)
    return value
