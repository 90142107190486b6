"""Several processes on one file: all writes count, and each sees what the others did."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import ListNamespacesOp

from stateroom.drivers.sqlite import database, migrations
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import PutItem, SearchItems
from stateroom.stores.sqlite import SqliteStore
from tests.faults.conftest import Start
from tests.faults.programs.children import (
    count_up,
    fork_and_go_on,
    open_at_once,
    write_own_and_shared,
)
from tests.faults.programs.histories import EVERYTHING, contents, index, open_store

WRITERS = ["bow", "stern", "port", "starboard"]


def test_a_reader_sees_items_namespaces_words_and_vectors_of_one_moment_while_others_write(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as reader:
        children = [start(write_own_and_shared, str(path), name, 200) for name in WRITERS]
        seen = set()
        while any(not child.pipe.poll() for child in children):
            seen.add(assert_one_moment(reader))
        assert [child.pipe.recv() for child in children] == ["done"] * 4
        assert len(seen) > 3, "the reader looked before or after, not meanwhile"
        assert_one_moment(reader)
        assert_everything_arrived(reader)


def assert_one_moment(reader: SqliteStore) -> int:
    """Check that all ways of looking at the store agree, and return how many items there are."""
    items, namespaces, by_word, by_vector = reader.batch(
        [
            SearchItems((), limit=EVERYTHING),
            ListNamespacesOp(limit=EVERYTHING),
            SearchItems((), query="tides", mode="text", limit=EVERYTHING),
            SearchItems((), query="tides", mode="vector", limit=EVERYTHING),
        ]
    )
    addresses = {(item.namespace, item.key): item.revision for item in items}
    assert len(addresses) == len(items)
    assert {namespace for namespace, _ in addresses} == set(namespaces)
    for hits in (by_word, by_vector):
        assert {(hit.namespace, hit.key): hit.revision for hit in hits} == addresses
    return len(items)


def assert_everything_arrived(reader: SqliteStore) -> None:
    for name in WRITERS:
        numbers = {item.value["n"] for item in reader.search(("own", name), limit=EVERYTHING)}
        assert numbers == {number for number in range(200) if number % 4}
    fresh = InMemoryStore(index=index())
    oldest_first = reversed(reader.search((), limit=EVERYTHING))
    fresh.batch([PutItem(item.namespace, item.key, item.value) for item in oldest_first])
    assert contents(reader) == contents(fresh)


def test_conditional_increments_of_many_processes_succeed_as_often_as_they_count(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    children = [start(count_up, str(path), 20) for _ in range(8)]
    answers = [[*child.messages()] for child in children]
    assert sorted(first for first, _ in answers) == ["found it"] * 7 + ["made it"]
    steps = sorted(step for _, told in answers for step in told)
    assert [count for _, count in steps] == [*range(1, 161)], "a step is lost, or counted twice"
    assert len({revision for revision, _ in steps}) == 160
    with open_store(path) as store:
        item = store.get(("counters",), "n")
        assert item is not None
        assert (item.revision, item.value) == (steps[-1][0], {"n": 160})


def test_twelve_processes_open_a_new_file_at_once_and_make_its_schema_once(
    start: Start, tmp_path: Path
) -> None:
    path = tmp_path / "memory.db"
    children = [start(open_at_once, str(path), str(number)) for number in range(12)]
    assert [child.pipe.recv() for child in children] == ["ready"] * 12
    for child in children:
        child.pipe.send("go")
    for number, child in enumerate(children):
        (found,) = child.messages()
        assert str(number) in found
    connection = sqlite3.connect(path)
    applied = connection.execute("select version from stateroom_migration order by version").fetchall()
    connection.close()
    assert [version for (version,) in applied] == sorted(migrations.versions())
    with open_store(path) as store:
        assert store.count(("opened",)) == 12


@pytest.mark.parametrize(
    "options",
    [{}, {"index": index()}, {"index_keys": ["n"]}, {"index": {"text": False}}],
    ids=["words", "vectors", "declared keys", "nothing"],
)
def test_reopening_waits_for_no_writer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]
) -> None:
    path = tmp_path / "memory.db"
    with SqliteStore(path, **options) as store:
        store.put(("notes",), "k", {"text": "tide", "n": 1})
    # Whoever waited would give up at once, and raise.
    monkeypatch.setattr(database, "BUSY_SECONDS", 0.0)
    writer = sqlite3.connect(path, isolation_level=None)
    writer.execute("begin immediate")
    with SqliteStore(path, **options) as store:
        item = store.get(("notes",), "k")
        assert item is not None
        assert item.value == {"text": "tide", "n": 1}
        assert store.count((), filter={"n": 1}) == 1
        assert store.list_namespaces() == [("notes",)]
        if options != {"index": {"text": False}}:
            assert [hit.key for hit in store.search((), query="tide")] == ["k"]
    writer.execute("rollback")
    writer.close()


def test_parent_and_children_of_forks_all_go_on_with_a_store_that_a_thread_was_writing_to(
    start: Start, tmp_path: Path
) -> None:
    child = start(fork_and_go_on, str(tmp_path / "memory.db"), 5)
    *children, written, parent, by_vector = child.messages()
    assert children == ["None, 20 found"] * 5
    assert (parent, by_vector) == ("None, 20 found", 20)
    with open_store(tmp_path / "memory.db") as store:
        namespaces = store.list_namespaces(max_depth=1)
        counts = {name: store.count(name) for name in namespaces}
        expected = {(f"child {number}",): 20 for number in range(5)}
        assert counts == expected | {("notes",): 1, ("parent",): 20, ("thread",): written}
