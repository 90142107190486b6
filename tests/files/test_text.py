"""Text as agents see and change it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.files.text import Edit, EditRefused, changed, line_count, matching_lines, shown, window_of

TEXTS = st.text(st.sampled_from("ab\n\r\x0c\u2028"), max_size=14)
SOME = st.text(st.sampled_from("ab\n"), max_size=4)


def seen(text: str) -> str:
    """Return what all windows together show."""
    return text.replace("\r\n", "\n")


@given(TEXTS, st.integers(-2, 9), st.integers(1, 5))
def test_a_window_is_a_slice_of_the_lines(text: str, offset: int, limit: int) -> None:
    lines = text.split("\n")
    lines = [line + "\n" for line in lines[:-1]] + ([lines[-1]] if lines[-1] else [])
    window = window_of(text, offset, limit)
    start = max(offset, 0)
    if start >= len(lines):
        assert window is None
        return
    assert window is not None
    assert window.text == seen("".join(lines[start : start + limit]))
    assert (window.total, window.start) == (len(lines), start + 1)
    assert window.end == min(start + limit, len(lines))
    assert line_count(text) == len(lines)


@given(TEXTS, st.text(st.sampled_from("ab\x0c\u2028"), max_size=2))
def test_lines_that_hold_a_text_are_where_windows_show_them(text: str, pattern: str) -> None:
    found = list(matching_lines(text, pattern))
    shown_lines = []
    for number in range(line_count(text)):
        window = window_of(text, number, 1)
        assert window is not None
        line = window.text.removesuffix("\n").rstrip("\r")
        if pattern in line:
            shown_lines.append((number + 1, line))
    assert [(number, line.rstrip("\r")) for number, line in found] == shown_lines


@given(TEXTS, SOME, SOME, st.booleans())
def test_an_edit_changes_what_is_shown(text: str, old: str, new: str, replace_all: bool) -> None:
    before = seen(text)
    try:
        after, count = changed(text, Edit(old, new, replace_all))
    except EditRefused:
        occurrences = before.count(old) if old else 0
        assert old == new or not occurrences or (occurrences > 1 and not replace_all)
        return
    assert count == before.count(old)
    if "\r" not in text.replace("\r\n", ""):
        assert seen(after) == before.replace(old, new)


@given(st.lists(st.text("ab", max_size=3), min_size=2, max_size=5), SOME.filter(bool), SOME)
def test_an_edit_keeps_the_line_ends_of_a_file(lines: list[str], old: str, new: str) -> None:
    for end in ("\n", "\r\n"):
        try:
            after, _ = changed(end.join(lines), Edit(old, new, replace_all=True))
        except EditRefused:
            continue
        assert after.replace(end, "").isalpha() or not after.replace(end, "")


def test_long_texts_are_shown_in_part() -> None:
    assert shown("x" * 200) == "x" * 200
    assert shown("x" * 201) == "x" * 200 + "... (201 characters)"
    assert shown("x" * 100_000).endswith("... (100,000 characters)")


@pytest.mark.parametrize(
    ("text", "old", "told"),
    [
        ("one", "two", "String not found in file: 'two'"),
        ("one", "", "old_string cannot be empty"),
        ("one", "one", "the same"),
        ("one one", "one", "String 'one' appears 2 times in file. Use replace_all=True"),
        ("a\none", "one\n", "old_string ends with a newline, but the file does not end with a newline."),
        ("one one", "one\n", "would appear 2 times"),
        ("one", "\n", "String not found in file: '\n'"),
        ("", "one", "String not found"),
        ("a\r\none", "a\none\n", "old_string ends with a newline"),
    ],
)
def test_an_edit_that_cannot_be_made_says_why(text: str, old: str, told: str) -> None:
    with pytest.raises(EditRefused) as caught:
        changed(text, Edit(old, "one" if told == "the same" else "new"))
    assert told in str(caught.value)
