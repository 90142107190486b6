"""``stateroom doctor`` finds what would keep a project from running, and says what to mend."""

from __future__ import annotations

import json
import socket
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import psycopg
import pytest

from stateroom.drivers.sqlite.owner import Owner
from tests.cli.conftest import AGENT, Run
from tests.conftest import NewSchema
from tests.server.processes import project

AUTH = """
from langgraph_sdk import Auth
auth = Auth()

@auth.authenticate
async def who(headers):
    return "ana"
"""


def test_a_good_project_is_found_good_and_nothing_is_left_of_what_was_written(folder: Path, run: Run) -> None:
    (folder / "auth.py").write_text(AUTH)
    file = project(folder, AGENT, auth={"path": "./auth.py:auth"})
    done = run("doctor", "-c", file, "--write-test", variables={"PORT": "0"})
    assert done.exit_code == 0, done.output
    found = {line[5:].partition(":")[0]: line[:4].strip() for line in done.output.splitlines()}
    assert found == {
        "packages": "ok",
        "configuration": "ok",
        "port": "ok",
        "storage": "ok",
        "graphs": "ok",
        "authentication": "ok",
        "write test": "ok",
    }
    assert "langgraph 1." in done.output
    for kind in ("thread", "checkpoint", "item"):
        assert f"write test: {kind}: survived a reopening" in done.output
    assert_empty(folder / ".stateroom" / "stateroom.db")


def assert_empty(file: Path) -> None:
    with closing(sqlite3.connect(file)) as connection:
        for table in ("stateroom_thread", "stateroom_item", "checkpoints"):
            assert connection.execute(f"select count(*) from {table}").fetchone() == (0,), table  # noqa: S608


def test_on_postgres_too(folder: Path, run: Run, postgres: str, new_schema: NewSchema) -> None:
    variables = {"STATEROOM_POSTGRES_URI": postgres, "STATEROOM_SCHEMA": new_schema(), "PORT": "0"}
    done = run("doctor", "-c", project(folder, AGENT), "--write-test", variables=variables)
    assert done.exit_code == 0, done.output
    assert "postgres: reached" in done.output
    assert done.output.count("survived a reopening") == 3
    with psycopg.connect(postgres) as connection:
        for table in ("thread", "item", "checkpoints"):
            query = f'select count(*) from "{variables["STATEROOM_SCHEMA"]}".{table}'  # noqa: S608
            assert connection.execute(query.encode()).fetchone() == (0,), table


def test_memory_is_no_place_to_keep_things_and_no_fault(folder: Path, run: Run) -> None:
    done = run("doctor", "-c", project(folder, AGENT), "--storage", "memory", "--write-test", "-v")
    assert done.exit_code == 0, done.output
    assert "memory keeps nothing beyond the process" in done.output
    assert "note authentication: none: anybody may do anything" in done.output


@pytest.mark.parametrize(
    ("content", "variables", "says"),
    [
        ({"graphs": {}}, {}, "BAD  configuration: graphs is missing"),
        ({"graphs": {"agent": "./agent.py:grahp"}}, {}, "BAD  graphs.agent"),
        ({"auth": {"path": "./no.py:auth"}}, {}, "BAD  auth.path"),
        ({"store": {"path": "./agent.py:graph"}}, {}, "BAD  store.path"),
        ({"store": {"index": {"embed": "local", "dims": 3}}}, {}, "BAD  storage: store.index.dims"),
        ({"http": {"app": "./agent.py:graph"}}, {}, "BAD  http.app"),
        ({}, {"STATEROOM_LEASE": "soon"}, "BAD  configuration: STATEROOM_LEASE"),
        ({}, {"STATEROOM_POSTGRES_URI": "postgresql://me:s3cret@127.0.0.1:1/db"}, "BAD  storage"),
    ],
)
def test_what_is_bad_is_said_and_ends_in_an_error(
    folder: Path, run: Run, content: dict[str, Any], variables: dict[str, str], says: str
) -> None:
    done = run("doctor", "-c", project(folder, **{"graphs": AGENT, **content}), variables=variables)
    assert done.exit_code == 1, done.output
    assert says in done.output
    assert "s3cret" not in done.output


def test_who_has_the_file_and_the_port_is_said(folder: Path, run: Run) -> None:
    file = project(folder, AGENT, strange=1)
    (folder / ".stateroom").mkdir()
    owner = Owner(str(folder / ".stateroom" / "stateroom.db"))
    owner.acquire()
    try:
        with socket.create_server(("127.0.0.1", 0)) as taken:
            port = str(taken.getsockname()[1])
            done = run("doctor", "-c", file, variables={"PORT": port})
    finally:
        owner.release()
    assert done.exit_code == 1
    assert "note configuration: strange is not known" in done.output
    assert f"note port: port {port} of 127.0.0.1 cannot be taken" in done.output
    assert "BAD  storage: path:" in done.output
    assert json.loads(file.read_text())["strange"] == 1
