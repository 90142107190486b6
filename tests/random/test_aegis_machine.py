"""The AegisDB store held against the reference at random, on a server whose clock moves on with each look."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest

from stateroom.stores.aegis import AegisStore
from stateroom.testing.machine import Setup, machine
from tests.aegis.server import AegisServer


def open_store(server: AegisServer, page: int, setup: Setup) -> AegisStore:
    """Open the namespace that belongs to one history."""
    return AegisStore(port=server.port, namespace=setup.folder.name, search_scan_limit=page)


@pytest.fixture(scope="module")
def server() -> Iterator[AegisServer]:
    with AegisServer() as serving:
        yield serving


@pytest.mark.parametrize("page", [1, 3, 1_000])
def test_the_store_agrees_with_the_reference(server: AegisServer, page: int) -> None:
    case: Any = machine(partial(open_store, server, page), name="Aegis", options=({},)).TestCase
    case("runTest").debug()
