"""Vectors in Postgres are found as the ones in memory are, exactly and by the HNSW index."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import numpy as np
import psycopg
import pytest
from typing_extensions import override

from stateroom.clock import system_clock
from stateroom.contract.items import Delete, Embedded, Put
from stateroom.drivers.postgres import hnsw, vectors
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.nearest import Target
from stateroom.drivers.postgres.rows import address_of
from stateroom.drivers.postgres.scope import Scope
from stateroom.drivers.postgres.session import Session
from stateroom.drivers.postgres.text_search import Scored
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.vectors import Vectors
from stateroom.drivers.postgres.where import where
from stateroom.drivers.postgres.writing import delete_all, put_all, register
from stateroom.errors import LimitExceeded, Misconfigured
from stateroom.model.filter import compile_filter, parse_filter
from stateroom.model.item import Record
from stateroom.model.json_values import decode_value, encode_value
from stateroom.model.namespace import Namespace
from stateroom.search.index_config import parse_index_config
from stateroom.search.vectors import VectorTable
from tests.conftest import NewSchema

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


@pytest.fixture
def schema(new_schema: NewSchema) -> str:
    return new_schema()


@pytest.fixture
def opens(postgres: str, schema: str) -> Iterator[Opens]:
    """Return a function that opens a store of the test's schema with index settings."""
    opened: list[Memory] = []

    def opens(uri: str = postgres, **index: Any) -> Memory:
        opened.append(Memory(uri, schema, **index))
        return opened[-1]

    yield opens
    for memory in opened:
        memory.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index asked, however few items there are."""
    monkeypatch.setattr(hnsw, "EXACT_ALWAYS", 0)
    monkeypatch.setattr(hnsw, "EXACT_CANDIDATES", 0)


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


@pytest.mark.parametrize("vector_type", TYPES)
@pytest.mark.parametrize("distance_type", METRICS)
def test_searches_find_what_memory_finds(opens: Opens, distance_type: str, vector_type: str) -> None:
    memory = opens(distance_type=distance_type, vector_type=vector_type)
    fill(memory, 60)
    check_everything(memory)
    fill(memory, 30, seed=2)
    memory.delete(*(f"k{n}" for n in range(0, 60, 6)))
    check_everything(memory)


@pytest.mark.parametrize("vector_type", TYPES)
@pytest.mark.parametrize("distance_type", METRICS)
@pytest.mark.usefixtures("eager")
def test_the_index_and_what_is_not_in_it_yet_are_searched_as_one(
    opens: Opens, postgres: str, distance_type: str, vector_type: str
) -> None:
    # So few rows would be sorted rather than looked for in the index.
    uri = f"{postgres}&options={quote('-c enable_seqscan=off -c enable_sort=off')}"
    memory = opens(uri, distance_type=distance_type, vector_type=vector_type, hnsw=True)
    fill(memory, 60)
    check_everything(memory)
    assert memory.merge() > 0
    assert memory.delta() == 0
    check_everything(memory)
    fill(memory, 30, seed=2)
    memory.delete(*(f"k{n}" for n in range(0, 60, 6)))
    assert memory.delta() > 0
    check_everything(memory)
    # Zero vectors never get into the index, and do not wait for it either.
    assert memory.fetch("select 1 from stateroom.vector where indexed is null")


def test_pages_cut_one_order(opens: Opens) -> None:
    memory = opens()
    fill(memory, 90, several=2)
    everything = memory.search([1, 1, 0, 0], 500)
    for need in range(1, len(everything) + 1):
        assert memory.search([1, 1, 0, 0], need) == everything[:need]


def test_parallel_vectors_are_a_tie(opens: Opens) -> None:
    memory = opens()
    memory.put_all([item(f"k{n}", [n, 0, 0, 0] if n % 2 else [0, 0, n, 0]) for n in range(1, 50)])
    assert memory.keys([1, 0, 1, 0], 50) == [f"k{n}" for n in range(49, 0, -1)]


def test_what_is_replaced_or_deleted_is_not_found_by_its_old_vectors(opens: Opens) -> None:
    memory = opens()
    memory.put("a", [1, 0, 0, 0], [0, 1, 0, 0])
    memory.put("b", [0, 0, 1, 0])
    memory.put("a", [0, 0, 0, 1])
    assert memory.fetch("select count(*) from stateroom.vector") == [(2,)]
    assert [hit.score for hit in memory.search([1, 0, 0, 0])] == [0.0, 0.0]
    memory.put("a")
    assert memory.keys([0, 0, 0, 1]) == ["b"]
    memory.delete("b")
    assert memory.search([0, 0, 1, 0]) == []
    assert memory.fetch("select count(*) from stateroom.vector") == [(0,)]


@pytest.mark.parametrize("vector_type", TYPES)
def test_the_vectors_of_an_item_are_known_by_their_text(opens: Opens, vector_type: str) -> None:
    memory = opens(vector_type=vector_type)
    memory.put("a", [1, 0.5, -0.25, 1024], [0, 0, 0, 0])
    memory.put("b")

    def known(key: str) -> dict[bytes, list[float]]:
        address = address_of(("a", "1"), key)
        found = memory.db.read(lambda session: memory.vectors.known(session, address))
        assert all(vector.dtype == np.float32 for vector in found.values())
        return {digest: vector.tolist() for digest, vector in found.items()}

    assert known("a") == {b"a 0": [1, 0.5, -0.25, 1024], b"a 1": [0, 0, 0, 0]}
    assert known("b") == known("absent") == {}


def test_a_number_that_halfvec_cannot_hold_is_refused(opens: Opens) -> None:
    memory = opens(vector_type="halfvec")
    memory.put("a", [65_504, 0, 0, 0])
    with pytest.raises(LimitExceeded, match="65,504") as caught:
        memory.put("b", [65_520, 0, 0, 0])
    assert caught.value.field == "index.vector_type"
    assert memory.keys([1, 0, 0, 0]) == ["a"]


def test_scores_of_chosen_items_are_those_of_a_search(opens: Opens) -> None:
    memory = opens()
    fill(memory, 20)
    query = np.array([1, 2, 0, 1], np.float32)
    revisions = [record.revision for record in memory.records.values()]
    scores = memory.db.read(lambda s: memory.vectors.score_of(s, query, [*revisions, 10**9]))
    found = memory.search(query.tolist(), 100)
    assert scores == {hit.revision: hit.score for hit in found}
    assert memory.db.read(lambda session: memory.vectors.score_of(session, query, [])) == {}


def test_items_with_many_vectors_do_not_crowd_out_the_others(opens: Opens) -> None:
    memory = opens()
    memory.put("many", *([1, n / 100, 0, 0] for n in range(40)))
    memory.put_all([item(f"k{n}", [1, 2 + n, 0, 0]) for n in range(5)])
    assert memory.keys([1, 0, 0, 0], 3) == ["many", "k0", "k1"]
    memory.check([1, 0, 0, 0], 4)


def test_vectors_that_no_item_has_are_passed_over_and_swept(opens: Opens) -> None:
    memory = opens()
    memory.put_all([item(f"k{n}", [1, n, 0, 0]) for n in range(60)])
    # As a store without an index puts and deletes.
    without = [Put(("a", "1"), f"k{n}", b"{}") for n in range(30)]
    memory.db.write(lambda session: put_all(session, None, without), repeats=False)
    gone = [Delete(("a", "1"), f"k{n}") for n in range(30, 40)]
    memory.db.write(lambda session: delete_all(session, gone), repeats=False)
    assert memory.keys([1, 0, 0, 0], 3) == ["k40", "k41", "k42"]
    assert len(memory.search([1, 0, 0, 0], 100)) == 20
    after: int | None = 0
    with memory.db.session() as session:
        while after is not None:
            after = memory.vectors.sweep_orphans(session, after, 7)
    assert memory.fetch("select count(*) from stateroom.vector") == [(20,)]
    assert memory.keys([1, 0, 0, 0], 3) == ["k40", "k41", "k42"]


@pytest.mark.parametrize(
    ("before", "after", "field"),
    [
        ({}, {"dims": 3}, "index.dims"),
        ({}, {"vector_type": "halfvec"}, "index.vector_type"),
        ({"embed": "model:a"}, {"embed": "model:b"}, "index.embed"),
    ],
)
def test_vectors_made_with_other_settings_are_refused(
    opens: Opens, before: dict[str, Any], after: dict[str, Any], field: str
) -> None:
    memory = opens(**before)
    opens(**after).close()
    opens(**before).close()
    memory.put("a", [1, 0, 0, 0])
    with pytest.raises(Misconfigured, match=r"drop table stateroom\.vector") as caught:
        opens(**after)
    assert caught.value.field == field
    memory.put("b", [1, 1, 0, 0])
    opens(**before).check([1, 0, 0, 0], 0)
    memory.fetch("select 1")
    memory.check([1, 0, 0, 0])


def test_more_numbers_than_a_column_holds_are_refused(opens: Opens) -> None:
    with pytest.raises(Misconfigured, match="16,000") as caught:
        opens(dims=16_001)
    assert caught.value.field == "index.dims"


def test_the_extension_may_be_anywhere_and_must_be_allowed(postgres: str, new_schema: NewSchema) -> None:
    with database(postgres) as uri, psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("create role nobody_special")
        try:
            connection.execute("grant all on database no_extension to nobody_special")
            connection.execute("revoke create on database no_extension from nobody_special")
            schema = new_schema()
            # Somebody else has set up everything but the vectors.
            with pytest.raises(Misconfigured, match="create extension") as caught:
                with_role(connection, uri, schema)
            assert caught.value.field == "index.embed"
            connection.execute('create schema "odd ""place"""')
            connection.execute('create extension vector schema "odd ""place"""')
            memory = Memory(uri, schema, hnsw=True)
            fill(memory, 20)
            memory.merge()
            memory.check([1, 2, 3, 4])
            memory.close()
        finally:
            connection.execute("drop owned by nobody_special")
            connection.execute("drop role nobody_special")


@contextmanager
def database(uri: str) -> Iterator[str]:
    """Make a database that lacks the extension."""
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("create database no_extension")
        try:
            yield uri.replace("/postgres?", "/no_extension?")
        finally:
            connection.execute("drop database no_extension with (force)")


def with_role(connection: psycopg.Connection[Any], uri: str, schema: str) -> None:
    """Open a store as a user who may write to a schema that is there, and no more."""
    plain = Database(
        uri,
        schema=schema,
        timing=Timing(system_clock),
        pool=None,
        prepares=True,
        prepare=lambda _session: None,
        is_prepared=lambda _session: True,
        forked=lambda: None,
    )
    plain.open()
    plain.close()
    connection.execute(f'grant all on schema "{schema}" to nobody_special'.encode())
    connection.execute(f'grant all on all tables in schema "{schema}" to nobody_special'.encode())
    Memory(f"{uri}&options={quote('-c role=nobody_special')}", schema)


def test_new_vectors_wait_outside_the_index_and_are_found_at_once(opens: Opens) -> None:
    memory = opens(hnsw=True)
    assert memory.indexes() == {"vector_hnsw_cosine": True}
    memory.put_all([item(f"k{n}", [1, n, 0, 0]) for n in range(10)])
    assert memory.delta() == 10
    assert memory.merge(4) == 4
    assert memory.delta() == 6
    with memory.db.session() as other, other.connection.transaction():
        # What somebody else is moving is left to them.
        other.execute("select 1 from stateroom.vector where not indexed order by revision limit 2 for update")
        assert memory.merge() == 4
    assert memory.merge() == 2
    assert memory.merge() == 0
    memory.put("k0", [1, 100, 0, 0])
    assert memory.delta() == 1
    memory.check([1, 0, 0, 0])


def test_the_upkeep_moves_many_vectors_into_the_index(opens: Opens, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(vectors, "MERGE_FROM", 20)
    monkeypatch.setattr(vectors, "MERGE_VECTORS", 6)
    memory = opens(hnsw=True)
    memory.put_all([item(f"k{n}", [1, n, 0, 0]) for n in range(19)])
    memory.vectors.keep_up(memory.db)
    assert memory.delta() == 19
    memory.put("one more", [1, 1, 1, 1])
    memory.vectors.keep_up(memory.db)
    assert memory.delta() == 0
    without = opens()
    without.put_all([item(f"l{n}", [1, n, 0, 0]) for n in range(30)])
    without.vectors.keep_up(without.db)
    assert memory.delta() == 30


def test_an_interrupted_build_is_done_anew(opens: Opens, postgres: str) -> None:
    memory = opens()
    fill(memory, 60)
    with psycopg.connect(postgres) as writing, memory.db.session() as builder:
        # A build waits for whoever is writing, and is cancelled meanwhile.
        writing.execute(f'lock table "{memory.schema}".vector in row exclusive mode'.encode())
        pid = builder.connection.info.backend_pid
        failed: list[Exception] = []

        def build() -> None:
            try:
                builder.script(
                    "create index concurrently vector_hnsw_cosine on stateroom.vector "
                    "using hnsw (embedding public.vector_cosine_ops) where indexed"
                )
            except psycopg.errors.QueryCanceled as error:
                failed.append(error)

        thread = threading.Thread(target=build)
        thread.start()
        while not memory.fetch(f"select 1 from pg_locks where pid = {pid} and not granted"):  # noqa: S608
            assert thread.is_alive()
        memory.fetch(f"select pg_cancel_backend({pid})")
        thread.join()
        assert failed
    assert memory.indexes() == {"vector_hnsw_cosine": False}
    again = opens(hnsw=True)
    assert again.indexes() == {"vector_hnsw_cosine": True}
    assert again.delta() == 0


def test_another_metric_has_another_index(opens: Opens) -> None:
    fill(opens(hnsw=True), 20)
    memory = opens(hnsw=True, distance_type="l2")
    assert memory.indexes() == {"vector_hnsw_l2": True}
    fill(memory, 20)
    memory.check([1, 2, 3, 4])


def test_an_index_that_is_not_used_any_more_stays_and_costs_no_put(opens: Opens) -> None:
    fill(opens(hnsw=True), 10)
    memory = opens()
    assert memory.indexes() == {"vector_hnsw_cosine": True}
    fill(memory, 10)
    assert memory.fetch("select 1 from stateroom.vector where indexed") == []
    memory.check([1, 2, 3, 4])


def test_a_table_from_before_the_index_is_indexed_whole(opens: Opens) -> None:
    before = opens()
    before.put_all([item(f"k{n}", [1, n, 0, 0]) for n in range(10)])
    assert opens(hnsw=True).delta() == 0


@pytest.fixture
def thousands(opens: Opens) -> Memory:
    """Items in all directions, one in a hundred of them in a namespace of its own, all in the index."""
    points = np.random.default_rng(3).standard_normal((2_000, DIMS)).tolist()
    namespaces: list[Namespace] = [("a", "1"), *([("b",)] * 99)]
    before = opens()
    before.put_all(
        [item(f"k{n}", point, namespace=namespaces[n % 100], n=n) for n, point in enumerate(points)]
    )
    memory = opens(hnsw=True)
    memory.table, memory.records = before.table, before.records
    with memory.db.session() as session:
        session.script("analyze stateroom.vector; analyze stateroom.item")
    return memory


@contextmanager
def watched(memory: Memory) -> Iterator[Watched]:
    with memory.db.session() as session:
        yield Watched(session.connection, memory.schema, memory.timing)


def plan(session: Watched) -> str:
    """Return how the last statement of a session is done."""
    sql, parameters = session.statements[-1]
    return "\n".join(row[0] for row in session.fetch(f"explain {sql}", parameters))


@pytest.mark.usefixtures("eager")
def test_a_search_of_many_uses_the_index(thousands: Memory) -> None:
    with watched(thousands) as session:
        for condition in (None, {"n": {"$gte": 500}}):
            target = thousands.target(session, [1, 2, 3, 4], condition=condition)
            found = thousands.vectors.search(session, target, 10)
            assert "Index Scan using vector_hnsw_cosine" in plan(session)
            exact = thousands.expected([1, 2, 3, 4], 10, condition=condition)
            assert len({hit.revision for hit in found} & {revision for revision, _ in exact}) >= 9


def test_a_search_of_few_is_exact(thousands: Memory) -> None:
    with watched(thousands) as session:
        target = thousands.target(session, [1, 2, 3, 4], prefix=("a",))
        found = thousands.vectors.search(session, target, 10)
        assert "vector_hnsw_cosine" not in plan(session)
    assert [hit.revision for hit in found] == [
        revision for revision, _ in thousands.expected([1, 2, 3, 4], 10, prefix=("a",))
    ]


def test_a_page_that_the_index_cannot_fill_is_completed(
    thousands: Memory, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if Postgres took a rare condition for a frequent one.
    monkeypatch.setattr(hnsw, "_share", lambda _session, _target: 1.0)
    for options in ({"condition": {"n": {"$lt": 12}}}, {"prefix": ("a",)}, {"condition": {"n": -1}}):
        thousands.check([1, 2, 3, 4], 10, **options)
    thousands.check([1, 2, 3, 4], 700)


@pytest.mark.usefixtures("eager")
def test_what_waits_outside_does_not_hide_what_the_index_did_not_give(thousands: Memory) -> None:
    # Many far ones wait outside; of the index's nearest, the filter leaves few.
    thousands.put_all([item(f"far{n}", [-1, -2, -3, -4 - n / 100], n=7) for n in range(50)])
    thousands.check([1, 2, 3, 4], 10, condition={"n": {"$in": [*range(0, 200), 7]}})
    thousands.check([1, 2, 3, 4], 10, condition={"n": {"$lt": 30}})


def test_weak_hits_need_no_exact_search(thousands: Memory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hnsw, "_share", lambda _session, _target: 1.0)
    condition = {"n": {"$gte": 1_000}}
    least = thousands.expected([1, 2, 3, 4], 5)[-1][1] - 1e-6
    with watched(thousands) as session:
        target = thousands.target(session, [1, 2, 3, 4], condition=condition, least=least)
        found = thousands.vectors.search(session, target, 10)
        assert len(session.statements) == 1
    exact = thousands.expected([1, 2, 3, 4], 10, condition=condition)
    strong = [revision for revision, score in exact if score >= least]
    assert 0 < len(strong) < 5
    assert [hit.revision for hit in found if hit.score >= least] == strong


@pytest.mark.usefixtures("eager")
def test_dead_entries_of_the_index_do_not_shorten_a_page(thousands: Memory) -> None:
    near = thousands.places(thousands.search([1, 2, 3, 4], 450))
    for namespace in (("a", "1"), ("b",)):
        thousands.delete(*(key for home, key in near if home == namespace), namespace=namespace)
    with watched(thousands) as session:
        target = thousands.target(session, [1, 2, 3, 4])
        found = {hit.revision for hit in thousands.vectors.search(session, target, 10)}
        assert "vector_hnsw_cosine" in plan(session)
    assert len(found & {revision for revision, _ in thousands.expected([1, 2, 3, 4], 10)}) >= 9


def test_vectors_that_are_larger_than_a_page_are_kept_and_found(opens: Opens) -> None:
    memory = opens(dims=3_000)
    points = np.random.default_rng(4).standard_normal((5, 3_000))
    memory.put_all([item(f"k{n}", point) for n, point in enumerate(points.tolist())])
    memory.check(points[2].tolist())
