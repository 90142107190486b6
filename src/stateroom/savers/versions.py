"""The numbers of channels' versions, as LangGraph's savers write them."""

from __future__ import annotations

import random
from typing import Any

__all__ = ["next_version"]


def next_version(current: str | int | float | None) -> Any:
    """Return a version above ``current``: a text, or a number after one, as some old releases wrote them.

    LangGraph compares all versions of a checkpoint with each other, so that they stay of one kind. The random
    part sets versions apart that two branches of a thread give to different values.
    """
    count = 0 if current is None else int(str(current).partition(".")[0])
    # Nothing depends on nobody guessing it.
    part = random.random()  # noqa: S311
    return f"{count + 1:032}.{part:016}" if current is None or isinstance(current, str) else count + 1 + part
