"""Histories of writes that follow from a seed, so that a test knows what a killed process had been doing."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from stateroom.stores.base import Store
from stateroom.stores.operations import DeleteItem, PutItem, StoreOperation
from stateroom.stores.sqlite import SqliteStore

__all__ = ["DIMS", "EVERYTHING", "QUERIES", "contents", "embed", "history", "index", "open_store"]

DIMS = 4
EVERYTHING = 100_000
TEXT = "harbour tide lantern anchor gull rope sail storm 42 café pilot_boat keel"
QUERIES = ["harbour", "running tides", "cafe 42", "pilot", "absent"]


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors of whole numbers: how often four kinds of letter occur."""
    kinds = "aeiou", "bcdfgh", "rstl", "0123456789"
    return [[float(sum(map(text.count, kind))) for kind in kinds] for text in texts]


def index() -> dict[str, Any]:
    """Return an index by words and by vectors."""
    return {"embed": embed, "dims": DIMS, "fields": ["text"]}


def open_store(path: Path | str) -> SqliteStore:
    """Return a store with everything that can get out of step: both indexes and a declared key."""
    return SqliteStore(path, index=index(), index_keys=["n"])


def history(seed: int, puts: int) -> Iterator[list[StoreOperation]]:
    """Yield batches, most of them of one operation, that hold so many puts together."""
    dice = random.Random(seed)
    done = 0
    while done < puts:
        batch = [_operation(dice) for _ in range(dice.choice([1, 1, 1, 1, 2, 5, 20]))]
        done += sum(isinstance(operation, PutItem) for operation in batch)
        yield batch


def contents(store: Store) -> dict[tuple[Any, ...], Any]:
    """Return all values, and which items each query finds, with their scores."""
    found: dict[tuple[Any, ...], Any] = {
        (item.namespace, item.key): item.value for item in store.search((), limit=EVERYTHING)
    }
    found["namespaces",] = store.list_namespaces(limit=EVERYTHING)
    for query in QUERIES:
        for mode in ("text", "vector", "hybrid"):
            hits = store.search((), query=query, mode=mode, limit=EVERYTHING)
            found[query, mode] = [(hit.namespace, hit.key, hit.score) for hit in hits]
    return found


def _operation(dice: random.Random) -> StoreOperation:
    namespace = dice.choice([("port",), ("port", "north"), ("port", "south"), ("sea",)])
    key = str(dice.randrange(60))
    if dice.random() < 0.2:
        return DeleteItem(namespace, key)
    text = " ".join(dice.choices(TEXT.split(), k=dice.randrange(1, 12)))
    value = {"text": text, "n": dice.randrange(1_000)}
    return PutItem(namespace, key, value, index=dice.choice([None, None, None, False]))
