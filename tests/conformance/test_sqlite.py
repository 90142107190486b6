"""The SQLite store passes the conformance suite, on a file and in memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from stateroom import SqliteStore
from stateroom.testing import Opened, StoreSuite


class TestSqliteFile(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self, tmp_path: Path) -> Opened:
        return partial(SqliteStore, tmp_path / "memory.db")


class TestSqliteInMemory(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(SqliteStore, ":memory:")
