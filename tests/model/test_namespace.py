"""The rules for namespaces and keys."""

from __future__ import annotations

from enum import Enum
from typing import Any, NamedTuple
from uuid import UUID

import pytest
from hypothesis import given
from langgraph.store.base import InvalidNamespaceError

from stateroom.errors import InvalidKey, InvalidNamespace, LimitExceeded
from stateroom.model.limits import KEY_BYTES_MAX, LABEL_BYTES_MAX, NAMESPACE_LABELS_MAX
from stateroom.model.namespace import (
    Namespace,
    check_key,
    check_match,
    check_namespace,
    check_put_namespace,
    decode,
    encode,
    has_prefix,
    prefix_range,
)
from tests.model.strategies import namespaces


class Text(str):
    """A string that is not exactly one."""

    __slots__ = ()


class Colour(str, Enum):  # noqa: UP042  # unlike StrEnum's, its str() is not its text
    RED = "red"


class Pair(NamedTuple):
    first: str
    second: str


@pytest.mark.parametrize(
    "namespace",
    [
        (),
        ("user", "1"),
        ("langgraph", "x"),
        ("*",),
        ("a:b", "c/d", "e|f"),
        ("u%", "user_1"),
        (" ", "a\nb"),
        ("naïve 😀",),
    ],
)
def test_ordinary_labels_are_accepted_as_they_are(namespace: Namespace) -> None:
    assert check_namespace(namespace) == namespace
    assert check_namespace(list(namespace)) == namespace


@pytest.mark.parametrize(
    ("namespace", "field", "part"),
    [
        ("notes", "ns", "('notes',)"),
        (None, "ns", "None"),
        ({"a": 1}, "ns", "tuple of strings"),
        ((None, "f"), "ns[0]", "None"),
        (("u", 5), "ns[1]", "5"),
        (("u", True), "ns[1]", "True"),
        (("u", b"x"), "ns[1]", "b'x'"),
        (("u", ["x"]), "ns[1]", "['x']"),
        (("u", ""), "ns[1]", "empty"),
        (("a", "b\0"), "ns[1]", "U+0000"),
        (("a", "x\ud800"), "ns[1]", "U+D800"),
        ((10**5000,), "ns[0]", "huge int"),
    ],
)
def test_a_bad_namespace_is_refused_by_position_and_value(namespace: Any, field: str, part: str) -> None:
    for _ in range(2):
        with pytest.raises(InvalidNamespace) as caught:
            check_namespace(namespace, field="ns")
        assert caught.value.field == field
        assert str(caught.value).startswith(field)
        assert part in str(caught.value)


def test_the_namespace_error_is_one_that_langgraph_callers_catch() -> None:
    with pytest.raises(InvalidNamespaceError):
        check_namespace(("",))


def test_subclasses_of_strings_and_tuples_become_plain_whether_seen_before_or_not() -> None:
    for _ in range(2):
        labels = check_namespace((Text("subclass-first"), Colour.RED))
        assert labels == ("subclass-first", "red")
        assert [type(label) for label in labels] == [str, str]
    check_namespace(("plain-first",))
    assert type(check_namespace((Text("plain-first"),))[0]) is str
    pair = check_namespace(Pair("a", "b"))
    assert type(pair) is tuple
    assert pair == ("a", "b")


def test_labels_are_counted_and_measured_in_bytes() -> None:
    check_namespace(("a",) * NAMESPACE_LABELS_MAX)
    with pytest.raises(LimitExceeded, match=r"1,001 labels; at most 1,000") as caught:
        check_namespace(("a",) * (NAMESPACE_LABELS_MAX + 1), field="ns")
    assert caught.value.field == "ns"
    check_namespace(("é" * (LABEL_BYTES_MAX // 2),))
    with pytest.raises(LimitExceeded, match=r"1,026 bytes; at most 1,024") as caught:
        check_namespace(("é" * (LABEL_BYTES_MAX // 2 + 1),), field="ns")
    assert caught.value.field == "ns[0]"


@pytest.mark.parametrize("namespace", [(), ("langgraph",), ("langgraph", "x")])
def test_put_refuses_the_empty_namespace_and_langgraphs_root(namespace: Namespace) -> None:
    with pytest.raises(InvalidNamespace):
        check_put_namespace(namespace)


def test_put_accepts_langgraph_below_the_root() -> None:
    assert check_put_namespace(["x", "langgraph"]) == ("x", "langgraph")


@pytest.mark.parametrize(
    "key",
    ["", "my-doc.md#0", "a.b", "a/b", "user@example.org", "it's", "100%", "naïve 😀", " lead", "..", "a\\b"],
)
def test_any_text_is_a_key(key: str) -> None:
    assert check_key(key) == key


@pytest.mark.parametrize(
    ("key", "text"),
    [
        (7, "7"),
        (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
        (Text("t"), "t"),
        (Colour.RED, "red"),
    ],
)
def test_other_keys_become_plain_text(key: Any, text: str) -> None:
    assert check_key(key) == text
    assert type(check_key(key)) is str


@pytest.mark.parametrize("key", [None, b"x", bytearray(b"x"), memoryview(b"x"), "a\0", "\ud800", "é\udfff"])
def test_a_key_that_is_no_text_is_refused(key: Any) -> None:
    with pytest.raises(InvalidKey, match=r"^k ") as caught:
        check_key(key, "k")
    assert caught.value.field == "k"


def test_keys_are_measured_in_bytes() -> None:
    for letter in ("a", "é"):
        longest = letter * (KEY_BYTES_MAX // len(letter.encode()))
        assert check_key(longest) == longest
        with pytest.raises(LimitExceeded, match=r"at most 8,192") as caught:
            check_key(longest + letter)
        assert caught.value.field == "key"


@given(namespaces, namespaces)
def test_encoded_namespaces_sort_as_namespaces_do(left: Namespace, right: Namespace) -> None:
    assert (encode(left) < encode(right)) is (left < right)
    assert (encode(left) == encode(right)) is (left == right)


@given(namespaces)
def test_decoding_gives_back_what_was_encoded(namespace: Namespace) -> None:
    assert decode(encode(namespace)) == namespace


@given(namespaces, namespaces, namespaces)
def test_the_byte_range_of_a_prefix_is_the_prefix_by_whole_labels(
    prefix: Namespace, rest: Namespace, other: Namespace
) -> None:
    low, high = prefix_range(prefix)
    for namespace in (prefix + rest, other):
        in_range = low <= encode(namespace) and (high is None or encode(namespace) < high)
        assert in_range is has_prefix(namespace, prefix)
    assert has_prefix(prefix + rest, prefix)


def test_a_prefix_is_made_of_whole_labels() -> None:
    stored = [("user", "1"), ("user", "12"), ("user_1",), ("userX1",), ("u%",)]
    assert [each for each in stored if has_prefix(each, ("user", "1"))] == [("user", "1")]
    assert [each for each in stored if has_prefix(each, ("user_1",))] == [("user_1",)]
    assert [each for each in stored if has_prefix(each, ("u%",))] == [("u%",)]
    assert [each for each in stored if has_prefix(each, ())] == stored
    assert not has_prefix(("user",), ("*",))


@pytest.mark.parametrize(
    ("kind", "path", "namespace", "selected"),
    [
        ("prefix", (), (), True),
        ("prefix", (), ("a",), True),
        ("suffix", (), ("a",), True),
        ("prefix", ("a",), ("a", "b"), True),
        ("prefix", ("a",), ("ab",), False),
        ("prefix", ("b",), ("a", "b"), False),
        ("prefix", ("a", "*"), ("a",), False),
        ("prefix", ("a", "*"), ("a", "b"), True),
        ("prefix", ("a", "*"), ("a", "b", "c"), True),
        ("prefix", ("*", "b"), ("a", "b"), True),
        ("prefix", ("*", "b"), ("a", "c"), False),
        ("suffix", ("b",), ("a", "b"), True),
        ("suffix", ("a",), ("a", "b"), False),
        ("suffix", ("*",), ("a", "b"), True),
        ("suffix", ("*",), (), False),
        ("suffix", ("*", "c"), ("a", "b", "c"), True),
        ("suffix", ("a", "*"), ("a", "b", "c"), False),
        ("suffix", ("1",), ("user", "12"), False),
        ("suffix", ("a", "b", "c"), ("b", "c"), False),
    ],
)
def test_a_pattern_selects_by_position(
    kind: str, path: Namespace, namespace: Namespace, selected: bool
) -> None:
    assert check_match(kind, list(path)).matches(namespace) is selected


@given(namespaces, namespaces)
def test_a_prefix_pattern_with_no_wildcard_is_a_prefix(namespace: Namespace, path: Namespace) -> None:
    if "*" not in path:
        assert check_match("prefix", path).matches(namespace) is has_prefix(namespace, path)
        assert check_match("suffix", path).matches(namespace) is has_prefix(namespace[::-1], path[::-1])


@pytest.mark.parametrize("kind", ["infix", None, ["prefix"]])
def test_an_unknown_kind_of_pattern_is_refused(kind: Any) -> None:
    with pytest.raises(InvalidNamespace, match="use 'prefix' or 'suffix'") as caught:
        check_match(kind, ("a",), "conditions[0]")
    assert caught.value.field == "conditions[0]"


def test_a_bad_label_in_a_pattern_is_refused_by_position() -> None:
    with pytest.raises(InvalidNamespace) as caught:
        check_match("suffix", ("a", None), "suffix")
    assert caught.value.field == "suffix[1]"
