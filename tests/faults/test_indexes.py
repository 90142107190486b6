"""Embedders that fail and indexes that change: nothing is half written, nothing is found by old rules."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from stateroom.errors import InvalidValue, Misconfigured
from stateroom.stores.base import Store
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import DeleteItem, PutItem, StoreOperation
from stateroom.stores.sqlite import SqliteStore
from tests.faults.programs.histories import DIMS, contents, embed, index, open_store

Vectors = list[list[float]]


class Moody:
    """An embedder that does as it is told."""

    def __init__(self) -> None:
        self.answer: Callable[[Sequence[str]], Vectors] = embed

    def __call__(self, texts: Sequence[str]) -> Vectors:
        return self.answer(texts)


def fails(texts: Sequence[str]) -> Vectors:
    raise ConnectionError(f"no answer for {len(texts)} texts")


def too_long(texts: Sequence[str]) -> Vectors:
    return [[*vector, 1.0] for vector in embed(texts)]


def last_one_too_short(texts: Sequence[str]) -> Vectors:
    return [*embed(texts)[:-1], [1.0]]


def one_too_few(texts: Sequence[str]) -> Vectors:
    return embed(texts)[:-1]


def not_a_number(texts: Sequence[str]) -> Vectors:
    return [*embed(texts)[:-1], [math.nan] * DIMS]


def infinite(texts: Sequence[str]) -> Vectors:
    return [*embed(texts)[:-1], [math.inf] * DIMS]


FAULTS = [
    (fails, ConnectionError),
    (too_long, Misconfigured),
    (last_one_too_short, Misconfigured),
    (one_too_few, Misconfigured),
    (not_a_number, InvalidValue),
    (infinite, InvalidValue),
]


@pytest.fixture(params=["file", "memory"])
def moody(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """Return a store and its embedder."""
    embedder = Moody()
    config = {**index(), "embed": embedder}
    store: Store = (
        SqliteStore(tmp_path / "memory.db", index=config)
        if request.param == "file"
        else InMemoryStore(index=config)
    )
    with store:
        yield store, embedder


@pytest.mark.parametrize(("answer", "error"), FAULTS)
def test_a_failing_embedder_leaves_everything_as_it_was(
    moody: tuple[Store, Moody], answer: Callable[[Sequence[str]], Vectors], error: type[Exception]
) -> None:
    store, embedder = moody
    store.put(("notes",), "old", {"text": "tide"})
    before, revision = contents(store), revision_of(store, "old")
    embedder.answer = answer
    batch: list[StoreOperation] = [
        DeleteItem(("notes",), "old"),
        PutItem(("notes",), "unindexed", {"text": "gull"}, index=False),
        PutItem(("sea",), "first", {"text": "harbour"}),
        PutItem(("sea",), "second", {"text": "lantern"}),
    ]
    with pytest.raises(error):
        store.batch(batch)
    with pytest.raises(error):
        store.put(("notes",), "old", {"text": "storm"})
    with pytest.raises(error):
        store.search((), query="a query never seen", mode="vector")
    embedder.answer = embed
    assert contents(store) == before
    assert revision_of(store, "old") == revision
    store.batch(batch)
    assert {hit.key for hit in store.search((), query="x", mode="vector")} == {"first", "second"}


async def test_a_failing_embedder_fails_only_the_callers_whose_texts_it_was_asked_for(
    moody: tuple[Store, Moody],
) -> None:
    store, embedder = moody
    embedder.answer = fails
    with pytest.raises(ConnectionError):
        await store.abatch([PutItem(("a",), "k", {"text": "tide"}), PutItem(("a",), "l", {"n": 1})])
    await store.aput(("b",), "k", {"n": 1})
    assert await store.alist_namespaces() == [("b",)]


def test_other_dimensions_than_the_file_has_are_refused_with_both_numbers(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    with open_store(path) as store:
        store.put(("notes",), "k", {"text": "tide"})
        before = contents(store)

    def longer(texts: Sequence[str]) -> Vectors:
        return [[*vector, 0.0, 1.0] for vector in embed(texts)]

    with pytest.raises(Misconfigured, match=r"6.*4") as caught:
        SqliteStore(path, index={"embed": longer, "dims": 6}).setup()
    assert caught.value.field == "index.dims"
    with open_store(path) as store:
        assert contents(store) == before


HARBOURS = [
    PutItem(("notes", str(n % 3)), str(n), {"text": "The harbours were running", "title": f"Häfen {n}"})
    for n in range(30)
]


@pytest.mark.parametrize(
    ("first", "second"),
    [({"language": "english"}, {"language": "german"}), ({"fields": ["text"]}, {"fields": ["title"]})],
    ids=["language", "fields"],
)
def test_a_changed_text_index_is_made_anew_and_searched_by_the_new_rules(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any]
) -> None:
    puts = list(HARBOURS)
    for options in (first, second, first, second):
        with SqliteStore(tmp_path / "memory.db", index=options) as store:
            # One more each time: what is put and not indexed yet is found by the new rules as well.
            puts.append(HARBOURS[len(puts) - 25])
            store.batch(puts if options is first and len(puts) == 31 else puts[-1:])
            assert answers(store) == answers_in_memory(options, puts)
    assert answers_in_memory(first, puts) != answers_in_memory(second, puts)


def test_items_put_while_there_was_no_text_index_are_found_once_there_is_one(tmp_path: Path) -> None:
    with SqliteStore(tmp_path / "memory.db", index={"text": False}) as store:
        store.batch(HARBOURS)
        store.put(*HARBOURS[0][:3])
    with SqliteStore(tmp_path / "memory.db") as store:
        assert answers(store) == answers_in_memory({}, [*HARBOURS, HARBOURS[0]])


def answers(store: Store) -> dict[str, list[tuple[str, float | None]]]:
    """Return what a few queries find, with the scores."""
    queries = "run", "running", "harbour", "hafen", "the", "7"
    return {
        query: [(hit.key, hit.score) for hit in store.search(("notes",), query=query, limit=100)]
        for query in queries
    }


def answers_in_memory(
    options: dict[str, Any], puts: Sequence[PutItem]
) -> dict[str, list[tuple[str, float | None]]]:
    fresh = InMemoryStore(index=options)
    fresh.batch(puts)
    return answers(fresh)


def revision_of(store: Store, key: str) -> int:
    item = store.get(("notes",), key)
    assert item is not None
    return item.revision or 0
