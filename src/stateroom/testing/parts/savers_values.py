"""Which Python values come back, and how those are refused that cannot."""

from __future__ import annotations

import dataclasses
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any
from uuid import UUID

import numpy as np
import pytest
from langchain_core.messages import AIMessage, HumanMessage
from langgraph.types import Send

from stateroom.errors import InvalidValue
from stateroom.savers.base import Saver
from stateroom.testing.savers_graphs import chat, graph_config
from stateroom.testing.savers_harness import SaverHarness, listed, put, stored, write
from stateroom.testing.storage_harness import check_refused

__all__ = ["ValuesSuite"]

VALUES = (
    2**64 - 1,
    -(2**63),
    1.5,
    Decimal("1.20"),
    UUID(int=7),
    Path("/a"),
    {1: "a"},
    {1, 2},
    frozenset({1}),
    b"\0",
    bytearray(b"a"),
    [HumanMessage("a\0b"), AIMessage("", tool_calls=[{"name": "f", "args": {"x": [1]}, "id": "1"}])],
    Send("node", {"a": 1}),
    {"deep": [{"er": ({"est": None},)}]},
)


@dataclasses.dataclass
class Holder:
    """Something that holds something."""

    held: Any


class Odd:
    """Something that no serialiser knows."""


REFUSED = (
    (2**70, "c"),
    (np.float64(1.5), "c"),
    (np.array(["2026-01-01"], "datetime64[D]"), "c"),
    (range(3), "c"),
    ({"a": [1, {"b c": Odd()}]}, "c.a[1]['b c']"),
    ([[2**70]], "c[0][0]"),
    (Holder({"x": Odd()}), "c.held.x"),
    ((1, lambda: None), "c[1]"),
)


class ValuesSuite(SaverHarness):
    """Values of channels and of pending writes."""

    @pytest.mark.parametrize("value", VALUES, ids=lambda value: type(value).__name__)
    def test_a_value_comes_back_equal(self, saver: Saver, value: Any) -> None:
        put(saver, 1, values={"c": value})
        write(saver, 1, ("c", value))
        # Serialised as LangGraph does it, a tuple is a list.
        expected = saver.serde.loads_typed(saver.serde.dumps_typed(value))
        assert stored(saver).checkpoint["channel_values"] == {"c": expected}
        assert stored(saver).pending_writes == [("task", "c", expected)]

    @pytest.mark.parametrize(("value", "path"), REFUSED, ids=[path for _, path in REFUSED])
    def test_what_cannot_be_serialised_is_refused_by_channel_and_path(
        self, saver: Saver, value: Any, path: str
    ) -> None:
        put(saver, 1)
        check_refused(InvalidValue, path, partial(put, saver, 2, values={"fine": 1, "c": value}))
        check_refused(InvalidValue, path, partial(write, saver, 1, ("fine", 1), ("c", value)))
        assert listed(saver) == [1]
        assert stored(saver).pending_writes == []

    def test_a_run_that_returns_such_a_value_fails_with_the_path(self, saver: Saver) -> None:
        graph = chat(saver, lambda _: {"score": [Odd()]})
        with pytest.raises(InvalidValue, match=r"channel 'log': log\[0\]\.score\[0\] is .*Odd"):
            graph.invoke({"log": ["hello"]}, graph_config())
        assert graph.get_state(graph_config()).values == {"log": ["hello"]}

    def test_a_run_with_odd_texts_and_numbers_succeeds(self, saver: Saver) -> None:
        graph = chat(saver, lambda _: "x\0y")
        graph.invoke({"log": [float("inf"), "a\\u0000b"]}, graph_config())
        assert graph.get_state(graph_config()).values == {"log": [float("inf"), "a\\u0000b", "x\0y"]}
