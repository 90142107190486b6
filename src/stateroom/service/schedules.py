"""When a cron is due next: five fields in a time zone, and moments as callers write them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from stateroom.clock import microseconds_to_datetime
from stateroom.errors import InvalidSchedule
from stateroom.model.text import show

__all__ = ["check_schedule", "next_occurrence", "parse_moment"]

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

_EXAMPLE: Final = "'0 9 * * 1-5'"


def check_schedule(schedule: str, timezone: str | None) -> None:
    """Raise InvalidSchedule unless there are times that both together mean."""
    if next_occurrence(schedule, timezone, after=0) is None:
        raise InvalidSchedule(f"schedule is {show(schedule)}, which never comes", field="schedule")


def next_occurrence(
    schedule: str, timezone: str | None, *, after: int, until: int | None = None
) -> int | None:
    """Return the first moment behind ``after`` that a schedule means, None if there is none up to ``until``.

    Moments are microseconds since 1970 UTC. A daily time that a change of the clock leaves out comes at the
    change, and one that it repeats comes once, the first time; what comes every hour or minute goes by real
    time. Raises InvalidSchedule.
    """
    start = microseconds_to_datetime(after)
    found = _first_behind(schedule, start, _zone(timezone))
    if found is None:
        return None
    moment = _microseconds(found)
    return None if until is not None and moment > until else moment


def parse_moment(text: str, field: str) -> int:
    """Return the moment that a text in ISO form means, in UTC without an offset; raise InvalidSchedule."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise InvalidSchedule(
            f"{field} is {show(text)}; pass a time in ISO form, such as '2030-12-31T18:00:00Z'", field=field
        ) from None
    return _microseconds(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


def _first_behind(schedule: str, start: datetime, zone: tzinfo) -> datetime | None:
    try:
        if len(schedule.split()) != 5:
            raise CronSimError("it has not five fields")
        # Times of day are looked for on a clock without a zone, where an hour that comes twice starts anew:
        # what is found there first can be past already.
        return next((found for found in CronSim(schedule, start.astimezone(zone)) if found > start), None)
    except (CronSimError, ValueError, OverflowError, AssertionError) as error:
        raise InvalidSchedule(
            f"schedule is {show(schedule)}: {error}; pass minute, hour, day of month, month and day of week, "
            f"such as {_EXAMPLE}",
            field="schedule",
        ) from None


def _zone(timezone: str | None) -> tzinfo:
    if timezone is None or timezone.upper() == "UTC":
        return UTC
    try:
        return ZoneInfo(timezone)
    # No such zone; or a path, a folder or another file where the system keeps them.
    except (KeyError, ValueError, OSError):
        raise InvalidSchedule(
            f"timezone is {show(timezone)}; pass a name of the IANA list, such as 'Europe/Berlin'",
            field="timezone",
        ) from None


def _microseconds(moment: datetime) -> int:
    return (moment - _EPOCH) // timedelta(microseconds=1)
