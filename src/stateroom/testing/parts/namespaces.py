"""Which namespaces there are, and how they are listed."""

from __future__ import annotations

from typing import Any

from langgraph.store.base import ListNamespacesOp

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.stores.operations import PutItem
from stateroom.testing.harness import Harness, Memory
from stateroom.testing.needs import needs

__all__ = ["NamespacesSuite"]

TREE = [
    ("users",),
    ("users", "ada", "notes"),
    ("users", "ada", "files"),
    ("users", "bob", "notes"),
    ("users", "bob", "notes", "old"),
    ("usersx", "ada", "notes"),
    ("teams", "core", "notes"),
    ("notes",),
    ("*", "notes"),
]

LISTINGS: list[tuple[dict[str, Any], list[tuple[str, ...]]]] = [
    ({}, sorted(TREE)),
    ({"prefix": ()}, sorted(TREE)),
    ({"prefix": None, "suffix": None, "max_depth": None}, sorted(TREE)),
    (
        {"prefix": ("users",)},
        [
            ("users",),
            ("users", "ada", "files"),
            ("users", "ada", "notes"),
            ("users", "bob", "notes"),
            ("users", "bob", "notes", "old"),
        ],
    ),
    ({"prefix": ["users", "ada"]}, [("users", "ada", "files"), ("users", "ada", "notes")]),
    ({"prefix": ("user",)}, []),
    (
        {"prefix": ("users", "*", "notes")},
        [("users", "ada", "notes"), ("users", "bob", "notes"), ("users", "bob", "notes", "old")],
    ),
    (
        {"prefix": ("*", "ada")},
        [("users", "ada", "files"), ("users", "ada", "notes"), ("usersx", "ada", "notes")],
    ),
    ({"prefix": ("*",)}, sorted(TREE)),
    ({"prefix": ("*", "*", "*", "*")}, [("users", "bob", "notes", "old")]),
    ({"prefix": ("users", "bob", "notes", "old", "*")}, []),
    ({"prefix": ("*", "notes")}, [("*", "notes")]),
    (
        {"suffix": ("notes",)},
        [
            ("*", "notes"),
            ("notes",),
            ("teams", "core", "notes"),
            ("users", "ada", "notes"),
            ("users", "bob", "notes"),
            ("usersx", "ada", "notes"),
        ],
    ),
    (
        {"suffix": ("ada", "*")},
        [("users", "ada", "files"), ("users", "ada", "notes"), ("usersx", "ada", "notes")],
    ),
    ({"suffix": ("*", "ada", "notes")}, [("users", "ada", "notes"), ("usersx", "ada", "notes")]),
    ({"suffix": ("otes",)}, []),
    ({"prefix": ("users",), "suffix": ("notes",)}, [("users", "ada", "notes"), ("users", "bob", "notes")]),
    ({"prefix": ("users", "ada", "notes"), "suffix": ("users", "ada", "notes")}, [("users", "ada", "notes")]),
    ({"prefix": ("users", "ada"), "suffix": ("bob", "notes")}, []),
    ({"max_depth": 1}, [("*",), ("notes",), ("teams",), ("users",), ("usersx",)]),
    (
        {"max_depth": 2},
        [
            ("*", "notes"),
            ("notes",),
            ("teams", "core"),
            ("users",),
            ("users", "ada"),
            ("users", "bob"),
            ("usersx", "ada"),
        ],
    ),
    ({"max_depth": 1_000_000}, sorted(TREE)),
    ({"prefix": ("users",), "max_depth": 1}, [("users",)]),
    ({"prefix": ("users", "ada"), "max_depth": 1}, [("users",)]),
    ({"prefix": ("users", "*"), "max_depth": 2}, [("users", "ada"), ("users", "bob")]),
    ({"suffix": ("notes",), "max_depth": 1}, [("*",), ("notes",), ("teams",), ("users",), ("usersx",)]),
    ({"suffix": ("old",), "max_depth": 3}, [("users", "bob", "notes")]),
    ({"limit": 2}, [("*", "notes"), ("notes",)]),
    ({"limit": 2, "offset": 2}, [("teams", "core", "notes"), ("users",)]),
    ({"max_depth": 1, "limit": 2, "offset": 2}, [("teams",), ("users",)]),
    ({"max_depth": 1, "limit": 10, "offset": 4}, [("usersx",)]),
    (
        {"prefix": ("users",), "suffix": ("notes",), "max_depth": 2, "limit": 1, "offset": 1},
        [("users", "bob")],
    ),
    ({"limit": 0}, []),
    ({"offset": 100}, []),
]


class NamespacesSuite(Harness):
    """A namespace is there as long as a live item is in it."""

    def test_a_listing_selects_cuts_sorts_and_pages(self, memory: Memory) -> None:
        memory.batch([PutItem(namespace, "k", {}) for namespace in TREE])
        listed = [(conditions, memory.list_namespaces(**conditions)) for conditions, _ in LISTINGS]
        assert listed == LISTINGS

    def test_a_namespace_is_listed_once_however_many_items_it_has(self, memory: Memory) -> None:
        memory.batch([PutItem(("a", str(n % 2)), str(n), {}) for n in range(20)])
        assert memory.list_namespaces() == [("a", "0"), ("a", "1")]
        assert memory.list_namespaces(max_depth=1) == [("a",)]

    def test_namespaces_sort_label_by_label_in_code_point_order_the_shorter_first(
        self, memory: Memory
    ) -> None:
        names = [
            ("a",),
            ("a", "b"),
            ("a", "b", "c"),
            ("a b",),
            ("a!",),
            ("a", "!"),
            ("a\x01",),
            ("ab",),
            ("B",),
            ("Z", "z"),
            ("é",),
            ("z",),
            ("\uffff",),
            ("\U00010000",),
            ("10",),
            ("9",),
        ]
        memory.batch([PutItem(name, "k", {}) for name in reversed(names)])
        assert memory.list_namespaces() == sorted(names)

    def test_a_parent_without_items_is_no_namespace(self, memory: Memory) -> None:
        memory.put(("a", "b", "c"), "k", {})
        assert memory.list_namespaces() == [("a", "b", "c")]

    def test_reading_and_deleting_create_no_namespace(self, memory: Memory) -> None:
        memory.get(("read",), "k")
        memory.search(("searched", "x"))
        memory.count(("counted",))
        memory.delete(("deleted",), "k")
        memory.list_namespaces(prefix=("listed",))
        assert memory.list_namespaces() == []

    def test_a_namespace_ends_with_its_last_item(self, memory: Memory) -> None:
        memory.put(("a", "b"), "one", {})
        memory.put(("a", "b"), "two", {})
        memory.put(("a", "b", "c"), "k", {})
        memory.delete(("a", "b"), "one")
        assert memory.list_namespaces() == [("a", "b"), ("a", "b", "c")]
        memory.delete(("a", "b"), "two")
        assert memory.list_namespaces() == [("a", "b", "c")]
        memory.put(("a", "b"), "one", {})
        assert memory.list_namespaces() == [("a", "b"), ("a", "b", "c")]

    @needs(Capability.TTL)
    def test_a_namespace_of_expired_items_is_not_listed(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("gone", "x"), "k", {}, ttl=1)
        memory.put(("half",), "gone", {}, ttl=1)
        memory.put(("half",), "stays", {}, ttl=9)
        clock.advance(minutes=1)
        for _ in range(2):
            assert memory.list_namespaces() == [("half",)]
            assert memory.list_namespaces(suffix=("*",), max_depth=1) == [("half",)]
            assert memory.list_namespaces(limit=1, offset=1) == []
            memory.sweep_ttl()
        memory.put(("gone", "x"), "k", {})
        assert memory.list_namespaces() == [("gone", "x"), ("half",)]

    @needs(Capability.TTL)
    def test_a_refreshed_item_keeps_its_namespace_listed(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(("a",), "k", {}, ttl=10)
        clock.advance(minutes=6)
        memory.get(("a",), "k", refresh_ttl=True)
        clock.advance(minutes=6)
        assert memory.list_namespaces() == [("a",)]

    def test_a_listing_answers_a_hundred_unless_told_otherwise(self, memory: Memory) -> None:
        memory.batch([PutItem(("n", f"{n:03}"), "k", {}) for n in range(120)])
        assert memory.list_namespaces() == [("n", f"{n:03}") for n in range(100)]
        assert memory.batch([ListNamespacesOp()]) == [memory.list_namespaces()]
        assert memory.list_namespaces(limit=30, offset=100) == [("n", f"{n:03}") for n in range(100, 120)]

    def test_pages_of_cut_namespaces_cut_one_order(self, memory: Memory) -> None:
        memory.batch([PutItem((f"{n // 4:02}", str(n % 4), "x"), "k", {}) for n in range(60)])
        everything = [(f"{n:02}",) for n in range(15)]
        assert memory.list_namespaces(max_depth=1) == everything
        pages = [memory.list_namespaces(max_depth=1, limit=4, offset=start) for start in range(0, 16, 4)]
        assert [name for page in pages for name in page] == everything

    def test_an_empty_store_has_no_namespaces(self, memory: Memory) -> None:
        assert memory.list_namespaces() == []
        assert memory.list_namespaces(prefix=("*",), suffix=("*",), max_depth=3) == []
