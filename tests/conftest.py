"""What every test shares: how hard Hypothesis tries, and one Postgres server."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count

import psycopg
import pytest
from hypothesis import settings
from psycopg import sql

from tests.postgres.server import FAST, VERSION, Server

# A busy machine is no defect, so no example has a deadline; CI replays the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

NewSchema = Callable[[], str]

_numbers = count()


@pytest.fixture(scope="session")
def postgres() -> Iterator[str]:
    """Return the URI of a Postgres server that all tests share.

    The environment's STATEROOM_TEST_POSTGRES names another one by its URI, or asks for one of another
    version, such as 16.
    """
    given = os.environ.get("STATEROOM_TEST_POSTGRES", "")
    if given and not given.isdigit():
        yield given
        return
    with Server(FAST, version=int(given or VERSION)) as server:
        yield server.uri


@pytest.fixture(scope="session")
def _drop(postgres: str) -> Iterator[Callable[[str], object]]:
    """Return what drops a schema beside the tests that follow."""
    with (
        psycopg.connect(postgres, autocommit=True) as connection,
        ThreadPoolExecutor(1, "drop-schemas") as thread,
    ):
        # A test that left a transaction open would have this wait for ever.
        connection.execute("set lock_timeout = '20s'")
        connection.execute("set client_min_messages = 'warning'")
        dropped: list[Future[object]] = []

        def drop(name: str) -> None:
            statement = sql.SQL("drop schema if exists {} cascade").format(sql.Identifier(name))
            dropped.append(thread.submit(connection.execute, statement))

        yield drop
        for each in dropped:
            each.result()


@pytest.fixture
def new_schema(_drop: Callable[[str], object]) -> Iterator[NewSchema]:
    """Return a function that names a schema which is not there yet; the test's end drops it."""
    names: list[str] = []

    def new_schema() -> str:
        names.append(f"test_{os.getpid()}_{next(_numbers)}")
        return names[-1]

    yield new_schema
    for name in names:
        _drop(name)
