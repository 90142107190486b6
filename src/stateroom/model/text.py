"""What text may be stored, and how errors spell values and the paths to them."""

from __future__ import annotations

import re
import reprlib

__all__ = ["flaw", "path_step", "show"]

_PLAIN_STEP = re.compile(r"\$?[^\W\d]\w*")


def flaw(text: str) -> str | None:
    """Say what keeps ``text`` from being stored on every back end, or return None.

    NUL cannot be stored by Postgres, and a lone surrogate has no UTF-8 form.
    """
    if "\0" in text:
        return f"holds a NUL character (U+0000) at position {text.index(chr(0))}"
    if text.isascii():
        return None
    try:
        text.encode()
    except UnicodeEncodeError as error:
        return f"holds a lone surrogate (U+{ord(text[error.start]):04X}) at position {error.start}"
    return None


def path_step(part: str | int) -> str:
    """Return how a path goes on to ``part``: ``.name``, ``["any text"]`` or ``[2]``."""
    if isinstance(part, str) and _PLAIN_STEP.fullmatch(part):
        return f".{part}"
    return f"[{show(part)}]"


def show(value: object) -> str:
    """Return a short, printable form of any object for an error message."""
    try:
        return reprlib.repr(value)
    except ValueError:
        # Python refuses to spell out integers of several thousand digits.
        return f"a huge {type(value).__name__}"
