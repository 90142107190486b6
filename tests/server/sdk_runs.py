"""What shows that the SDK's methods of runs work."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

import pytest

from tests.server.sdk import Sdk
from tests.server.sdk_cases import HELLO, case, new_thread


@case("runs.create")
async def _(sdk: Sdk) -> None:
    identity = str(uuid4())
    created: list[Any] = []
    run = await sdk(
        "runs.create",
        identity,
        "echo",
        input={**HELLO, "n": 3},
        stream_mode=["values", "updates"],
        stream_subgraphs=True,
        stream_resumable=True,
        metadata={"m": 1},
        config={"tags": ["t"], "recursion_limit": 9, "configurable": {"x": 1}},
        context={"c": 1},
        interrupt_before=["echo"],
        interrupt_after="*",
        multitask_strategy="enqueue",
        if_not_exists="create",
        durability="exit",
        strict_resume=True,
        on_run_created=created.append,
    )
    assert created[0]["run_id"] == run["run_id"]
    assert (run["status"], run["metadata"]["m"]) == ("pending", 1)
    assert (await sdk("runs.join", identity, run["run_id"]))["n"] == 3
    assert (await sdk("threads.get_state", identity))["next"] == ["echo"]
    history = await sdk("threads.get_history", identity)
    checkpoint = history[-1]["checkpoint"]
    for named in ({"checkpoint": checkpoint}, {"checkpoint_id": checkpoint["checkpoint_id"]}):
        with pytest.warns(DeprecationWarning, match="checkpoint_during"):
            forked = await sdk("runs.create", identity, "echo", checkpoint_during=True, **named)
        await sdk("runs.join", identity, forked["run_id"])
    later = await sdk("runs.create", identity, "echo", input=HELLO, after_seconds=3600)
    assert (await sdk("runs.get", identity, later["run_id"]))["status"] == "pending"


@case("runs.wait")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    options: dict[str, Any] = {"on_disconnect": "cancel", "durability": "sync", "metadata": {"m": 1}}
    assert len((await sdk("runs.wait", identity, "echo", input=HELLO, **options))["messages"]) == 2
    answer = await sdk("runs.wait", identity, "fail", input=HELLO, raise_error=False)
    assert answer["__error__"]["message"] == "boom from node"
    await sdk("runs.wait", identity, "hitl", input={})
    answered = await sdk("runs.wait", identity, "hitl", command={"resume": "yes", "update": {"n": 4}})
    assert (answered["answer"], answered["n"]) == ("yes", 4)
    assert await sdk("runs.wait", None, "echo", input=HELLO, on_completion="delete")


@case("runs.stream")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    modes = ["values", "updates", "custom", "messages-tuple", "debug", "tasks", "checkpoints", "events"]
    slow = {"steps": 2, "delay": 0.01}
    parts = await sdk("runs.stream", identity, "slow", input=slow, stream_mode=modes, stream_resumable=True)
    assert {part.event for part in parts} >= {"metadata", *modes} - {"messages-tuple"}
    typed = await sdk(
        "runs.stream",
        identity,
        "slow",
        input=slow,
        version="v2",
        stream_subgraphs=True,
        on_disconnect="cancel",
    )
    assert {part["type"] for part in typed} >= {"metadata", "values"}
    with pytest.raises(Exception, match="feedback_keys"):
        await sdk("runs.stream", identity, "echo", input=HELLO, feedback_keys=["thumb"])


@case("runs.create_batch")
async def _(sdk: Sdk) -> None:
    made = await sdk(
        "runs.create_batch", [{"assistant_id": "echo", "input": HELLO}, {"assistant_id": "slow", "input": {}}]
    )
    assert len({run["run_id"] for run in made}) == 2


@case("runs.list")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    made = [await sdk("runs.create", identity, "echo", input=HELLO) for _ in range(3)]
    for run in made:
        await sdk("runs.join", identity, run["run_id"])
    listed = await sdk("runs.list", identity, limit=2, offset=1, status="success", select=["run_id"])
    assert listed == [{"run_id": run["run_id"]} for run in made[1::-1]]
    assert await sdk("runs.list", identity, status="error") == []


@case("runs.get")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    run = await sdk("runs.create", identity, "echo", input=HELLO)
    assert (await sdk("runs.get", identity, run["run_id"]))["run_id"] == run["run_id"]


@case("runs.cancel")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    endless = {"steps": 1000, "delay": 0.02}
    run = await sdk("runs.create", identity, "slow", input=endless)
    await sdk("runs.cancel", identity, run["run_id"], wait=True)
    assert (await sdk("runs.get", identity, run["run_id"]))["status"] == "interrupted"
    gone = await sdk("runs.create", identity, "slow", input=endless)
    await sdk("runs.cancel", identity, gone["run_id"], wait=True, action="rollback")
    assert [each["run_id"] for each in await sdk("runs.list", identity)] == [run["run_id"]]


@case("runs.cancel_many")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    made = [await sdk("runs.create", identity, "echo", input=HELLO, after_seconds=3600) for _ in range(3)]
    await sdk("runs.cancel_many", thread_id=identity, run_ids=[made[0]["run_id"]], action="interrupt")
    statuses = {each["run_id"]: each["status"] for each in await sdk("runs.list", identity)}
    assert [statuses[run["run_id"]] for run in made] == ["interrupted", "pending", "pending"]
    await sdk("runs.cancel_many", thread_id=identity, status="pending")
    assert {each["status"] for each in await sdk("runs.list", identity)} == {"interrupted"}


@case("runs.join")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    run = await sdk("runs.create", identity, "slow", input={"steps": 3, "delay": 0.01})
    assert (await sdk("runs.join", identity, run["run_id"]))["n"] == 3


@case("runs.join_stream")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    slow = {"steps": 3, "delay": 0.01}
    run = await sdk("runs.create", identity, "slow", input=slow, stream_mode=["updates", "custom"])
    asked = {"cancel_on_disconnect": False, "stream_mode": ["updates"], "last_event_id": "-1"}
    parts = await sdk("runs.join_stream", identity, run["run_id"], **asked)
    assert [part.event for part in parts if part.event not in ("metadata", "end")] == ["updates"] * 3


@case("runs.delete")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    run = await sdk("runs.create", identity, "echo", input=HELLO)
    await sdk("runs.join", identity, run["run_id"])
    await sdk("runs.delete", identity, run["run_id"])
    assert await sdk("runs.list", identity) == []
