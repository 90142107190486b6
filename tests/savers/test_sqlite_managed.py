"""Savers over a storage in SQLite: fences and roll-backs."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.savers import SqliteSaver
from stateroom.search.index_config import parse_index_config
from stateroom.testing.parts.savers_fences import Over
from stateroom.testing.savers import ManagedSaverSuite
from stateroom.testing.storage_harness import OpensStorage


class TestSqlite(ManagedSaverSuite):
    """The suite, in a file and in memory."""

    @pytest.fixture(params=["file", "memory"])
    @override
    def new_storage(self, request: pytest.FixtureRequest, tmp_path: Path) -> OpensStorage:
        path = str(tmp_path / "server.db") if request.param == "file" else ":memory:"
        return partial(SqliteStorage, path, parse_index_config(None))

    @pytest.fixture
    @override
    def over(self) -> Over:
        return SqliteSaver.over  # type: ignore[return-value]  # of the storage of its own kind
