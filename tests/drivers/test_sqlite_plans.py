"""How SQLite goes about what a store asks of it: by an index, or by a bounded walk."""

from __future__ import annotations

import re
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from stateroom import ManualClock, PutItem, SqliteStore
from stateroom.drivers.sqlite.items import SqliteItems

USERS = 300
FILES = ("assistant", "filesystem")


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("plans") / "memory.db"
    with SqliteStore(path, index_keys=["rare"], clock=ManualClock()) as store:
        store.batch(
            [
                PutItem(
                    ("mem", f"org{n % 3}", f"user{n % USERS}"),
                    f"k{n}",
                    {"text": f"note {n}", "rare": f"r{n % 1_000}", "n": n},
                    ttl=1 if n < 10 else None,
                )
                for n in range(9_000)
            ]
        )
        store.batch(
            [PutItem(FILES, f"/{n % 9}/{n}.md", {"content": ["x"]}, index=False) for n in range(1_000)]
        )
        store.search((), query="note")
    return path


@pytest.fixture
def store(path: Path) -> Iterator[SqliteStore]:
    with SqliteStore(path, index_keys=["rare"], clock=ManualClock()) as store:
        yield store


def plans(store: SqliteStore, act: Callable[[], Any]) -> list[str]:
    """Return the steps by which SQLite carries out what an action asks."""
    items = store._items
    assert isinstance(items, SqliteItems)
    said: list[str] = []
    connections: list[sqlite3.Connection] = []

    def listen(connection: sqlite3.Connection) -> None:
        connection.set_trace_callback(said.append)
        connections.append(connection)

    items._db.read(listen)
    listen(items._db.open())
    act()
    for connection in connections:
        connection.set_trace_callback(None)
    asked = [sql for sql in said if re.match(r"\s*(select|with|delete|update|insert)", sql)]
    assert asked
    return [
        step[3].decode()
        for sql in asked
        for step in items._db.open().execute(f"explain query plan {sql}").fetchall()
    ]


def scans_of_items(steps: list[str]) -> list[str]:
    return [step for step in steps if re.match(r"SCAN (i|stateroom_item)\b", step)]


ONE = ("mem", "org1", "user1")


@pytest.mark.parametrize(
    ("name", "act"),
    [
        ("get", lambda s: s.get(ONE, "k1")),
        ("search of a namespace", lambda s: s.search(ONE)),
        ("search of a namespace with a filter", lambda s: s.search(ONE, filter={"n": 5})),
        ("search of several namespaces", lambda s: s.search(("mem", "org1"))),
        ("search of many namespaces", lambda s: s.search(("mem",))),
        ("declared equality", lambda s: s.search(("mem",), filter={"rare": "r7"})),
        ("declared equality everywhere", lambda s: s.search((), filter={"rare": "r7"})),
        ("declared range", lambda s: s.search(("mem",), filter={"rare": {"$gt": "r998"}})),
        ("text of a namespace", lambda s: s.search(ONE, query="note")),
        ("text of everybody", lambda s: s.search(("mem",), query="17")),
        ("sweep", lambda s: s.sweep_ttl()),
        ("put", lambda s: s.put(ONE, "k1", {"n": 1})),
        ("delete", lambda s: s.delete(ONE, "k1")),
        ("namespaces", lambda s: s.list_namespaces(prefix=("mem",), max_depth=2)),
        ("keys", lambda s: s.list_keys(ONE)),
        ("keys of a prefix", lambda s: s.list_keys(ONE, prefix="k1", suffix="0", containing="note")),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_nothing_reads_the_whole_table(
    store: SqliteStore, name: str, act: Callable[[SqliteStore], Any]
) -> None:
    assert scans_of_items(plans(store, lambda: act(store))) == [], name


def test_a_filter_on_an_undeclared_key_that_nothing_matches_does_read_it(store: SqliteStore) -> None:
    # So the test above is able to fail.
    assert scans_of_items(plans(store, lambda: store.search((), filter={"text": "absent"})))


def test_a_declared_key_is_found_by_its_index(store: SqliteStore) -> None:
    steps = plans(store, lambda: store.search(("mem",), filter={"rare": "r7"}))
    assert any(
        "USING INDEX stateroom_item_key_" in step or "USING COVERING INDEX stateroom_item_key_" in step
        for step in steps
    )


def test_expired_items_are_swept_by_their_index(store: SqliteStore) -> None:
    steps = plans(store, store.sweep_ttl)
    assert any("stateroom_item_expiry" in step for step in steps)


@pytest.mark.parametrize(
    "asked",
    [
        {},
        {"delimiter": "/"},
        {"suffix": ".md"},
        {"suffix": ".md", "delimiter": "/", "after": "/3/", "limit": 5},
    ],
    ids=str,
)
def test_paths_are_listed_from_their_own_index_alone(store: SqliteStore, asked: dict[str, Any]) -> None:
    for prefix in ("/", "/3/", "/3/30"):
        steps = plans(store, lambda at=prefix: store.list_keys(FILES, prefix=at, **asked))  # type: ignore[misc]
        assert {step.partition(" (")[0] for step in steps} == {
            "SEARCH n USING COVERING INDEX sqlite_autoindex_stateroom_namespace_1",
            "SEARCH i USING COVERING INDEX stateroom_item_path",
        }


@pytest.mark.parametrize("asked", [{"values": True}, {"containing": "x"}], ids=str)
def test_bodies_of_files_are_read_in_the_order_of_their_paths(
    store: SqliteStore, asked: dict[str, Any]
) -> None:
    steps = plans(store, lambda: store.list_keys(FILES, prefix="/3/", suffix=".md", **asked))
    assert "SEARCH i USING INDEX stateroom_item_path" in {step.partition(" (")[0] for step in steps}
    assert not any("TEMP B-TREE" in step for step in steps)


def test_all_keys_are_listed_from_both_indexes(store: SqliteStore) -> None:
    steps = plans(store, lambda: store.list_keys(FILES, limit=2_000))
    assert [step.partition(" (")[0] for step in steps if step.startswith("SEARCH i")] == [
        "SEARCH i USING INDEX stateroom_item_address",
        "SEARCH i USING COVERING INDEX stateroom_item_path",
        "SEARCH i USING INDEX stateroom_item_address",
    ]
