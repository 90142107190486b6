"""What every test shares: how hard Hypothesis tries, when garbage is collected, and one Postgres server."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator

import pytest
from hypothesis import settings

from tests.postgres.schemas import Schemas
from tests.postgres.server import FAST, VERSION, Server

# A busy machine is no defect, so no example has a deadline; CI replays the same examples every time.
settings.register_profile("local", deadline=None)
settings.register_profile("ci", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# What is collected, twenty thousand tests and their modules, stays: to look for garbage among it again and
# again takes as long as some suites.
gc.set_threshold(20_000, 20, 50)

NewSchema = Callable[[], str]


def pytest_collection_finish() -> None:
    """Look for garbage only among what comes from now on."""
    gc.collect()
    gc.freeze()


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
def _schemas(postgres: str) -> Iterator[Schemas]:
    """Return what puts schemas away beside the tests that follow."""
    with Schemas.of(postgres) as schemas:
        yield schemas


@pytest.fixture
def new_schema(_schemas: Schemas) -> Iterator[NewSchema]:
    """Return a function that names a schema which is not there yet; the test's end drops it."""
    yield from _named(_schemas.new, _schemas.drop)


@pytest.fixture
def empty_schema(_schemas: Schemas) -> Iterator[NewSchema]:
    """Return a function that names a schema that has no rows; it may have its tables already.

    That is several times as fast as ``new_schema``.
    """
    yield from _named(_schemas.empty, _schemas.give_back)


def _named(name: Callable[[], str], put_away: Callable[[str], None]) -> Iterator[NewSchema]:
    names: list[str] = []

    def named() -> str:
        names.append(name())
        return names[-1]

    yield named
    for each in names:
        put_away(each)
