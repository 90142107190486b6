"""Storages of every kind, made anew for each test."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import OpensStorage
from tests.conftest import NewSchema

KINDS = ("sqlite", "memory", "postgres")


def maker(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> Callable[..., Any]:
    """Return what makes storages of a kind, all on the same database."""
    settings = parse_index_config(None)
    if kind == "postgres":
        schema: NewSchema = request.getfixturevalue("empty_schema")
        return partial(PostgresStorage, request.getfixturevalue("postgres"), settings, schema=schema())
    return partial(SqliteStorage, ":memory:" if kind == "memory" else str(tmp_path / "server.db"), settings)


@pytest.fixture(params=KINDS)
def any_storage(request: pytest.FixtureRequest, tmp_path: Path) -> OpensStorage:
    """Return what makes a storage, of each kind in turn."""
    return maker(request.param, tmp_path, request)
