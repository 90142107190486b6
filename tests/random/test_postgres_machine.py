"""The Postgres store held against the reference at random: as it is, and with thresholds few items pass."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator, Mapping
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any

import psycopg
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from langgraph.store.base import GetOp, PutOp
from psycopg import sql
from typing_extensions import override

import stateroom.stores.sweeping as sweeping
from stateroom.clock import ManualClock
from stateroom.drivers.postgres import (
    finding,
    hnsw,
    items,
    nearest,
    scope,
    text,
    text_search,
    text_statistics,
    upkeep,
    vectors,
    where,
)
from stateroom.drivers.postgres.estimating import Estimate
from stateroom.errors import StateroomError
from stateroom.stores.base import Store
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import DeleteItem, GetItem, PutItem, SearchItems, StoreOperation
from stateroom.stores.postgres import PostgresStore
from stateroom.testing import drawing
from stateroom.testing.comparing import check_same, facts
from stateroom.testing.machine import VECTORS, Setup, StoreMachine, machine
from tests.random.test_machine import with_thresholds


def expect_some(*_: object) -> Estimate:
    """Expect matches everywhere, whatever they are: a walk that looks for them may then be in vain."""
    return Estimate(matching=4, total=4)


LOW: Mapping[tuple[ModuleType, str], Any] = {
    (finding, "FEW_LOOKED_UP"): 1,
    (finding, "estimate"): expect_some,
    (finding, "SHORT_OFFSET"): 1,
    (finding, "WALK_FACTOR"): 0,
    (finding, "WALK_START"): 3,
    (hnsw, "EXACT_ALWAYS"): 0,
    (hnsw, "EXACT_CANDIDATES"): 0,
    (hnsw, "LOOKED_MAX"): 1_000_000,
    (items, "NAMESPACES_KNOWN"): 2,
    (nearest, "SPARE"): 1,
    (scope, "FEW_NAMESPACES"): 2,
    (sweeping, "SWEEP_BATCH"): 1,
    (text, "BATCH_BYTES"): 40,
    (text, "BATCH_ITEMS"): 2,
    (text, "TERMS_KNOWN"): 2,
    (text_search, "FIRST_LOOK"): 1,
    (text_search, "PENDING_MAX"): 1,
    (text_search, "SCAN_MAX"): 1,
    (text_statistics, "SCOPES_KNOWN"): 1,
    (upkeep, "ANALYZE_GROWTH"): 1,
    (upkeep, "ANALYZE_LEAST"): 1,
    (upkeep, "WRITES_BETWEEN"): 3,
    (vectors, "MERGE_FROM"): 2,
    (vectors, "MERGE_VECTORS"): 1,
    (vectors, "ORPHANS_LOOKED"): 1,
    (where, "INDEXED_CHOICES_MAX"): 1,
    (where, "INDEXED_TEXT_MAX"): 2,
}

numbers = count()

LowPostgresStore = with_thresholds(PostgresStore, LOW)

# Of a few rows Postgres would read all, whatever indexes there are.
BY_INDEX = {"kwargs": {"options": "-c enable_seqscan=off"}}


class Server:
    """Where the histories are kept, each in a schema of its own."""

    uri = ""
    schemas: set[str] = set()  # noqa: RUF012  # of all histories


@pytest.fixture(scope="module", autouse=True)
def _server(postgres: str) -> Iterator[None]:
    Server.uri = postgres
    yield
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set client_min_messages = 'warning'")
        for schema in Server.schemas:
            connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(schema)))


def place(setup: Setup) -> dict[str, Any]:
    """Return where a history is kept."""
    schema = f"history_{setup.folder.name}"
    Server.schemas.add(schema)
    return {"uri": Server.uri, "schema": schema}


def open_store(setup: Setup) -> PostgresStore:
    return PostgresStore(**place(setup), **setup.options)


def open_low_store(setup: Setup) -> PostgresStore:
    return LowPostgresStore(**place(setup), **approximate(setup), pool=BY_INDEX)


def approximate(setup: Setup) -> dict[str, Any]:
    """Return the options with an HNSW index for vectors, which of so few finds all."""
    index = setup.options.get("index", {})
    return {**setup.options, **({"index": {**index, "hnsw": True}} if "embed" in index else {})}


class PostgresMachine(StoreMachine):
    """Asks nothing that depends on the order in which things done at the same time take effect."""

    @override
    @precondition(lambda self: not self.embeds)
    @rule(batches=st.lists(drawing.batches, min_size=2, max_size=4), puts=drawing.several_puts)
    def batches_of_concurrent_callers(
        self, batches: list[list[StoreOperation]], puts: list[StoreOperation]
    ) -> None:
        """Reads go side by side; puts go together, in their order."""
        self._compare_together([[*map(quiet, filter(reads, batch))] for batch in batches])
        self._compare_together([[put] for put in puts])

    def _compare_together(self, batches: list[list[StoreOperation]]) -> None:
        async def together() -> list[Any]:
            return [*await asyncio.gather(*map(self.store.abatch, batches), return_exceptions=True)]

        self._agree(asyncio.run(together()), [_outcome(self.reference, batch) for batch in batches])

    @override
    def _flush(self) -> None:
        self.store._items.sweep(0)


def reads(operation: StoreOperation) -> bool:
    return not isinstance(operation, PutItem | DeleteItem | PutOp)


def quiet(operation: StoreOperation) -> StoreOperation:
    """Return a read without what it may change."""
    if isinstance(operation, GetOp | GetItem | SearchItems):
        return operation._replace(refresh_ttl=False)
    return operation


def _outcome(store: Store, batch: list[StoreOperation]) -> Any:
    try:
        return store.batch(batch)
    except StateroomError as error:
        return error


class CrowdedMachine(PostgresMachine):
    """Also lets somebody come and go, so that empty namespaces lie between those that hold something."""

    crowded = False

    @precondition(lambda self: not self.crowded)
    @rule()
    def somebody_comes_and_goes(self) -> None:
        self.crowded = True
        puts = [PutItem(("a", f"gone-{number}"), "k", {"n": number}, index=False) for number in range(5)]
        # With the usual thresholds, since what is written here is not the point.
        PostgresStore.batch(self.store, puts)
        PostgresStore.batch(self.store, [DeleteItem(put.namespace, put.key) for put in puts])


TestPostgres = machine(open_store, name="Postgres", base=PostgresMachine).TestCase
TestLowPostgres = machine(open_low_store, name="LowPostgres", base=CrowdedMachine).TestCase


def anew(**options: Any) -> Setup:
    """Return a set-up whose store is empty."""
    return Setup(Path(f"{os.getpid()}-{next(numbers)}"), options)


short_pages = st.builds(
    lambda search, limit: search._replace(limit=limit), drawing.lists | drawing.queries, st.integers(1, 4)
)


@given(drawing.several_puts, st.lists(short_pages, min_size=8, max_size=8))
@settings(max_examples=60)
def test_many_searches_of_the_same_items_find_what_the_reference_finds(
    puts: list[StoreOperation], searches: list[StoreOperation]
) -> None:
    asked = [each for each in map(quiet, searches) if getattr(each, "mode", "") in ("auto", "text")]
    setup = anew(clock=ManualClock())
    with open_low_store(setup) as store, InMemoryStore(clock=ManualClock()) as reference:
        for each in (store, reference):
            each.batch(puts)
        found, wanted = ([each.batch([one]) for one in asked] for each in (store, reference))
        check_same(facts(found, store.capabilities), facts(wanted, store.capabilities))


@given(
    st.lists(st.tuples(st.sampled_from(["a", "b"]), st.text("abcrst12 ", max_size=9)), max_size=12),
    st.text("abcrst12 ", min_size=1, max_size=6),
    st.sampled_from(["cosine", "l2", "inner_product"]),
    st.integers(1, 12),
)
@settings(max_examples=40)
def test_of_a_few_vectors_the_hnsw_index_finds_the_nearest(
    texts: list[tuple[str, str]], query: str, metric: str, size: int
) -> None:
    index = {**VECTORS, "distance_type": metric}
    puts = [PutItem((label,), str(number), {"text": text}) for number, (label, text) in enumerate(texts)]
    setup = anew(index=index)
    with open_low_store(setup) as store, InMemoryStore(index=index) as reference:
        reference.batch(puts)
        store.batch(puts[::2])
        # The upkeep moves those into the index, and not the ones that follow.
        store.sweep_ttl()
        store.batch(puts[1::2])
        for prefix in ((), ("a",)):
            found = store.search(prefix, query=query, limit=size)
            exact = reference.search(prefix, query=query, limit=size)
            assert [hit.score for hit in found] == pytest.approx([hit.score for hit in exact], abs=1e-6)
