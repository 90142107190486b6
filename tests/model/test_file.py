"""What is read of files in each form that they have been written in, and what is no file."""

from __future__ import annotations

import base64
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom.errors import InvalidValue
from stateroom.model.file import BASE64, PATH_START, Stat, content_of, size_of, stat_of
from stateroom.model.json_values import encode_value
from tests.model.strategies import json_objects, json_texts, json_values

WHEN = "2026-01-02T03:04:05+00:00"
TIMES = {"created_at": WHEN, "modified_at": WHEN}

FILES: dict[str, tuple[Any, str | bytes]] = {
    "lines": ({"content": ["one", "zwö", ""], **TIMES}, "one\nzwö\n"),
    "one line": ({"content": ["one"], **TIMES}, "one"),
    "no lines": ({"content": [], **TIMES}, ""),
    "an empty line": ({"content": [""], **TIMES}, ""),
    "line feeds within a line": ({"content": ["a\nb", "c"]}, "a\nb\nc"),
    "text": ({"content": "zwö\n", "encoding": "utf-8", **TIMES}, "zwö\n"),
    "text without more": ({"content": ""}, ""),
    "text of an unknown encoding": ({"content": "aGk=", "encoding": "latin-1"}, "aGk="),
    "text by JavaScript": ({"content": "aGk=", "mimeType": "text/plain", **TIMES}, "aGk="),
    "base64": ({"content": "iVBORw==", "encoding": "base64", **TIMES}, b"\x89PNG"),
    "no bytes": ({"content": "", "encoding": "base64"}, b""),
    "lines beside base64": ({"content": ["aGk="], "encoding": "base64"}, "aGk="),
    "bytes by JavaScript": ({"content": {"0": 137, "1": 80}, "mimeType": "image/png", **TIMES}, b"\x89P"),
    "bytes in another order": ({"content": {"10": 10, **{str(n): n for n in range(10)}}}, bytes(range(11))),
    "no bytes by JavaScript": ({"content": {}, "mimeType": "image/png"}, b""),
    "a buffer": ({"content": {"type": "Buffer", "data": [0, 255]}}, b"\0\xff"),
    "an empty buffer": ({"content": {"type": "Buffer", "data": []}}, b""),
}

NO_FILES: dict[str, Any] = {
    "nothing": {},
    "no content": {"text": "one", **TIMES},
    "null": {"content": None},
    "a number": {"content": 5},
    "a boolean": {"content": True},
    "lines that are none": {"content": ["one", None]},
    "a line of lines": {"content": ["one", ["two"]]},
    "text as base64": {"content": "zwö", "encoding": "base64"},
    "base64 cut short": {"content": "aGk", "encoding": "base64"},
    "base64 with more": {"content": "aGk=\n", "encoding": "base64"},
    "a byte too great": {"content": {"0": 256}},
    "a byte too small": {"content": {"0": -1}},
    "a byte of text": {"content": {"0": "1"}},
    "half a byte": {"content": {"0": 0.5}},
    "a gap": {"content": {"0": 1, "2": 3}},
    "another object": {"content": {"name": "x"}},
    "a buffer without data": {"content": {"type": "Buffer"}},
    "a buffer of a number": {"content": {"type": "Buffer", "data": 5}},
    "a buffer of a great number": {"content": {"type": "Buffer", "data": 10**30}},
    "a buffer of text": {"content": {"type": "Buffer", "data": "aGk="}},
    "a buffer of objects": {"content": {"type": "Buffer", "data": {"0": 1}}},
    "a buffer of more than bytes": {"content": {"type": "Buffer", "data": [1, 300]}},
}


@pytest.mark.parametrize(("value", "content"), FILES.values(), ids=FILES)
def test_a_file_is_read_in_every_form(value: dict[str, Any], content: str | bytes) -> None:
    assert content_of(value) == content
    assert type(content_of(value)) is type(content)
    size = len(content.encode() if isinstance(content, str) else content)
    assert size_of(content) == size
    assert stat_of("/f", encode_value(value)) == Stat(size, value.get("modified_at"))


@pytest.mark.parametrize("value", NO_FILES.values(), ids=NO_FILES)
def test_what_is_no_file_is_refused_by_name_and_has_no_stat(value: dict[str, Any]) -> None:
    with pytest.raises(InvalidValue, match="content") as caught:
        content_of(value)
    assert caught.value.field == "content"
    assert stat_of("/f", encode_value(value)) is None


@pytest.mark.parametrize(
    ("key", "is_path"),
    [("/", True), ("/f", True), ("//", True), ("", False), ("f", False), (" /f", False), ("\\f", False)],
)
def test_a_files_key_begins_with_a_slash(key: str, is_path: bool) -> None:
    assert key.startswith(PATH_START) == is_path
    assert stat_of(key, encode_value({"content": ["é"], **TIMES})) == (Stat(2, WHEN) if is_path else None)


@pytest.mark.parametrize(
    ("said", "told"), [(WHEN, WHEN), ("", ""), ("today", "today"), (None, None), (5, None), ([WHEN], None)]
)
def test_the_time_is_what_the_file_says_if_that_is_text(said: Any, told: str | None) -> None:
    assert stat_of("/f", encode_value({"content": ["one"], "modified_at": said})) == Stat(3, told)


def test_other_members_are_others_business() -> None:
    value = {"content": ["one"], "n": 2**70, "encoding": 5, "size": 99, "created_at": None}
    assert stat_of("/f", encode_value(value)) == Stat(3, None)


@given(st.lists(json_texts.filter(lambda text: "\n" not in text)))
def test_a_text_is_the_same_file_in_lines_and_as_a_whole(lines: list[str]) -> None:
    text = "\n".join(lines)
    raw = encode_value({"content": text.split("\n")})
    assert content_of({"content": text.split("\n")}) == content_of({"content": text}) == text
    assert (
        stat_of("/f", raw) == stat_of("/f", encode_value({"content": text})) == Stat(len(text.encode()), None)
    )


@given(st.binary())
def test_bytes_are_the_same_file_in_all_three_forms(data: bytes) -> None:
    spelled = {"content": base64.b64encode(data).decode(), "encoding": BASE64}
    numbered = {"content": {str(place): byte for place, byte in enumerate(data)}}
    buffer = {"content": {"type": "Buffer", "data": [*data]}}
    assert content_of(spelled) == content_of(numbered) == content_of(buffer) == data
    assert {stat_of("/f", encode_value(value)) for value in (spelled, numbered, buffer)} == {
        Stat(len(data), None)
    }


@given(json_objects, json_values, st.sampled_from([None, "utf-8", BASE64]))
def test_any_value_has_a_stat_or_none(value: dict[str, Any], content: Any, encoding: str | None) -> None:
    stat = stat_of("/f", encode_value({**value, "content": content, "encoding": encoding}))
    assert stat is None or stat.size >= 0
    assert stat is None or isinstance(content, str | list | dict)
