"""Threads and assistants on a server with rules: all have their own, and meet nobody else's in any way."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
from typing import Any
from uuid import uuid4

import httpx
import pytest
from langgraph_sdk import Auth, get_client
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import APIStatusError, ConflictError, NotFoundError, PermissionDeniedError

from stateroom.boot.compose import Server
from tests.server.auths import as_user, people
from tests.server.conftest import Running, run_in_thread


def rules() -> Auth:
    """Return the rules that LangGraph's documents begin with: whatever one makes is one's own."""
    auth = people()

    @auth.on
    async def own(ctx: Auth.types.AuthContext, value: dict[str, Any]) -> dict[str, str]:
        if ctx.action == "create" or ctx.action == "create_run":
            value["metadata"] = {**(value.get("metadata") or {}), "owner": ctx.user.identity}
        return {"owner": ctx.user.identity}

    return auth


@pytest.fixture(scope="module")
def guarded(kind: str, new_settings: Any) -> Iterator[Running]:
    """Return a server with rules."""
    running = run_in_thread(Server(new_settings(kind), auth=rules()))
    yield running
    running.close()


@pytest.fixture
async def ann(guarded: Running) -> AsyncIterator[LangGraphClient]:
    """Return the client of one user."""
    async with get_client(url=guarded.url, api_key=None, headers=as_user("ann")) as client:
        yield client


@pytest.fixture
async def bob(guarded: Running) -> AsyncIterator[LangGraphClient]:
    """Return the client of another."""
    async with get_client(url=guarded.url, api_key=None, headers=as_user("bob")) as client:
        yield client


@pytest.fixture
async def http(guarded: Running) -> AsyncIterator[httpx.AsyncClient]:
    """Return the other's plain HTTP client."""
    async with httpx.AsyncClient(base_url=guarded.url, headers=as_user("bob"), verify=False) as client:  # noqa: S501
        yield client


async def test_somebody_elses_thread_is_not_there(
    ann: LangGraphClient, bob: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = str((await ann.threads.create(graph_id="slow"))["thread_id"])
    updated: Any = await ann.threads.update_state(identity, {"n": 1}, as_node="tick")
    before = await ann.threads.get(identity, include=["ttl"])
    checkpoint = updated["checkpoint"]

    def at(thread_id: str) -> Any:
        return {**checkpoint, "thread_id": thread_id}

    async def told(client: LangGraphClient, thread_id: str) -> list[str]:
        answers = []
        for call in (
            client.threads.get(thread_id),
            client.threads.update(thread_id, metadata={"x": 1}),
            client.threads.delete(thread_id),
            client.threads.copy(thread_id),
            client.threads.get_state(thread_id),
            client.threads.get_state(thread_id, checkpoint_id=checkpoint["checkpoint_id"]),
            client.threads.get_state(thread_id, checkpoint=at(thread_id)),
            client.threads.update_state(thread_id, {"n": 2}, as_node="tick"),
            client.threads.get_history(thread_id),
        ):
            with pytest.raises(NotFoundError) as error:
                await call
            answers.append(str(error.value).replace(thread_id, ""))
        return answers

    # Word for word what is said of a thread that nobody has.
    assert await told(bob, identity) == await told(bob, str(uuid4()))
    for method, path in (("GET", "storage"), ("GET", "history"), ("PATCH", "state")):
        answer = await http.request(
            method, f"/threads/{identity}/{path}", json={"metadata": {}} if method == "PATCH" else None
        )
        assert answer.status_code == 404
    assert await ann.threads.get(identity, include=["ttl"]) == before
    assert len(await ann.threads.get_history(identity)) == 1


async def test_searches_find_ones_own_whatever_they_ask_for(
    ann: LangGraphClient, bob: LangGraphClient
) -> None:
    mark = uuid4().hex
    theirs = [str((await ann.threads.create(metadata={"mark": mark}))["thread_id"]) for _ in range(2)]
    own = str((await bob.threads.create(metadata={"mark": mark}))["thread_id"])
    for asked in ({"mark": mark}, {"owner": "ann", "mark": mark}, {"mark": mark, "owner": None}):
        found = await bob.threads.search(metadata=asked)
        assert [each["thread_id"] for each in found] == ([own] if asked == {"mark": mark} else [])
        assert await bob.threads.count(metadata=asked) == len(found)
    found = await bob.threads.search(ids=[*theirs, own])
    assert [each["thread_id"] for each in found] == [own]
    assert await bob.threads.prune([*theirs, own]) == {"pruned_count": 1}
    assert await bob.threads.prune(theirs, strategy="keep_latest") == {"pruned_count": 0}
    assert await ann.threads.count(metadata={"mark": mark}) == 2


async def test_an_own_thread_cannot_be_given_away(ann: LangGraphClient) -> None:
    identity = str((await ann.threads.create(metadata={"owner": "bob"}))["thread_id"])
    assert (await ann.threads.get(identity))["metadata"] == {"owner": "ann"}
    with pytest.raises(PermissionDeniedError, match="metadata"):
        await ann.threads.update(identity, metadata={"owner": "bob"})
    assistant = (await ann.assistants.create("echo"))["assistant_id"]
    with pytest.raises(PermissionDeniedError, match="metadata"):
        await ann.assistants.update(assistant, metadata={"owner": "bob"})
    assert (await ann.assistants.get(assistant))["version"] == 1


async def test_a_copy_is_its_makers(ann: LangGraphClient) -> None:
    identity = str((await ann.threads.create(metadata={"m": 1}))["thread_id"])
    threads: Any = ann.threads
    copy = await threads.copy(identity)
    assert copy["metadata"] == {"m": 1, "owner": "ann"}


async def test_somebody_elses_assistant_is_not_there(ann: LangGraphClient, bob: LangGraphClient) -> None:
    identity = (await ann.assistants.create("echo", name="hers"))["assistant_id"]
    for call in (
        bob.assistants.get(identity),
        bob.assistants.update(identity, name="his"),
        bob.assistants.delete(identity),
        bob.assistants.get_versions(identity),
        bob.assistants.set_latest(identity, 1),
        bob.assistants.get_graph(identity),
        bob.assistants.get_schemas(identity),
        bob.assistants.get_subgraphs(identity),
    ):
        with pytest.raises(NotFoundError, match=identity):
            await call
    for options in ({}, {"if_exists": "do_nothing"}):
        with pytest.raises(ConflictError, match="exists already"):
            await bob.assistants.create("echo", assistant_id=identity, **options)  # type: ignore[arg-type]
    assert identity not in {each["assistant_id"] for each in await bob.assistants.search(name="hers")}
    assert await bob.assistants.count(name="hers") == 0
    assert (await ann.assistants.get(identity))["name"] == "hers"


async def test_graphs_own_assistants_are_everybodys_to_run_and_nobodys_to_change(
    bob: LangGraphClient,
) -> None:
    assert (await bob.assistants.get("echo"))["graph_id"] == "echo"
    assert (await bob.assistants.get_schemas("echo"))["graph_id"] == "echo"
    for call in (
        bob.assistants.update("echo", name="x"),
        bob.assistants.set_latest("echo", 1),
        bob.assistants.delete("echo"),
    ):
        with pytest.raises(APIStatusError, match="echo"):
            await call
    assert (await bob.assistants.get("echo"))["version"] == 1


async def test_deleting_an_assistant_takes_no_threads_of_others_along(
    ann: LangGraphClient, bob: LangGraphClient
) -> None:
    identity = (await ann.assistants.create("echo"))["assistant_id"]
    hers = str((await ann.threads.create(metadata={"assistant_id": identity}))["thread_id"])
    his = str((await bob.threads.create(metadata={"assistant_id": identity}))["thread_id"])
    await ann.assistants.delete(identity, delete_threads=True)
    assert await ann.threads.search(ids=[hers]) == []
    assert len(await bob.threads.search(ids=[his])) == 1
