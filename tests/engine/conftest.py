"""Engines over storages that are made anew for each test."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from stateroom.contract.storage import Storage
from tests.engine.engines import Engine
from tests.engine.graphs import Stage
from tests.storage.conftest import maker

NewEngine = Callable[..., Engine]


@pytest.fixture
def stage() -> Stage:
    """Return what the test shares with its graphs."""
    return Stage()


@pytest.fixture
def kind() -> str:
    """Return what storages are made; a test may say otherwise."""
    return "sqlite"


@pytest.fixture
def new_engine(
    kind: str, stage: Stage, tmp_path: Path, request: pytest.FixtureRequest
) -> Iterator[NewEngine]:
    """Return ``new_engine(**changes)``: one more engine on the same database; ``changes`` are of limits.

    With ``storage`` given it shares that one, as two workers of a process do.
    """
    make = maker(kind, tmp_path, request)
    with ExitStack() as stack:

        def new(storage: Storage | None = None, **changes: Any) -> Engine:
            if storage is None:
                storage = make()
                stack.callback(storage.close)
                storage.open()
            return stack.enter_context(Engine(storage, stage, tmp_path, **changes))

        yield new


@pytest.fixture
def engine(new_engine: NewEngine) -> Engine:
    """Return an engine."""
    return new_engine()
