"""The savers' suite on Postgres: by itself, and over a storage."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from functools import partial
from typing import Any

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.threads import NewThread
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.errors import Conflict
from stateroom.savers.admission import Guard
from stateroom.savers.postgres import PostgresSaver
from stateroom.search.index_config import parse_index_config
from stateroom.testing.parts.savers_fences import Over
from stateroom.testing.savers import ManagedSaverSuite, SaverSuite
from stateroom.testing.savers_harness import OpensSaver
from stateroom.testing.storage_harness import OpensStorage
from tests.conftest import NewSchema


class TestPostgresSaver(SaverSuite):
    """The suite on a saver that has a schema to itself."""

    @pytest.fixture
    @override
    def new_saver(self, postgres: str, empty_schema: NewSchema) -> OpensSaver:
        return partial(PostgresSaver, postgres, schema=empty_schema())


class Hospitable(PostgresSaver):
    """A managed saver for which each thread is made that is not there."""

    hosts: PostgresStorage

    @override
    def _guard(self, config: Any, thread_id: str) -> Guard:
        with suppress(Conflict):
            self.hosts.threads.create(NewThread(thread_id))
        return super()._guard(config, thread_id)


class TestPostgresSaverOverStorage(SaverSuite):
    """The suite on a saver that asks before each write whether there is such a thread."""

    @pytest.fixture
    def storage(self, postgres: str, empty_schema: NewSchema) -> Iterator[PostgresStorage]:
        storage = PostgresStorage(
            postgres, parse_index_config(None), clock=ManualClock(), schema=empty_schema()
        )
        storage.open()
        yield storage
        storage.close()

    @pytest.fixture
    @override
    def new_saver(self, storage: PostgresStorage) -> OpensSaver:
        def new_saver(**options: Any) -> PostgresSaver:
            saver = Hospitable.over(storage, **options)
            saver.hosts = storage
            return saver

        return new_saver


class TestManagedPostgresSaver(ManagedSaverSuite):
    """What only a saver over a storage promises."""

    @pytest.fixture
    @override
    def new_storage(self, postgres: str, empty_schema: NewSchema) -> OpensStorage:
        return partial(PostgresStorage, postgres, parse_index_config(None), schema=empty_schema())

    @pytest.fixture
    @override
    def over(self) -> Over:
        return PostgresSaver.over  # type: ignore[return-value]  # of the storage that is made here
