"""Text as agents see and change it: windows of lines, replacements, lines that hold a text.

Lines end at a line feed and nowhere else, so that every operation counts them alike.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple

__all__ = ["Edit", "EditRefused", "Window", "changed", "matching_lines", "shown", "window_of"]

_CRLF: Final = "\r\n"

SHOWN_CHARACTERS: Final = 200
"""Characters of a text that an error message repeats."""


class Window(NamedTuple):
    """Some lines of a text, with their ends; ``start`` and ``end`` count from 1 and belong to it."""

    text: str
    total: int
    start: int
    end: int


class Edit(NamedTuple):
    """One replacement: of a text that occurs once, or of all its occurrences."""

    old_string: str
    new_string: str
    replace_all: bool = False


class EditRefused(Exception):
    """An edit cannot be made; the message says why, to whoever wanted it."""


def window_of(text: str, offset: int, limit: int) -> Window | None:
    """Return at most ``limit`` lines behind the first ``offset``; None when the text has no more than those.

    Lines that end with a carriage return and a line feed are shown with the line feed alone.
    """
    lines = text.split("\n")
    ended = not lines[-1]
    total = len(lines) - ended
    start, end = max(offset, 0), min(max(offset, 0) + limit, total)
    if start >= total:
        return None
    chosen = "\n".join(lines[start:end])
    if end < total or ended:
        chosen += "\n"
    return Window(chosen.replace("\r\n", "\n"), total, start + 1, end)


def line_count(text: str) -> int:
    """Return how many lines a text has; a line feed at its end begins no other."""
    return text.count("\n") + (not text.endswith("\n") and bool(text))


def matching_lines(text: str, pattern: str) -> Iterator[tuple[int, str]]:
    """Yield each line that holds ``pattern``, with its number from 1 and without its end."""
    if pattern not in text:
        return
    for number, line in enumerate(text.removesuffix("\n").split("\n") if text else (), 1):
        if pattern in line:
            yield number, line.removesuffix("\r")


def changed(text: str, edit: Edit) -> tuple[str, int]:
    """Return the text after an edit, and how many replacements that took; raise EditRefused.

    ``old_string`` is looked for in what ``window_of`` shows, whatever the line ends, and what replaces it
    gets the line ends that are there.
    """
    old, new, replace_all = edit
    if not old:
        raise EditRefused("old_string cannot be empty. Provide the exact text to replace.")
    if old == new:
        raise EditRefused("old_string and new_string are the same, so nothing would change.")
    has_crlf = _CRLF in text
    after, count = _replaced(text, old, new) if has_crlf else (text.replace(old, new), text.count(old))
    if not count:
        raise EditRefused(_not_found(text.replace(_CRLF, "\n"), old))
    if count > 1 and not replace_all:
        raise EditRefused(
            f"String '{shown(old)}' appears {count} times in file. Use replace_all=True to replace all of "
            "them, or give more of the surrounding text so that it occurs once."
        )
    return after, count


def _replaced(text: str, old: str, new: str) -> tuple[str, int]:
    """Replace text in which some lines end with CRLF, and count how often."""
    wanted = re.compile(re.escape(old.replace(_CRLF, "\n")).replace("\\\n", "\r?\n"))
    new = new.replace(_CRLF, "\n")
    mostly_crlf = 2 * text.count(_CRLF) > text.count("\n")

    def replacement(match: re.Match[str]) -> str:
        ends = match[0].count("\n")
        with_crlf = match[0].count(_CRLF)
        is_crlf = mostly_crlf if 0 < with_crlf < ends or not ends else with_crlf > 0
        return new.replace("\n", _CRLF) if is_crlf else new

    return wanted.subn(replacement, text)


def shown(text: str) -> str:
    """Return a text as an error message repeats it: whole if it is short, its beginning otherwise."""
    if len(text) <= SHOWN_CHARACTERS:
        return text
    return f"{text[:SHOWN_CHARACTERS]}... ({len(text):,} characters)"


def _not_found(text: str, old: str) -> str:
    bare = old.removesuffix("\n")
    if bare in ("", old) or not text.endswith(bare):
        return f"String not found in file: '{shown(old)}'"
    hint = "old_string ends with a newline, but the file does not end with a newline."
    count = text.count(bare)
    if count == 1:
        return (
            f"{hint} Leave the trailing newline out of old_string, and out of new_string if it ends so too."
        )
    return (
        f"{hint} With the trailing newline removed, old_string would appear {count} times in the file: "
        "leave it out, and give more of the surrounding text so that it occurs once."
    )
