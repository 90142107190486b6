"""Threads through LangGraph's own client: made, read, changed, copied, measured; whatever they are called."""

from __future__ import annotations

from typing import Any
from uuid import UUID, uuid4

import httpx
import pytest
from langgraph_sdk.client import LangGraphClient
from langgraph_sdk.errors import BadRequestError, NotFoundError

from stateroom.model.thread import ThreadTTL
from stateroom.model.thread_ttl import ThreadTTLSettings
from tests.server.conftest import StartServer, eventually

USUAL = {
    *("thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "status", "config"),
    *("values", "interrupts", "error"),
}


def any_of(client: LangGraphClient) -> Any:
    """Return the client, whose types say less than it answers."""
    return client


async def make(client: LangGraphClient, **fields: Any) -> str:
    """Make a thread; return its id."""
    return str((await client.threads.create(**fields))["thread_id"])


async def test_a_new_thread_is_idle_and_has_no_values_yet(client: LangGraphClient) -> None:
    made: Any = await client.threads.create(metadata={"m": {"deep": [None, True]}}, graph_id="echo")
    assert set(made) == USUAL
    assert str(UUID(made["thread_id"])) == made["thread_id"]
    assert made["metadata"] == {"m": {"deep": [None, True]}, "graph_id": "echo"}
    assert (made["status"], made["values"], made["interrupts"], made["error"]) == ("idle", None, {}, None)
    assert made["created_at"] == made["updated_at"] == made["state_updated_at"]
    assert await client.threads.get(made["thread_id"]) == made


@pytest.mark.parametrize("identity", ["not-a-uuid", "a", "a" * 255, "user:7@example.com", "_.:@-", "..."])
async def test_a_thread_may_be_called_what_can_stand_in_a_path(
    client: LangGraphClient, identity: str
) -> None:
    made = await client.threads.create(thread_id=identity)
    try:
        assert made["thread_id"] == identity
        assert await client.threads.get(identity) == made
    finally:
        await client.threads.delete(identity)


@pytest.mark.parametrize("identity", ["", "a" * 256, "a b", "a/b", "ü", "a\n", "a?b", "a%b"])
async def test_what_cannot_is_refused_in_bodies_and_in_paths(http: httpx.AsyncClient, identity: str) -> None:
    answer = await http.post("/threads", json={"thread_id": identity})
    assert (answer.status_code, answer.json()["field"]) == (422, "thread_id")
    if identity and "/" not in identity:
        quoted = "".join(f"%{byte:02x}" for byte in identity.encode())
        answer = await http.get(f"/threads/{quoted}")
        assert (answer.status_code, answer.json()["field"]) == (422, "thread_id")


async def test_metadata_is_merged_key_by_key(client: LangGraphClient) -> None:
    identity = await make(client, metadata={"a": 1, "b": {"x": 1}})
    before = await client.threads.get(identity)
    changed = await client.threads.update(identity, metadata={"b": {"y": 2}, "c": None})
    assert changed["metadata"] == {"a": 1, "b": {"y": 2}, "c": None}
    assert changed["updated_at"] > before["updated_at"]
    answer: Any = await client.threads.update(identity, metadata={"d": 1}, return_minimal=bool(changed))
    assert answer is None
    assert (await client.threads.get(identity))["metadata"] == {**(changed["metadata"] or {}), "d": 1}


async def test_metadata_can_be_patched_as_javascript_does(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = await make(client, metadata={"a": 1})
    answer = await http.patch(f"/threads/{identity}/state", json={"metadata": {"b": 2}})
    assert answer.json()["metadata"] == {"a": 1, "b": 2}
    assert (await http.patch(f"/threads/{identity}/state", json={"values": {}})).status_code == 422


async def test_a_thread_that_is_not_there_is_not_found_anywhere(
    client: LangGraphClient, http: httpx.AsyncClient
) -> None:
    identity = str(uuid4())
    within: Any = {"checkpoint_ns": "x"}
    for call in (
        client.threads.get(identity),
        client.threads.update(identity, metadata={}),
        client.threads.delete(identity),
        client.threads.copy(identity),
        client.threads.get_state(identity),
        client.threads.get_state(identity, checkpoint_id=str(uuid4())),
        client.threads.get_state(identity, checkpoint=within),
        client.threads.update_state(identity, {}),
        client.threads.get_history(identity),
    ):
        with pytest.raises(NotFoundError, match=identity):
            await call
    for path in ("storage", "history"):
        assert (await http.get(f"/threads/{identity}/{path}")).status_code == 404


# ---- how long a thread lives


async def test_a_time_to_live_comes_in_any_form(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    for given, minutes, strategy in (
        (30, 30, "delete"),
        (0.5, 0.5, "delete"),
        ({"ttl": 30}, 30, "delete"),
        ({"ttl": 30, "strategy": "keep_latest"}, 30, "keep_latest"),
    ):
        answer = await http.post("/threads", json={"ttl": given})
        identity = answer.json()["thread_id"]
        ttl: Any = (await client.threads.get(identity, include=["ttl"]))["ttl"]  # type: ignore[typeddict-item]
        assert (ttl["ttl"], ttl["strategy"]) == (minutes, strategy)
        assert ttl["expires_at"] > answer.json()["created_at"]
        pinned = await http.patch(f"/threads/{identity}", json={"ttl": None})
        assert pinned.status_code == 200
        assert (await http.get(f"/threads/{identity}?include=ttl")).json()["ttl"] is None


@pytest.mark.parametrize(
    "spelled", ["include=ttl", "include=ttl&include=ttl", "include=ttl,ttl", 'include=["ttl"]']
)
async def test_the_time_to_live_is_shown_to_who_asks_in_any_spelling(
    client: LangGraphClient, http: httpx.AsyncClient, spelled: str
) -> None:
    identity = await make(client, ttl=30)
    assert "ttl" not in (await http.get(f"/threads/{identity}")).json()
    assert (await http.get(f"/threads/{identity}?{spelled}")).json()["ttl"]["ttl"] == 30


@pytest.mark.parametrize(
    ("ttl", "status"),
    [
        (0, 400),
        (-1, 400),
        (True, 422),
        ("30", 422),
        ({"ttl": 0}, 400),
        ({"ttl": 1, "strategy": "archive"}, 400),
        ({"ttl": 1, "unknown": 1}, 400),
        (10**9, 413),
    ],
)
async def test_what_is_no_time_to_live_is_refused(http: httpx.AsyncClient, ttl: Any, status: int) -> None:
    answer = await http.post("/threads", json={"ttl": ttl})
    assert answer.status_code == status, answer.text
    assert answer.json()["field"].startswith("ttl")


async def test_include_takes_ttl_and_nothing_else(client: LangGraphClient) -> None:
    identity = await make(client)
    with pytest.raises(BadRequestError, match="use ttl"):
        await client.threads.get(identity, include=["ttl", "runs"])


async def test_any_change_restarts_the_clock(client: LangGraphClient) -> None:
    identity = await make(client, ttl=30)
    first: Any = await client.threads.get(identity, include=["ttl"])
    await client.threads.update(identity, metadata={"a": 1})
    second: Any = await client.threads.get(identity, include=["ttl"])
    assert second["ttl"]["expires_at"] > first["ttl"]["expires_at"]
    third: Any = await client.threads.update(identity, metadata={}, ttl={"ttl": 1, "strategy": "keep_latest"})
    assert third["metadata"] == {"a": 1}
    assert (await client.threads.get(identity, include=["ttl"]))["ttl"]["ttl"] == 1  # type: ignore[typeddict-item]


async def test_the_configured_time_to_live_is_that_of_who_says_nothing(start_server: StartServer) -> None:
    usual = ThreadTTLSettings(default=ThreadTTL(90))
    async with httpx.AsyncClient(base_url=start_server(thread_ttl=usual).url) as http:

        async def ttl_of(answer: httpx.Response) -> Any:
            return (await http.get(f"/threads/{answer.json()['thread_id']}?include=ttl")).json()["ttl"]

        plain = await http.post("/threads", json={})
        assert (await ttl_of(plain))["ttl"] == 90
        assert (await ttl_of(await http.post("/threads")))["ttl"] == 90
        assert (await ttl_of(await http.post("/threads", json={"ttl": 5})))["ttl"] == 5
        assert await ttl_of(await http.post("/threads", json={"ttl": None})) is None
        steps = [{"updates": [{"values": {"n": 1}, "as_node": "echo"}]}]
        body = {"metadata": {"graph_id": "echo"}, "supersteps": steps}
        assert (await ttl_of(await http.post("/threads", json=body)))["ttl"] == 90
        assert await ttl_of(await http.post("/threads", json=body | {"ttl": None})) is None
        copy = await http.post(f"/threads/{plain.json()['thread_id']}/copy")
        assert (await ttl_of(copy))["ttl"] == 90


async def test_an_expired_thread_really_goes(kind: str, start_server: StartServer) -> None:
    often = ThreadTTLSettings(sweep_interval_minutes=0.001)
    async with httpx.AsyncClient(base_url=start_server(kind, thread_ttl=often).url) as http:
        made = (await http.post("/threads", json={"ttl": 0.002})).json()["thread_id"]
        kept = (await http.post("/threads", json={"ttl": 5})).json()["thread_id"]

        async def is_gone() -> bool:
            return (await http.get(f"/threads/{made}")).status_code == 404

        await eventually(is_gone)
        assert (await http.get(f"/threads/{kept}")).status_code == 200


# ---- copies and storage


async def test_a_copy_has_the_whole_history_and_goes_its_own_way(client: LangGraphClient) -> None:
    identity = await make(client, metadata={"m": 1}, graph_id="slow")
    for n in (1, 2, 3):
        await client.threads.update_state(identity, {"n": n, "log": [str(n)]}, as_node="tick")
    original = await client.threads.get_history(identity)
    copy = await any_of(client).threads.copy(identity)
    assert copy["thread_id"] != identity
    assert copy["metadata"] == {"m": 1, "graph_id": "slow"}
    assert copy["values"] == (await client.threads.get(identity))["values"]
    copied = await client.threads.get_history(copy["thread_id"])
    assert [each["values"] for each in copied] == [each["values"] for each in original]
    assert [each["checkpoint"]["checkpoint_id"] for each in copied] == [
        each["checkpoint"]["checkpoint_id"] for each in original
    ]
    await client.threads.update_state(copy["thread_id"], {"n": 9}, as_node="tick")
    assert await client.threads.get_history(identity) == original
    await client.threads.delete(identity)
    assert len(await client.threads.get_history(copy["thread_id"])) == 4


async def test_what_a_thread_takes_can_be_asked(client: LangGraphClient, http: httpx.AsyncClient) -> None:
    identity = await make(client, graph_id="slow")
    empty = (await http.get(f"/threads/{identity}/storage")).json()
    assert empty == {
        "total_bytes": 0,
        "checkpoints": {"count": 0, "bytes": 0},
        "channel_values": {"bytes": 0, "by_channel": {}},
        "pending_writes": {"count": 0, "bytes": 0},
    }
    await client.threads.update_state(identity, {"n": 1, "log": ["x" * 10_000]}, as_node="tick")
    found = (await http.get(f"/threads/{identity}/storage")).json()
    assert found["checkpoints"]["count"] == 1
    assert found["channel_values"]["by_channel"]["log"] >= 10_000
    parts = (found["checkpoints"], found["channel_values"], found["pending_writes"])
    assert found["total_bytes"] == sum(each["bytes"] for each in parts) > 10_000
