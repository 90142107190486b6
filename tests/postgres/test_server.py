"""The server that the tests of Postgres use starts, stops, keeps its data, and ends with them."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql

from tests.conftest import NewSchema
from tests.postgres.server import FAST, Server, ServerFailed

ROOT = Path(__file__).parents[2]

# Starts a server and says where, then waits to be ended.
PROGRAM = """
import sys
from tests.postgres.server import FAST, Server

with Server(FAST) as server:
    print(server.uri, flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def server() -> Iterator[Server]:
    with Server(FAST, tcp=True) as server:
        yield server


def test_data_outlives_a_stop_and_a_crash(server: Server) -> None:
    server.execute("create table kept as select 1 as number")
    server.stop()
    with pytest.raises(psycopg.OperationalError):
        server.execute("select 1")
    server.start()
    server.execute("insert into kept values (2)")
    server.stop("immediate")
    server.start()
    assert server.execute("select number from kept order by number") == [(1,), (2,)]
    assert "was not properly shut down" in server.log


def test_users_log_in_with_their_password(server: Server) -> None:
    uri = server.add_user("ann@home", "p@ss/w?rd%")
    with psycopg.connect(uri, autocommit=True) as connection:
        connection.execute("create schema of_ann")
        assert connection.execute("select current_user").fetchone() == ("ann@home",)
    with pytest.raises(psycopg.OperationalError, match="password authentication failed"):
        psycopg.connect(uri, password="wrong")


@pytest.mark.parametrize("version", [16, 18])
def test_it_has_the_version_asked_for_and_vectors(version: int) -> None:
    with Server(FAST, version=version) as server:
        server.execute("create extension vector")
        assert server.execute("select current_setting('server_version_num')::int / 10000") == [(version,)]
        assert server.execute("select '[1,2]'::vector::text") == [("[1,2]",)]


def test_servers_do_not_share_data(server: Server) -> None:
    with Server(FAST) as other:
        other.execute("create table there as select 1")
        assert server.execute("select to_regclass('there')::text") == [(None,)]
        assert other.execute("select to_regclass('there')::text") == [("there",)]


def test_nothing_is_left_when_it_closes() -> None:
    server = Server(FAST)
    with psycopg.connect(server.uri, autocommit=True) as connection:
        server.close()
        server.close()
        with pytest.raises(psycopg.OperationalError):
            connection.execute("select 1")
    assert not server.folder.exists()


def test_it_says_why_it_did_not_start() -> None:
    with pytest.raises(ServerFailed, match="shared_buffers"):
        Server({"shared_buffers": "many"})


@pytest.mark.parametrize("how", [signal.SIGINT, signal.SIGKILL])
def test_it_ends_with_the_process_that_started_it(how: signal.Signals) -> None:
    program = subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        cwd=ROOT,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    with program:
        assert program.stdout is not None
        with psycopg.connect(program.stdout.readline().strip(), autocommit=True) as connection:
            program.send_signal(how)
            with pytest.raises(psycopg.OperationalError):
                connection.execute("select pg_sleep(50)")


def test_each_schema_is_new_and_dropped_after_the_test(postgres: str, new_schema: NewSchema) -> None:
    first, second = new_schema(), new_schema()
    assert first != second
    with psycopg.connect(postgres, autocommit=True) as connection:
        for name in (first, second):
            connection.execute(sql.SQL("create schema {}").format(sql.Identifier(name)))
            connection.execute(sql.SQL("create table {}.full as select 1").format(sql.Identifier(name)))
