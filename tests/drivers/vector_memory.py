"""A Postgres schema of items with vectors, and the same in a table in memory to compare it with."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import psycopg
import pytest
from typing_extensions import override

from stateroom.clock import system_clock
from stateroom.contract.items import Delete, Embedded, Put
from stateroom.drivers.postgres import hnsw
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.rows import address_of
from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.target import Target
from stateroom.drivers.postgres.text_search import Scored
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.vectors import Vectors
from stateroom.drivers.postgres.where import where
from stateroom.drivers.postgres.writing import delete_all, put_all, register
from stateroom.model.filter import compile_filter, parse_filter
from stateroom.model.item import Record
from stateroom.model.json_values import decode_value, encode_value
from stateroom.model.namespace import Namespace
from stateroom.search.index_config import parse_index_config
from stateroom.search.vectors import VectorTable

DIMS = 4
METRICS = ["cosine", "l2", "inner_product"]
TYPES = ["vector", "halfvec"]
NAMESPACES: list[Namespace] = [("a", "1"), ("a", "2"), ("b",)]
PREFIXES: list[Namespace] = [(), ("a",), ("a", "2"), ("b",)]

NOTHING: Mapping[str, Any] = {}


class Watched(Session):
    """A session that remembers its statements."""

    __slots__ = ("statements",)

    def __init__(self, connection: psycopg.Connection[Any], schema: str, timing: Timing) -> None:
        super().__init__(connection, schema, timing, prepares=True)
        self.statements: list[tuple[str, Mapping[str, Any]]] = []

    @override
    def fetch(
        self, sql: str, parameters: Mapping[str, Any] = NOTHING, *, prepared: bool = False
    ) -> list[tuple[Any, ...]]:
        self.statements.append((sql, parameters))
        return super().fetch(sql, parameters, prepared=prepared)


class Memory:
    """Items with vectors in one schema, and the same in a table in memory."""

    def __init__(self, uri: str, schema: str, **index: Any) -> None:
        given = {"embed": len, "dims": DIMS, **index}
        settings = parse_index_config(given, supports=frozenset({"hnsw", "vector_type"}))
        self.schema = schema
        self.uri = uri
        self.vectors = Vectors(settings)
        self.timing = Timing(system_clock)
        self.db = Database(
            uri,
            schema=schema,
            timing=self.timing,
            pool=None,
            prepares=True,
            prepare=lambda session: self.vectors.prepare(session, self.db.session),
            is_prepared=self.vectors.is_prepared,
            forked=lambda: None,
        )
        self.db.open()
        assert settings.dims is not None
        self.table = VectorTable(settings.dims, settings.distance_type)
        self.records: dict[tuple[Namespace, str], Record] = {}

    def put_all(self, puts: Sequence[Put]) -> list[Record]:
        """Put items in one transaction."""
        self.db.write_statement(
            lambda session: register(session, [put.namespace for put in puts]), repeats=True
        )

        def work(session: Session) -> list[Record]:
            records = put_all(session, None, puts)
            self.vectors.write(session, puts, records)
            return records

        records = self.db.write(work, repeats=False)
        for put, record in zip(puts, records, strict=True):
            self._gone((put.namespace, put.key))
            self.records[put.namespace, put.key] = record
            self.table.add(record.revision, [each.vector for each in put.vectors])
        return records

    def put(self, key: str, *points: Sequence[float], namespace: Namespace = ("a", "1")) -> Record:
        """Put an item with these vectors."""
        (record,) = self.put_all([item(key, *points, namespace=namespace)])
        return record

    def delete(self, *keys: str, namespace: Namespace = ("a", "1")) -> None:
        """Delete items in one transaction."""

        def work(session: Session) -> None:
            delete_all(session, [Delete(namespace, key) for key in keys])
            self.vectors.forget(session, [address_of(namespace, key) for key in keys])

        self.db.write(work, repeats=False)
        for key in keys:
            self._gone((namespace, key))

    def search(
        self,
        query: Sequence[float],
        need: int = 10,
        prefix: Namespace = (),
        condition: Mapping[str, Any] | None = None,
        least: float | None = None,
    ) -> list[Scored]:
        """Search as the driver does."""
        return self.db.read(
            lambda session: self.vectors.search(
                session, self.target(session, query, prefix, condition, least), need
            )
        )

    def target(
        self,
        session: Session,
        query: Sequence[float],
        prefix: Namespace = (),
        condition: Mapping[str, Any] | None = None,
        least: float | None = None,
    ) -> Target:
        """Return what a search is for."""
        parsed = parse_filter(condition)
        sql = None if parsed is None else where(parsed)
        return Target(Scope(session, prefix), sql, np.array(query, np.float32), least)

    def keys(self, query: Sequence[float], need: int = 10, **options: Any) -> list[str]:
        """Return the keys of the items found."""
        return [key for _, key in self.places(self.search(query, need, **options))]

    def places(self, hits: Sequence[Scored]) -> list[tuple[Namespace, str]]:
        """Return where the items found are."""
        places = {address_of(*place): place for place in self.records}
        return [places[hit.address] for hit in hits]

    def expected(
        self,
        query: Sequence[float],
        need: int,
        prefix: Namespace = (),
        condition: Mapping[str, Any] | None = None,
    ) -> list[tuple[int, float]]:
        """Return the revisions and scores that the table in memory finds."""
        parsed = parse_filter(condition)
        matches = (lambda _value: True) if parsed is None else compile_filter(parsed)
        wanted = [
            record.revision
            for (namespace, _), record in self.records.items()
            if namespace[: len(prefix)] == prefix and matches(decode_value(record.raw))
        ]
        return self.table.top(np.array(query, np.float32), need, wanted)

    def check(self, query: Sequence[float], need: int = 10, **options: Any) -> None:
        """Check that Postgres finds what memory finds."""
        found = self.search(query, need, **options)
        expected = self.expected(query, need, **options)
        scores = [score for _, score in expected]
        assert [hit.score for hit in found] == pytest.approx(scores, abs=1e-6, rel=1e-6)
        order = [(hit.score, hit.updated_at, hit.revision) for hit in found]
        assert order == sorted(order, reverse=True)
        # Where scores differ by less than single precision tells apart, any order will do.
        exact = dict(self.expected(query, len(self.records), **options))
        assert [exact[hit.revision] for hit in found] == pytest.approx(scores, abs=1e-6, rel=1e-6)
        assert len({hit.address for hit in found}) == len(found)

    def fetch(self, sql: str) -> list[tuple[Any, ...]]:
        """Run a statement on the schema."""
        return self.db.read(lambda session: session.fetch(sql))

    def indexes(self) -> dict[str, bool]:
        """Return the HNSW indexes and whether they are complete."""
        return self.db.read(hnsw.indexes)

    def delta(self) -> int:
        """Return how many vectors wait to be indexed."""
        return self.db.read(hnsw.delta_size)

    def merge(self, limit: int = 100_000) -> int:
        """Move vectors into the index."""
        return self.db.write_statement(lambda session: hnsw.merge(session, limit), repeats=True)

    def close(self) -> None:
        self.db.close()

    def _gone(self, place: tuple[Namespace, str]) -> None:
        if place in self.records:
            self.table.remove(self.records.pop(place).revision)


Opens = Callable[..., Memory]


def item(key: str, *points: Sequence[float], namespace: Namespace = ("a", "1"), **value: Any) -> Put:
    """Return the put of an item with vectors at some points."""
    embedded = tuple(
        Embedded(f"{key} {n}".encode(), np.array(point, np.float32)) for n, point in enumerate(points)
    )
    return Put(namespace, key, encode_value({"key": key, **value}), vectors=embedded)


def fill(memory: Memory, number: int, seed: int = 1, several: int = 3) -> None:
    """Put items at few distinct points, so that ties, parallel vectors and zero vectors are common."""
    random = np.random.default_rng(seed)
    puts = []
    for n in range(number):
        points = random.integers(-2, 3, (int(random.integers(0, several + 1)), DIMS)).astype(np.float32)
        points[n % 7 :: 7] = 0.0
        puts.append(item(f"k{n}", *points.tolist(), namespace=NAMESPACES[n % 3], n=n))
    memory.put_all(puts)


QUERIES: list[list[float]] = [[1, 2, 0, -1], [0.5, 0, 0, 0], [0, 0, 0, 0], [-2, 1, 1, 1]]
CONDITIONS: list[dict[str, Any] | None] = [None, {"n": {"$lt": 20}}, {"n": {"$in": [3, 5, 8]}}, {"n": -1}]


def check_everything(memory: Memory) -> None:
    """Compare searches of all kinds with the table in memory."""
    for query in QUERIES:
        for prefix in PREFIXES:
            for condition in CONDITIONS:
                for need in (3, 500):
                    memory.check(query, need, prefix=prefix, condition=condition)
