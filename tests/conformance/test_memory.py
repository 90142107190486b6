"""The in-memory store passes the conformance suite."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom import InMemoryStore
from stateroom.testing import Opened, StoreSuite


class TestInMemoryStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return InMemoryStore
