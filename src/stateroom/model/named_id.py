"""Which ids callers may give to what they make."""

from __future__ import annotations

import re
from typing import Final

from stateroom.errors import InvalidInput
from stateroom.model.text import show

__all__ = ["NAMED_ID_PATTERN", "check_named_id"]

NAMED_ID_PATTERN: Final = "^[A-Za-z0-9_.:@-]{1,255}$"
"""Ids that need no quoting in a path: a UUID, a number, an address, a name."""

_PATTERN: Final = re.compile(NAMED_ID_PATTERN)


def check_named_id(value: str, field: str) -> str:
    """Return an id; raise InvalidInput for what could not stand in a path."""
    if not _PATTERN.fullmatch(value):
        raise InvalidInput(
            f"{field} is {show(value)}; pass 1 to 255 letters, digits and characters of '_.:@-'", field=field
        )
    return value
