"""How long an item may live, and what a store is told about it by its configuration."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from stateroom.errors import InvalidTTL, LimitExceeded, Misconfigured
from stateroom.model.limits import TTL_MINUTES_MAX
from stateroom.model.text import show

__all__ = ["TTLSettings", "check_ttl", "expiry", "parse_ttl_config"]

_MICROSECONDS_PER_MINUTE: Final = 60_000_000


@dataclass(frozen=True, slots=True)
class TTLSettings:
    """What happens to items whose caller says nothing about their time to live.

    ``default_ttl`` is in minutes, None means that they never expire. ``sweep_interval_minutes`` is the
    pause between two sweeps of a running sweeper, None means that nothing sweeps by itself.
    """

    default_ttl: float | None = None
    refresh_on_read: bool = True
    sweep_interval_minutes: float | None = 60.0


def check_ttl(ttl: object, field: str = "ttl") -> float | None:
    """Return ``ttl`` in minutes, fractions kept, or None for an item that never expires.

    Raises InvalidTTL unless it is None or a finite number above 0, and LimitExceeded above
    TTL_MINUTES_MAX.
    """
    if ttl is None:
        return None
    if not isinstance(ttl, (int, float)) or isinstance(ttl, bool):
        raise InvalidTTL(f"{field} is {show(ttl)}; pass a number of minutes, or None for never", field=field)
    if not ttl > 0 or ttl == math.inf:
        raise InvalidTTL(
            f"{field} is {show(ttl)}; pass a finite number of minutes above 0, or None for never", field=field
        )
    if ttl > TTL_MINUTES_MAX:
        raise LimitExceeded(
            f"{field} is {show(ttl)} minutes; at most {TTL_MINUTES_MAX:,} are allowed, pass None for never",
            field=field,
        )
    return float(ttl)


def expiry(now_microseconds: int, ttl_minutes: float) -> int:
    """Return when an item put or refreshed now expires, on the clock of ``now_microseconds``.

    The result is always later than now, so that even the shortest time to live is one.
    """
    return now_microseconds + max(1, round(ttl_minutes * _MICROSECONDS_PER_MINUTE))


def parse_ttl_config(config: Mapping[str, Any] | None) -> TTLSettings:
    """Read LangGraph's ``TTLConfig``; raise Misconfigured, naming ``ttl.<key>``, for what cannot work."""
    usual = TTLSettings()
    if config is None:
        return usual
    if not isinstance(config, Mapping):
        raise Misconfigured(
            f"ttl is {show(config)}; pass a mapping such as {{'default_ttl': 60}}", field="ttl"
        )
    for key in config:
        if key not in _CONFIG_KEYS:
            known = ", ".join(_CONFIG_KEYS)
            raise Misconfigured(f"ttl.{key} is not a setting; the settings are {known}", field=f"ttl.{key}")
    if not _flag(config, "omit_expired"):
        raise Misconfigured(
            "ttl.omit_expired is False; expired items are always hidden here, so leave it out",
            field="ttl.omit_expired",
        )
    return TTLSettings(
        default_ttl=_minutes(config, "default_ttl", usual.default_ttl),
        refresh_on_read=_flag(config, "refresh_on_read"),
        sweep_interval_minutes=_minutes(config, "sweep_interval_minutes", usual.sweep_interval_minutes),
    )


_CONFIG_KEYS: Final = ("default_ttl", "refresh_on_read", "omit_expired", "sweep_interval_minutes")


def _flag(config: Mapping[str, Any], key: str) -> bool:
    flag = config.get(key, True)
    if not isinstance(flag, bool):
        raise Misconfigured(f"ttl.{key} is {show(flag)}; pass True or False", field=f"ttl.{key}")
    return flag


def _minutes(config: Mapping[str, Any], key: str, default: float | None) -> float | None:
    try:
        return check_ttl(config.get(key, default), field=f"ttl.{key}")
    except (InvalidTTL, LimitExceeded) as error:
        raise Misconfigured(str(error), field=error.field) from error
