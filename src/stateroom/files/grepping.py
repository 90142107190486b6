"""Finding lines that hold a literal text."""

from __future__ import annotations

from typing import Any, Final

from stateroom.errors import InvalidInput
from stateroom.files.answers import answering
from stateroom.files.globs import compile_glob
from stateroom.files.listing import walk
from stateroom.files.paths import ROOT
from stateroom.files.protocol import GrepMatch, GrepResult
from stateroom.files.steps import Steps
from stateroom.files.text import matching_lines
from stateroom.files.volume import Volume
from stateroom.model.file import content_of
from stateroom.model.item import KeyEntry
from stateroom.model.text import show

__all__ = ["check_grep", "grep"]

PAGE: Final = 500
"""Files with the text that a store is asked for at once."""


@answering(GrepResult)
def grep(
    volume: Volume, pattern: str, path: str | None, glob: str | None, max_count: int | None
) -> Steps[GrepResult]:
    """Find lines that hold ``pattern``, by path and number: at most ``max_count``, and if there are more.

    Binary files have no lines, and no line holds a line feed.
    """
    check_grep(pattern, max_count)
    found: list[GrepMatch] = []
    most = None if max_count is None else max_count + 1

    def take(entry: KeyEntry) -> bool:
        content = content_of(entry.value or {})
        lines = () if isinstance(content, bytes) else matching_lines(content, pattern)
        for number, line in lines:
            found.append(GrepMatch(path=entry.key, line=number, text=line))
            if len(found) == most:
                return False
        return True

    if "\n" not in pattern:
        root, wanted = ROOT if path is None else path, compile_glob(glob) if glob else None
        size = volume.page(PAGE) if most is None else min(PAGE, most)
        yield from walk(volume, root, wanted, take, size, containing=pattern or None, values=True)
    is_cut = most is not None and len(found) == most
    return GrepResult(matches=found[:max_count], truncated=is_cut)


def check_grep(pattern: Any, max_count: Any) -> None:
    """Raise InvalidInput for a pattern that is no text, or a limit that is no number from 0."""
    if not isinstance(pattern, str):
        raise InvalidInput(f"pattern is {show(pattern)}; pass the text to look for", field="pattern")
    if max_count is None:
        return
    if not isinstance(max_count, int) or isinstance(max_count, bool) or max_count < 0:
        raise InvalidInput(
            f"max_count is {show(max_count)}; pass a number from 0, or None", field="max_count"
        )
