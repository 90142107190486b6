"""How databases go about searches of threads: by which indexes, and over how much, whatever their number."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
import pytest

from stateroom.clock import ManualClock
from stateroom.contract.threads import ThreadQuery
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.dialect import NONE, Row, Session
from stateroom.drivers.sql.documents import metadata_bytes
from stateroom.drivers.sql.search_reading import FEW
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sql.terms import metadata_terms, values_terms
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.model.paging import Sort
from stateroom.model.thread import THREAD_SORTS, ThreadStatus
from stateroom.search.index_config import parse_index_config

T = TypeVar("T")

SMALL, LARGE = 20_000, 60_000
RARE, OLD, OWN = 300, 2_500, 3_000
OWNERS = 4
KINDS = ("sqlite", "sqlite analysed", "postgres")

LITTLE = {"sqlite": 250_000, "postgres": 16_000}
"""What a search may cost at any size: about what it is to walk a first step, and then to read some rows."""

assert RARE < FEW < OLD < OWN < SMALL // (OWNERS + 1)

ROW = """
insert into stateroom.thread
    (thread_id, status, created_at, updated_at, state_updated_at, metadata, config)
{numbers}
select 't' || (i * 7919 % {size} + {size}), case i % 100 when 0 then 'error' when 1 then 'busy'
    when 2 then 'interrupted' else 'idle' end, i, i, i, :metadata, :empty
from n where {which}
"""
STATE = """
insert into stateroom.thread_state (thread_id, "values")
{numbers} select 't' || (i * 7919 % {size} + {size}), :values from n where {which}
"""
TERM = """
insert into stateroom.thread_term (term, created_at, id)
{numbers} select cast(:term as bigint), i, 't' || (i * 7919 % {size} + {size}) from n where {which}
"""


def fill(storage: SqlStorage, size: int) -> None:
    """Write threads straight into the tables: old ones, some rare ones among the others, and the others."""
    numbers = f"with recursive n(i) as (select 1 union all select i + 1 from n where i < {size})"  # noqa: S608
    rare = f"i > {OLD} and i % {(size - OLD) // RARE} = 7"
    part = (size - OLD) // OWN
    owners = {
        f"o{number}": f"i > {OLD} and not ({rare}) and i % {part} = {number}" for number in range(OWNERS)
    }
    others = f"i > {OLD} and not ({rare}) and i % {part} >= {OWNERS}"

    def work(session: Session) -> None:
        for owner, which in {"old": f"i <= {OLD}", "rare": rare, "other": others, **owners}.items():
            metadata = {"owner": owner, "all": True}
            values = {"owner": owner, "deep": {"a": {"b": [1, 2]}}}
            documents = {
                "metadata": metadata_bytes(metadata),
                "values": metadata_bytes(values),
                "empty": b"{}",
            }
            for sql in (ROW, STATE):
                given = {name: each for name, each in documents.items() if f":{name}" in sql}
                session.execute(sql.format(numbers=numbers, size=size, which=which), given)
            for term in sorted(metadata_terms(metadata) | values_terms(values)):
                session.execute(TERM.format(numbers=numbers, size=size, which=which), {"term": term})

    storage.dialect.write(work)


class Asked(NamedTuple):
    """A statement that a search has sent."""

    sql: str
    parameters: Mapping[str, Any]
    planned: bool


class Listening:
    """A session that notes what is fetched."""

    def __init__(self, session: Session, asked: list[Asked]) -> None:
        self._session = session
        self._asked = asked

    def fetch(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> list[Row]:
        self._asked.append(Asked(sql, parameters, planned))
        return self._session.fetch(sql, parameters, planned=planned)

    def execute(self, sql: str, parameters: Mapping[str, Any] = NONE, *, planned: bool = False) -> int:
        return self._session.execute(sql, parameters, planned=planned)

    def now(self) -> int:
        return self._session.now()


class Place:
    """A storage that is full, and what its database says about the statements of a search."""

    def __init__(self, storage: SqlStorage) -> None:
        self.storage = storage

    def asked(self, act: Callable[[], object]) -> list[Asked]:
        """Return the statements that an action sends."""
        asked: list[Asked] = []
        dialect = self.storage.dialect
        read = dialect.read

        def listening(work: Callable[[Session], T]) -> T:
            return read(lambda session: work(Listening(session, asked)))

        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(dialect, "read", listening)
            act()
        assert asked
        return asked

    def explained(self, act: Callable[[], object], explain: str) -> list[list[Row]]:
        """Return what the database answers when it is to explain the statements of an action."""

        def ask(asked: Asked) -> list[Row]:
            return self.storage.dialect.read(
                lambda session: session.fetch(
                    f"{explain} {asked.sql}", asked.parameters, planned=asked.planned
                )
            )

        return [ask(each) for each in self.asked(act)]

    def steps(self, act: Callable[[], object]) -> list[str]:
        """Return the steps by which an action's statements are carried out."""
        if isinstance(self.storage, SqliteStorage):
            return [row[3] for rows in self.explained(act, "explain query plan") for row in rows]
        return [row[0] for rows in self.explained(act, "explain (costs off)") for row in rows]

    def work(self, act: Callable[[], object]) -> int:
        """Return how much an action makes the database do: in SQLite instructions, in Postgres rows."""
        if isinstance(self.storage, SqliteStorage):
            return self._instructions(act)
        plans = self.explained(act, "explain (analyze, timing off, format json)")
        return sum(_rows(rows[0][0][0]["Plan"]) for rows in plans)

    def _instructions(self, act: Callable[[], object]) -> int:
        counted = [0]

        def count() -> int:
            counted[0] += 1
            return 0

        assert isinstance(self.storage, SqliteStorage)
        database = self.storage.items.database
        database.read(lambda connection: connection.set_progress_handler(count, 10))
        act()
        database.read(lambda connection: connection.set_progress_handler(None, 0))
        return counted[0] * 10


def _rows(plan: dict[str, Any]) -> int:
    """Return how many rows of tables and indexes a plan has looked at."""
    own = 0
    if "Relation Name" in plan:
        looked = plan["Actual Rows"] + sum(number for name, number in plan.items() if "Removed" in name)
        own = round(looked * plan["Actual Loops"]) + plan["Actual Loops"]
    return own + sum(map(_rows, plan.get("Plans", ())))


Places = Callable[[str, int], Place]


@pytest.fixture(scope="module")
def places(postgres: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Places]:
    """Return a storage of a kind and size, made once."""
    made: dict[tuple[str, int], Place] = {}
    folder = tmp_path_factory.mktemp("search_plans")
    with psycopg.connect(postgres, autocommit=True) as connection:

        def make(kind: str, size: int) -> Place:
            if (kind, size) not in made:
                made[kind, size] = Place(_opened(kind, size, folder, postgres, connection))
            return made[kind, size]

        yield make
        for place in made.values():
            place.storage.close()
        for size in (SMALL, LARGE):
            connection.execute(f"drop schema if exists search_{size} cascade")


def _opened(
    kind: str, size: int, folder: Path, postgres: str, connection: psycopg.Connection[Any]
) -> SqlStorage:
    settings, clock = parse_index_config(None), ManualClock()
    storage: SqlStorage
    if kind == "postgres":
        connection.execute(f"drop schema if exists search_{size} cascade")
        storage = PostgresStorage(postgres, settings, clock=clock, schema=f"search_{size}")
    else:
        storage = SqliteStorage(str(folder / f"{kind} {size}.db"), settings, clock=clock)
    storage.open()
    fill(storage, size)
    if kind == "postgres":
        for table in ("thread", "thread_state", "thread_term"):
            connection.execute(f"vacuum analyze search_{size}.{table}")
    elif kind == "sqlite analysed":
        storage.dialect.write(lambda session: session.execute("analyze"))
    return storage


OWNER = ThreadQuery(metadata={"owner": "o3"})
OLD_ONES = ThreadQuery(metadata={"owner": "old"})
RARE_ONES = ThreadQuery(metadata={"owner": "rare"})
ALL = ThreadQuery(metadata={"all": True})
TWO = ThreadQuery(metadata={"all": True}, enforced_metadata={"owner": "rare"})
ERRORS = ThreadQuery(status=ThreadStatus.ERROR)
IDLE = ThreadQuery(status=ThreadStatus.IDLE)
BOTH = ThreadQuery(metadata={"owner": "o3"}, status=ThreadStatus.IDLE)
VALUES = ThreadQuery(values={"owner": "o3"})
DEEP = ThreadQuery(values={"deep": {"a": {"b": [2]}}})
NOBODYS = ThreadQuery(metadata={"owner": "nobody"})
SOME = ThreadQuery(ids=[f"t{SMALL + number}" for number in range(50)])
QUERIES = {
    "everything": ThreadQuery(),
    "an owner's": OWNER,
    "old": OLD_ONES,
    "rare": RARE_ONES,
    "all": ALL,
    "two conditions": TWO,
    "errors": ERRORS,
    "idle": IDLE,
    "an owner's idle": BOTH,
    "values": VALUES,
    "deep values": DEEP,
    "nobody's": NOBODYS,
    "some ids": SOME,
}

INDEXES = {
    "thread_id": "thread_pkey|^SCAN r$",
    "status": "thread_status_id",
    "created_at": "thread_created",
    "updated_at": "thread_updated",
    "state_updated_at": "thread_state_updated",
}


def search(
    place: Place, name: str, field: str, *, descending: bool = True, **options: Any
) -> Callable[[], object]:
    sort = Sort(field, descending)
    return lambda: place.storage.threads.search(QUERIES[name], sort=sort, **options)


def whole(steps: list[str], field: str = "") -> list[str]:
    """Return the steps that read a whole table of ours, in no order of which a limit takes the beginning."""
    return [
        step
        for before, step in pairwise(["", *steps])
        # In SQLite the table is in the order of its ids; Postgres stops in one as soon as it has enough.
        if re.match(rf"SCAN (stateroom_\w+|[{'' if field == 'thread_id' else 'r'}txs])$", step)
        or (re.search(r"Seq Scan on thread(_\w+)?\b", step) and not before.endswith("->  Limit"))
    ]


@pytest.mark.parametrize("field", THREAD_SORTS)
@pytest.mark.parametrize("name", QUERIES)
@pytest.mark.parametrize("kind", KINDS)
def test_no_search_reads_a_whole_table(places: Places, kind: str, name: str, field: str) -> None:
    place = places(kind, SMALL)
    for descending in (True, False):
        first = place.storage.threads.search(QUERIES[name], sort=Sort(field, descending))
        for options in ({}, {"offset": 30}, {"after": first.next}):
            steps = place.steps(search(place, name, field, descending=descending, **options))
            assert whole(steps, field) == [], (descending, options, steps)


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "everything"])
@pytest.mark.parametrize("kind", KINDS)
def test_no_count_reads_a_whole_table(places: Places, kind: str, name: str) -> None:
    place = places(kind, SMALL)
    assert whole(place.steps(lambda: place.storage.threads.count(QUERIES[name], at_most=500))) == []


@pytest.mark.parametrize("field", THREAD_SORTS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_order_has_an_index(places: Places, kind: str, field: str) -> None:
    place = places(kind, SMALL)
    steps = place.steps(search(place, "everything", field))
    assert any(re.search(INDEXES[field], step) for step in steps), steps


@pytest.mark.parametrize(
    ("name", "field", "index"),
    [
        ("an owner's", "created_at", "thread_term_pkey|PRIMARY KEY \\(term=\\?\\)"),
        ("values", "created_at", "thread_term_pkey|PRIMARY KEY \\(term=\\?\\)"),
        (
            "two conditions",
            "created_at",
            "thread_term_pkey|PRIMARY KEY \\(term=\\? AND created_at=\\? AND id",
        ),
        ("rare", "updated_at", "thread_term_pkey|PRIMARY KEY \\(term=\\?\\)"),
        ("an owner's", "updated_at", "thread_updated"),
        ("errors", "created_at", "thread_status\\b"),
        ("idle", "created_at", "thread_status\\b"),
        ("errors", "updated_at", "thread_status"),
        ("idle", "updated_at", "thread_updated"),
        ("idle", "status", "thread_status_id"),
    ],
)
@pytest.mark.parametrize("kind", KINDS)
def test_what_leads_to_a_page_is_an_index(
    places: Places, kind: str, name: str, field: str, index: str
) -> None:
    place = places(kind, SMALL)
    steps = place.steps(search(place, name, field))
    assert any(re.search(index, step) for step in steps), steps


@pytest.mark.parametrize(("name", "field"), [(name, field) for name in QUERIES for field in THREAD_SORTS])
@pytest.mark.parametrize("kind", LITTLE)
def test_a_search_costs_the_same_among_three_times_as_many(
    places: Places, kind: str, name: str, field: str
) -> None:
    small, large = places(kind, SMALL), places(kind, LARGE)
    for descending in (True, False):
        for options in ({}, {"offset": 20}):
            costs = [
                place.work(search(place, name, field, descending=descending, **options))
                for place in (small, large)
            ]
            assert costs[1] <= max(1.4 * costs[0], LITTLE[kind]), (descending, options, costs)


@pytest.mark.parametrize("kind", KINDS)
def test_the_checks_see_what_grows(places: Places, kind: str) -> None:
    sql = "select count(*) from stateroom.thread r where r.updated_at + 1 = r.created_at"
    costs = []
    for size in (SMALL, LARGE):
        place = places(kind, size)

        def act(place: Place = place) -> object:
            return place.storage.dialect.read(lambda session: session.fetch(sql))

        costs.append(place.work(act))
        assert whole(place.steps(act))
    assert costs[1] > 2 * costs[0]
