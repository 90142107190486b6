"""What tests of the drivers share: schemas of items with vectors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from stateroom.drivers.postgres import hnsw
from tests.conftest import NewSchema
from tests.drivers.vector_memory import Memory, Opens


@pytest.fixture
def schema(new_schema: NewSchema) -> str:
    return new_schema()


@pytest.fixture
def opens(postgres: str, schema: str) -> Iterator[Opens]:
    """Return a function that opens a store of the test's schema with index settings."""
    opened: list[Memory] = []

    def opens(uri: str = postgres, **index: Any) -> Memory:
        opened.append(Memory(uri, schema, **index))
        return opened[-1]

    yield opens
    for memory in opened:
        memory.close()


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have the index asked, however few items there are."""
    monkeypatch.setattr(hnsw, "EXACT_ALWAYS", 0)
    monkeypatch.setattr(hnsw, "EXACT_CANDIDATES", 0)
