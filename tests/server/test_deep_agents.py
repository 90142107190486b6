"""Deep agents on the server keep files across threads; programs share them through the store's routes."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import NAMESPACE_OID, uuid5

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from stateroom.boot.compose import Server
from stateroom.settings import Settings
from tests.server.conftest import Running, run_in_thread
from tests.server.scribe import script

EDITORS = 8


@pytest.fixture(scope="module")
def place(kind: str, new_settings: Callable[..., Settings]) -> Iterator[Running]:
    """Return a server of a deep agent."""
    file = Path(__file__).with_name("scribe.py")
    running = run_in_thread(Server(new_settings(kind, graphs={"scribe": f"{file}:graph"})))
    yield running
    running.close()


@pytest.fixture
async def client(place: Running) -> AsyncIterator[LangGraphClient]:
    made = get_client(url=place.url)
    yield made
    await made.aclose()


async def _namespace(client: LangGraphClient) -> list[str]:
    """Return where the files of the agent are: under its assistant's id."""
    (assistant,) = await client.assistants.search(graph_id="scribe")
    return [assistant["assistant_id"], "filesystem"]


async def _told(client: LangGraphClient, *turns: list[tuple[str, dict[str, Any]]]) -> dict[str, Any]:
    """Have the agent make calls in a thread of its own; return its state in the end."""
    thread = await client.threads.create()
    state = await client.runs.wait(thread["thread_id"], "scribe", input=script(*turns))
    assert isinstance(state, dict)
    return state


def _answers(state: dict[str, Any]) -> list[str]:
    return [each["content"] for each in state["messages"] if each["type"] == "tool"]


async def test_a_memory_outlives_its_thread_and_a_draft_does_not(client: LangGraphClient) -> None:
    first = await _told(
        client,
        [("write_file", {"file_path": "/memories/likes.txt", "content": "window seats"})],
        [("write_file", {"file_path": "/draft.txt", "content": "not yet"})],
    )
    assert list(first["files"]) == ["/draft.txt"]
    second = await _told(
        client, [("read_file", {"file_path": "/memories/likes.txt"})], [("ls", {"path": "/"})]
    )
    read, listed = _answers(second)
    assert "window seats" in read
    assert "/memories" in listed
    assert "/draft.txt" not in listed


async def test_other_programs_read_and_write_the_same_files(client: LangGraphClient) -> None:
    namespace = await _namespace(client)
    await _told(client, [("write_file", {"file_path": "/memories/plan.txt", "content": "one\ntwo"})])
    kept = await client.store.get_item(namespace, "/plan.txt")
    assert kept["value"]["content"] == ["one", "two"]
    await client.store.put_item(
        namespace, "/plan.txt", kept["value"] | {"content": ["one", "two", "three"]}, index=False
    )
    (answer,) = _answers(await _told(client, [("read_file", {"file_path": "/memories/plan.txt"})]))
    assert "three" in answer
    await client.store.delete_item(namespace, "/plan.txt")
    (answer,) = _answers(await _told(client, [("read_file", {"file_path": "/memories/plan.txt"})]))
    assert "not found" in answer


async def test_a16_no_edit_that_reported_success_is_missing(client: LangGraphClient) -> None:
    name = f"/memories/{uuid5(NAMESPACE_OID, 'a16')}.md"
    await _told(client, [("write_file", {"file_path": name, "content": "HEAD|\n"})])

    async def edit(number: int) -> bool:
        arguments = {"file_path": name, "old_string": "HEAD|", "new_string": f"HEAD|\nitem-{number}"}
        (answer,) = _answers(await _told(client, [("edit_file", arguments)]))
        return "Successfully" in answer

    succeeded = await asyncio.gather(*map(edit, range(EDITORS)))
    kept = await client.store.get_item(await _namespace(client), name.removeprefix("/memories"))
    assert sum(line.startswith("item-") for line in kept["value"]["content"]) == sum(succeeded)
    assert sum(succeeded) > 0
