"""Selecting keys from a sorted list, held against looking at all of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import islice

from hypothesis import example, given
from hypothesis import strategies as st
from typing_extensions import override

from stateroom.model.keys import first_behind, rolled_up, select_keys, upper_bound

# The ends of the ranges of code points that UTF-8 has, and what paths are made of.
CHARACTERS = st.sampled_from("/a.b\x01\x7f\ud7ff\ue000\uffff\U00010000\U0010ffff")
TEXTS = st.text(CHARACTERS, max_size=4)
KEYS = st.sets(st.text(CHARACTERS, max_size=6), max_size=25).map(sorted)
DELIMITERS = st.none() | CHARACTERS
SUFFIXES = st.text(CHARACTERS, max_size=2)


def obvious(
    keys: Sequence[str], prefix: str, suffix: str, delimiter: str | None, after: str | None
) -> list[str]:
    """Filter, roll up, drop what comes twice, sort, and pass over."""
    counted = [key for key in keys if key.startswith(prefix) and key.endswith(suffix)]
    shown = set()
    for key in counted:
        place = key[len(prefix) :].find(delimiter) if delimiter else -1
        shown.add(key if place < 0 else key[: len(prefix) + place + 1])
    return sorted(name for name in shown if after is None or name > after)


@given(TEXTS, st.text(CHARACTERS, max_size=3), TEXTS)
@example("a\ud7ff", "\U0010ffff", "a\ue000")
@example("\U0010ffff", "\U0010ffff", "a")
def test_the_upper_bound_is_the_least_string_behind_all_with_the_prefix(
    prefix: str, more: str, other: str
) -> None:
    bound = upper_bound(prefix)
    if bound is None:
        assert prefix.strip("\U0010ffff") == ""
        assert other < prefix or other.startswith(prefix)
        return
    bound.encode()
    assert prefix + more < bound
    assert not bound.startswith(prefix)
    assert (prefix <= other < bound) == other.startswith(prefix)


@given(TEXTS, TEXTS, CHARACTERS)
def test_a_key_is_rolled_up_to_its_first_delimiter_behind_the_prefix(
    prefix: str, rest: str, delimiter: str
) -> None:
    shown = rolled_up(prefix + rest, prefix, delimiter)
    head, found, _ = rest.partition(delimiter)
    assert shown == prefix + head + found
    assert rolled_up(prefix + rest, prefix, None) == prefix + rest


@given(KEYS, TEXTS, DELIMITERS, st.text(CHARACTERS, max_size=6))
@example(["/a/b"], "/", "/", "/a/")
@example(["/a/b", "/b"], "/", "/", "/a/c")
@example(["/"], "/", "/", "/")
def test_the_keys_from_the_first_behind_on_are_those_shown_as_something_greater(
    keys: list[str], prefix: str, delimiter: str | None, after: str
) -> None:
    least = first_behind(after, prefix, delimiter)
    for key in keys:
        if key.startswith(prefix):
            assert (least is not None and key >= least) == (rolled_up(key, prefix, delimiter) > after)


@given(KEYS, TEXTS, SUFFIXES, DELIMITERS, st.none() | st.text(CHARACTERS, max_size=6))
@example(["/", "//", "/a", "/a/", "/a/b", "/a/c/d", "/b"], "/", "", "/", "/a/b")
@example(["a/", "a/b", "a0"], "a/", "", "/", None)
def test_a_selection_is_what_looking_at_all_keys_finds(
    keys: list[str], prefix: str, suffix: str, delimiter: str | None, after: str | None
) -> None:
    found = list(select_keys(keys, prefix, suffix, delimiter, after, lambda _: True))
    assert found == obvious(keys, prefix, suffix, delimiter, after)


@given(KEYS, TEXTS, DELIMITERS, st.data())
def test_only_keys_that_count_are_shown_or_rolled_up(
    keys: list[str], prefix: str, delimiter: str | None, data: st.DataObject
) -> None:
    counted = [key for key in keys if data.draw(st.booleans())]
    found = list(select_keys(keys, prefix, "", delimiter, None, counted.__contains__))
    assert found == obvious(counted, prefix, "", delimiter, None)


@given(KEYS, TEXTS, SUFFIXES, DELIMITERS, st.integers(1, 4))
def test_pages_that_go_on_behind_their_last_key_join_to_the_whole(
    keys: list[str], prefix: str, suffix: str, delimiter: str | None, size: int
) -> None:
    everything = obvious(keys, prefix, suffix, delimiter, None)
    joined: list[str] = []
    after = None
    while page := [*islice(select_keys(keys, prefix, suffix, delimiter, after, lambda _: True), size)]:
        joined += page
        after = page[-1]
    assert joined == everything


class Counted(list[str]):
    """A list that counts how often it is looked into."""

    looks = 0

    @override
    def __getitem__(self, place: int) -> str:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(place)


def test_what_lies_elsewhere_or_is_rolled_up_is_not_looked_at() -> None:
    keys = Counted(
        sorted(f"/{top}/{deep}/{name:04}" for top in "abc" for deep in "xy" for name in range(1_000))
    )
    for prefix, delimiter, shown in (("/", "/", 3), ("/b/", "/", 2), ("/b/x/00", None, 100), ("/d", None, 0)):
        keys.looks = 0
        found = list(select_keys(keys, prefix, "", delimiter, None, lambda _: True))
        assert len(found) == shown
        # `bisect` looks into a list by itself, and about a dozen times.
        assert keys.looks < 40 * (shown + 2)
