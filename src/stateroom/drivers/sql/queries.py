"""The statements that are always the same, kept in files and called by their names."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

__all__ = ["named", "queries"]

_NAME = re.compile(r"^-- name: (\w+)$", re.MULTILINE)


@cache
def queries(topic: str) -> Mapping[str, str]:
    """Return the statements of ``queries/<topic>.sql`` by their names, each as portable SQL."""
    return named(
        files("stateroom.drivers.sql").joinpath("queries", f"{topic}.sql").read_text(encoding="utf-8")
    )


def named(text: str) -> Mapping[str, str]:
    """Return the statements of a text by their names, which stand before each as ``-- name: x``."""
    _, *parts = _NAME.split(text)
    return {name: sql.strip().rstrip(";") for name, sql in zip(parts[::2], parts[1::2], strict=True)}
