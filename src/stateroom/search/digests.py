"""Recognises the texts that have been embedded before."""

from __future__ import annotations

from hashlib import blake2b
from typing import Final

__all__ = ["DIGEST_BYTES", "digest"]

DIGEST_BYTES: Final = 16


def digest(text: str) -> bytes:
    """Return 16 bytes by which a text is recognised as unchanged."""
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=DIGEST_BYTES).digest()
