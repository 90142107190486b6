"""Schemas that tests are lent have no rows, and none of what a test before them has made or changed."""

from __future__ import annotations

from collections.abc import Iterator

import psycopg
import pytest
from langgraph.checkpoint.base import empty_checkpoint
from psycopg import sql

from stateroom.savers.postgres import PostgresSaver
from stateroom.stores.postgres import PostgresStore
from tests.postgres.schemas import Schemas

A = ("a",)

CHANGES = {
    "a table": "create table {0}.more ()",
    "an index": "create index more on {0}.item (key)",
    "statistics": "create statistics {0}.more on namespace_id, key from {0}.item",
    "a function": "create function {0}.more() returns int language sql return 1",
    "an index that is gone": "drop index {0}.item_terms",
    "a table that is gone": "drop table {0}.cron",
    "a column": "alter table {0}.item add column more text",
    "a column that is gone": "alter table {0}.item drop column file_size",
    "a column's type": "alter table {0}.cron alter column occurrence type integer",
    "a column's default": "alter table {0}.thread alter column status set default 'idle'",
    "an index on something else": "drop index {0}.item_path; create index item_path on {0}.item (key)",
    "an index of other rows": (
        "drop index {0}.item_expiry; create index item_expiry on {0}.item (expires_at) where expires_at > 0"
    ),
    "an option": "alter index {0}.item_value set (gin_pending_list_limit = 64)",
    "a right": "grant select on {0}.item to public",
    "a right to the schema": "grant usage on schema {0} to public",
    "known sizes": "analyze {0}.setting",
    "many rows": "insert into {0}.setting select n, '' from generate_series(1, 50000) n",
}


@pytest.fixture
def schemas(postgres: str) -> Iterator[Schemas]:
    with Schemas.of(postgres) as schemas:
        yield schemas


def execute(uri: str, statements: str, schema: str) -> None:
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute(sql.SQL(statements).format(sql.Identifier(schema)))


def is_there(uri: str, schema: str) -> bool:
    with psycopg.connect(uri) as connection:
        found = connection.execute("select from pg_namespace where nspname = %s", [schema]).fetchall()
    return bool(found)


def used(uri: str, schemas: Schemas) -> str:
    """Name a schema in which a store has put something."""
    schema = schemas.empty()
    with PostgresStore(uri, schema=schema) as store:
        store.put(A, "k", {"t": "giraffe"})
    return schema


def put_away(schemas: Schemas, schema: str) -> str:
    """Give a schema back; name the next one."""
    schemas.give_back(schema)
    schemas.wait()
    return schemas.empty()


def test_a_schema_that_was_used_comes_back_without_rows(postgres: str, schemas: Schemas) -> None:
    schema = used(postgres, schemas)
    execute(postgres, "update {}.setting set value = '1' || value where name = 'updated_at'", schema)
    with PostgresSaver(postgres, schema=schema) as saver:
        config = saver.put(
            {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}, empty_checkpoint(), {}, {}
        )
    assert put_away(schemas, schema) == schema
    assert is_there(postgres, schema)
    with PostgresStore(postgres, schema=schema) as store, PostgresSaver(postgres, schema=schema) as saver:
        assert store.search(()) == store.list_namespaces() == []
        assert saver.get_tuple(config) is None
    with psycopg.connect(postgres) as connection:
        query = sql.SQL("select value, nextval({}) from {} where name = 'updated_at'").format(
            sql.Literal(f"{schema}.revision"), sql.Identifier(schema, "setting")
        )
        assert connection.execute(query).fetchall() == [("0", 1)]


def test_a_schema_of_savers_alone_comes_back_too(postgres: str, schemas: Schemas) -> None:
    schema = schemas.empty()
    with PostgresSaver(postgres, schema=schema) as saver:
        saver.setup()
    assert put_away(schemas, schema) == schema
    assert is_there(postgres, schema)
    assert put_away(schemas, used(postgres, schemas)) != schema


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_a_schema_that_was_changed_is_dropped(postgres: str, schemas: Schemas, change: str) -> None:
    schema = used(postgres, schemas)
    execute(postgres, change, schema)
    assert put_away(schemas, schema) != schema
    assert not is_there(postgres, schema)


def test_a_name_that_was_not_used_is_used_next(postgres: str, schemas: Schemas) -> None:
    schema = schemas.empty()
    assert put_away(schemas, schema) == schema
    assert not is_there(postgres, schema)


def test_nothing_is_left_in_the_end(postgres: str) -> None:
    with Schemas.of(postgres) as schemas:
        names = [used(postgres, schemas), used(postgres, schemas)]
        schemas.give_back(names[0])
        schemas.drop(names[1])
    assert not any(is_there(postgres, name) for name in names)


@pytest.mark.parametrize("statement", ["select from {}.cron", "insert into {}.setting values ('a', '')"])
def test_a_transaction_that_was_left_open_is_an_error(postgres: str, statement: str) -> None:
    with Schemas.of(postgres, patience="10ms") as schemas, psycopg.connect(postgres) as connection:
        schema = used(postgres, schemas)
        connection.execute(sql.SQL(statement).format(sql.Identifier(schema)))
        schemas.give_back(schema)
        with pytest.raises(psycopg.errors.LockNotAvailable):
            schemas.wait()
        assert schemas.empty() != schema
        connection.rollback()
        schemas.drop(schema)
