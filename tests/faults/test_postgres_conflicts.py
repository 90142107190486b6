"""Transactions of Postgres that stand in each other's way: repeated where that helps, reported where not."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import pytest

from stateroom.errors import Unavailable
from stateroom.stores.operations import GetItem, PutItem
from stateroom.stores.postgres import PostgresStore
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, set_to, until

N = ("notes",)
LOCK_BY_KEY = "select from {}.item where key = 'middle' for update"


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


def uri(watch: Watch, name: str, value: str) -> str:
    return set_to(named(watch.uri, watch.name), name, value)


def test_batches_that_put_the_same_keys_in_opposite_order_both_succeed(watch: Watch) -> None:
    def put(name: str, keys: list[str]) -> None:
        # Each read ends a run of puts, so that the next is a statement of its own.
        store.batch([each for key in keys for each in (PutItem(N, key, {"by": name}), GetItem(N, key))])

    with (
        PostgresStore(uri(watch, "deadlock_timeout", "50ms"), schema=watch.name) as store,
        ThreadPoolExecutor(2) as threads,
    ):
        store.put(N, "middle", {})
        with watch.holding(LOCK_BY_KEY):
            # Both have their first key now, want the other's, and find the middle one locked.
            running = [
                threads.submit(put, "one", ["a", "middle", "b"]),
                threads.submit(put, "two", ["b", "middle", "a"]),
            ]
            until(lambda: watch.waiting() == 2)
        for each in running:
            each.result()
        assert {item.key for item in store.search(N)} == {"a", "b", "middle"}
        assert len({item.value["by"] for item in store.search(N)}) == 1, "the batches are mixed"


def test_plain_batches_in_any_order_from_many_threads_all_succeed(watch: Watch) -> None:
    keys = [f"{number}" for number in range(30)]

    def put(number: int) -> None:
        order = keys if number % 2 else keys[::-1]
        store.batch([PutItem(N, key, {"by": number}) for key in order])

    with (
        PostgresStore(uri(watch, "deadlock_timeout", "20ms"), schema=watch.name) as store,
        ThreadPoolExecutor(3) as threads,
    ):
        list(threads.map(put, range(60)))
        assert len({item.value["by"] for item in store.search(N, limit=100)}) == 1


def test_a_statement_that_takes_longer_than_the_server_allows_is_unavailable(watch: Watch) -> None:
    with PostgresStore(uri(watch, "statement_timeout", "200ms"), schema=watch.name) as store:
        revision = store.put_item(N, "middle", {"n": 1}).revision
        with watch.holding(LOCK_BY_KEY):
            for condition in (None, revision):
                with pytest.raises(Unavailable, match="statement timeout") as raised:
                    store.put(N, "middle", {"n": 2}, if_revision=condition)
                assert raised.value.retryable
        store.put(N, "middle", {"n": 3}, if_revision=revision)
        assert store.count(()) == 1


def test_a_lock_that_is_not_got_in_time_is_unavailable(watch: Watch) -> None:
    with PostgresStore(uri(watch, "lock_timeout", "100ms"), schema=watch.name) as store:
        store.put(N, "middle", {"n": 1})
        with watch.holding(LOCK_BY_KEY), pytest.raises(Unavailable, match="lock timeout") as raised:
            store.delete(N, "middle")
        assert raised.value.retryable
        store.delete(N, "middle")
        assert store.count(()) == 0


@pytest.mark.parametrize("level", ["repeatable read", "serializable"])
def test_what_isolation_a_database_defaults_to_does_not_matter(watch: Watch, level: str) -> None:
    def put(number: int) -> None:
        store.batch(
            [PutItem(N, "counter", {"n": number}), GetItem(N, "counter"), PutItem(N, f"{number}", {})]
        )
        store.put(N, "other", {"n": number})

    with PostgresStore(uri(watch, "default_transaction_isolation", level), schema=watch.name) as store:
        with ThreadPoolExecutor(4) as threads:
            list(threads.map(put, range(30)))
        assert store.count(()) == 32
        # Whether an item is the last of its namespace is asked after a lock, and not before others committed.
        database = store._items._db  # type: ignore[attr-defined]  # of Postgres
        shown = database.write(lambda session: session.fetch("show transaction_isolation"), repeats=True)
        assert shown == [("read committed",)]
