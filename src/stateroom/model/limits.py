"""Every limit on what a caller may pass, each in one place under one name."""

from __future__ import annotations

from typing import Final

from stateroom.errors import LimitExceeded

__all__ = [
    "AFTER_SECONDS_MAX",
    "BATCH_OPERATIONS_MAX",
    "DURATION_MAX",
    "FILTER_CHOICES_MAX",
    "FILTER_CONDITIONS_MAX",
    "FILTER_DEPTH_MAX",
    "IDEMPOTENCY_KEY_MAX",
    "ID_BYTES_MAX",
    "INTEGER_DIGITS_MAX",
    "KEY_BYTES_MAX",
    "LABEL_BYTES_MAX",
    "METADATA_BYTES_MAX",
    "NAMESPACE_LABELS_MAX",
    "PAGE_NUMBER_MAX",
    "RUN_BATCH_MAX",
    "TEXT_BYTES_MAX",
    "TTL_MINUTES_MAX",
    "VALUE_BYTES_MAX",
    "VALUE_DEPTH_MAX",
    "check_limit",
]

KEY_BYTES_MAX: Final = 8 * 1024
"""UTF-8 bytes of an item's key."""

LABEL_BYTES_MAX: Final = 1024
"""UTF-8 bytes of one label of a namespace."""

NAMESPACE_LABELS_MAX: Final = 1000
"""Labels in one namespace."""

VALUE_BYTES_MAX: Final = 32 * 1024 * 1024
"""Bytes of one item's value as JSON."""

VALUE_DEPTH_MAX: Final = 200
"""Levels of objects and arrays inside each other, the outermost counted as the first."""

INTEGER_DIGITS_MAX: Final = 1000
"""Decimal digits of one integer in a value, the sign not counted."""

BATCH_OPERATIONS_MAX: Final = 50_000
"""Operations in one batch."""

FILTER_DEPTH_MAX: Final = 50
"""Levels of ``$and``, ``$or`` and ``$not`` inside each other, the filter itself counted as the first."""

FILTER_CONDITIONS_MAX: Final = 1000
"""Comparisons in one filter."""

FILTER_CHOICES_MAX: Final = 10_000
"""Operands in one list that ``$in``, ``$nin`` or ``$contains`` is given."""

ID_BYTES_MAX: Final = 255
"""UTF-8 bytes of the id of a thread, run, assistant, cron or delivery."""

TEXT_BYTES_MAX: Final = 64 * 1024
"""UTF-8 bytes of a name, a description, an address or the like."""

METADATA_BYTES_MAX: Final = 1024 * 1024
"""Bytes of the metadata of a thread, run, assistant or cron as JSON."""

RUN_BATCH_MAX: Final = 100
"""Runs that one call makes."""

AFTER_SECONDS_MAX: Final = 24 * 60 * 60
"""Seconds that a run may be put off by."""

IDEMPOTENCY_KEY_MAX: Final = 255
"""Characters of an ``Idempotency-Key``."""

PAGE_NUMBER_MAX: Final = 2**63 - 1
"""The largest limit or offset, which is what databases can count to."""

TTL_MINUTES_MAX: Final = 1000 * 365 * 24 * 60
"""The longest time to live: a thousand years, so that every expiry is a date that can be written."""

DURATION_MAX: Final = TTL_MINUTES_MAX * 60 * 1_000_000
"""Microseconds of a lease, a delay or the like, so that it can be added to any time."""


def check_limit(seen: int, limit: int, unit: str, *, field: str) -> None:
    """Raise LimitExceeded if ``seen``, a count of ``unit`` (a plural noun), is above ``limit``."""
    if seen > limit:
        raise LimitExceeded(f"{field} has {seen:,} {unit}; at most {limit:,} are allowed", field=field)
