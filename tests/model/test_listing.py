"""Selecting namespaces from a sorted list, held against doing it the obvious way."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st
from typing_extensions import override

from stateroom.model.listing import select_namespaces
from stateroom.model.namespace import Match, Namespace

LABELS = st.sampled_from(["a", "a\x01", "ab", "b", "*", "\U0010ffff", "é"])
PATHS = st.lists(LABELS, max_size=3).map(tuple)
NAMES = st.sets(st.lists(LABELS, min_size=1, max_size=4).map(tuple), max_size=12).map(sorted)
MATCHES = st.lists(st.builds(Match, st.sampled_from(["prefix", "suffix"]), PATHS), max_size=3)


def obvious(names: list[Namespace], matches: list[Match], max_depth: int | None) -> list[Namespace]:
    kept = [name for name in names if all(match.matches(name) for match in matches)]
    return sorted({name[:max_depth] for name in kept})


@given(NAMES, MATCHES, st.none() | st.integers(1, 4), st.integers(0, 5), st.integers(0, 5))
def test_a_page_is_cut_from_what_the_obvious_way_finds(
    names: list[Namespace], matches: list[Match], max_depth: int | None, limit: int, offset: int
) -> None:
    expected = obvious(names, matches, max_depth)[offset : offset + limit]
    assert select_namespaces(names, matches, max_depth, limit, offset) == expected


class Counted(list[Namespace]):
    """A list that counts how often it is looked into."""

    looks = 0

    @override
    def __getitem__(self, place: int) -> Namespace:  # type: ignore[override]
        self.looks += 1
        return super().__getitem__(place)


def test_a_cut_listing_does_not_look_at_every_name() -> None:
    names = Counted(sorted((f"org{org}", f"user{user:04}") for org in range(5) for user in range(1_000)))
    assert len(select_namespaces(names, [], 1, 100, 0)) == 5
    assert names.looks < 200
