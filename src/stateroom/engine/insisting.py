"""Calling a storage again that cannot be reached, where giving up would lose what a run has done."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Final, TypeVar

from stateroom.errors import Unavailable

__all__ = ["INSISTING_SECONDS", "insist"]

INSISTING_SECONDS: Final = 30.0
"""How long one call is repeated before its caller hears that the storage cannot be reached."""

FIRST_PAUSE: Final = 0.05
LAST_PAUSE: Final = 2.0

T = TypeVar("T")

_log = logging.getLogger(__name__)


def insist(call: Callable[[], T], *, seconds: float = INSISTING_SECONDS) -> T:
    """Return what a call returns; while it raises Unavailable, make it again, for some time. It blocks."""
    until = time.monotonic() + seconds
    pause = FIRST_PAUSE
    while True:
        try:
            return call()
        except Unavailable as error:
            if time.monotonic() + pause > until:
                raise
            _log.warning("the storage cannot be reached, trying again: %s", error)
        threading.Event().wait(pause)
        pause = min(2 * pause, LAST_PAUSE)
