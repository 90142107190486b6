"""Users' cases about what is stored and handed back: values, keys, order, pages."""

from __future__ import annotations

import math
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import UUID

import pytest
from langgraph.store.base import PutOp

from stateroom.clock import ManualClock
from stateroom.errors import InvalidFilter, InvalidKey, InvalidNamespace, InvalidPage, InvalidValue
from stateroom.stores.operations import SearchItems
from stateroom.testing.harness import Harness, Memory
from stateroom.testing.snapshot import snapshot

__all__ = ["StoringCases"]

N = ("a", "b")

PUNCTUATED_KEYS = [
    "my-doc.md#0",
    "a.b",
    "a/b",
    "user@example.org",
    "x|y",
    "it's",
    "100%",
    "naïve 😀",
    " lead",
    "..",
    "a\\b",
    "{x}",
    '"',
    "*",
    "",
]

NO_JSON: dict[str, tuple[Mapping[str, Any], str]] = {
    "NaN": ({"s": math.nan}, "value.s"),
    "infinity in a list": ({"t": [1.0, math.inf]}, "value.t[1]"),
    "minus infinity deep inside": ({"nested": {"x": [{"y": -math.inf}]}}, "value.nested.x[0].y"),
}

CONVERTED: dict[str, tuple[Any, Any]] = {
    "aware datetime": (datetime(2026, 1, 2, 3, 4, 5, 6, UTC), "2026-01-02T03:04:05.000006+00:00"),
    "UUID": (UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    "tuple": ((1, (2,)), [1, [2]]),
    "integer beyond 64 bits": (2**70, 2**70),
}


class StoringCases(Harness):
    """What goes in comes out, or is refused before anything has changed."""

    @pytest.mark.parametrize(
        ("value", "field"),
        [
            ({"v": "a\x00b"}, "value.v"),
            ({"v": ["ok", {"w": "\x00"}]}, "value.v[1].w"),
        ],
    )
    def test_A08_a_nul_in_a_value_is_refused_by_name_before_anything_changes(
        self, memory: Memory, value: dict[str, Any], field: str
    ) -> None:
        memory.put(N, "k", {"v": "before"})
        before = snapshot(memory)
        for refused in (
            lambda: memory.put(N, "k", value),
            lambda: memory.put_item(N, "new", value),
            lambda: memory.batch([PutOp(N, "other", {"v": "fine"}), PutOp(N, "k", value)]),
        ):
            with pytest.raises(InvalidValue, match="NUL") as caught:
                refused()
            assert caught.value.field == field
            assert snapshot(memory) == before

    def test_A08_a_nul_in_a_key_or_label_is_refused_by_name(self, memory: Memory) -> None:
        for refused in (memory.get, memory.delete, lambda *where: memory.put(*where, {})):
            with pytest.raises(InvalidKey, match="NUL"):
                refused(N, "k\x00")
            with pytest.raises(InvalidNamespace, match="NUL") as caught:
                refused(("a", "b\x00"), "k")
            assert caught.value.field == "namespace[1]"
        assert memory.list_namespaces() == []

    def test_A08_text_that_only_spells_a_nul_stays_as_it_is(self, memory: Memory) -> None:
        value = {"lit": "a\\u0000b", "\\u0000": ["\\\\u0000", "\\x00"]}
        memory.put(N, "\\u0000", value)
        assert memory.read(N, "\\u0000").value == value
        assert memory.search(N, filter={"lit": "a\\u0000b"})[0].value == value

    def test_A19_the_latest_put_comes_first_without_any_time_between(self, memory: Memory) -> None:
        for key in "abc":
            memory.put(N, key, {"key": key})
        memory.put(N, "a", {"key": "a"})
        assert memory.keys(N) == ["a", "c", "b"]
        assert memory.keys(("a",)) == ["a", "c", "b"]
        assert memory.keys(N, limit=2) == ["a", "c"]
        assert memory.keys(N, limit=2, offset=2) == ["b"]
        assert [hit.key for hit in memory.batch([SearchItems(N)])[0]] == ["a", "c", "b"]

    def test_A19_a_page_of_the_usual_size_holds_the_newest_memories(self, memory: Memory) -> None:
        keys = [f"memory {number}" for number in range(60)]
        for number, key in enumerate(keys):
            memory.put((*N, f"topic {number % 3}"), key, {})
        assert memory.keys(N) == keys[:-11:-1]
        pages = [memory.keys(N, limit=7, offset=offset) for offset in range(0, 63, 7)]
        assert [key for page in pages for key in page] == keys[::-1]

    def test_A19_an_update_keeps_when_an_item_was_created(self, memory: Memory, clock: ManualClock) -> None:
        memory.put(N, "a", {"n": 1})
        first = memory.read(N, "a")
        clock.advance(seconds=0.25)
        memory.put(N, "a", {"n": 2})
        second = memory.read(N, "a")
        memory.put(N, "a", {"n": 3})
        third = memory.read(N, "a")
        assert first.created_at == second.created_at == third.created_at == first.updated_at
        assert first.updated_at < second.updated_at < third.updated_at
        assert third.created_at.utcoffset() == third.updated_at.utcoffset() == timedelta(0)

    @pytest.mark.parametrize(("value", "field"), NO_JSON.values(), ids=NO_JSON)
    def test_A23_numbers_that_are_not_finite_are_refused_by_path(
        self, memory: Memory, value: dict[str, Any], field: str
    ) -> None:
        memory.put(N, "k", {"s": 0.5})
        before = snapshot(memory)
        with pytest.raises(InvalidValue) as caught:
            memory.put(N, "k", value)
        assert caught.value.field == field
        with pytest.raises(InvalidValue):
            memory.batch([PutOp(N, "other", {}), PutOp(N, "k", value)])
        assert snapshot(memory) == before

    def test_A27_changing_an_object_changes_no_memory(self, memory: Memory) -> None:
        value: dict[str, Any] = {"l": [1], "o": {"n": (1, 2)}}
        memory.put(N, "k", value)
        memory.batch([PutOp(N, "batched", value)])
        value["l"].append(2)
        value["o"]["n"] = None
        for key in ("k", "batched"):
            kept = {"l": [1], "o": {"n": [1, 2]}}
            for _ in range(2):
                item = memory.read(N, key)
                assert item.value == kept
                item.value["l"].append(3)
                item.value["o"].clear()
                (hit,) = (hit for hit in memory.search(N) if hit.key == key)
                assert hit.value == kept
                hit.value.clear()

    def test_A27_two_readers_of_one_item_have_an_object_each(self, memory: Memory) -> None:
        memory.put(N, "k", {"l": [1]})
        one, other = memory.read(N, "k"), memory.read(N, "k")
        one.value["l"].append(2)
        assert other.value == {"l": [1]}

    @pytest.mark.parametrize("key", PUNCTUATED_KEYS)
    def test_A31_a_key_of_any_characters_can_be_put_got_found_and_deleted(
        self, memory: Memory, key: str
    ) -> None:
        memory.put(N, "neighbour", {"n": 0})
        memory.put(N, key, {"n": 1})
        assert memory.read(N, key).value == {"n": 1}
        assert memory.keys(N, filter={"n": 1}) == [key]
        assert memory.keys(N) == [key, "neighbour"]
        assert memory.listed(N) == sorted([key, "neighbour"])
        assert memory.listed(N, prefix=key, suffix=key, limit=1) == [key]
        memory.delete(N, key)
        assert memory.get(N, key) is None
        assert memory.keys(N) == memory.listed(N) == ["neighbour"]

    def test_A32_a_negative_page_is_refused_by_name(self, memory: Memory) -> None:
        memory.put(N, "k", {"text": "word"})
        for page, field in (({"limit": -1}, "limit"), ({"offset": -1}, "offset")):
            for refused in (
                lambda page: memory.search(N, **page),
                lambda page: memory.search(N, filter={"text": "word"}, **page),
                lambda page: memory.list_namespaces(**page),
                lambda page: memory.batch([SearchItems(N, **page)]),
            ):
                with pytest.raises(InvalidPage) as caught:
                    refused(page)
                assert isinstance(caught.value, ValueError)
                assert caught.value.field == field

    def test_A32_a_limit_of_zero_is_nothing_and_a_huge_one_is_everything(self, memory: Memory) -> None:
        for key in "abc":
            memory.put(N, key, {"n": 1})
        assert memory.search(N, limit=0) == memory.search(N, filter={"n": 1}, limit=0) == []
        assert memory.list_namespaces(limit=0) == []
        assert memory.keys(N, limit=10**9) == ["c", "b", "a"]
        assert memory.list_namespaces(limit=10**9) == [N]
        assert memory.keys(N, offset=10**9) == []

    @pytest.mark.parametrize(("given", "stored"), CONVERTED.values(), ids=CONVERTED)
    def test_A33_ordinary_values_become_json_in_one_documented_way(
        self, memory: Memory, given: Any, stored: Any
    ) -> None:
        memory.put(N, "k", {"v": given})
        assert memory.read(N, "k").value == {"v": stored}
        assert memory.keys(N, filter={"v": given}) == ["k"]
        assert memory.keys(N, filter={"v": stored}) == ["k"]

    @pytest.mark.parametrize(
        ("value", "field"), [({"v": [b"x"]}, "value.v[0]"), ({"v": {1: 2}}, "value.v"), ({1: 2}, "value")]
    )
    def test_A33_what_is_no_json_is_refused_by_path(
        self, memory: Memory, value: dict[Any, Any], field: str
    ) -> None:
        with pytest.raises(InvalidValue) as caught:
            memory.put(N, "k", value)
        assert caught.value.field == field
        assert memory.get(N, "k") is None
        with pytest.raises(InvalidFilter):
            memory.search(N, filter={"v": b"x"})
