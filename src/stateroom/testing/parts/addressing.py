"""What names an item: namespaces, keys, and the prefixes by which they are found."""

from __future__ import annotations

from enum import StrEnum
from uuid import UUID

import pytest
from langgraph.store.base import GetOp, InvalidNamespaceError, PutOp, SearchOp

from stateroom.contract.items import Capability
from stateroom.errors import InvalidNamespace
from stateroom.model.limits import KEY_BYTES_MAX, LABEL_BYTES_MAX, NAMESPACE_LABELS_MAX
from stateroom.stores.operations import DeleteItem, GetItem, PutItem
from stateroom.testing.harness import Harness, Memory
from stateroom.testing.needs import needs

__all__ = ["AddressingSuite"]

ODD_TEXTS = [
    " ",
    "  two  spaces ",
    "a/b\\c",
    "'single'",
    '"double"',
    "100%",
    "under_score",
    "*",
    "?",
    "[a-z]",
    "%",
    "_",
    "\n\t\r",
    "\x01\x1f\x7f",
    "ÄÖÜß",
    "日本語",
    "👩‍👩‍👧‍👦",
    "\U0010ffff",
    "\ufeff",
    "e\u0301",
    "\u00e9",
    "; drop table items; --",
    "null",
    "0",
    "-1",
    "{}",
    "$eq",
    "::",
    ":",
    "|",
    "~",
]
UPSTREAM_ONLY = [("with.dot",), ("a", "b.c"), (".",), ("langgraph",), ("langgraph", "inner")]


class Root(StrEnum):
    """A label that is a string and more."""

    USERS = "users"


class AddressingSuite(Harness):
    """Namespaces are tuples of labels, keys are strings; nothing else is read into either."""

    def test_an_item_is_found_at_its_namespace_and_key_only(self, memory: Memory) -> None:
        memory.put(("users", "ada"), "profile", {"n": 1})
        assert memory.read(("users", "ada"), "profile").value == {"n": 1}
        assert memory.get(("users",), "profile") is None
        assert memory.get(("users", "ada", "profile"), "profile") is None
        assert memory.get(("ada", "users"), "profile") is None
        assert memory.get(("users", "ada"), "Profile") is None
        assert memory.get((), "profile") is None

    def test_an_item_says_where_it_is(self, memory: Memory) -> None:
        memory.put(("users", "ada"), "profile", {})
        item = memory.read(("users", "ada"), "profile")
        assert (item.namespace, item.key) == (("users", "ada"), "profile")
        (hit,) = memory.search(("users",))
        assert (hit.namespace, hit.key) == (("users", "ada"), "profile")

    def test_one_key_in_two_namespaces_is_two_items(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"in": "a"})
        memory.put(("a", "b"), "k", {"in": "a b"})
        memory.delete(("a",), "k")
        assert memory.get(("a",), "k") is None
        assert memory.read(("a", "b"), "k").value == {"in": "a b"}

    def test_a_put_replaces_the_whole_value(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"old": 1, "both": 1})
        memory.put(("a",), "k", {"both": 2})
        assert memory.read(("a",), "k").value == {"both": 2}
        assert memory.count(("a",)) == 1

    def test_a_delete_removes_and_an_absent_item_may_be_deleted(self, memory: Memory) -> None:
        memory.put(("a",), "k", {})
        memory.delete(("a",), "k")
        memory.delete(("a",), "k")
        memory.delete(("never",), "there")
        assert memory.get(("a",), "k") is None
        assert memory.search(()) == []

    def test_a_put_of_none_deletes(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 1})
        memory.put(("a",), "k", None)
        assert memory.get(("a",), "k") is None

    def test_odd_labels_and_keys_are_taken_literally(self, memory: Memory) -> None:
        for text in ODD_TEXTS:
            memory.put(("odd", text), text, {"text": text})
            memory.put(("odd", text + "x"), text + "x", {"text": "other"})
        for text in ODD_TEXTS:
            assert memory.read(("odd", text), text).value == {"text": text}
            (hit,) = memory.search(("odd", text))
            assert (hit.namespace, hit.key) == (("odd", text), text)
            assert memory.count(("odd", text)) == 1
        assert memory.list_namespaces(limit=1_000) == sorted(
            ("odd", text + more) for text in ODD_TEXTS for more in ("", "x")
        )
        for text in ODD_TEXTS:
            memory.delete(("odd", text), text)
        assert set(memory.keys(("odd",), limit=1_000)) == {text + "x" for text in ODD_TEXTS}

    def test_an_empty_key_is_a_key(self, memory: Memory) -> None:
        memory.put(("a",), "", {"n": 1})
        assert memory.read(("a",), "").value == {"n": 1}
        assert memory.keys(("a",)) == [""]

    def test_composed_and_decomposed_letters_are_different_names(self, memory: Memory) -> None:
        memory.put(("é",), "é", {"form": "composed"})
        memory.put(("e\u0301",), "e\u0301", {"form": "decomposed"})
        assert memory.read(("é",), "é").value == {"form": "composed"}
        assert memory.count(()) == 2

    def test_a_key_that_is_no_string_is_its_text(self, memory: Memory) -> None:
        key = UUID(int=7)
        memory.put(("a",), key, {"n": 1})
        memory.put(("a",), 7, {"n": 2})
        assert memory.read(("a",), str(key)).value == {"n": 1}
        assert memory.read(("a",), key).key == str(key)
        assert memory.read(("a",), "7").value == {"n": 2}
        memory.delete(("a",), 7)
        assert memory.get(("a",), "7") is None

    def test_a_namespace_may_be_a_list_and_its_labels_subclasses_of_str(self, memory: Memory) -> None:
        memory.put([Root.USERS, "ada"], "k", {"n": 1})
        item = memory.read(("users", "ada"), "k")
        assert item.value == {"n": 1}
        assert type(item.namespace) is tuple
        assert [type(label) for label in memory.search(("users",))[0].namespace] == [str, str]
        assert memory.keys([Root.USERS]) == ["k"]

    def test_a_prefix_is_matched_by_whole_labels(self, memory: Memory) -> None:
        for namespace in [("user",), ("user", "1"), ("user", "12"), ("users",), ("users", "1"), ("use",)]:
            memory.put(namespace, "/".join(namespace), {})
        assert set(memory.keys(("user",))) == {"user", "user/1", "user/12"}
        assert memory.keys(("user", "1")) == ["user/1"]
        assert memory.keys(("us",)) == []
        assert memory.count(("users",)) == 2
        assert memory.count(()) == 6

    def test_a_prefix_longer_than_the_namespace_finds_nothing(self, memory: Memory) -> None:
        memory.put(("a", "b"), "k", {})
        assert memory.search(("a", "b", "k")) == []
        assert memory.count(("a", "b", "c")) == 0

    def test_a_label_does_not_split_at_any_separator(self, memory: Memory) -> None:
        names = [(separator.join(["a", "b"]),) for separator in "./:\x1f\x01, |"]
        memory.batch([PutItem(name, "k", {"labels": 1}) for name in names])
        memory.put(("a", "b"), "k", {"labels": 2})
        assert [memory.read(name, "k").value for name in names] == [{"labels": 1}] * len(names)
        assert [hit.value for hit in memory.search(("a",))] == [{"labels": 2}]
        assert memory.list_namespaces() == sorted([*names, ("a", "b")])

    def test_a_star_in_a_search_is_an_ordinary_label(self, memory: Memory) -> None:
        memory.put(("a", "b"), "other", {})
        assert memory.search(("*",)) == []
        assert memory.search(("a", "*")) == []
        memory.put(("a", "*"), "star", {})
        assert memory.keys(("a", "*")) == ["star"]
        assert memory.count(("a", "*")) == 1

    @pytest.mark.parametrize("method", ["put", "put_item"])
    def test_put_refuses_what_only_batch_may_name(self, memory: Memory, method: str) -> None:
        for namespace in UPSTREAM_ONLY:
            with pytest.raises(InvalidNamespace) as caught:
                memory.call(method, namespace, "k", {})
            position = 0 if namespace[0] == "langgraph" else len(namespace) - 1
            assert caught.value.field == f"namespace[{position}]"
            assert isinstance(caught.value, InvalidNamespaceError)
        assert memory.count(()) == 0

    def test_what_batch_has_named_can_be_read_found_and_deleted(self, memory: Memory) -> None:
        for namespace in UPSTREAM_ONLY:
            memory.batch([PutOp(namespace, "k", {"by": "op"}), PutItem(namespace, "own", {"by": "ours"})])
            assert memory.read(namespace, "k").value == {"by": "op"}
            assert sorted(memory.keys(namespace)) == ["k", "own"]
            assert memory.count(namespace) == 2
            assert memory.list_namespaces() == [namespace]
            memory.delete(namespace, "k")
            memory.batch([DeleteItem(namespace, "own")])
            assert memory.search(namespace) == []

    def test_langgraph_is_reserved_as_root_only(self, memory: Memory) -> None:
        memory.put(("a", "langgraph"), "langgraph", {"n": 1})
        memory.put(("langgraph2",), "k", {})
        assert memory.read(("a", "langgraph"), "langgraph").value == {"n": 1}

    def test_the_longest_key_is_kept_and_one_byte_more_refused(self, memory: Memory) -> None:
        longest = "é" * (KEY_BYTES_MAX // 2)
        memory.put(("a",), longest, {"n": 1})
        memory.put(("a",), "e" * KEY_BYTES_MAX, {"n": 2})
        assert memory.read(("a",), longest).key == longest
        for method, *value in (("put", {}), ("get",), ("delete",)):
            with pytest.raises(ValueError, match="8,192") as caught:
                memory.call(method, ("a",), longest + "e", *value)
            assert getattr(caught.value, "field", None) == "key"
        assert memory.count(("a",)) == 2

    def test_keys_that_differ_at_the_very_end_are_two(self, memory: Memory) -> None:
        stem = "k" * (KEY_BYTES_MAX - 1)
        memory.put(("a",), stem + "1", {"n": 1})
        memory.put(("a",), stem + "2", {"n": 2})
        assert memory.read(("a",), stem + "1").value == {"n": 1}
        assert memory.read(("a",), stem + "2").value == {"n": 2}

    def test_the_longest_label_is_kept_and_one_byte_more_refused(self, memory: Memory) -> None:
        longest = "日" * (LABEL_BYTES_MAX // 3)
        longest += "x" * (LABEL_BYTES_MAX - len(longest.encode()))
        memory.put((longest, longest), "k", {"n": 1})
        assert memory.list_namespaces() == [(longest, longest)]
        assert memory.keys((longest,)) == ["k"]
        with pytest.raises(ValueError, match="1,024") as caught:
            memory.put(("a", longest + "x"), "k", {})
        assert getattr(caught.value, "field", None) == "namespace[1]"

    @needs(Capability.FULL_LIMITS)
    def test_the_deepest_namespace_is_kept_and_one_label_more_refused(self, memory: Memory) -> None:
        deepest = tuple(f"level-{depth}" for depth in range(NAMESPACE_LABELS_MAX))
        memory.put(deepest, "k", {"n": 1})
        assert memory.read(deepest, "k").namespace == deepest
        assert memory.keys(deepest[:500]) == ["k"]
        assert memory.list_namespaces(suffix=deepest[-3:]) == [deepest]
        assert memory.list_namespaces(max_depth=2) == [deepest[:2]]
        with pytest.raises(ValueError, match="1,000") as caught:
            memory.put((*deepest, "x"), "k", {})
        assert getattr(caught.value, "field", None) == "namespace"
        memory.delete(deepest, "k")
        assert memory.list_namespaces() == []

    def test_langgraphs_operations_address_as_ours_do(self, memory: Memory) -> None:
        memory.put(("a", "b"), "k", {"n": 1})
        by_theirs, by_ours, found = memory.batch(
            [GetOp(("a", "b"), "k"), GetItem(["a", "b"], "k"), SearchOp(("a",))]
        )
        assert by_theirs.value == by_ours.value == {"n": 1}
        assert [item.namespace for item in found] == [("a", "b")]
