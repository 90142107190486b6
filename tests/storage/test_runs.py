"""Runs and their queue, on every kind of storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.testing.parts.storage_queue import QueueSuite
from stateroom.testing.parts.storage_runs import RunSuite
from stateroom.testing.storage_harness import OpensStorage


class TestRuns(RunSuite):
    """Runs as what is made, looked up and removed."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage


class TestQueue(QueueSuite):
    """Runs as a queue."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage
