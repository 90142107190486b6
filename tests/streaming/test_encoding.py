"""Whatever a state holds is said in strict JSON, and nothing that it holds fails a run."""

from __future__ import annotations

import json
import math
import sys
from collections import namedtuple
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum, IntEnum
from pathlib import PurePosixPath
from types import MappingProxyType
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.documents import Document
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, ToolMessage
from langgraph.types import Command, Interrupt, Send
from pydantic import BaseModel, SecretStr
from pydantic.v1 import BaseModel as BaseModelV1
from typing_extensions import override

from stateroom.engine.encoding import (
    CIRCULAR,
    DEPTH_MAX,
    TOO_DEEP,
    Encoded,
    encode,
    interrupt_json,
    plain,
)
from tests.streaming.running import read

Pair = namedtuple("Pair", "left right")


class Colour(Enum):
    RED = "red"
    BOTH = (1, 2)


class Level(IntEnum):
    HIGH = 3


@dataclass
class Point:
    x: int
    _hidden: int = 2
    parts: set[str] = field(default_factory=lambda: {"b", "a"})


class Talk(BaseModel):
    messages: list[BaseMessage]
    key: SecretStr = SecretStr("hush")


class Old(BaseModelV1):
    name: str = "old"


class Hostile:
    """Raises at every touch."""

    @override
    def __repr__(self) -> str:
        raise RuntimeError("no")


class Disguised(Hostile):
    """Does not even say what it is."""

    @property  # type: ignore[misc]  # hostile on purpose
    @override
    def __class__(self) -> Any:
        raise RuntimeError("no")


class HostileModel(BaseModel):
    name: str = "kept"

    @override
    def model_dump(self, **options: Any) -> dict[str, Any]:
        raise RuntimeError("no")


_CALL = {"name": "add", "args": {"a": 1}, "id": "c", "type": "tool_call"}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (math.nan, None),
        ([math.inf, -math.inf, 1.5], [None, None, 1.5]),
        (2**64, 2**64),
        ({"big": -(10**300)}, {"big": -(10**300)}),
        ({"big": 2**70, "nan": math.nan, "enum": Colour.RED}, {"big": 2**70, "nan": None, "enum": "red"}),
        ({2: "int", None: "none", True: "true"}, {"2": "int", "null": "none", "true": "true"}),
        ({1.5: 1, Colour.RED: 2, UUID(int=1): 3}, {"1.5": 1, "red": 2, str(UUID(int=1)): 3}),
        ("a\ud800b", "a\ufffdb"),
        ({"\ud83d\ude00": "\ud83d\ude00"}, {"😀": "😀"}),
        ("x\0y \\u0000", "x\0y \\u0000"),
        (Pair(1, Pair(2, 3)), {"left": 1, "right": {"left": 2, "right": 3}}),
        ((1, (2,)), [1, [2]]),
        (Colour.BOTH, [1, 2]),
        (Level.HIGH, 3),
        (Point(1), {"x": 1, "_hidden": 2, "parts": ["a", "b"]}),
        ({30, 10, -5}, [-5, 10, 30]),
        (frozenset({"a"}), ["a"]),
        (b"hi\xff", "aGn/"),
        (bytearray(b"hi"), "aGk="),
        (MappingProxyType({"a": {1}}), {"a": [1]}),
        (range(3), [0, 1, 2]),
        (Decimal("1.10"), "1.10"),
        (PurePosixPath("/a"), "/a"),
        (UUID(int=5), str(UUID(int=5))),
        (datetime(2026, 1, 2, 3, tzinfo=UTC), "2026-01-02T03:00:00+00:00"),
        (date(2026, 1, 2), "2026-01-02"),
        (time(1, 2, tzinfo=UTC), "01:02:00+00:00"),
        (timedelta(minutes=1), 60.0),
        (np.float32(1.5), 1.5),
        (np.int64(2), 2),
        (np.array([[1.0, math.nan]]), [[1.0, None]]),
        (np.array([[1, 2], [3, 4]]).T, [[1, 3], [2, 4]]),
        (ValueError("boom"), "ValueError('boom')"),
        (int, "builtins.int"),
        (Interrupt("v", "i"), {"value": "v", "id": "i"}),
        (
            Interrupt("v", "i", response_schema={"type": "string"}),
            {"value": "v", "id": "i", "response_schema": {"type": "string"}},
        ),
        (Send("node", {"a": 1}), {"node": "node", "input": {"a": 1}}),
        (
            Command(update={"a": {1}}, goto=[Send("n", None)]),
            {"graph": None, "update": {"a": [1]}, "resume": None, "goto": [{"node": "n", "input": None}]},
        ),
        (Old(), {"name": "old"}),
        (HostileModel(), {"name": "kept"}),
        ({"bad": Hostile()}, {"bad": "<Hostile>"}),
        ({Hostile(): 1}, {"<Hostile>": 1}),
        ({"bad": Disguised()}, {"bad": "<Disguised>"}),
        ([Encoded(b'{"a":1}')], [{"a": 1}]),
        ([Encoded(b'{"a":1}'), 2**64], [{"a": 1}, 2**64]),
    ],
)
def test_what_json_lacks_is_said_in_json(value: Any, said: Any) -> None:
    assert read(encode(value)) == said


def test_messages_are_objects_with_their_types() -> None:
    said = read(encode([HumanMessage("hi"), AIMessageChunk(content="h"), ToolMessage("t", tool_call_id="c")]))
    assert [each["type"] for each in said] == ["human", "AIMessageChunk", "tool"]
    assert said[0] == {
        **{"content": "hi", "additional_kwargs": {}, "response_metadata": {}, "type": "human"},
        **{"name": None, "id": None},
    }


def test_a_model_says_its_messages_as_what_they_are_and_its_secrets_not_at_all() -> None:
    said = read(encode(Talk(messages=[AIMessage("", tool_calls=[_CALL])])))
    assert said["messages"][0]["tool_calls"] == [_CALL]
    assert "hush" not in said["key"]


def test_a_document_is_an_object() -> None:
    said = read(encode(Document("text", metadata={"at": date(2026, 1, 2)})))
    assert said == {
        "id": None,
        "metadata": {"at": "2026-01-02"},
        "page_content": "text",
        "type": "Document",
    }


def test_what_holds_itself_is_said_once() -> None:
    knot: dict[str, Any] = {"twice": [1]}
    knot |= {"me": knot, "again": knot["twice"], "list": [knot]}
    assert read(encode(knot)) == {"twice": [1], "me": CIRCULAR, "again": [1], "list": [CIRCULAR]}


@pytest.mark.parametrize(("levels", "cut"), [(DEPTH_MAX, False), (DEPTH_MAX + 1, True)])
def test_depth_is_limited(levels: int, cut: bool) -> None:
    value: Any = [2**64]
    for _ in range(levels - 1):
        value = [value]
    assert (TOO_DEEP.encode() in encode(value)) is cut


def test_depth_without_end_is_cut() -> None:
    value: Any = []
    for _ in range(100_000):
        value = [value]
    assert TOO_DEEP.encode() in encode(value)


def test_whoever_is_deep_in_calls_is_answered_too() -> None:
    value: Any = [2**64]
    for _ in range(200):
        value = [value]

    def deep(calls: int) -> bytes:
        return deep(calls - 1) if calls else encode(value)

    assert b"18446744073709551616" in deep(0)
    assert TOO_DEEP.encode() in deep(sys.getrecursionlimit() - 300)


def test_an_integer_that_python_does_not_write_is_hexadecimal_text() -> None:
    assert read(encode(2**12_000 - 1)) == 2**12_000 - 1
    assert read(encode(2**12_000)) == hex(2**12_000)


def test_text_is_utf_8_as_it_is() -> None:
    assert encode({"t": "Привет 😀 \u2028"}) == '{"t":"Привет 😀 \u2028"}'.encode()
    assert encode({"t": "Привет 😀 \u2028", "n": 2**70}).startswith('{"t":"Привет 😀 \u2028"'.encode())


def test_plain_values_keep_numbers_that_are_none() -> None:
    found = plain({"a": math.nan, "b": (1, {2}), "c": AIMessage("x"), "d": 2**70, "e": Colour.RED})
    assert math.isnan(found["a"])
    assert (found["b"], found["c"]["type"], found["d"], found["e"]) == ([1, [2]], "ai", 2**70, "red")


def test_interrupts_have_a_schema_only_if_they_were_given_one() -> None:
    assert interrupt_json(Interrupt({1}, "i")) == {"value": {1}, "id": "i"}
    assert interrupt_json(Interrupt(1, "i", response_schema={"a": 1}))["response_schema"] == {"a": 1}


_texts = st.text(st.characters(exclude_categories=[]), max_size=8)
_json: st.SearchStrategy[Any] = st.recursive(
    st.one_of(
        st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
    ),
    lambda inner: st.one_of(st.lists(inner, max_size=4), st.dictionaries(st.text(), inner, max_size=4)),
    max_leaves=12,
)
_leaves = st.one_of(
    st.none(),
    st.integers(),
    st.floats(),
    _texts,
    st.binary(max_size=4),
    st.decimals(),
    st.datetimes(),
    st.timedeltas(),
    st.uuids(),
    st.complex_numbers(),
    st.frozensets(st.integers(), max_size=3),
    st.sampled_from(list(Colour)),
    st.builds(Hostile),
    st.sampled_from([HostileModel(), Old, Old(), object(), np.array([object()]), iter("ab")]),
    st.builds(AIMessage, _texts.filter(str.isascii)),
    st.builds(Interrupt, st.floats(), _texts),
)
_keys = st.one_of(_texts, st.integers(), st.floats(), st.none(), st.booleans(), st.dates(), st.tuples(_texts))
_anything: st.SearchStrategy[Any] = st.recursive(
    _leaves,
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.tuples(inner, inner),
        st.builds(Pair, inner, inner),
        st.dictionaries(_keys, inner, max_size=4),
        st.builds(MappingProxyType, st.dictionaries(_texts, inner, max_size=4)),
        st.builds(Send, _texts, inner),
        st.builds(Point, inner, inner),
    ),
    max_leaves=12,
)


@given(_json)
def test_json_says_itself(value: Any) -> None:
    assert json.loads(encode(value)) == value
    assert plain(value) == value


@given(_anything)
def test_everything_is_strict_json(value: Any) -> None:
    said = read(encode(value))
    # What is plain once is plain for good, and says the same.
    assert read(encode(plain(value))) == said
