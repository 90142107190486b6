"""The words that AegisDB sees in a text, so that a hit can be held against what was asked for."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

__all__ = ["terms"]

_TERM: Final = re.compile(rb"[A-Za-z0-9_\-.:/+#\x80-\xff]+")
_EDGES: Final = b"-.:/+#"
_DELIMITERS: Final = re.compile(rb"[_\-.:/+#]+")
_LENGTH_MAX: Final = 64


def terms(text: str) -> Iterator[bytes]:
    """Yield the terms of a text as AegisDB's tokeniser makes them.

    Letters and digits, ``_-.:/+#`` and everything beyond ASCII form a term, in lower case as far as
    ASCII goes, without punctuation at its ends; what is joined by punctuation counts in parts too.
    """
    for match in _TERM.finditer(text.encode()):
        term = match[0].strip(_EDGES)[:_LENGTH_MAX].lower()
        if not term:
            continue
        yield term
        for part in _DELIMITERS.split(term):
            if 2 <= len(part) < len(term):
                yield part
