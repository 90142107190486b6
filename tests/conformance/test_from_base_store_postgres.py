"""Stores over LangGraph's Postgres store pass the conformance suite."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from functools import partial
from itertools import count
from typing import Any

import psycopg
import pytest
from langgraph.store.postgres import AsyncPostgresStore, PostgresStore
from psycopg import sql
from psycopg.rows import dict_row
from typing_extensions import override

from stateroom.errors import NotSupported, Unavailable
from stateroom.stores.foreign import from_base_store
from stateroom.testing import Opened, StoreSuite
from stateroom.testing.parts.indexing import IndexingSuite
from stateroom.testing.parts.vectors import VectorsSuite
from tests.conformance.foreign import NOT_TOLD, UNINDEXED, differs, opened, opened_with_vectors
from tests.conftest import NewSchema

# What LangGraph's Postgres store does by itself, and cannot be mended from outside.
ONE_MOMENT = "what is put in one batch is put at one moment, and the order of the puts is not kept"
NUMBERS = "a float from 1e16 on comes back as an integer"
DOTS = "it joins labels by dots, and so refuses them in labels"
KEYS = "a namespace and a key must fit a page of an index, and it does not say which is too long"
PLAIN = (
    UNINDEXED
    | dict.fromkeys(
        [
            "test_a_filter_and_a_query_must_both_hold",
            "test_a_page_beyond_the_end_is_short_or_empty",
            "test_a_rare_match_behind_thousands_is_found_in_order",
            "test_beyond_a_thousand_items_the_ranking_is_the_same",
            "test_filtering_comes_before_paging",
            "test_many_puts_in_one_batch_are_all_there_in_order",
            "test_pages_cut_one_order",
        ],
        ONE_MOMENT,
    )
    | dict.fromkeys(
        ["test_a_value_comes_out_as_it_went_in", "test_every_condition_matches_what_it_says"], NUMBERS
    )
    | dict.fromkeys(
        [
            "test_a_label_does_not_split_at_any_separator",
            "test_what_batch_has_named_can_be_read_found_and_deleted",
        ],
        DOTS,
    )
    | dict.fromkeys(
        [
            "test_the_deepest_namespace_is_kept_and_one_label_more_refused",
            "test_the_largest_value_is_kept_and_one_byte_more_refused",
        ],
        KEYS,
    )
)
VECTORS = UNINDEXED | {
    "test_a_query_is_embedded_as_a_query": "it embeds queries as documents",
    "test_an_update_that_is_not_indexed_removes_the_old_vectors": "it keeps them",
    "test_hybrid_search_fuses_words_and_vectors": NOT_TOLD,
    "test_text_that_stayed_the_same_is_not_embedded_again": "it embeds every put",
    "test_the_texts_of_a_batch_are_embedded_in_one_call": "it embeds equal texts each",
    "test_vectors_that_cannot_be_used_are_refused_and_nothing_is_put": "it leaves them to the database",
}

Borrow = Callable[[], PostgresStore]


class Untimed(PostgresStore):
    """Says that it lets nothing expire: the suite's clock is not the server's."""

    supports_ttl = False


class Stores:
    """Stores in schemas of their own, emptied and lent again, since setting one up takes its time."""

    def __init__(self, uri: str, closing: ExitStack) -> None:
        self._uri = uri
        self._closing = closing
        self._free: list[PostgresStore] = []

    def borrow(self) -> PostgresStore:
        """Return an empty store."""
        if self._free:
            return self._free.pop()
        schema = f"foreign_{os.getpid()}_{next(_numbers)}"
        store = make(self._uri, schema, self._closing)
        assert isinstance(store.conn, psycopg.Connection)
        dropping = sql.SQL("drop schema {} cascade").format(sql.Identifier(schema))
        self._closing.callback(store.conn.execute, dropping)
        return store

    def give_back(self, store: PostgresStore) -> None:
        """Empty a store."""
        assert isinstance(store.conn, psycopg.Connection)
        store.conn.execute("truncate store")
        self._free.append(store)


_numbers = count()


def make(uri: str, schema: str, closing: ExitStack, index: Any = None) -> PostgresStore:
    """Return a new store in a new schema."""
    connection = psycopg.connect(uri, autocommit=True, prepare_threshold=0, row_factory=dict_row)
    closing.callback(connection.close)
    connection.execute("set client_min_messages = 'warning'")
    connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))
    connection.execute(sql.SQL("set search_path to {}, public").format(sql.Identifier(schema)))
    store = Untimed(connection, index=index)
    store.setup()
    return store


@pytest.fixture(scope="module")
def stores(postgres: str) -> Iterator[Stores]:
    with ExitStack() as closing:
        yield Stores(postgres, closing)


@differs(PLAIN)
class TestOverLangGraphPostgresStore(StoreSuite):
    @pytest.fixture
    def borrow(self, stores: Stores) -> Iterator[Borrow]:
        borrowed: list[PostgresStore] = []

        def borrow() -> PostgresStore:
            borrowed.append(stores.borrow())
            return borrowed[-1]

        yield borrow
        for store in borrowed:
            stores.give_back(store)

    @pytest.fixture
    @override
    def open_store(self, borrow: Borrow) -> Opened:
        return partial(opened, borrow)


@differs(VECTORS)
class TestOverLangGraphPostgresStoreWithVectors(VectorsSuite, IndexingSuite):
    @pytest.fixture
    @override
    def open_store(self, postgres: str, new_schema: NewSchema) -> Iterator[Opened]:
        with psycopg.connect(postgres, autocommit=True) as connection:
            # Where the store would put it, it would go with the schema.
            connection.execute("create extension if not exists vector schema public")
        with ExitStack() as closing:
            yield partial(
                opened_with_vectors, lambda index: make(postgres, new_schema(), closing, adapted(index))
            )


def adapted(index: Mapping[str, Any]) -> dict[str, Any]:
    """Return an index in LangGraph's words, with a search that looks at everything."""
    return {**index, "ann_index_config": {"kind": "flat"}}


@pytest.mark.usefixtures("postgres")
class TestTimeToLive:
    """The server's clock rules, so time passes by moving what it has written down."""

    @pytest.fixture
    def theirs(self, postgres: str, new_schema: NewSchema) -> Iterator[PostgresStore]:
        with ExitStack() as closing:
            store = make(postgres, new_schema(), closing)
            store.supports_ttl = True
            yield store

    def test_an_item_expires_by_the_stores_own_rules(self, theirs: PostgresStore) -> None:
        store = from_base_store(theirs, ttl={"default_ttl": 60, "refresh_on_read": False})
        store.put(("a",), "default", {"t": "giraffe"})
        store.put(("a",), "never", {"t": "giraffe"}, ttl=None)
        assert self.minutes(theirs) == {"default": 60, "never": None}
        store.get(("a",), "default")
        store.search((), query="giraffe")
        assert self.pass_time(theirs, 61) == 1
        assert store.sweep_ttl() == 1
        assert [hit.key for hit in store.search((), query="giraffe")] == ["never"]

    def test_a_search_refreshes_what_it_answers_alone(self, theirs: PostgresStore) -> None:
        store = from_base_store(theirs)
        for key in ("one", "two"):
            store.put(("a",), key, {"t": f"giraffe {key}"}, ttl=60)
        self.pass_time(theirs, 59)
        assert [hit.key for hit in store.search((), query="two")] == ["two"]
        self.pass_time(theirs, 2)
        assert store.sweep_ttl() == 1
        assert [hit.key for hit in store.search(())] == ["two"]

    @staticmethod
    def pass_time(theirs: PostgresStore, minutes: int) -> int:
        """Have the items expire so many minutes earlier; return how many would."""
        assert isinstance(theirs.conn, psycopg.Connection)
        statement = "update store set expires_at = expires_at - %s * interval '1 minute'"
        return theirs.conn.execute(statement + " where expires_at is not null", [minutes]).rowcount

    @staticmethod
    def minutes(theirs: PostgresStore) -> dict[str, int | None]:
        """Return the times to live that the store has been given, by key."""
        assert isinstance(theirs.conn, psycopg.Connection)
        rows: list[Any] = theirs.conn.execute("select key, ttl_minutes from store").fetchall()
        return {row["key"]: row["ttl_minutes"] for row in rows}


def test_langgraphs_asynchronous_store_is_served_on_its_own_loop(
    postgres: str, new_schema: NewSchema
) -> None:
    schema = new_schema()
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute(sql.SQL("create schema {}").format(sql.Identifier(schema)))

    async def run() -> list[str]:
        separator = "&" if "?" in postgres else "?"
        uri = f"{postgres}{separator}options=-csearch_path%3D{schema}"
        async with AsyncPostgresStore.from_conn_string(uri) as theirs, from_base_store(theirs) as store:
            await asyncio.gather(*(store.aput(("a",), str(n), {"t": "giraffe", "n": n}) for n in range(20)))
            assert await store.acount((), filter={"n": {"$gte": 9}}) == 11
            with pytest.raises(NotSupported, match="await"):
                store.get(("a",), "1")
            item = await asyncio.to_thread(store.get, ("a",), "1")
            assert item is not None
            return [hit.key for hit in await store.asearch((), query="giraffes", filter={"n": 7})]

    assert asyncio.run(run()) == ["7"]


def test_a_lost_connection_is_unavailable(postgres: str, new_schema: NewSchema) -> None:
    with ExitStack() as closing:
        theirs = make(postgres, new_schema(), closing)
        store = from_base_store(theirs)
        store.put(("a",), "k", {})
        assert isinstance(theirs.conn, psycopg.Connection)
        theirs.conn.close()
        for call in (lambda: store.get(("a",), "k"), lambda: store.search(("a",))):
            with pytest.raises(Unavailable) as caught:
                call()
            assert caught.value.retryable
