"""How Postgres goes about what a store asks of it: by which indexes, and over how many rows."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, ClassVar, NamedTuple, Self

import psycopg
import pytest
from psycopg import sql
from typing_extensions import override

from stateroom import GetItem, PutItem, Store
from stateroom.drivers.postgres import finding, vectors
from stateroom.drivers.postgres.items import PostgresItems
from stateroom.drivers.postgres.rows import address_of, digest_of
from stateroom.drivers.postgres.text import TextIndex
from stateroom.drivers.postgres.where import key_indexes
from stateroom.model.namespace import Namespace, encode
from stateroom.search.index_config import IndexSettings
from stateroom.search.text import TextIndexing
from stateroom.stores.postgres import PostgresStore

ITEMS = 100_000
USERS = 2_000
TEAMS = 100
VALUES = 5_000
EXPIRED, LASTING = 300, 200
FOLDERS, FOLDED, LOOSE, OWNERS = 50, 10, 2_000, 100
DISK: Namespace = ("disk",)
FILE: tuple[Any, ...] = b'{"content":"text"}', '{"content":"text"}', [], [], 4, "yesterday"
PAGE = 10
SCHEMA = "plans"
EPOCH = 1_700_000_000_000_000
FAR = 4_000_000_000_000_000

COPY_NAMESPACES = "copy plans.namespace (digest, labels, path, path_reversed) from stdin"
COPY_ITEMS = """
copy plans.item (address, namespace_id, key, revision, created_at, updated_at, ttl, expires_at,
    length, raw, value, terms, counts) from stdin
"""
COPY_FILES = """
copy plans.item (address, namespace_id, key, revision, created_at, updated_at, raw, value,
    terms, counts, file_size, file_modified_at) from stdin
"""


# A quarter of the items has a vector.
FILL_VECTORS = """
insert into plans.vector (revision, updated_at, address, ordinal, indexed, digest, embedding)
select i.revision, i.updated_at, i.address, 0, true, '\\x00',
    array[sin(i.revision * 0.001), cos(i.revision * 0.01), sin(i.revision), 1]::real[]::vector
from plans.item i where i.revision % 4 = 0 and i.file_size is null
"""


def embed(texts: Sequence[str]) -> list[list[float]]:
    return [[0.5, 0.5, 0.5, 1.0] for _ in texts]


def options(*, hnsw: bool) -> dict[str, Any]:
    index = {"fields": ["text"], "embed": embed, "dims": 4, "mode": "text", "hnsw": hnsw}
    return {"schema": SCHEMA, "index": index, "index_keys": ["rare", "n"]}


def namespace_of(number: int) -> Namespace:
    """Return where an item is: half of them are users', a tenth teams', and the rest are in one place."""
    if number % 10 < 5:
        return "user", f"u{(number // 10 * 5 + number % 10) % USERS}"
    return ("team", f"t{number // 10 % TEAMS}") if number % 10 == 5 else ("big",)


def value_of(number: int) -> dict[str, Any]:
    each = number % VALUES
    text = f"note {'common' if number % 2 else 'usual'} w{number % 997}"
    half = number % 2 == 0
    return {"text": text, "n": number, "rare": f"r{each}", "plain": f"p{each}", "tags": [each], "half": half}


def files() -> Iterator[tuple[Namespace, str]]:
    """Yield where files are: one namespace has a folder of many and many of few, others have some each."""
    for number in range(LOOSE):
        yield DISK, f"/loose/{number:05}.md"
    for number in range(FOLDERS * FOLDED):
        yield DISK, f"/f{number // FOLDED:02}/{number % FOLDED:02}.md"
    for number in range(OWNERS * FOLDED):
        yield ("disk", f"o{number // FOLDED}"), f"/f{number % 7:02}/{number}.md"


def load(connection: psycopg.Connection[Any]) -> None:
    """Write the items straight into the tables."""
    namespaces = sorted({*map(namespace_of, range(ITEMS)), *(namespace for namespace, _ in files())})
    with connection.cursor() as cursor:
        with cursor.copy(COPY_NAMESPACES) as copy:
            for each in namespaces:
                path = encode(each)
                copy.write_row((digest_of(path), list(each), path, encode(each[::-1])))
        cursor.execute("select labels, id from plans.namespace")
        ids = {tuple(labels): number for labels, number in cursor}
        columns = cache(TextIndex(TextIndexing(IndexSettings(fields=("text",)))).columns)
        with cursor.copy(COPY_ITEMS) as copy:
            for number in range(ITEMS):
                namespace, value = namespace_of(number), value_of(number)
                raw, text = json.dumps(value), json.dumps({"text": value["text"]})
                terms, counts, length = columns(text.encode(), None)
                at, address = EPOCH + number, address_of(namespace, f"k{number}")
                ends: tuple[int | None, int | None] = (None, None)
                if number < EXPIRED + LASTING:
                    ends = (1, EPOCH + number if number < EXPIRED else FAR)
                row = address, ids[namespace], f"k{number}", number + 1, at, at, *ends
                copy.write_row((*row, length, raw.encode(), raw, terms, counts))
        with cursor.copy(COPY_FILES) as copy:
            for number, (namespace, key) in enumerate(files(), 1):
                revision, at = ITEMS + number, EPOCH - number
                home = ids[namespace]
                copy.write_row((address_of(namespace, key), home, key, revision, at, at, *FILE))
        cursor.execute("select setval('plans.revision', %s)", [2 * ITEMS])


@contextmanager
def without_gin(connection: psycopg.Connection[Any]) -> Iterator[None]:
    """Leave the indexes out that take long to be filled item by item, and make them afterwards."""
    found = connection.execute(
        "select indexname, indexdef from pg_indexes where schemaname = %s and indexdef like %s",
        [SCHEMA, "%USING gin%"],
    ).fetchall()
    assert found
    for name, _ in found:
        connection.execute(sql.SQL("drop index {}").format(sql.Identifier(SCHEMA, name)))
    yield
    for _, definition in found:
        connection.execute(definition)


@pytest.fixture(scope="module")
def loaded(postgres: str) -> Iterator[str]:
    """Return the URI of the server, whose schema ``plans`` holds 100,000 items."""
    with PostgresStore(postgres, **options(hnsw=False)):
        pass
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set client_min_messages = 'warning'")
        with without_gin(connection):
            load(connection)
        connection.execute(FILL_VECTORS)
        with PostgresStore(postgres, **options(hnsw=True)):
            pass
        connection.execute("vacuum (analyze) plans.item, plans.namespace, plans.vector")
        yield postgres
        connection.execute("drop schema plans cascade")


EXPLAIN = b"explain (analyze, timing off, format json) "


class Plan:
    """What one statement did: its steps, with rows counted over all their repetitions."""

    def __init__(self, statement: bytes, answer: list[tuple[Any, ...]]) -> None:
        self.statement = statement.decode()
        (([explained],),) = answer
        self.steps = list(self._steps(explained["Plan"]))

    @classmethod
    def _steps(cls, step: dict[str, Any]) -> Iterator[dict[str, Any]]:
        yield step
        for each in step.get("Plans", ()):
            yield from cls._steps(each)

    @property
    def indexes(self) -> set[str]:
        return {step["Index Name"] for step in self.steps if "Index Name" in step}

    @property
    def rows(self) -> int:
        """How many items and vectors were looked at, those included that were found not to be wanted."""
        counted = ("Actual Rows", "Rows Removed by Filter", "Rows Removed by Index Recheck")
        return sum(
            round(step["Actual Loops"] * sum(step.get(name, 0) for name in counted))
            for step in self.steps
            if step.get("Relation Name") in ("item", "vector") and step["Node Type"] != "ModifyTable"
        )


Cursor = psycopg.Cursor


class Numbered(dict[bytes, bytes]):
    """Numbers the parameters of a statement as it asks for them by name."""

    def __missing__(self, name: bytes) -> bytes:
        self[name] = b"$%d" % (len(self) + 1)
        return self[name]


class Watched(Cursor[Any]):
    """Has every statement explained before it is executed: for its parameters and, if prepared, for any."""

    plans: ClassVar[list[Plan]] = []

    @override
    def execute(
        self, query: Any, params: Any = None, *, prepare: bool | None = None, binary: bool | None = None
    ) -> Self:
        if isinstance(query, bytes) and re.match(rb"\s*(select|with|insert|update|delete)\b", query):
            with self.connection.transaction(force_rollback=True):
                Watched.plans += self._explained(query, params or {}, prepare)
        return super().execute(query, params, prepare=prepare, binary=binary)

    def _explained(self, query: bytes, params: Mapping[str, Any], prepare: bool | None) -> Iterator[Plan]:
        cursor = Cursor(self.connection)
        yield Plan(query, cursor.execute(EXPLAIN + query, params).fetchall())
        if prepare:
            numbers = Numbered()
            cursor.execute("set local plan_cache_mode = force_generic_plan")
            cursor.execute(b"prepare explained as " + query % numbers)
            call = b"execute explained " + self._listed([name.decode() for name in numbers], params)
            yield Plan(query, cursor.execute(EXPLAIN + call).fetchall())
            cursor.execute("deallocate explained")

    def _listed(self, names: Sequence[str], params: Mapping[str, Any]) -> bytes:
        """Return the parameters as literals of the types that the prepared statement has found for them."""
        if not names:
            return b""
        cursor = Cursor(self.connection)
        cursor.execute("select parameter_types::text[] from pg_prepared_statements where name = 'explained'")
        ((types,),) = cursor.fetchall()
        columns = (f"%({name})s::{kind}::text" for name, kind in zip(names, types, strict=True))
        (texts,) = cursor.execute(f"select {', '.join(columns)}".encode(), params).fetchall()
        return b"(" + sql.SQL(", ").join(map(sql.Literal, texts)).as_bytes(cursor) + b")"


@pytest.fixture
def store(loaded: str) -> Iterator[Store]:
    with PostgresStore(loaded, **options(hnsw=True)) as store:
        yield store


def plans(store: Store, act: Callable[[Store], Any]) -> list[Plan]:
    """Return how Postgres carries out what an action asks."""
    Watched.plans = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(psycopg, "Cursor", Watched)
        act(store)
    return Watched.plans


def by_vector(prefix: Namespace) -> Callable[[Store], Any]:
    return lambda store: store.search(prefix, query="x", mode="vector")


def ls(prefix: str, **options: Any) -> Callable[[Store], Any]:
    return lambda store: store.list_keys(DISK, prefix=prefix, delimiter="/", **options)


def below(prefix: str, **options: Any) -> Callable[[Store], Any]:
    return lambda store: store.list_keys(DISK, prefix=prefix, **options)


def refresh(store: Store) -> None:
    """Read what has a time to live, and have the refreshed one written."""
    assert store.get(namespace_of(EXPIRED), f"k{EXPIRED}", refresh_ttl=True)
    assert isinstance(store._items, PostgresItems)
    store._items._expiries.flush()


class Asked(NamedTuple):
    """What a store is asked, an index that answers it, and how many items a statement may look at for it."""

    name: str
    act: Callable[[Store], Any]
    by: str
    most: int


USER, BIG = ("user", "u7"), ("big",)
NUMBER, STRING = key_indexes("n")[0].name, key_indexes("rare")[1].name
WALK = finding.WALK_START + finding.WALK_FACTOR * PAGE
# Where the planner expects matches a walk may come first, which reads the index and the row of each item.
FILTERED = 8_192
HOLDERS = ITEMS // 997 + 1

READS = [
    Asked("get", lambda s: s.get(USER, "k17"), "item_pkey", 1),
    Asked("gets", lambda s: s.batch([GetItem(USER, f"k{n}") for n in range(20)]), "item_pkey", 20),
    Asked("a namespace", lambda s: s.search(BIG), "item_in_namespace", PAGE),
    Asked("a small namespace", lambda s: s.search(USER), "item_in_namespace", PAGE),
    Asked("a namespace, deep", lambda s: s.search(BIG, offset=5_000), "item_in_namespace", 5_000 + 2 * PAGE),
    Asked("100 namespaces", lambda s: s.search(("team",)), "item_in_namespace", TEAMS * PAGE + PAGE),
    Asked("2,000 namespaces", lambda s: s.search(("user",)), "item_latest", WALK),
    Asked("everything", lambda s: s.search(()), "item_latest", PAGE),
    Asked("everything, deep", lambda s: s.search((), offset=5_000), "item_latest", 5_000 + 2 * PAGE),
    Asked("equality", lambda s: s.search((), filter={"plain": "p7"}), "item_value", FILTERED),
    Asked("no match", lambda s: s.search((), filter={"plain": "no"}), "item_value", FILTERED),
    Asked("wide", lambda s: s.search(("user",), filter={"plain": "p7"}), "item_value", FILTERED),
    Asked("choices", lambda s: s.search((), filter={"plain": {"$in": ["p7", "p8"]}}), "item_value", FILTERED),
    Asked("contained", lambda s: s.search((), filter={"tags": {"$contains": 7}}), "item_value", FILTERED),
    Asked("what half match", lambda s: s.search((), filter={"half": True}), "item_latest", 10 * PAGE),
    Asked("declared", lambda s: s.search((), filter={"rare": "r7"}), STRING, FILTERED),
    Asked("declared, in one", lambda s: s.search(("user",), filter={"rare": "r7"}), STRING, FILTERED),
    Asked("declared range", lambda s: s.search((), filter={"n": {"$lt": 700}}), NUMBER, FILTERED),
    Asked("count", lambda s: s.count(("team",)), "item_in_namespace", ITEMS // 10),
    Asked("count of few", lambda s: s.count((), filter={"rare": "r7"}), STRING, ITEMS // VALUES),
    Asked("namespaces", lambda s: s.list_namespaces(), "namespace_path", 100 + EXPIRED),
    Asked("namespaces cut", lambda s: s.list_namespaces(max_depth=1), "namespace_path", 4 + EXPIRED),
    Asked("namespaces below", lambda s: s.list_namespaces(prefix=("team",)), "namespace_path", 100 + EXPIRED),
    Asked(
        "namespaces by end", lambda s: s.list_namespaces(suffix=("u7",)), "namespace_path_reversed", 1 + PAGE
    ),
    Asked("words in one", lambda s: s.search(USER, query="common"), "item_in_namespace", ITEMS // 2 // USERS),
    Asked("words in all", lambda s: s.search((), query="w5"), "item_terms", HOLDERS),
    Asked("vectors in one", by_vector(USER), "item_in_namespace", ITEMS // 2 // USERS),
    Asked("vectors in half", by_vector(BIG), "vector_hnsw_cosine", 10 * PAGE),
    Asked("vectors in all", by_vector(()), "vector_hnsw_cosine", 10 * PAGE),
    # Each step of a walk looks at one key more, to see whether it agrees with the last one in the index.
    Asked("a folder", ls("/f07/"), "item_path", 2 * FOLDED + 5),
    Asked("folders", ls("/"), "item_path", 2 * FOLDERS + 5),
    Asked("folders behind one", ls("/", after="/f39/"), "item_path", 2 * 10 + 5),
    Asked("a large folder's first", ls("/loose/", limit=PAGE), "item_path", 2 * PAGE + 5),
    Asked(
        "a large folder's next", ls("/loose/", after="/loose/01000.md", limit=PAGE), "item_path", 2 * PAGE + 5
    ),
    Asked("a large folder", ls("/loose/", limit=LOOSE), "item_path", LOOSE + 20),
    Asked("files below", below("/f07/"), "item_path", FOLDED),
    Asked("some files", below("/", limit=PAGE), "item_path", PAGE + 1),
    Asked("many files", below("/", limit=LOOSE // 2), "item_path", LOOSE // 2 + 1),
    Asked("files behind one", below("/", after="/loose/01000.md", limit=PAGE), "item_path", PAGE + 1),
    Asked("files by their end", below("/f07/", suffix="7.md"), "item_path", FOLDED),
    Asked("files that hold a text", below("/f07/", containing="text"), "item_path", FOLDED),
    Asked("files with values", below("/f07/", values=True), "item_path", FOLDED),
    Asked("keys", lambda s: s.list_keys(USER), "item_in_namespace", ITEMS // 2 // USERS),
    Asked("keys of few files", lambda s: s.list_keys(("disk", "o7")), "item_in_namespace", FOLDED),
]
WRITES = [
    Asked("put", lambda s: s.put(USER, "k17", {"n": 1}), "item_latest", 4),
    Asked("puts", lambda s: s.batch([PutItem(USER, f"k{n}", {}) for n in range(20)]), "item_latest", 60),
    Asked("delete", lambda s: s.delete(USER, "k17"), "item_pkey", 1),
    Asked("sweep", lambda s: s._items.sweep(100), "item_expiry", 2 * vectors.ORPHANS_LOOKED),
    Asked("refresh", refresh, "item_pkey", 1),
]


def check(asked: Asked, done: list[Plan]) -> None:
    assert asked.by in set().union(*(plan.indexes for plan in done)), asked.name
    for plan in done:
        assert plan.rows <= asked.most, plan.statement


@pytest.mark.parametrize("asked", READS, ids=lambda asked: asked.name)
def test_an_index_answers_a_read_and_few_items_are_looked_at(store: Store, asked: Asked) -> None:
    # Once before, since how many words there are at all is counted for the first search.
    asked.act(store)
    check(asked, plans(store, asked.act))


@pytest.mark.parametrize("asked", WRITES, ids=lambda asked: asked.name)
def test_an_index_leads_a_write_to_what_it_changes(store: Store, asked: Asked) -> None:
    check(asked, plans(store, asked.act))


def test_a_range_of_an_undeclared_key_does_look_at_all(store: Store) -> None:
    # So the test above is able to fail.
    done = plans(store, lambda store: store.search((), filter={"plain": {"$gt": "q"}}))
    assert max(plan.rows for plan in done) > ITEMS // 2
