"""The suite of file systems itself: broken ones fail it, and Deep Agents' own is told from ours by it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from deepagents.backends import StoreBackend as TheirStoreBackend
from langgraph.store.base import PutOp
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore

from stateroom import InMemoryStore
from stateroom.clock import ManualClock
from stateroom.files import Backend, grepping, listing, paths, reading, text, writing
from stateroom.files.volume import Volume
from stateroom.stores.foreign import from_base_store
from stateroom.stores.operations import GetItem, PutItem
from stateroom.testing.files import FilesSuite, FileSystem, OverStore
from stateroom.testing.files_harness import HOME, Files, OpensFiles
from stateroom.testing.harness import Sync

# What of the suite Deep Agents' own backend over LangGraph's own store passes, and what it does not.
THEY_PASS = [
    "test_a_window_of_lines_is_read",
    "test_a_file_is_deleted",
    "test_a_text_that_occurs_often_is_replaced_on_demand",
    "test_a_line_feed_that_the_file_lacks_is_hinted_at",
    "test_lines_that_hold_a_text_are_found",
    "test_a_pattern_says_which_files_to_look_into",
    "test_text_is_text_and_other_bytes_are_not",
]
THEY_FAIL = [
    "test_a_directory_is_named_by_its_files_and_can_be_none_itself",
    "test_an_edit_finds_what_read_shows_of_other_line_ends",
    "test_an_error_repeats_no_more_than_the_beginning_of_a_text",
    "test_lines_end_at_a_line_feed_and_nowhere_else",
    "test_no_file_can_be_created_where_a_directory_is",
    "test_the_root_is_not_deleted",
    "test_what_is_no_file_is_not_listed",
    "test_what_is_under_no_path_is_not_listed",
]


def passes(name: str, files: Files, **more: Any) -> bool:
    """Run one test of the suite and tell whether it passes."""
    test = getattr(FilesSuite(), name)
    fixtures = {"files": files} | more
    try:
        test(**{each: fixtures[each] for each in inspect.signature(test).parameters})
    except Exception:
        return False
    return True


def their_files() -> Files:
    store = LangGraphInMemoryStore()

    def plant(path: str, value: Mapping[str, Any]) -> None:
        store.batch([PutOp(HOME, path, dict(value))])

    def everything() -> dict[str, Any]:
        found = from_base_store(store).search(HOME, limit=1_000)
        return {item.key: item.value for item in found}

    backend = TheirStoreBackend(namespace=lambda _: HOME, store=store)
    return Files(FileSystem(backend, plant, everything), Sync(backend))  # type: ignore[arg-type]  # it is asked by name


@pytest.mark.parametrize("name", THEY_PASS)
def test_what_deep_agents_does_right_passes(name: str) -> None:
    assert passes(name, their_files())


@pytest.mark.parametrize("name", THEY_FAIL)
def test_what_deep_agents_does_wrong_fails(name: str) -> None:
    assert not passes(name, their_files())


def forgetful(self: Volume, path: str, content: Any, seen: Any) -> PutItem:  # noqa: ARG001  # that is the fault
    return REAL_PUT(self, path, content, None)._replace(if_absent=False)


def nothing(*_: Any, **__: Any) -> Any:
    return iter(())


def refreshing(self: Volume, path: str) -> GetItem:
    return GetItem(self.namespace, path)


def of_a_prefix(self: Volume, prefix: str, **options: Any) -> Any:
    return REAL_LIST(self, prefix.removesuffix("/"), **options)


REAL_PUT, REAL_LIST = Volume.put, Volume.list

# What is broken, how, and the test that must notice.
BROKEN: list[tuple[Any, str, Any, str]] = [
    (Volume, "put", forgetful, "test_writing_again_replaces_the_content_and_keeps_the_creation"),
    (Volume, "get", refreshing, "test_reading_prolongs_and_nothing_else_does"),
    (Volume, "list", of_a_prefix, "test_a_directory_is_listed"),
    (writing, "_check_room", nothing, "test_nothing_can_be_created_below_a_file"),
    (writing, "file_path", lambda path, **_: path, "test_a_path_may_be_spelled_in_any_way"),
    (listing, "is_path", bool, "test_what_is_under_no_path_is_not_listed"),
    (grepping, "matching_lines", nothing, "test_lines_that_hold_a_text_are_found"),
    (reading, "window_of", lambda *_: None, "test_a_window_of_lines_is_read"),
    (text, "_CRLF", "\r\r\n", "test_an_edit_keeps_the_line_ends_of_a_file"),
    (text, "SHOWN_CHARACTERS", 100_000, "test_an_error_repeats_no_more_than_the_beginning_of_a_text"),
    (paths, "KEY_BYTES_MAX", 100, "test_the_longest_path_is_one"),
]


@pytest.mark.parametrize(("place", "name", "broken", "test"), BROKEN, ids=[each[3] for each in BROKEN])
def test_what_is_broken_is_noticed(
    monkeypatch: pytest.MonkeyPatch, place: Any, name: str, broken: Any, test: str
) -> None:
    def run() -> bool:
        clock = ManualClock()
        made = OverStore(InMemoryStore)
        opens = OpensFiles(lambda **options: made(**({"clock": clock} | options)), Sync, monkeypatch)
        more: dict[str, Any] = {"opens": opens, "clock": clock, "path": "/a.md"}
        # A test of an option opens the storage itself, with it.
        wants = inspect.signature(getattr(FilesSuite(), test)).parameters
        files: Any = opens() if "opens" not in wants else None
        return passes(test, files, **more)

    assert run()
    monkeypatch.setattr(place, name, broken)
    assert not run()


def test_no_test_hides_another() -> None:
    names = Counter(
        name
        for part in FilesSuite.__bases__
        for name, member in vars(part).items()
        if name.startswith("test_") and isinstance(member, Callable)  # type: ignore[arg-type]  # it can be asked
    )
    assert [name for name, times in names.items() if times > 1] == []
    assert len(names) > 90


def test_every_operation_is_asked() -> None:
    source = "".join(inspect.getsource(inspect.getmodule(part)) for part in FilesSuite.__bases__)  # type: ignore[arg-type]
    harness = inspect.getsource(inspect.getmodule(Files))  # type: ignore[arg-type]
    for name in vars(Backend):
        if not name.startswith("_") and not hasattr(Backend, f"a{name}"):
            operation = name.removeprefix("a")
            assert f'"{operation}"' in source + harness, operation
