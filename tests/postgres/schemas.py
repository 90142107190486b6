"""Schemas that one test hands on to the next, emptied, since to set one up takes longer than most tests."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from functools import cached_property
from itertools import count
from typing import Any, Final, NamedTuple, Self

import psycopg
from psycopg import sql

from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.savers.postgres import PostgresSaver
from stateroom.search.index_config import parse_index_config

__all__ = ["Schemas"]

BYTES_MAX: Final = 1024 * 1024
"""The size of a schema's tables from which on it is quicker to drop it than to delete its rows."""

# What a relation is: its options and rights, its columns, and what it is an index of. Expressions are texts,
# since their trees may say where in a migration they were written, which differs between schemas.
_RELATIONS: Final = """
select c.relname, c.relkind::text, pg_table_size(c.oid), pg_relation_size(c.oid) > 0, c.reltuples > 0,
    concat_ws('|', c.relkind::text, c.relam, c.relpersistence::text, c.relowner, c.relacl, c.reloptions,
        c.relhasrules, c.relhastriggers, c.relrowsecurity, x.indisunique, x.indisvalid, x.indisready,
        x.indkey::text, x.indclass::text, x.indcollation::text, x.indoption::text,
        pg_get_expr(x.indexprs, x.indrelid), pg_get_expr(x.indpred, x.indrelid),
        (select string_agg(concat_ws(' ', a.attname, a.atttypid, a.atttypmod, a.attnotnull, a.atthasdef,
            a.attidentity::text, a.attstorage::text, a.attcollation, a.attisdropped), ', ' order by a.attnum)
        from pg_attribute a where a.attrelid = c.oid and a.attnum > 0 and c.relkind = 'r'))
from pg_class c join pg_namespace n on n.oid = c.relnamespace
left join pg_index x on x.indexrelid = c.oid where n.nspname = %(schema)s
"""

# One row if there is such a schema: whether it has more than relations, such as statistics or functions.
_HAS_MORE: Final = """
select n.nspacl is not null or n.nspowner <> current_user::regrole or exists (
    select 1 from pg_depend d where d.refclassid = 'pg_namespace'::regclass and d.refobjid = n.oid
    and d.classid <> 'pg_class'::regclass
) from pg_namespace n where n.nspname = %(schema)s
"""

_numbers = count()


class _Relation(NamedTuple):
    """A table, an index or a sequence of a schema."""

    name: str
    kind: str
    bytes: int
    has_pages: bool
    is_analyzed: bool
    definition: str


class Schemas:
    """Names schemas for tests, and puts them away beside the tests that follow.

    What is wrong in putting them away, such as a transaction that a test left open, is raised by ``close``.
    """

    def __init__(self, uri: str, connection: psycopg.Connection[Any], thread: ThreadPoolExecutor) -> None:
        self._uri = uri
        self._connection = connection
        self._thread = thread
        self._free: deque[str] = deque()
        self._done: list[Future[None]] = []

    @classmethod
    @contextmanager
    def of(cls, uri: str, *, patience: str = "20s") -> Iterator[Self]:
        """Lend the schemas of the database at a URI, where a lock is waited for so long."""
        with (
            psycopg.connect(uri, autocommit=True) as connection,
            ThreadPoolExecutor(1, "put-schemas-away") as thread,
        ):
            # A test that left a transaction open would have this wait for ever.
            connection.execute("select set_config('lock_timeout', %s, false)", [patience])
            connection.execute("set client_min_messages = 'warning'")
            schemas = cls(uri, connection, thread)
            yield schemas
            schemas.close()

    def new(self) -> str:
        """Name a schema that is not there yet."""
        return f"test_{os.getpid()}_{next(_numbers)}"

    def empty(self) -> str:
        """Name a schema that has no rows; it may have its tables already."""
        # Here rather than in the thread, where it would meet what a test does to the drivers.
        _ = self._model
        return self._free.pop() if self._free else self.new()

    def drop(self, name: str) -> None:
        """Drop a schema, if it is there."""
        self._later(self._drop, name)

    def give_back(self, name: str) -> None:
        """Empty a schema for the next test, or drop it if that finds anything but what opening makes."""
        self._later(self._put_away, name)

    def wait(self) -> None:
        """Wait until all that was given back is put away; raise what was wrong."""
        done, self._done = self._done, []
        for each in done:
            each.result()

    def close(self) -> None:
        """Drop every schema that was kept."""
        self._later(self._drop_kept)
        self.wait()

    def _later(self, work: Callable[..., None], *arguments: str) -> None:
        self._done.append(self._thread.submit(work, *arguments))

    @cached_property
    def _model(self) -> _Model:
        name = self.new()
        saver = PostgresSaver(self._uri, schema=name)
        saver.setup()
        saver.close()
        of_savers = {relation.name for relation in self._relations(name)}
        storage = PostgresStorage(self._uri, parse_index_config(None), schema=name)
        storage.open()
        storage.close()
        return _Model(name, of_savers, self._relations(name))

    def _put_away(self, name: str) -> None:
        """Free a name: of a schema that is not there, or that no test can tell from a new one's tables."""
        found = self._connection.execute(_HAS_MORE, {"schema": name}).fetchone()
        if found is not None:
            relations = self._relations(name)
            if found[0] or not self._model.is_like(relations):
                self._drop(name)
                return
            with self._connection.transaction():
                self._connection.execute(self._model.emptying(name, relations), prepare=False)
        self._free.append(name)

    def _relations(self, name: str) -> list[_Relation]:
        rows = self._connection.execute(_RELATIONS, {"schema": name})
        return [_Relation(*row) for row in rows]

    def _drop(self, name: str) -> None:
        self._connection.execute(sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name)))

    def _drop_kept(self) -> None:
        if "_model" in vars(self):
            self._drop(self._model.schema)
        while self._free:
            self._drop(self._free.pop())


class _Model:
    """A schema as opening a storage leaves it, which others are compared with."""

    def __init__(self, schema: str, of_savers: set[str], relations: Iterable[_Relation]) -> None:
        self.schema = schema
        whole = _definitions(relations)
        # A saver makes its own tables alone, and a store all others.
        self._sets = [
            whole,
            {name: whole[name] for name in whole.keys() & of_savers},
            {name: whole[name] for name in whole.keys() - of_savers},
        ]
        self._filled = {
            relation.name for relation in relations if relation.kind == "r" and relation.has_pages
        }

    def is_like(self, relations: Iterable[_Relation]) -> bool:
        """Tell whether a schema has the same tables and indexes, all of one set, and few rows in them."""
        tables = [relation for relation in relations if relation.kind == "r"]
        return (
            _definitions(relations) in self._sets
            and sum(table.bytes for table in tables) <= BYTES_MAX
            # What Postgres knows of their sizes would stay, and with it other plans.
            and not any(table.is_analyzed for table in tables)
        )

    def emptying(self, schema: str, relations: Iterable[_Relation]) -> sql.Composed:
        """Return what leaves a schema with the rows of this one, and no others."""
        tables = {each.name: sql.Identifier(schema, each.name) for each in relations if each.kind == "r"}
        sequences = [sql.Identifier(schema, each.name) for each in relations if each.kind == "S"]
        return sql.SQL("; ").join(
            [
                # What a test left open shows here: it holds one of them.
                sql.SQL("lock table {} in access exclusive mode").format(sql.SQL(", ").join(tables.values())),
                *(sql.SQL("delete from {}").format(table) for table in tables.values()),
                *(
                    sql.SQL("insert into {} table {}").format(table, sql.Identifier(self.schema, name))
                    for name, table in tables.items()
                    if name in self._filled
                ),
                *(
                    sql.SQL("select setval({}, 1, false)").format(sql.Literal(sequence.as_string(None)))
                    for sequence in sequences
                ),
            ]
        )


def _definitions(relations: Iterable[_Relation]) -> Mapping[str, str]:
    return {relation.name: relation.definition for relation in relations}
