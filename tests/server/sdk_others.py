"""What shows that the SDK's methods of crons and the store work."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from tests.server.sdk import Sdk
from tests.server.sdk_cases import HELLO, case, new_thread

_YEARLY: Final[dict[str, Any]] = {
    "schedule": "0 0 1 1 *",
    "input": HELLO,
    "metadata": {"m": 1},
    "config": {"tags": ["t"]},
    "context": {"c": 1},
    "interrupt_before": ["echo"],
    "interrupt_after": ["echo"],
    "multitask_strategy": "enqueue",
    "end_time": datetime(2090, 1, 1, tzinfo=UTC),
    "enabled": True,
    "timezone": "Europe/Berlin",
    "stream_mode": ["values"],
    "stream_subgraphs": False,
    "stream_resumable": True,
    "durability": "async",
}


@contextlib.asynccontextmanager
async def _cron(sdk: Sdk, **options: Any) -> AsyncIterator[Any]:
    made = await sdk("crons.create", "echo", **_YEARLY | options)
    yield made
    await sdk("crons.delete", made["cron_id"])


@case("crons.create")
async def _(sdk: Sdk) -> None:
    async with _cron(sdk, on_run_completed="keep") as made:
        assert made["cron_id"]
        assert (made["timezone"], made["enabled"], made["on_run_completed"]) == (
            "Europe/Berlin",
            True,
            "keep",
        )
        assert made["next_run_date"]


@case("crons.create_for_thread")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    made = await sdk("crons.create_for_thread", identity, "echo", **_YEARLY)
    assert made["thread_id"] == identity
    await sdk("crons.delete", made["cron_id"])


@case("crons.update")
async def _(sdk: Sdk) -> None:
    async with _cron(sdk) as made:
        changed = await sdk(
            "crons.update",
            made["cron_id"],
            schedule="5 5 * * *",
            end_time=None,
            input={"n": 1},
            metadata={"more": 2},
            config={"tags": ["u"]},
            context={"c": 2},
            interrupt_before=[],
            interrupt_after=[],
            on_run_completed="keep",
            enabled=False,
            timezone="UTC",
            stream_mode=["updates"],
            stream_subgraphs=True,
            stream_resumable=False,
            durability="sync",
        )
        assert (changed["schedule"], changed["enabled"], changed["timezone"]) == ("5 5 * * *", False, "UTC")
        assert changed["end_time"] is None


@case("crons.search")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    identity = await new_thread(sdk)
    made = await sdk("crons.create_for_thread", identity, "echo", **_YEARLY | {"metadata": {"mark": mark}})
    found = await sdk(
        "crons.search",
        assistant_id=made["assistant_id"],
        thread_id=identity,
        enabled=True,
        metadata={"mark": mark},
        limit=5,
        offset=0,
        sort_by="created_at",
        sort_order="desc",
        select=["cron_id"],
    )
    assert found == [{"cron_id": made["cron_id"]}]


@case("crons.count")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    identity = await new_thread(sdk)
    made = await sdk("crons.create_for_thread", identity, "echo", **_YEARLY | {"metadata": {"mark": mark}})
    asked = {"assistant_id": made["assistant_id"], "thread_id": identity, "metadata": {"mark": mark}}
    assert await sdk("crons.count", **asked) == 1


@case("crons.delete")
async def _(sdk: Sdk) -> None:
    made = await sdk("crons.create", "echo", **_YEARLY)
    await sdk("crons.delete", made["cron_id"])
    found = await sdk("crons.search", limit=1000)
    assert made["cron_id"] not in {each["cron_id"] for each in found}


@case("store.put_item")
async def _(sdk: Sdk) -> None:
    namespace = ["sdk", uuid4().hex]
    await sdk("store.put_item", namespace, "k", {"text": "apple"}, index=["text"], ttl=10)
    await sdk("store.put_item", namespace, "hidden", {"text": "apple"}, index=False)
    found = await sdk("store.search_items", namespace, query="apple")
    assert [item["key"] for item in found["items"]] == ["k"]


@case("store.get_item")
async def _(sdk: Sdk) -> None:
    namespace = ["sdk", uuid4().hex]
    await sdk("store.put_item", namespace, "k", {"v": 1})
    item = await sdk("store.get_item", namespace, "k", refresh_ttl=True)
    assert (item["namespace"], item["key"], item["value"]) == (namespace, "k", {"v": 1})
    assert item["created_at"] <= item["updated_at"]


@case("store.delete_item")
async def _(sdk: Sdk) -> None:
    namespace = ["sdk", uuid4().hex]
    await sdk("store.put_item", namespace, "k", {"v": 1})
    await sdk("store.delete_item", namespace, "k")
    assert not await sdk("store.get_item", namespace, "k")


@case("store.search_items")
async def _(sdk: Sdk) -> None:
    namespace = ["sdk", uuid4().hex]
    for n in range(4):
        await sdk("store.put_item", namespace, f"k{n}", {"n": n, "text": f"apple {n}"})
    asked = {"filter": {"n": {"$gt": 0}}, "limit": 2, "offset": 1, "refresh_ttl": False}
    found = (await sdk("store.search_items", namespace, **asked))["items"]
    assert [item["key"] for item in found] == ["k2", "k1"]
    (best, *_) = (await sdk("store.search_items", namespace, query="apple 3"))["items"]
    assert best["score"] is not None


@case("store.list_namespaces")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    for rest in (["a", "z"], ["a", "y"], ["b", "z"]):
        await sdk("store.put_item", ["sdk", mark, *rest], "k", {})
    asked = {"prefix": ["sdk", mark], "limit": 10, "offset": 0}
    assert len((await sdk("store.list_namespaces", **asked))["namespaces"]) == 3
    ending = await sdk("store.list_namespaces", **asked, suffix=["z"], max_depth=3)
    assert ending["namespaces"] == [["sdk", mark, "a"], ["sdk", mark, "b"]]
