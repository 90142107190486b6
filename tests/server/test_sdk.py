"""Every method of LangGraph's Python SDK does what it says, by its async and its sync client."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from langgraph_sdk import get_client, get_sync_client

from tests.server import sdk_others, sdk_resources, sdk_runs
from tests.server.sdk import PARAMETERS, Sdk, methods, parameters
from tests.server.sdk_cases import CASES

MODULES = (sdk_others, sdk_resources, sdk_runs)
"""Whose import notes the cases."""


@pytest.fixture(params=["async", "sync"])
async def sdk(request: pytest.FixtureRequest, url: str) -> AsyncIterator[Sdk]:
    """Return a client of either kind."""
    made = Sdk(url, is_async=request.param == "async")
    yield made
    await made.close()


@pytest.mark.parametrize("make", [get_client, get_sync_client])
def test_every_method_is_known(make: Any) -> None:
    """A new method, or a new parameter, of the SDK fails here until the server honours or refuses it."""
    client = make(url="http://localhost")
    found = {method: parameters(client, method) for method in methods(client)}
    assert found == {method: frozenset(names.split()) for method, names in PARAMETERS.items()}
    assert set(CASES) == set(PARAMETERS)


@pytest.mark.parametrize("method", sorted(PARAMETERS))
async def test_method(method: str, sdk: Sdk) -> None:
    await CASES[method](sdk)
