"""The functions that make, change and read ``FileData``, as Deep Agents' documentation has them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stateroom import InMemoryStore
from stateroom.clock import ManualClock, microseconds_to_datetime
from stateroom.errors import InvalidInput, InvalidValue
from stateroom.files import StoreBackend, create_file_data, file_data_to_string, update_file_data

N = ("assistant", "filesystem")


def test_a_new_file_is_lines_and_times() -> None:
    clock = ManualClock()
    now = microseconds_to_datetime(clock()).isoformat()
    assert create_file_data("Hello\nWorld", clock=clock) == {
        "content": ["Hello", "World"],
        "created_at": now,
        "modified_at": now,
    }
    assert list(create_file_data("")) == ["content", "created_at", "modified_at"]
    assert create_file_data("", clock=clock)["content"] == [""]
    assert create_file_data("x", "2026-01-01T00:00:00Z", clock=clock) == {
        "content": ["x"],
        "created_at": "2026-01-01T00:00:00Z",
        "modified_at": now,
    }


def test_a_new_file_may_be_a_string_or_bytes() -> None:
    text = create_file_data("a\nb", file_format="v2")
    assert (text["content"], text["encoding"]) == ("a\nb", "utf-8")
    for file_format in ("v1", "v2"):
        data = create_file_data("iVBO/w==", encoding="base64", file_format=file_format)
        assert (data["content"], data["encoding"]) == ("iVBO/w==", "base64")
        assert file_data_to_string(data) == "iVBO/w=="
    for wrong in ({"encoding": "latin-1"}, {"file_format": "v3"}):
        with pytest.raises(InvalidInput, match=next(iter(wrong))):
            create_file_data("x", **wrong)  # type: ignore[arg-type]  # what is refused
    for content in ("no base64!", "aGk"):
        with pytest.raises(InvalidValue):
            create_file_data(content, encoding="base64")
    with pytest.raises(InvalidValue):
        create_file_data(5)  # type: ignore[arg-type]  # what is refused


def test_a_change_keeps_what_is_not_ours() -> None:
    clock = ManualClock()
    old = create_file_data("one", clock=clock) | {"owner": "ana"}
    kept = {**old, "content": ["one"]}
    clock.advance(minutes=1)
    new = update_file_data(old, "two\n", clock=clock)
    assert new == old | {
        "content": ["two", ""],
        "modified_at": microseconds_to_datetime(clock()).isoformat(),
    }
    assert old == kept
    again = update_file_data(new, "three", file_format="v2", clock=clock)
    assert (again["content"], again["encoding"], again["owner"]) == ("three", "utf-8", "ana")
    assert "encoding" not in update_file_data(again, "four")


@given(st.text(), st.sampled_from(["v1", "v2"]))
def test_what_a_file_is_made_of_is_read_from_it(text: str, file_format: Any) -> None:
    data = create_file_data(text, file_format=file_format)
    assert file_data_to_string(data) == text
    assert file_data_to_string(update_file_data(data, text + "\n", file_format=file_format)) == text + "\n"


@pytest.mark.parametrize("content", [5, None, ["a", 1], {"a": 1}, {"0": 256}, b"bytes"])
def test_what_is_no_file_is_refused(content: Any) -> None:
    with pytest.raises(InvalidValue) as caught:
        file_data_to_string({"content": content})
    assert caught.value.field == "content"


def test_programs_and_agents_share_files_through_the_store() -> None:
    """The documented way: programs put what the function makes, and get what agents wrote."""
    store = InMemoryStore()
    backend = StoreBackend(store=store, namespace=N)
    store.put(N, "/preferences.txt", create_file_data("likes: tea\n"))
    assert backend.edit("/preferences.txt", "tea", "coffee").error is None
    item = store.get(N, "/preferences.txt")
    assert item is not None
    assert item.value["content"] == ["likes: coffee", ""]
    assert file_data_to_string(item.value) == "likes: coffee\n"
    assert [found.key for found in store.search(N)] == ["/preferences.txt"]
