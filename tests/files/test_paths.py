"""The rules of paths."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import InvalidPath, LimitExceeded
from stateroom.files.paths import ancestors, directory_prefix, file_path, is_path, normal_path
from stateroom.model.limits import KEY_BYTES_MAX

PARTS = st.lists(
    st.sampled_from(["", ".", "..", "a", "b.md", "..a", "a..", "...", "~", "é 😀", "C:", "*"]), max_size=6
)


@given(PARTS, st.booleans())
def test_a_path_has_one_spelling(parts: list[str], rooted: bool) -> None:
    spelled = ("/" if rooted else "") + "/".join(parts)
    if ".." in parts or (not rooted and parts[:1] == ["C:"] and len(parts) > 1):
        with pytest.raises(InvalidPath):
            normal_path(spelled)
        return
    normal = normal_path(spelled)
    assert normal == "/" + "/".join(part for part in parts if part not in ("", "."))
    assert normal_path(normal) == normal
    assert normal_path(normal + "/") == normal
    assert is_path(normal) is (normal != "/")


@given(st.text(max_size=20))
def test_what_is_a_path_is_spelled_as_it_is_stored(key: str) -> None:
    try:
        own = file_path(key)
    except InvalidPath:
        assert not is_path(key) or "\0" in key
        return
    assert is_path(own)
    assert is_path(key) is (own == key)


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("/a/../b", "goes up"),
        ("..", "goes up"),
        ("a\0b", "NUL"),
        ("\ud800", "surrogate"),
        ("C:\\x", "drive"),
        ("z:/x", "drive"),
        (5, "pass a string"),
        (None, "pass a string"),
        (b"/a", "pass a string"),
    ],
)
def test_what_is_no_path_is_refused_by_its_field(path: Any, told: str) -> None:
    for check in (normal_path, file_path):
        with pytest.raises(InvalidPath, match=told) as caught:
            check(path, field="place")
        assert caught.value.field == "place"
        assert str(caught.value).startswith("place ")


@pytest.mark.parametrize("path", ["", "/", "//", ".", "/.", "/a/", "/a//", "a/.", "/a/./", "/a/.//"])
def test_what_names_a_directory_is_no_file(path: str) -> None:
    normal_path(path)
    with pytest.raises(InvalidPath, match="names a directory"):
        file_path(path)


def test_a_path_is_as_long_as_a_key_may_be() -> None:
    longest = "/" + "é" * ((KEY_BYTES_MAX - 2) // 2) + "a"
    assert len(longest.encode()) == KEY_BYTES_MAX
    assert file_path(longest) == file_path("/./" + longest) == longest
    with pytest.raises(LimitExceeded, match="at most"):
        file_path(longest + "a")


def test_directories_are_what_a_path_lies_in() -> None:
    assert ancestors("/a") == []
    assert ancestors("/a/b/c.md") == ["/a", "/a/b"]
    assert directory_prefix("/") == "/"
    assert directory_prefix("/a/b") == "/a/b/"
