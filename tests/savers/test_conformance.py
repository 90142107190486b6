"""LangGraph's own conformance suite for checkpointers, on ours."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from langgraph.checkpoint.conformance import checkpointer_test, validate

from stateroom.savers import PostgresSaver, Saver, SqliteSaver
from tests.conftest import NewSchema

CAPABILITIES = {
    *("put", "put_writes", "get_tuple", "list", "delete_thread"),
    *("delete_for_runs", "copy_thread", "prune"),
}


@pytest.fixture(params=["sqlite", "memory", "postgres"])
def new_saver(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], Saver]:
    if request.param == "postgres":
        uri: str = request.getfixturevalue("postgres")
        empty_schema: NewSchema = request.getfixturevalue("empty_schema")
        return lambda: PostgresSaver(uri, schema=empty_schema())
    return lambda: SqliteSaver(tmp_path / "checkpoints.db" if request.param == "sqlite" else ":memory:")


async def test_all_capabilities_pass(new_saver: Callable[[], Saver]) -> None:
    @checkpointer_test(name="Stateroom")
    async def saver() -> AsyncIterator[Saver]:
        async with new_saver() as opened:
            yield opened

    report = await validate(saver)
    found: dict[str, Any] = report.results
    assert {name: result.failures for name, result in found.items() if result.failures} == {}
    assert {name for name, result in found.items() if result.passed and result.tests_passed} >= CAPABILITIES
    assert report.passed_all()
