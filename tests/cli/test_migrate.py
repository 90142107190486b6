"""The command ``stateroom migrate`` prepares a database from outside, as a deployment runs it."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import psycopg
from langgraph.store.postgres import PostgresStore as LangGraphPostgresStore

from stateroom import PostgresStore
from tests.conftest import NewSchema

COMMAND = Path(sys.executable).parent / "stateroom"


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [COMMAND, *arguments],
        capture_output=True,
        text=True,
        check=False,
        env={"COLUMNS": "200", **environment},
    )


def indexes(uri: str, schema: str) -> set[str]:
    with psycopg.connect(uri) as connection:
        rows = connection.execute("select indexname from pg_indexes where schemaname = %s", (schema,))
        return {name for (name,) in rows}


def test_it_creates_the_tables_and_again_changes_nothing(postgres: str, new_schema: NewSchema) -> None:
    schema = new_schema()
    first = run("migrate", postgres, "--schema", schema)
    assert first.returncode == 0, first.stderr
    assert f"The schema {schema} is up to date." in first.stderr
    made = indexes(postgres, schema)
    assert {"item_in_namespace", "run_waiting", "checkpoints_pkey"} <= made
    assert run("migrate", postgres, "--schema", schema).returncode == 0
    assert indexes(postgres, schema) == made


def test_it_takes_the_address_from_the_environment_and_builds_indexes(
    postgres: str, new_schema: NewSchema
) -> None:
    schema = new_schema()
    vectors = ("--dims", "3", "--vector-type", "halfvec", "--hnsw")
    done = run(
        "migrate", "--schema", schema, "--index-key", "topic", *vectors, STATEROOM_POSTGRES_URI=postgres
    )
    assert done.returncode == 0, done.stderr
    made = indexes(postgres, schema)
    assert any(name.startswith("item_key_") for name in made)
    assert "vector_hnsw_cosine" in made


def test_items_and_their_text_stay_as_they_are(postgres: str, new_schema: NewSchema) -> None:
    schema = new_schema()
    with PostgresStore(postgres, schema=schema, index={"language": "german"}) as store:
        store.put(("a",), "k", {"text": "Häuser"})
    assert run("migrate", postgres, "--schema", schema).returncode == 0
    with PostgresStore(postgres, schema=schema, index={"language": "german"}) as store:
        assert [hit.key for hit in store.search(("a",), query="Haus")] == ["k"]


def test_a_user_who_may_create_nothing_works_with_what_an_administrator_made(
    postgres: str, new_schema: NewSchema
) -> None:
    schema, role = new_schema(), f"app_{new_schema()}"
    made = run("migrate", postgres, "--schema", schema, "--index-key", "topic", "--dims", "2")
    assert made.returncode == 0, made.stderr
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute(f"create role {role} login")
        for what in (
            f"usage on schema {schema}",
            f"select, insert, update, delete on all tables in schema {schema}",
            f"usage, select on all sequences in schema {schema}",
        ):
            admin.execute(f"grant {what} to {role}")
        try:
            index = {"embed": lambda texts: [[1.0, float(len(text))] for text in texts], "dims": 2}
            uri = postgres.replace("//postgres@", f"//{role}@")
            with PostgresStore(uri, schema=schema, index=index, index_keys=["topic"]) as store:
                store.put(("a",), "k", {"topic": "tea", "text": "green"})
                assert [hit.key for hit in store.search(("a",), filter={"topic": "tea"})] == ["k"]
                assert [hit.key for hit in store.search(("a",), query="green", mode="hybrid")] == ["k"]
                store.delete(("a",), "k")
        finally:
            admin.execute(f"drop owned by {role}")
            admin.execute(f"drop role {role}")


def test_items_of_langgraphs_own_store_are_mentioned(postgres: str) -> None:
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("create database of_langgraph")
    uri = postgres.replace("/postgres?", "/of_langgraph?")
    with LangGraphPostgresStore.from_conn_string(uri) as theirs:
        theirs.setup()
        assert "docs/migrating.md" not in run("migrate", uri, "--schema", "before").stderr
        theirs.put(("a",), "k", {})
    done = run("migrate", uri)
    assert "LangGraph's table store has items" in done.stderr
    assert "LangGraph's table" not in run("migrate", uri).stderr
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("drop database of_langgraph with (force)")


def test_what_is_wrong_is_said_and_ends_in_an_error(postgres: str) -> None:
    for arguments, code, says in (
        (("migrate", "mysql://host/db"), 1, "misconfigured: uri is no address of a Postgres database"),
        (("migrate", postgres, "--hnsw"), 1, "misconfigured: hnsw needs dims"),
        (("migrate", "postgresql://nobody:secret@127.0.0.1:1/db"), 1, "unavailable"),
        (("migrate", postgres, "--schema", "1 2"), 1, "misconfigured: schema is '1 2'"),
        (("migrate",), 2, "{uri}"),
    ):
        done = run(*arguments)
        assert done.returncode == code, done
        assert says in done.stderr.replace("\n", " "), done
        assert "secret" not in done.stdout + done.stderr


def test_it_says_its_version_and_its_commands() -> None:
    assert run("--version").stdout.strip()
    assert "migrate" in run("--help").stdout


def test_without_its_packages_it_says_what_to_install() -> None:
    program = "import sys; sys.modules['typer'] = None; from stateroom.cli import main; main()"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "pip install 'stateroom[cli]'" in done.stderr
