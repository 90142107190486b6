"""Files in a store pass the conformance suite, over every store and behind the backends that pass them on."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom import InMemoryStore, SqliteStore
from stateroom.errors import NotSupported
from stateroom.files.composite import CompositeBackend
from stateroom.files.factory import FactoryBackend
from stateroom.files.permissions import PermittedBackend
from stateroom.stores.postgres import PostgresStore
from stateroom.testing.files import FilesSuite, OpenedFiles, OverStore
from tests.aegis.serving import at_hand
from tests.conftest import NewSchema


def foreign(*, ttl: Mapping[str, Any] | None = None, clock: Any = None) -> BaseStore:  # noqa: ARG001  # it has its own
    """Return LangGraph's own store, which lets nothing expire."""
    if ttl is not None:
        raise NotSupported("ttl: LangGraph's in-memory store has none", field="ttl")
    return LangGraphInMemoryStore()


class TestInMemoryStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore)) as opens:
            yield opens


class TestSqliteFile(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self, tmp_path: Path) -> Iterator[OpenedFiles]:
        with closing(OverStore(partial(SqliteStore, tmp_path / "memory.db"))) as opens:
            yield opens


class TestPostgresStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self, postgres: str, new_schema: NewSchema) -> Iterator[OpenedFiles]:
        with closing(OverStore(partial(PostgresStore, postgres, schema=new_schema()))) as opens:
            yield opens


class TestAegisStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with at_hand() as place, closing(OverStore(place.open)) as opens:
            yield opens


class TestForeignStore(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(foreign)) as opens:
            yield opens


class TestFactory(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        wrap = lambda backend: FactoryBackend(lambda _: backend)  # noqa: E731  # as it is written by users
        with closing(OverStore(InMemoryStore, wrap=wrap)) as opens:
            yield opens


class TestPermitted(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, wrap=lambda backend: PermittedBackend(backend, []))) as opens:
            yield opens


class TestComposite(FilesSuite):
    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, wrap=lambda backend: CompositeBackend(backend, {}))) as opens:
            yield opens


class TestInMemoryStoreInStrings(FilesSuite):
    """Files that are written as Deep Agents for Python does."""

    @pytest.fixture
    @override
    def open_files(self) -> Iterator[OpenedFiles]:
        with closing(OverStore(InMemoryStore, file_format="v2")) as opens:
            yield opens
