"""Stores held against the reference at random: as they are, and with thresholds that few items pass."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import wraps
from itertools import pairwise
from types import ModuleType
from typing import Any, TypeVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule

import stateroom.drivers.memory.finding as memory_finding
import stateroom.drivers.memory.ranking as memory_ranking
import stateroom.search.vectors as vector_table
import stateroom.stores.sweeping as sweeping
from stateroom.drivers.sqlite import finding, ranking, text, text_search, upkeep, vectors
from stateroom.stores.base import Store
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import DeleteItem, PutItem
from stateroom.stores.sqlite import SqliteStore
from stateroom.testing.machine import Setup, StoreMachine, machine

S = TypeVar("S", bound=Store)
Thresholds = Mapping[tuple[ModuleType, str], int]

# FTS5 chooses a block of documents by a rank that is not ours; here the block has room for all of them.
SQLITE: Thresholds = {
    (finding, "FEW_NAMESPACES"): 1,
    (finding, "SEVERAL_NAMESPACES"): 2,
    (finding, "WALK_START"): 1,
    (finding, "WALK_OWN"): 1,
    (finding, "LED_ITEMS"): 1,
    (finding, "NARROW_ITEMS"): 2,
    (finding, "WALK_FACTOR"): 1,
    (finding, "WALK_LEAST"): 2,
    (ranking, "FIRST_SIFT"): 1,
    (ranking, "KEYED_ITEMS"): 2,
    (ranking, "SIFT_MAX"): 2,
    (text, "CATCH_UP_MAX"): 2,
    (text_search, "SCAN_MAX"): 1,
    (upkeep, "FRESH_MAX"): 1,
    (upkeep, "REMOVALS_KEPT"): 2,
    (upkeep, "WRITES_BETWEEN"): 3,
    (vectors, "BLOCK"): 2,
    (sweeping, "SWEEP_BATCH"): 1,
    (vector_table, "DEAD_ROWS_KEPT"): 1,
    (vector_table, "FIRST_BLOCK"): 1,
    (vector_table, "FIRST_CAPACITY"): 1,
}
MEMORY: Thresholds = {
    (memory_finding, "WALK_MAX"): 1,
    (memory_ranking, "SCAN_MAX"): 1,
    (vector_table, "DEAD_ROWS_KEPT"): 1,
    (vector_table, "FIRST_BLOCK"): 1,
}


def open_file(setup: Setup) -> SqliteStore:
    return SqliteStore(setup.folder / "memory.db", **sqlite_options(setup))


def sqlite_options(setup: Setup) -> dict[str, Any]:
    """Return the options, which for one metric have all vectors read from disk."""
    index = setup.options.get("index", {})
    on_disk = {"index": {**index, "vector_cache_mb": 0}} if index.get("distance_type") == "l2" else {}
    return {**setup.options, **on_disk}


def open_memory(setup: Setup) -> SqliteStore:
    return SqliteStore(":memory:", **setup.options)


def with_thresholds(kind: type[S], thresholds: Thresholds) -> type[S]:
    """Return the class with thresholds of its own: they are set while one of its methods runs, not beside it.

    So the reference, which shares some of the code, keeps the usual ones.
    """

    def wrapped(method: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def call(*args: Any, **named: Any) -> Any:
            with pytest.MonkeyPatch.context() as patch:
                for (module, name), value in thresholds.items():
                    patch.setattr(module, name, value)
                return method(*args, **named)

        return call

    names = ["__init__", "setup", "close", "batch", "get", "put_item", "delete", "search", "sweep_ttl"]
    return type(kind.__name__, (kind,), {name: wrapped(getattr(kind, name)) for name in names})


LowSqliteStore = with_thresholds(SqliteStore, SQLITE)
LowerSqliteStore = with_thresholds(SqliteStore, {**SQLITE, (text_search, "EXACT_MAX"): 0})
LowMemoryStore = with_thresholds(InMemoryStore, MEMORY)


class AgingMachine(StoreMachine):
    """Also lets somebody write and delete much in between, so that items lie behind the latest revisions."""

    busy = False

    @precondition(lambda self: not self.busy)
    @rule()
    def somebody_writes_much(self) -> None:
        self.busy = True
        puts = [PutItem(("elsewhere",), str(number), {}, index=False) for number in range(1_100)]
        # With the usual thresholds, since what is written here is not the point.
        SqliteStore.batch(self.store, puts)
        SqliteStore.batch(self.store, [DeleteItem(put.namespace, put.key) for put in puts])


def open_low_file(setup: Setup) -> Store:
    return LowSqliteStore(setup.folder / "memory.db", **setup.options)


def open_lower_file(setup: Setup) -> Store:
    return LowerSqliteStore(setup.folder / "memory.db", **sqlite_options(setup))


TestSqliteFile = machine(open_file, name="SqliteFile").TestCase
TestSqliteMemory = machine(open_memory, name="SqliteMemory", durable=False, shared=False).TestCase
TestLowSqlite = machine(open_low_file, name="LowSqlite", base=AgingMachine).TestCase
TestLowerSqlite = machine(open_lower_file, name="LowerSqlite", base=AgingMachine).TestCase
TestLowMemory = machine(lambda setup: LowMemoryStore(**setup.options), name="LowMemory").TestCase


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text("xyz ", max_size=12)), max_size=12),
    st.sampled_from(["x", "y z", "xx y", "x y z"]),
    st.integers(1, 4),
)
@settings(max_examples=60)
def test_a_block_that_fts5_chooses_loses_no_hit_and_gives_all_pages_one_order(
    texts: list[tuple[str, str]], query: str, size: int
) -> None:
    puts = [PutItem((label,), str(number), {"text": text}) for number, (label, text) in enumerate(texts)]
    with SqliteStore() as store, InMemoryStore() as reference, pytest.MonkeyPatch.context() as patch:
        for module, name, value in (
            (text_search, "SCAN_MAX", 0),
            (text_search, "EXACT_MAX", 0),
            (text_search, "BLOCK", 2),
            (upkeep, "FRESH_MAX", size),
        ):
            patch.setattr(module, name, value)
        store.batch(puts)
        reference.batch(puts)
        for prefix in ((), ("a",)):
            hits = store.search(prefix, query=query, limit=100)
            exact = {hit.key: hit.score for hit in reference.search(prefix, query=query, limit=100)}
            assert {hit.key for hit in hits} == exact.keys()
            assert all((hit.score or 0.0) <= (exact[hit.key] or 0.0) for hit in hits)
            assert all((one.score or 0.0) >= (two.score or 0.0) for one, two in pairwise(hits))
            pages = [store.search(prefix, query=query, limit=size, offset=n) for n in range(0, 13, size)]
            assert [hit.key for page in pages for hit in page] == [hit.key for hit in hits]
