"""The Postgres store passes the conformance suite."""

from __future__ import annotations

from functools import partial

import pytest
from typing_extensions import override

from stateroom.stores.postgres import PostgresStore
from stateroom.testing import Opened, StoreSuite
from tests.conftest import NewSchema


class TestPostgresStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self, postgres: str, empty_schema: NewSchema) -> Opened:
        return partial(PostgresStore, postgres, schema=empty_schema())
