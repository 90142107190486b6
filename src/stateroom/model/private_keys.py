"""Which keys of a configuration name what nobody may keep."""

from __future__ import annotations

import re
from itertools import pairwise
from typing import Final

__all__ = ["is_private"]

_PRIVATE_WORDS: Final = frozenset(
    {
        *("auth", "authorization", "apikey", "bearer", "cookie", "cookies", "credential", "credentials"),
        *("jwt", "passphrase", "passwd", "password", "secret", "secrets", "token"),
    }
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")


def is_private(key: str) -> bool:
    """Tell whether a key stays out of what is kept and shown: ``_any``, or one that names a credential.

    A credential is named by a word such as auth, token, secret, password, jwt, or by api key.
    """
    words = [word.lower() for word in _WORD.findall(key)]
    pairs = {first + second for first, second in pairwise(words)}
    return key.startswith("_") or not _PRIVATE_WORDS.isdisjoint({*words, *pairs})
