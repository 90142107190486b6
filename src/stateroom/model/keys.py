"""Which keys a listing shows, by prefix, suffix and delimiter, in code-point order."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence

__all__ = ["first_behind", "rolled_up", "select_keys", "upper_bound"]

_LAST = "\U0010ffff"
_BEFORE_SURROGATES, _AFTER_SURROGATES = "\ud7ff", "\ue000"

_LEAST = "\x01"
"""The least character that a key may hold."""


def upper_bound(prefix: str) -> str | None:
    """Return the least string behind all that begin with ``prefix``; None when there is none.

    Surrogates are passed over, since they have no UTF-8 form.
    """
    kept = prefix.rstrip(_LAST)
    if not kept:
        return None
    last = kept[-1]
    return kept[:-1] + (_AFTER_SURROGATES if last == _BEFORE_SURROGATES else chr(ord(last) + 1))


def rolled_up(key: str, prefix: str, delimiter: str | None) -> str:
    """Return what a listing shows for a key: itself, or it up to the first delimiter past the prefix."""
    place = -1 if delimiter is None else key.find(delimiter, len(prefix))
    return key if place < 0 else key[: place + 1]


def first_behind(after: str, prefix: str, delimiter: str | None) -> str | None:
    """Return the least key that may be shown as something greater than ``after``; None when none may."""
    if delimiter is not None and after.startswith(prefix):
        shown = rolled_up(after, prefix, delimiter)
        if shown.endswith(delimiter) and len(shown) > len(prefix):
            return upper_bound(shown)
    return after + _LEAST


def select_keys(
    keys: Sequence[str],
    prefix: str,
    suffix: str,
    delimiter: str | None,
    after: str | None,
    counts: Callable[[str], bool],
) -> Iterator[str]:
    """Yield what a listing shows of sorted keys, in order and once each; only keys that ``counts`` count."""
    bound = upper_bound(prefix)
    end = len(keys) if bound is None else bisect_left(keys, bound)

    def place_of(least: str | None) -> int:
        return end if least is None else bisect_left(keys, least)

    place = place_of(prefix)
    if after is not None:
        place = max(place, place_of(first_behind(after, prefix, delimiter)))
    while place < end:
        key = keys[place]
        place += 1
        if key.endswith(suffix) and counts(key):
            shown = rolled_up(key, prefix, delimiter)
            yield shown
            if shown != key or (delimiter is not None and key.endswith(delimiter)):
                place = place_of(first_behind(shown, prefix, delimiter))
