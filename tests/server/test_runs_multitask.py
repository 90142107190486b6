"""A second run on a busy thread (A15): with each strategy on each route, two never execute at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import ConflictError

from tests.server.conftest import Running, eventually
from tests.server.processes import Process, project

Second = Callable[..., Awaitable[Any]]

SLOW: Any = {"steps": 1000, "delay": 0.02}
SHORT: Any = {"messages": ["second"]}


async def create(client: LangGraphClient, thread_id: str, **said: Any) -> None:
    """Make a run in the background, and wait for its end."""
    run = await client.runs.create(thread_id, "echo", input=SHORT, **said)
    await client.runs.join(thread_id, run["run_id"])


async def wait(client: LangGraphClient, thread_id: str, **said: Any) -> None:
    await client.runs.wait(thread_id, "echo", input=SHORT, **said)


async def stream(client: LangGraphClient, thread_id: str, **said: Any) -> None:
    async for _ in client.runs.stream(thread_id, "echo", input=SHORT, **said):
        pass


ROUTES: tuple[Second, ...] = (create, wait, stream)


@pytest.fixture(scope="module")
def other_url(running: Running, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Return where second runs are asked for: another process, where several may serve one storage."""
    settings = running.server.settings
    if settings.storage != "postgres":
        yield running.url
        return
    folder = tmp_path_factory.mktemp("other") / "project"
    folder.mkdir()
    variables = {
        "STATEROOM_STORAGE": "postgres",
        "STATEROOM_POSTGRES_URI": str(settings.postgres_uri),
        "STATEROOM_SCHEMA": settings.postgres_schema,
        "STATEROOM_LEASE": str(settings.limits.lease),
    }
    with Process("start", project(folder), variables=variables) as process:
        yield process.url


@pytest.fixture
async def other(other_url: str) -> AsyncIterator[LangGraphClient]:
    async with get_client(url=other_url, api_key=None) as client:
        yield client


@pytest.fixture
async def thread_id(client: LangGraphClient) -> str:
    return str((await client.threads.create())["thread_id"])


async def first(client: LangGraphClient, thread_id: str, log: Path, **said: Any) -> str:
    """Start a run that goes on, and return its id once it has taken a step."""
    given = {**SLOW, **said, "log_file": str(log)}
    run = await client.runs.create(thread_id, "slow", input=given)
    await eventually(lambda: log.exists() and log.read_text().count("\n") > 1)
    return run["run_id"]


async def statuses(client: LangGraphClient, thread_id: str) -> list[str]:
    return [run["status"] for run in (await client.runs.list(thread_id))[::-1]]


async def values(client: LangGraphClient, thread_id: str) -> Any:
    return (await client.threads.get_state(thread_id))["values"]


@pytest.mark.parametrize("second", ROUTES)
async def test_a15_rejected_the_second_leaves_no_trace(
    client: LangGraphClient, other: LangGraphClient, thread_id: str, tmp_path: Path, second: Second
) -> None:
    run_id = await first(client, thread_id, tmp_path / "log")
    with pytest.raises((ConflictError, httpx.HTTPStatusError), match=r"409|waits or executes"):
        await second(other, thread_id, multitask_strategy="reject")
    assert await statuses(client, thread_id) == ["running"]
    await client.runs.cancel(thread_id, run_id, wait=True)
    await second(other, thread_id, multitask_strategy="reject")
    assert await statuses(client, thread_id) == ["interrupted", "success"]


@pytest.mark.parametrize("second", ROUTES)
async def test_a15_enqueued_they_are_executed_in_their_order(
    client: LangGraphClient, other: LangGraphClient, thread_id: str, tmp_path: Path, second: Second
) -> None:
    await first(client, thread_id, tmp_path / "log", steps=8, delay=0.03)
    await asyncio.gather(
        second(other, thread_id, multitask_strategy="enqueue", metadata={"n": 2}),
        second(other, thread_id),
    )
    assert await statuses(client, thread_id) == ["success"] * 3
    found = await values(client, thread_id)
    # The first had all of its steps before the others began.
    assert found["log"] == [f"tick{n}" for n in range(1, 9)]
    assert [message["content"] for message in found["messages"][1::2]] == ["echo: second"] * 2


@pytest.mark.parametrize("second", ROUTES)
async def test_a15_interrupted_the_first_keeps_what_it_did(
    client: LangGraphClient, other: LangGraphClient, thread_id: str, tmp_path: Path, second: Second
) -> None:
    log = tmp_path / "log"
    await first(client, thread_id, log)
    await second(other, thread_id, multitask_strategy="interrupt")
    assert await statuses(client, thread_id) == ["interrupted", "success"]
    ticks = log.read_text().count("\n")
    found = await values(client, thread_id)
    assert 0 < len(found["log"]) <= ticks
    assert len(found["messages"]) == 2
    # Nothing of the first goes on.
    assert log.read_text().count("\n") == ticks


@pytest.mark.parametrize("second", ROUTES)
async def test_a15_rolled_back_the_first_leaves_no_trace(
    client: LangGraphClient, other: LangGraphClient, thread_id: str, tmp_path: Path, second: Second
) -> None:
    await client.runs.wait(thread_id, "echo", input=SHORT)
    history = [state["checkpoint"] for state in await client.threads.get_history(thread_id, limit=100)]
    run_id = await first(client, thread_id, tmp_path / "log")
    await second(other, thread_id, multitask_strategy="rollback")
    assert run_id not in [run["run_id"] for run in await client.runs.list(thread_id)]
    assert await statuses(client, thread_id) == ["success", "success"]
    found = await values(client, thread_id)
    assert (len(found["messages"]), found["log"], "steps" in found) == (4, [], False)
    states = await client.threads.get_history(thread_id, limit=100)
    assert [state["checkpoint"] for state in states][-len(history) :] == history
    assert run_id not in str(states)


@pytest.mark.parametrize("strategy", ["interrupt", "rollback"])
async def test_a_run_that_has_not_begun_is_stopped_too(
    client: LangGraphClient, other: LangGraphClient, thread_id: str, tmp_path: Path, strategy: Any
) -> None:
    await first(client, thread_id, tmp_path / "log")
    waiting = await client.runs.create(thread_id, "echo", input=SHORT)
    later = await client.runs.create(thread_id, "echo", input={}, after_seconds=3600)
    await wait(other, thread_id, multitask_strategy=strategy)
    found = await values(client, thread_id)
    assert len(found["messages"]) == 2
    kept = {run["run_id"]: run["status"] for run in await client.runs.list(thread_id)}
    assert kept.get(waiting["run_id"]) == ("interrupted" if strategy == "interrupt" else None)
    # What is not due yet is nobody's rival.
    assert kept[later["run_id"]] == "pending"
