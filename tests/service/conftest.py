"""Services on a storage in memory, whose clock a test owns."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.ids import CountedIds
from stateroom.search.index_config import parse_index_config
from stateroom.service.assistants import AssistantService
from stateroom.service.crons import CronService
from stateroom.service.runs import RunService


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(clock: ManualClock) -> Iterator[Storage]:
    storage = SqliteStorage(":memory:", parse_index_config(None), clock=clock)
    storage.open()
    yield storage
    storage.close()


@pytest.fixture
def assistants(storage: Storage) -> AssistantService:
    service = AssistantService(storage, ["agent", "other"], CountedIds(1_000))
    service.make_graphs_own()
    return service


@pytest.fixture
def runs(storage: Storage, assistants: AssistantService) -> RunService:
    return RunService(storage, assistants, CountedIds())


@pytest.fixture
def crons(storage: Storage, assistants: AssistantService) -> CronService:
    return CronService(storage, assistants, CountedIds())
