"""Vectors in Postgres are found by their HNSW index nearly as by an exact search, and much sooner."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

from stateroom.drivers.postgres import hnsw, vectors
from stateroom.model.namespace import Namespace
from tests.drivers.vector_memory import (
    DIMS,
    METRICS,
    TYPES,
    Memory,
    Opens,
    Watched,
    check_everything,
    fill,
    item,
)


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
    memory.vectors.keep_up(memory.db, lambda: True)
    assert memory.delta() == 19
    memory.put("one more", [1, 1, 1, 1])
    memory.vectors.keep_up(memory.db, lambda: True)
    assert memory.delta() == 0
    without = opens()
    without.put_all([item(f"l{n}", [1, n, 0, 0]) for n in range(30)])
    without.vectors.keep_up(without.db, lambda: True)
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
