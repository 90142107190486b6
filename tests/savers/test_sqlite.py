"""The suite on SQLite, in a file and in memory."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
from typing_extensions import override

from stateroom.savers import SqliteSaver
from stateroom.testing.savers import SaverSuite
from stateroom.testing.savers_harness import OpensSaver


class TestSqlite(SaverSuite):
    """The suite, in a file and in memory."""

    @pytest.fixture(params=["file", "memory"])
    @override
    def new_saver(self, request: pytest.FixtureRequest, tmp_path: Path) -> OpensSaver:
        return partial(SqliteSaver, tmp_path / "checkpoints.db" if request.param == "file" else ":memory:")
