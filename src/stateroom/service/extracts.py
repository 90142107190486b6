"""Parts of an object by their paths, so that a list need not carry whole conversations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from stateroom.errors import InvalidInput
from stateroom.model.limits import check_limit
from stateroom.model.text import path_step, show

__all__ = ["EXTRACTS_MAX", "Extracts"]

EXTRACTS_MAX: Final = 10
"""Paths that one search may extract."""

_STEP: Final = re.compile(r"(?:^|(?<=.)\.)(?P<key>[^.\[\]]+)|\[(?P<index>-?\d{1,9})\]")


class Extracts:
    """Paths under aliases, such as ``{"last": "values.messages[-1].content"}``.

    A path begins with one of ``roots`` and goes on by ``.key`` and ``[index]``; a negative index counts from
    the end. Raises InvalidInput and LimitExceeded naming the alias.
    """

    def __init__(self, paths: Mapping[str, str], roots: frozenset[str]) -> None:
        check_limit(len(paths), EXTRACTS_MAX, "paths", field="extract")
        self._steps = {alias: _steps(alias, path, roots) for alias, path in paths.items()}

    def of(self, whole: Any) -> dict[str, Any]:
        """Return what is at each path, None where nothing is."""
        return {alias: _at(whole, steps) for alias, steps in self._steps.items()}


def _steps(alias: str, path: str, roots: frozenset[str]) -> list[str | int]:
    field = f"extract{path_step(alias)}"
    steps: list[str | int] = []
    position = 0
    while found := _STEP.match(path, position):
        steps.append(int(found["index"]) if found["key"] is None else found["key"])
        position = found.end()
    if not steps or position < len(path):
        raise InvalidInput(
            f"{field} is {show(path)}, which is no path from {show(path[position:])} on; write it like "
            "values.messages[-1].content",
            field=field,
        )
    if steps[0] not in roots:
        raise InvalidInput(
            f"{field} begins with {show(steps[0])}; begin with one of {', '.join(sorted(roots))}", field=field
        )
    return steps


def _at(whole: Any, steps: list[str | int]) -> Any:
    for step in steps:
        if isinstance(step, str):
            whole = whole.get(step) if isinstance(whole, Mapping) else None
        else:
            fits = isinstance(whole, list) and -len(whole) <= step < len(whole)
            whole = whole[step] if fits else None
        if whole is None:
            return None
    return whole
