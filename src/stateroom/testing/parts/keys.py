"""Which keys a namespace has, and how they are listed."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import product
from typing import Any

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.model.item import KeyEntry
from stateroom.model.limits import KEY_BYTES_MAX
from stateroom.stores.operations import DeleteItem, ListItemKeys, PutItem
from stateroom.testing.harness import Harness, Memory
from stateroom.testing.needs import needs
from stateroom.testing.parts.key_entries import told
from stateroom.testing.snapshot import snapshot

__all__ = ["KeysSuite"]

N = ("a", "b")

# In order: what ends a range, what means something to a storage's own patterns, and what sorts elsewhere than
# by code point when it is folded, collated or cut into units of 16 bits.
KEYS = [
    *(
        "",
        "\x01",
        " ",
        "!",
        "%",
        "/",
        "//",
        "/A/b",
        "/a",
        "/a\x01",
        "/a%b",
        "/a'b",
        "/a*b",
        "/a.md",
        "/a/",
        "/a/b",
    ),
    *("/a/b.md", "/a/b.txt", "/a/b/c.md", "/a/c.md", "/a/é.md", "/a?b", "/aXb", "/a[b]", "/a\\b", "/a_b"),
    *("/ab/c.md", "/e\u0301/x", "/é/x", "/\ud7ff/x", "/\ue000/x", "/\uffff/x", "/\U00010000/x", "/😀/x"),
    *("/\U0010ffff", "/\U0010ffff/x", "10", "9", "Z", "a", "aéb.md", "z", "\x7f", "é", "\uffff", "😀"),
    *("\U0010ffff", "\U0010ffff\U0010ffff/x"),
]
PREFIXES = [
    *("", "/", "/a", "/a/", "/a/b", "/a_", "/a%", "/a*", "/a?", "/a[", "/a'", "/a\\", "/e", "/é", "/É"),
    *("/\ud7ff", "/\uffff", "/😀", "/\U0010ffff", "\U0010ffff", "1", "absent", "/a/b.md and more"),
]
SUFFIXES = ["", ".md", ".MD", "/", "b", "x", "_b", "%b", "\\b", "a/b.md", "😀", "\U0010ffff"]
DELIMITERS = [None, "/", "b", "é", "%", "_", "😀"]
AFTERS = [None, "", "/", "/a", "/a/", "/a/b", "/a/b/zzz", "/a/~", "/\ud7ff", "/😀/", "9!", "\U0010ffff"]


def obvious(keys: Iterable[str], **asked: Any) -> list[str]:
    """Return the keys of a listing found by looking at all of them."""
    prefix, suffix = asked.get("prefix", ""), asked.get("suffix", "")
    delimiter, after = asked.get("delimiter"), asked.get("after")
    shown = set()
    for key in keys:
        if key.startswith(prefix) and key.endswith(suffix):
            head, found, _ = key[len(prefix) :].partition(delimiter) if delimiter else (key, "", "")
            shown.add(prefix + head + found if found else key)
    return sorted(key for key in shown if after is None or key > after)


def filled(memory: Memory) -> Memory:
    """Put all keys, and neighbours that no listing may show."""
    for place in (("a",), (*N, "c"), ("a", "bc"), ("a", "B"), ("ab",), ("b", "a")):
        memory.batch([PutItem(place, key, {}) for key in ("/a/stranger.md", "stranger", "")])
    memory.batch([PutItem(N, key, {}) for key in reversed(KEYS)])
    return memory


class KeysSuite(Harness):
    """The keys in one namespace are listed by how they begin and end, like the names in a directory."""

    def test_keys_of_exactly_one_namespace_are_listed(self, memory: Memory) -> None:
        places = [("a",), N, (*N, "c"), ("a", "bc"), ("a", "B"), ("a", "%"), ("*", "b"), ("ab",), ("b",)]
        for place in places:
            memory.put(place, "/".join(place), {})
        for place in places:
            assert memory.listed(place) == memory.listed([*place]) == ["/".join(place)]
        for place in ((), ("*",), ("a", "*"), ("_", "b"), ("c",)):
            assert memory.list_keys(place) == []

    def test_a_key_is_listed_while_its_item_is_there(self, memory: Memory) -> None:
        for key in "bca":
            memory.put(N, key, {})
        memory.put(N, "b", {"n": 2})
        assert memory.listed(N) == ["a", "b", "c"]
        memory.delete(N, "b")
        memory.delete((*N, "c"), "a")
        assert memory.listed(N) == ["a", "c"]
        memory.put(N, "b", {})
        assert memory.listed(N) == ["a", "b", "c"]
        assert memory.listed(N, delimiter="b") == ["a", "b", "c"]

    def test_the_order_is_by_code_point(self, memory: Memory) -> None:
        filled(memory)
        assert memory.listed(N) == sorted(KEYS)
        some = ["Z", "a", "é", "\uffff", "\U00010000", "😀"]
        for place, key in enumerate(some):
            memory.put(("c", str(place % 2)), key, {})
            memory.put(("c",), key, {})
        assert memory.listed(("c",)) == some

    def test_only_keys_with_the_prefix_are_listed(self, memory: Memory) -> None:
        filled(memory)
        for prefix in PREFIXES:
            assert memory.listed(N, prefix=prefix) == obvious(KEYS, prefix=prefix), prefix

    def test_only_keys_with_the_suffix_are_listed(self, memory: Memory) -> None:
        filled(memory)
        for suffix in SUFFIXES:
            assert memory.listed(N, suffix=suffix) == obvious(KEYS, suffix=suffix), suffix
        # The two may share characters, as they do not behind a pattern with something between them.
        assert memory.listed(N, prefix="/a/b", suffix="a/b.md") == ["/a/b.md"]
        assert memory.listed(N, prefix="/a", suffix="/a") == ["/a"]

    def test_keys_are_rolled_up_at_the_first_delimiter_behind_the_prefix(self, memory: Memory) -> None:
        paths = ["/a.md", "/b/c.md", "/b/d/e.md", "/b/d/f.md", "/b/g.md", "/c/", "/h//i.md", "/é/a/b.md"]
        memory.batch([PutItem(N, path, {}) for path in paths])

        def ls(prefix: str, **more: Any) -> list[tuple[str, bool]]:
            entries = memory.list_keys(N, prefix=prefix, delimiter="/", **more)
            return [(entry.key, entry.is_prefix) for entry in entries]

        assert ls("/") == [("/a.md", False), ("/b/", True), ("/c/", True), ("/h/", True), ("/é/", True)]
        assert ls("/b/") == [("/b/c.md", False), ("/b/d/", True), ("/b/g.md", False)]
        assert ls("/b") == [("/b/", True)]
        assert ls("/b/d/") == [("/b/d/e.md", False), ("/b/d/f.md", False)]
        assert ls("/c/") == [("/c/", False)]
        assert ls("/h/") == [("/h//", True)]
        assert ls("") == [("/", True)]
        assert ls("/", suffix="d/f.md") == [("/b/", True)]
        assert ls("/", suffix="/") == [("/c/", True)]
        assert [entry.is_prefix for entry in memory.list_keys(N)] == [False] * len(paths)

    def test_every_choice_answers_what_looking_at_all_keys_would(self, memory: Memory) -> None:
        filled(memory)
        for prefix, suffix, delimiter in product(PREFIXES[:4], SUFFIXES[:2], DELIMITERS):
            asked = {"prefix": prefix, "suffix": suffix, "delimiter": delimiter}
            assert memory.listed(N, **asked) == obvious(KEYS, **asked), asked

    def test_keys_up_to_after_are_passed_over(self, memory: Memory) -> None:
        filled(memory)
        for after, prefix, delimiter in product(AFTERS, ["", "/", "/a/"], DELIMITERS[:3]):
            asked = {"after": after, "prefix": prefix, "delimiter": delimiter}
            assert memory.listed(N, **asked) == obvious(KEYS, **asked), asked

    def test_pages_join_to_the_whole(self, memory: Memory) -> None:
        filled(memory)
        for prefix, delimiter in product(["", "/", "/a/"], [None, "/"]):
            asked = {"prefix": prefix, "delimiter": delimiter}
            everything = told(memory.list_keys(N, **asked))
            for size in (1, 3, len(everything)):
                joined: list[KeyEntry] = []
                after = None
                while page := memory.list_keys(N, **asked, limit=size, after=after):
                    assert len(page) <= size
                    joined += page
                    after = page[-1].key
                assert told(joined) == everything

    def test_pages_go_on_behind_a_key_that_is_gone(self, memory: Memory) -> None:
        for key in ("/a", "/b/x", "/c", "/d"):
            memory.put(N, key, {})
        assert memory.listed(N, prefix="/", delimiter="/", limit=2) == ["/a", "/b/"]
        memory.delete(N, "/b/x")
        memory.put(N, "/b/y", {})
        memory.put(N, "/bb", {})
        assert memory.listed(N, prefix="/", delimiter="/", after="/b/", limit=2) == ["/bb", "/c"]
        memory.delete(N, "/c")
        assert memory.listed(N, prefix="/", after="/c") == memory.listed(N, after="/c") == ["/d"]

    def test_a_limit_counts_entries_that_are_shown(self, memory: Memory) -> None:
        filled(memory)
        memory.put(N, "/a/z.md", {"t": "needle"})
        assert memory.list_keys(N, limit=0) == memory.list_keys(N, limit=0, values=True) == []
        assert memory.listed(N, prefix="/a/", limit=2) == ["/a/", "/a/b"]
        assert memory.listed(N, prefix="/", suffix=".md", delimiter="/", limit=3) == ["/a.md", "/a/", "/ab/"]
        assert memory.listed(N, containing="needle", limit=1) == ["/a/z.md"]
        assert memory.listed(N, limit=2**63 - 1) == sorted([*KEYS, "/a/z.md"])

    def test_a_listing_answers_a_thousand_unless_told_otherwise(self, memory: Memory) -> None:
        keys = [f"{number:04}" for number in range(1_003)]
        memory.batch([PutItem(N, key, {}) for key in keys])
        assert memory.listed(N) == keys[:1_000]
        assert [entry.key for entry in memory.batch([ListItemKeys(N)])[0]] == keys[:1_000]
        assert memory.listed(N, after=keys[999]) == keys[1_000:]
        assert memory.listed(N, delimiter="0", limit=3) == ["0", "10"]

    def test_keys_of_any_length_are_told_apart_and_sorted(self, memory: Memory) -> None:
        stem = "/" + "k" * (KEY_BYTES_MAX - 2)
        for end in "cab":
            memory.put(N, stem + end, {})
        memory.put(N, stem, {})
        assert memory.listed(N, prefix=stem[:-1]) == [stem, *(stem + end for end in "abc")]
        assert memory.listed(N, prefix=stem, suffix="kb", delimiter="/") == [stem + "b"]
        assert memory.listed(N, after=stem + "a", limit=1) == [stem + "b"]
        assert memory.list_keys(N, prefix=stem + "a" * 10_000) == []

    def test_a_batch_lists_what_it_has_put_before(self, memory: Memory) -> None:
        memory.put(N, "/old", {"content": ["one"]})
        asked = ListItemKeys(N, values=True)
        results = memory.batch(
            [
                asked,
                PutItem(N, "/new", {"content": ["three"]}),
                PutItem((*N, "c"), "/other", {}),
                asked,
                DeleteItem(N, "/old"),
                ListItemKeys(N, "/", ".md", "/", "/a", 5, "x", values=True),
                asked,
            ]
        )
        listed = [[(one.key, one.size) for one in results[place]] for place in (0, 3, 5, 6)]
        assert listed == [[("/old", 3)], [("/new", 5), ("/old", 3)], [], [("/new", 5)]]
        assert results[6][0].value == {"content": ["three"]}

    def test_listing_changes_nothing_and_creates_no_namespace(self, memory: Memory) -> None:
        filled(memory)
        before = snapshot(memory)
        for asked in ({}, {"values": True}, {"delimiter": "/", "prefix": "/"}, {"containing": "x"}):
            memory.list_keys(N, **asked)
            assert memory.list_keys(("ghost",), **asked) == memory.list_keys(("a", "ghost"), **asked) == []
        assert snapshot(memory) == before

    @needs(Capability.TTL)
    def test_the_key_of_an_expired_item_is_not_listed(self, memory: Memory, clock: ManualClock) -> None:
        for path, ttl in (("/a/gone", 1), ("/b/gone", 1), ("/b/stays", 9), ("/c", 1), ("/d", None)):
            memory.put(N, path, {"content": ["word"]}, ttl=ttl)
        clock.advance(minutes=1)
        for _ in range(2):
            assert memory.listed(N) == ["/b/stays", "/d"]
            assert memory.listed(N, prefix="/", delimiter="/") == ["/b/", "/d"]
            assert memory.listed(N, containing="word", limit=1) == ["/b/stays"]
            assert memory.listed(N, values=True, suffix="gone") == []
            memory.sweep_ttl()
        memory.put(N, "/c", {"content": ["again"]})
        assert [(one.key, one.size) for one in memory.list_keys(N)] == [("/b/stays", 4), ("/c", 5), ("/d", 4)]

    @needs(Capability.TTL)
    def test_listing_keys_refreshes_nothing(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(N, "/k", {"content": ["word"]}, ttl=10)
        clock.advance(minutes=6)
        for asked in ({}, {"values": True}, {"containing": "word", "values": True}, {"delimiter": "/"}):
            assert memory.list_keys(N, **asked)
        memory.batch([ListItemKeys(N, values=True)])
        clock.advance(minutes=4)
        assert memory.listed(N) == []
        assert memory.get(N, "/k") is None
