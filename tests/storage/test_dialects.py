"""The two dialects: one spelling of SQL, one kind of values, and transactions that mean the same on both."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import psycopg
import pytest

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.drivers.postgres.dialect import PostgresDialect
from stateroom.drivers.postgres.items import PostgresItems
from stateroom.drivers.sql.dialect import NONE, Dialect, Row, Session
from stateroom.drivers.sqlite.dialect import SqliteDialect
from stateroom.drivers.sqlite.items import SqliteItems
from stateroom.errors import Conflict, Misconfigured, Unavailable
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import MEETING_SECONDS
from tests.conftest import NewSchema

T = TypeVar("T")

PUT = "insert into stateroom.frame (run_id, seq, event, data) values (:run_id, :seq, :event, :data)"
ALL = "select run_id, seq, event, data from stateroom.frame order by run_id, seq"


class Opened(NamedTuple):
    """A dialect with the items that share its database."""

    dialect: Dialect
    items: SqliteItems | PostgresItems
    kind: str

    def fetch(self, sql: str, parameters: dict[str, Any] | None = None, **options: Any) -> list[Row]:
        return self.dialect.read(lambda session: session.fetch(sql, parameters or NONE, **options))

    def execute(self, sql: str, parameters: dict[str, Any] | None = None, **options: Any) -> int:
        return self.dialect.write(lambda session: session.execute(sql, parameters or NONE, **options))


Opens = Callable[[Clock], Opened]


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def opens(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Opens]:
    """Return what opens a dialect with a clock, of each kind in turn."""
    settings = parse_index_config(None)
    opened: list[Opened] = []
    schema: NewSchema | None = request.getfixturevalue("new_schema") if request.param == "postgres" else None

    def open_one(clock: Clock) -> Opened:
        items: SqliteItems | PostgresItems
        dialect: Dialect
        if schema is not None:
            uri = request.getfixturevalue("postgres")
            items = PostgresItems(
                uri, settings, index_keys=(), clock=clock, schema=schema(), pool=None, prepares=True
            )
            dialect = PostgresDialect(items.database)
        else:
            path = ":memory:" if request.param == "memory" else str(tmp_path / f"{len(opened)}.db")
            items = SqliteItems(path, settings, index_keys=(), clock=clock, synchronous="NORMAL")
            dialect = SqliteDialect(items.database, clock)
        items.open()
        opened.append(Opened(dialect, items, request.param))
        return opened[-1]

    yield open_one
    for each in opened:
        each.items.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def opened(opens: Opens, clock: ManualClock) -> Opened:
    return opens(clock)


only_postgres = pytest.mark.parametrize("opens", ["postgres"], indirect=True)
only_files = pytest.mark.parametrize("opens", ["sqlite"], indirect=True)
only_sqlite = pytest.mark.parametrize("opens", ["sqlite", "memory"], indirect=True)
# A database in memory has one connection, on which all take turns.
side_by_side = pytest.mark.parametrize("opens", ["sqlite", "postgres"], indirect=True)


def frame(run_id: str = "r", seq: int = 1, event: str = "values", data: bytes = b"{}") -> dict[str, Any]:
    """Return the parameters of a row."""
    return {"run_id": run_id, "seq": seq, "event": event, "data": data}


def test_values_come_back_as_what_they_are(opened: Opened) -> None:
    rows = [
        ("r", seq, event, data)
        for seq, (event, data) in enumerate(
            [
                ("", b""),
                ("ä€😀", b"\0\xff"),
                ('it\'s 100 % "so" :now {each :x}', b"{}"),
                ("x" * 9000, b"y" * 9000),
            ]
        )
    ]
    for run_id, seq, event, data in rows:
        assert opened.execute(PUT, frame(run_id, seq, event, data)) == 1
    found = opened.fetch(ALL)
    assert found == rows
    assert [type(value) for value in found[0]] == [str, int, str, bytes]


@pytest.mark.parametrize("number", [0, 1, -1, 32_768, 2**31, -(2**31) - 1, 2**63 - 1, -(2**63)])
def test_integers_are_exact(opened: Opened, number: int) -> None:
    opened.execute(PUT, frame(seq=number))
    assert opened.fetch("select seq from stateroom.frame where seq = :seq", {"seq": number}) == [(number,)]
    assert opened.fetch("select cast(:seq as bigint)", {"seq": number}) == [(number,)]


def test_floats_and_truths_come_back(opened: Opened) -> None:
    ((number, true, false),) = opened.fetch(
        "select cast(:number as double precision), 1 < 2, cast(:n as bigint) > 7", {"number": 0.1, "n": 7}
    )
    assert number == 0.1
    assert true
    assert not false


def test_none_is_null(opened: Opened) -> None:
    asked = {"text": None, "number": None}
    assert opened.fetch("select cast(:text as text), cast(:number as bigint)", asked) == [(None, None)]
    sql = "select 1 where cast(:text as text) is null and coalesce(cast(:number as bigint), 3) = 3"
    assert opened.fetch(sql, asked) == [(1,)]


def test_parameters_are_told_apart_whatever_their_names(opened: Opened) -> None:
    asked = {"run": "a", "run_id": "b", "r": "c", "unused": "d", "now_or_never": "e"}
    sql = "select :r || :run_id || :run || :r || :now_or_never"
    assert opened.fetch(sql.replace(" :r ", " cast(:r as text) "), asked) == [("cbace",)]


def test_percent_signs_are_what_they_are(opened: Opened) -> None:
    opened.execute(PUT, frame("100%"))
    assert opened.fetch(
        "select 7 % 4, '%s %(x)s %%' from stateroom.frame where run_id like '1%\\%' escape '\\'"
    ) == [(3, "%s %(x)s %%")]
    sql = "select seq % cast(:by as bigint) from stateroom.frame where run_id like :pattern"
    assert opened.fetch(sql, {"by": 2, "pattern": "%00%"}) == [(1,)]


def test_each_is_a_table_of_a_list(opened: Opened) -> None:
    names = ["b", "", "a", "ä😀", 'x"y\\z', "{b,c}", "null", "b"]
    sql = "select value from {each :names} order by value"
    assert sorted(name for (name,) in opened.fetch(sql, {"names": names})) == sorted(names)
    terms = [3, -(2**63), 2**63 - 1, 3, 0]
    sql = "select value from {each bigint :terms} order by value"
    assert opened.fetch(sql, {"terms": terms}) == [(term,) for term in sorted(terms)]


def test_each_of_an_empty_list_has_no_rows(opened: Opened) -> None:
    assert opened.fetch("select value from {each :names}", {"names": []}) == []
    assert opened.fetch("select value from {each bigint :terms}", {"terms": []}) == []
    opened.execute(PUT, frame())
    sql = "select count(*) from stateroom.frame where run_id in (select value from {each :names})"
    assert opened.fetch(sql, {"names": []}) == [(0,)]
    assert opened.fetch(sql.replace(" in ", " not in "), {"names": []}) == [(1,)]


def test_lists_of_both_kinds_meet_columns(opened: Opened) -> None:
    for run_id in ("a", "b", "c"):
        for seq in (1, 2**40):
            opened.execute(PUT, frame(run_id, seq))
    sql = """
        select run_id, seq from stateroom.frame
        where run_id in (select value from {each :run_ids}) and seq in (select value from {each bigint :seqs})
        and run_id <> :other
        order by run_id
        {lock}
    """
    asked = {"run_ids": ["a", "b", "d"], "seqs": [2**40, 5], "other": "b"}
    assert opened.dialect.write(lambda session: session.fetch(sql, asked)) == [("a", 2**40)]
    joined = "select f.run_id from {each :run_ids} join stateroom.frame f on f.run_id = value and f.seq = 1"
    assert sorted(opened.fetch(joined, asked)) == [("a",), ("b",)]


def test_a_name_that_occurs_twice_is_one_parameter(opened: Opened) -> None:
    sql = "select value from {each :names} where value in (select value from {each :names}) order by value"
    assert opened.fetch(sql, {"names": ["b", "a"]}) == [("a",), ("b",)]


@pytest.mark.parametrize("space", [" ", "\n", "\n    "])
@pytest.mark.parametrize("lock", ["{lock}", "{lock skipping}", "{share}", "{share skipping}", "{exists}"])
def test_locks_may_stand_anywhere_at_the_end(opened: Opened, lock: str, space: str) -> None:
    opened.execute(PUT, frame())
    sql = "select seq from stateroom.frame where run_id = :run_id limit 1" + space + lock  # noqa: S608
    assert opened.dialect.write(lambda session: session.fetch(sql, {"run_id": "r"})) == [(1,)]


@pytest.mark.parametrize("planned", [False, True])
def test_statements_answer_how_many_rows_they_touched(opened: Opened, planned: bool) -> None:
    execute = partial(opened.execute, planned=planned)
    for seq in range(5):
        assert execute(PUT, frame(seq=seq)) == 1
    assert execute(f"{PUT} on conflict do nothing", frame()) == 0
    assert execute("update stateroom.frame set event = :event where seq > 1", {"event": "x"}) == 3
    assert execute("-- why\ndelete from stateroom.frame where seq = 9") == 0
    assert execute("-- why\ndelete from stateroom.frame where seq = 0") == 1
    sql = (
        "with old as (select seq from stateroom.frame where seq < 3)"
        " delete from stateroom.frame where seq in (select seq from old)"
    )
    assert execute(sql) == 2
    assert execute(sql) == 0
    assert execute("delete from stateroom.frame where seq = 3 returning seq") == 1
    assert opened.fetch("select seq from stateroom.frame", planned=planned) == [(4,)]


def test_rows_that_are_returned_have_been_written(opened: Opened) -> None:
    def work(session: Session) -> list[Row]:
        for seq in range(3):
            session.execute(PUT, frame(seq=seq))
        return session.fetch("delete from stateroom.frame where seq < 2 returning seq, data")

    assert sorted(opened.dialect.write(work)) == [(0, b"{}"), (1, b"{}")]
    assert opened.fetch("select seq from stateroom.frame") == [(2,)]


def test_now_is_the_clocks_that_was_given(opened: Opened, clock: ManualClock) -> None:
    for _ in range(2):
        assert opened.fetch("select :now, :now - 1") == [(clock(), clock() - 1)]
        assert opened.dialect.read(lambda session: session.now()) == clock()
        opened.execute("delete from stateroom.frame")
        opened.execute(PUT.replace(":seq", ":now / 1000000 * 1000000"), frame())
        ((seq,),) = opened.fetch("select seq from stateroom.frame where seq <= :now")
        assert seq == clock() // 1_000_000 * 1_000_000
        clock.advance(seconds=0.7)


@only_postgres
def test_now_is_the_databases_where_no_clock_was_given(opens: Opens, postgres: str) -> None:
    opened = opens(system_clock)
    with psycopg.connect(postgres, autocommit=True) as connection:

        def watch() -> int:
            row = connection.execute(
                "select (extract(epoch from clock_timestamp()) * 1000000)::bigint"
            ).fetchone()
            assert row is not None
            return int(row[0])

        def work(session: Session) -> None:
            for _ in range(3):
                # The present of each statement, not of the transaction.
                before = watch()
                ((now, same),) = session.fetch("select :now, :now")
                assert before <= now == same <= session.now() <= watch()

        opened.dialect.read(work)
        opened.dialect.read_together(work)
        opened.dialect.write(work)


@only_sqlite
def test_now_is_this_machines_where_no_clock_was_given(opens: Opens) -> None:
    opened = opens(system_clock)
    before = system_clock()
    ((now,),) = opened.fetch("select :now")
    assert before <= now <= opened.dialect.read(lambda session: session.now()) <= system_clock()


def test_a_write_commits_unless_an_exception_comes_out_of_it(opened: Opened) -> None:
    def work(session: Session, error: BaseException) -> None:
        session.execute(PUT, frame("no"))
        raise error

    assert opened.dialect.write(lambda session: session.execute(PUT, frame("yes"))) == 1
    for error in (Conflict("ours"), KeyError("a bug"), KeyboardInterrupt()):
        with pytest.raises(type(error)) as caught:
            opened.dialect.write(partial(work, error=error))
        assert caught.value is error
        assert [row[0] for row in opened.fetch(ALL)] == ["yes"]
    assert opened.execute(PUT, frame("later")) == 1


def test_a_statement_that_fails_undoes_the_whole_write(opened: Opened) -> None:
    opened.execute(PUT, frame("taken"))

    def work(session: Session) -> None:
        session.execute(PUT, frame("new"))
        session.execute(PUT, frame("taken"))

    with pytest.raises(Exception, match=r"(?i)unique"):
        opened.dialect.write(work)
    assert [row[0] for row in opened.fetch(ALL)] == ["taken"]


def read_twice(
    opened: Opened, read: Callable[[Callable[[Session], list[int]]], list[int]]
) -> tuple[list[int], int]:
    """Count rows twice in one piece of work, while another writes between; return both, and what is there."""

    def work(session: Session) -> list[int]:
        counts = []
        for seq in (1, 2):
            ((count,),) = session.fetch("select count(*) from stateroom.frame")
            counts.append(count)
            with ThreadPoolExecutor(1) as other:
                other.submit(opened.execute, PUT, frame(seq=seq)).result()
        return counts

    counts = read(work)
    ((after,),) = opened.fetch("select count(*) from stateroom.frame")
    return counts, after


@side_by_side
def test_what_is_read_together_is_one_snapshot(opened: Opened) -> None:
    assert read_twice(opened, opened.dialect.read_together) == ([0, 0], 2)


@side_by_side
def test_each_statement_of_a_read_sees_the_latest_commit(opened: Opened) -> None:
    assert read_twice(opened, opened.dialect.read) == ([0, 1], 2)


@only_postgres
def test_each_statement_of_a_write_sees_the_latest_commit(opened: Opened) -> None:
    assert read_twice(opened, opened.dialect.write) == ([0, 1], 2)


@pytest.mark.parametrize("how", ["read", "read_together", "write"])
def test_reading_again_after_an_exception_finds_nothing_odd(opened: Opened, how: str) -> None:
    opened.execute(PUT, frame())

    def work(session: Session) -> None:
        session.fetch(ALL)
        raise KeyError(how)

    do: Callable[..., Any] = getattr(opened.dialect, how)
    for _ in range(3):
        with pytest.raises(KeyError):
            do(work)
    assert do(lambda session: session.fetch(ALL)) == [("r", 1, "values", b"{}")]
    assert opened.dialect.read_together(lambda session: session.fetch(ALL)) == [("r", 1, "values", b"{}")]
    assert opened.execute("delete from stateroom.frame") == 1


@only_sqlite
def test_items_find_their_connections_as_they_were(opened: Opened) -> None:
    def fail(session: Session) -> None:
        assert session.fetch("select 'text'") == [("text",)]
        raise KeyError

    assert isinstance(opened.items, SqliteItems)
    database = opened.items.database
    for do in (opened.dialect.read, opened.dialect.read_together, opened.dialect.write):
        with suppress(KeyError):
            do(fail)
        for connections in (database.read, database.write):
            assert connections(lambda connection: connection.text_factory) is bytes
            assert connections(lambda connection: connection.execute("select 'text'").fetchall()) == [
                (b"text",)
            ]


@only_files
def test_a_file_that_is_no_database_is_misconfigured(opens: Opens, clock: ManualClock) -> None:
    opened = opens(clock)
    assert isinstance(opened.items, SqliteItems)
    path = Path(opened.items.database.path)
    opened.items.close()
    for each in path.parent.glob(f"{path.name}*"):
        each.unlink()
    path.write_bytes(b"something else " * 100)
    with pytest.raises(Misconfigured, match="is not an SQLite database"):
        opened.fetch(ALL)
    with pytest.raises(Misconfigured, match="is not an SQLite database"):
        opened.execute(PUT, frame())
    path.unlink()


@only_files
def test_a_file_that_cannot_grow_is_unavailable(opened: Opened) -> None:
    def limit(session: Session) -> None:
        ((pages,),) = session.fetch("pragma page_count")
        session.fetch(f"pragma max_page_count = {pages}")

    opened.dialect.write(limit)
    with pytest.raises(Unavailable):
        opened.execute(PUT, frame(data=b"x" * 1_000_000))
    assert opened.fetch(ALL) == []


@only_postgres
def test_tables_that_are_gone_are_misconfigured(opened: Opened) -> None:
    opened.execute("drop table stateroom.frame")
    for do in (opened.dialect.read, opened.dialect.read_together, opened.dialect.write):
        with pytest.raises(Misconfigured, match="tables are gone"):
            do(lambda session: session.fetch(ALL))


def cut(session: Session, postgres: str) -> None:
    """End a session's connection, as an administrator or a restart does."""
    ((process,),) = session.fetch("select pg_backend_pid()")
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("select pg_terminate_backend(%s, 5000)", [process])


@only_postgres
def test_a_read_that_lost_its_connection_is_done_again(opened: Opened, postgres: str) -> None:
    for do in (opened.dialect.read, opened.dialect.read_together):
        cuts = [None]

        def work(session: Session, cuts: list[None] = cuts) -> list[Row]:
            if cuts:
                cuts.pop()
                cut(session, postgres)
            return session.fetch("select 1")

        assert do(work) == [(1,)]


@only_postgres
@pytest.mark.parametrize("repeats", [False, True])
def test_a_write_that_lost_its_connection_is_done_again_where_that_does_no_harm(
    opened: Opened, postgres: str, repeats: bool
) -> None:
    done: list[int] = []

    def work(session: Session) -> int:
        done.append(session.execute(PUT, frame(seq=len(done))))
        if len(done) == 1:
            cut(session, postgres)
        return session.execute(PUT, frame("other"))

    if repeats:
        assert opened.dialect.write(work, repeats=True) == 1
        assert [row[:2] for row in opened.fetch(ALL)] == [("other", 1), ("r", 1)]
    else:
        with pytest.raises(Unavailable):
            opened.dialect.write(work)
        assert opened.fetch(ALL) == []


@only_postgres
def test_a_write_that_another_was_in_the_way_of_is_done_again(opened: Opened) -> None:
    for seq in (1, 2):
        opened.execute(PUT, frame(seq=seq, event=""))
    barrier = threading.Barrier(2, timeout=MEETING_SECONDS)
    done: list[str] = []

    def work(session: Session, name: str, order: tuple[int, int]) -> None:
        first_time = name not in done
        done.append(name)
        for seq in order:
            sql = "update stateroom.frame set event = event || :name where seq = :seq"
            session.execute(sql, {"name": name, "seq": seq})
            if seq == order[0] and first_time:
                barrier.wait()

    with ThreadPoolExecutor(2) as threads:
        each = [
            threads.submit(opened.dialect.write, partial(work, name=name, order=order))
            for name, order in (("a", (1, 2)), ("b", (2, 1)))
        ]
        for future in each:
            future.result()
    assert len(done) > 2
    (first, second) = (event for _, _, event, _ in opened.fetch(ALL))
    assert {"".join(sorted(event)) for event in (first, second)} == {"ab"}


@only_postgres
@pytest.mark.parametrize(
    ("lock", "seen"),
    [
        (" {lock}", (False, False)),
        (" {share}", (False, True)),
        (" {exists}", (True, True)),
        ("", (True, True)),
    ],
)
def test_locks_keep_others_away(opened: Opened, lock: str, seen: tuple[bool, bool]) -> None:
    for seq in (1, 2):
        opened.execute(PUT, frame(seq=seq))

    def numbers(kind: str) -> list[int]:
        sql = "select seq from stateroom.frame order by seq" + kind  # noqa: S608
        return [seq for (seq,) in opened.dialect.write(lambda session: session.fetch(sql))]

    def work(session: Session) -> tuple[bool, bool]:
        session.fetch("select 1 from stateroom.frame where seq = 1" + lock)  # noqa: S608
        with ThreadPoolExecutor(1) as other:
            found = [
                other.submit(numbers, kind).result() for kind in (" {lock skipping}", " {share skipping}")
            ]
        assert all(2 in each for each in found)
        return 1 in found[0], 1 in found[1]

    assert opened.dialect.write(work) == seen


@only_postgres
def test_a_lock_that_does_not_come_is_unavailable(opened: Opened) -> None:
    opened.execute(PUT, frame())

    def impatient(session: Session) -> None:
        session.execute("set local lock_timeout = '50ms'")
        session.fetch("select 1 from stateroom.frame {share}")

    def work(session: Session) -> None:
        session.fetch("select 1 from stateroom.frame {lock}")
        with ThreadPoolExecutor(1) as other, pytest.raises(Unavailable):
            other.submit(opened.dialect.write, impatient).result()

    opened.dialect.write(work)
