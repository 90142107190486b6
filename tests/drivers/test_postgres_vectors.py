"""Vectors in Postgres are found as the ones in memory are."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import numpy as np
import psycopg
import pytest

from stateroom.clock import system_clock
from stateroom.contract.items import Delete, Put
from stateroom.drivers.postgres.database import Database
from stateroom.drivers.postgres.rows import address_of
from stateroom.drivers.postgres.timing import Timing
from stateroom.drivers.postgres.writing import delete_all, put_all
from stateroom.errors import LimitExceeded, Misconfigured
from tests.conftest import NewSchema
from tests.drivers.vector_memory import METRICS, TYPES, Memory, Opens, check_everything, fill, item


@pytest.mark.parametrize("vector_type", TYPES)
@pytest.mark.parametrize("distance_type", METRICS)
def test_searches_find_what_memory_finds(opens: Opens, distance_type: str, vector_type: str) -> None:
    memory = opens(distance_type=distance_type, vector_type=vector_type)
    fill(memory, 60)
    check_everything(memory)
    fill(memory, 30, seed=2)
    memory.delete(*(f"k{n}" for n in range(0, 60, 6)))
    check_everything(memory)


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
        found = memory.db.read(lambda session: memory.vectors.known(session, [address]))
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


def test_vectors_that_are_larger_than_a_page_are_kept_and_found(opens: Opens) -> None:
    memory = opens(dims=3_000)
    points = np.random.default_rng(4).standard_normal((5, 3_000))
    memory.put_all([item(f"k{n}", point) for n, point in enumerate(points.tolist())])
    memory.check(points[2].tolist())
