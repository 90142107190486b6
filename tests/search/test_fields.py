"""What of an item's value is searchable: LangGraph's paths, texts to embed, leaves to search."""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from langgraph.store.base.embed import get_text_at_path

from stateroom.errors import InvalidIndex
from stateroom.search.fields import MAX_PATH_CHARS, check_paths, leaves, parse_path, texts

NAMES = st.sampled_from(["a", "b", "text", "$", "*", "x y", "0", "é", "中", ""])
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(10**30), 10**30)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=5)
)
JSON = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=15,
)
OBJECTS = st.dictionaries(NAMES, JSON, max_size=5)
STEPS = NAMES | st.sampled_from(
    ["[0]", "[1]", "[-1]", "[*]", "[9]", "[x]", "[]", "{a,b}", "{a.b, text}", "{}", "{*,[0]}"]
)
PATHS = st.lists(STEPS, max_size=5).map(".".join) | st.text(alphabet="ab.[]{}*,0-1$ ", max_size=14)

VALUE: dict[str, Any] = {
    "title": "Report",
    "pages": 12,
    "draft": False,
    "owner": None,
    "parts": [{"head": "One", "body": "first"}, {"head": "Two", "body": None}, "loose"],
    "meta": {"score": 1.5, "tags": ["x", "y"]},
}


@given(OBJECTS, PATHS)
@example({"a": 1}, "")
@example({"a": 1}, ".")
@example({"*": 1, "[0]": 2}, "{*,[0]}")
@example({"a": [[1, 2], 3]}, "a[0][1]")
@example({"a": [1]}, "a[ 0 ]")
@example({"[0": 1, "{a": 2}, "[0")
@example({"a": {"b": 1}}, "{a}.b")
def test_every_path_finds_the_texts_that_langgraph_finds(value: dict[str, Any], path: str) -> None:
    assert texts(value, [path]) == get_text_at_path(value, path)


@given(OBJECTS)
def test_the_dollar_path_of_a_single_put_means_the_whole_value(
    value: dict[str, Any],
) -> None:
    assert texts(value, check_paths(["$"]) or ()) == get_text_at_path(value, "$")


@given(OBJECTS, st.lists(PATHS, max_size=4))
def test_texts_of_several_paths_come_in_the_order_of_the_distinct_paths(
    value: dict[str, Any], paths: list[str]
) -> None:
    distinct: dict[tuple[str, ...], str] = {}
    for path in paths:
        distinct.setdefault(parse_path(path).steps, path)
    assert texts(value, paths) == [
        text for path in distinct.values() for text in get_text_at_path(value, path)
    ]


def test_text_to_embed_keeps_its_characters() -> None:
    value = {"text": "这是中文 Привет 😀\u2028C:\\new \\u041f", "more": {"z": "é", "a": 1}}
    assert texts(value, ["text", "more"]) == [value["text"], '{"a": 1, "z": "é"}']


def test_a_value_may_be_any_mapping() -> None:
    frozen = MappingProxyType({"text": "one"})
    assert texts(frozen, ["$"]) == ['{"text": "one"}']
    assert list(leaves(frozen, ["text"])) == ["one"]


def test_leaves_are_strings_and_numbers_depth_first_without_keys_booleans_and_nulls() -> None:
    assert list(leaves(VALUE, ["$"])) == [
        "Report", "12", "One", "first", "Two", "loose", "1.5", "x", "y",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("path", "expected"),
    [
        ("title", ["Report"]),
        ("draft", []),
        ("owner", []),
        ("missing.deeper", []),
        ("parts[0]", ["One", "first"]),
        ("parts[-1]", ["loose"]),
        ("parts[3]", []),
        ("parts[-4]", []),
        ("parts[*].head", ["One", "Two"]),
        ("parts.head", []),
        ("parts[*].{body,head}", ["first", "One", "Two"]),
        ("{meta.score,title}", ["1.5", "Report"]),
        ("meta.*", ["1.5", "x", "y"]),
        ("*.score", ["1.5"]),
    ],
)
def test_leaves_are_taken_only_from_the_selected_part(path: str, expected: list[str]) -> None:
    assert list(leaves(VALUE, [path])) == expected


def test_a_leaf_that_two_paths_select_counts_once_for_each_distinct_path() -> None:
    assert list(leaves(VALUE, ["title", "title", ".title"])) == ["Report"]
    assert list(leaves(VALUE, ["title", "{title}"])) == ["Report", "Report"]


def test_nothing_is_selected_by_no_paths() -> None:
    assert texts(VALUE, ()) == []
    assert list(leaves(VALUE, ())) == []


@given(OBJECTS)
def test_the_leaves_are_all_scalars_but_booleans_and_nulls(value: dict[str, Any]) -> None:
    def walk(part: Any) -> list[str]:
        if isinstance(part, dict):
            return [leaf for member in part.values() for leaf in walk(member)]
        if isinstance(part, list):
            return [leaf for element in part for leaf in walk(element)]
        return [] if part is None or isinstance(part, bool) else [str(part)]

    assert list(leaves(value, ["$"])) == walk(value)


def test_leaves_of_a_value_nested_beyond_the_stack_are_found() -> None:
    deep: Any = "bottom"
    for _ in range(100_000):
        deep = [deep]
    assert list(leaves({"a": deep}, ["$"])) == ["bottom"]


def test_the_deepest_path_that_is_accepted_can_be_followed() -> None:
    value: Any = "bottom"
    for _ in range(MAX_PATH_CHARS // 2):
        value = {"a": value}
    (path,) = check_paths([".".join("a" * (MAX_PATH_CHARS // 2))]) or ()
    assert texts(value, [path]) == ["bottom"]
    assert list(leaves(value, [path])) == ["bottom"]


def test_an_index_argument_becomes_paths() -> None:
    assert check_paths(None) is None
    assert check_paths(False) == ()
    assert check_paths([]) == ()
    assert check_paths(["a", "b[*].c"]) == ("a", "b[*].c")
    assert check_paths(("$",)) == ("$",)


@pytest.mark.parametrize("index", [True, "text", b"text", 0, 1, {"text": 1}, {"text"}])
def test_anything_else_as_index_is_refused_by_name(index: object) -> None:
    with pytest.raises(InvalidIndex, match=r"ops\[3\].index must be None, False or a list") as caught:
        check_paths(index, field="ops[3].index")
    assert caught.value.field == "ops[3].index"


@pytest.mark.parametrize("path", [None, 1, ["a"], True])
def test_a_path_that_is_no_string_is_refused_by_its_position(path: object) -> None:
    with pytest.raises(InvalidIndex, match=r"index\[1\] must be a string") as caught:
        check_paths(["a", path])
    assert caught.value.field == "index[1]"


@pytest.mark.parametrize("path", ["a\0", "\ud800", "x.\udfff"])
def test_a_path_that_no_stored_key_can_match_is_refused(path: str) -> None:
    with pytest.raises(InvalidIndex, match=r"index\[0\] holds a (NUL|lone surrogate).* no stored key can"):
        check_paths([path])


def test_a_path_may_be_as_long_as_the_limit_and_no_longer() -> None:
    longest = "a" * MAX_PATH_CHARS
    assert check_paths([longest]) == (longest,)
    with pytest.raises(InvalidIndex, match="1025 characters; a path may have at most 1024"):
        check_paths([longest + "a"])
