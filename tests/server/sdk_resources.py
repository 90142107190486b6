"""What shows that the SDK's methods of assistants and threads work."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any
from uuid import uuid4

import pytest

from tests.server.sdk import Sdk
from tests.server.sdk_cases import HELLO, case, new_assistant, new_thread


@case("assistants.create")
async def _(sdk: Sdk) -> None:
    given = {
        "config": {"configurable": {"x": 1}},
        "context": {"y": 2},
        "metadata": {"m": 3},
        "assistant_id": str(uuid4()),
        "name": "n",
        "description": "d",
    }
    made = await sdk("assistants.create", "echo", **given)
    assert {name: made[name] for name in given} == given
    assert await sdk("assistants.create", "echo", **given, if_exists="do_nothing") == made


@case("assistants.get")
async def _(sdk: Sdk) -> None:
    made = await sdk("assistants.create", "echo")
    assert await sdk("assistants.get", made["assistant_id"]) == made
    assert (await sdk("assistants.get", "echo"))["graph_id"] == "echo"


@case("assistants.get_graph")
async def _(sdk: Sdk) -> None:
    plain = await sdk("assistants.get_graph", "subgraph")
    deep = await sdk("assistants.get_graph", "subgraph", xray=True)
    inside = {node["id"] for node in deep["nodes"]} - {node["id"] for node in plain["nodes"]}
    assert any(":" in name for name in inside)


@case("assistants.get_schemas")
async def _(sdk: Sdk) -> None:
    found = await sdk("assistants.get_schemas", "echo")
    assert found["graph_id"] == "echo"
    assert "messages" in found["input_schema"]["properties"]


@case("assistants.get_subgraphs")
async def _(sdk: Sdk) -> None:
    found = await sdk("assistants.get_subgraphs", "subgraph", recurse=True)
    assert found
    (name, *_) = found
    assert await sdk("assistants.get_subgraphs", "subgraph", namespace=name) == {name: found[name]}
    assert await sdk("assistants.get_subgraphs", "echo") == {}


@case("assistants.update")
async def _(sdk: Sdk) -> None:
    identity = await new_assistant(sdk, name="a", metadata={"kept": 1})
    changed = await sdk(
        "assistants.update",
        identity,
        graph_id="slow",
        config={"tags": ["t"]},
        context={"c": 1},
        metadata={"more": 2},
        name="b",
        description="d",
    )
    assert (changed["version"], changed["graph_id"], changed["name"]) == (2, "slow", "b")
    assert changed["metadata"] == {"kept": 1, "more": 2}
    assert (changed["config"], changed["context"]) == ({"tags": ["t"]}, {"c": 1})


@case("assistants.delete")
async def _(sdk: Sdk) -> None:
    identity = await new_assistant(sdk)
    thread = await new_thread(sdk)
    await sdk("runs.wait", thread, identity, input=HELLO)
    await sdk("assistants.delete", identity, delete_threads=True)
    assert await sdk("threads.search", ids=[thread]) == []
    with pytest.raises(Exception, match=identity):
        await sdk("assistants.get", identity)


@case("assistants.search")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    for name in "bac":
        await new_assistant(sdk, name=f"{name}-{mark}", metadata={"mark": mark})
    asked = {"metadata": {"mark": mark}, "graph_id": "echo", "sort_by": "name", "sort_order": "asc"}
    first = await sdk("assistants.search", **asked, limit=2, response_format="object")
    assert [each["name"][0] for each in first["assistants"]] == ["a", "b"]
    rest = await sdk("assistants.search", **asked, offset=int(first["next"]), select=["name"])
    assert rest == [{"name": f"c-{mark}"}]
    assert len(await sdk("assistants.search", name=f"a-{mark}")) == 1


@case("assistants.count")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    await new_assistant(sdk, name=mark, metadata={"mark": mark})
    assert await sdk("assistants.count", metadata={"mark": mark}, graph_id="echo", name=mark) == 1


@case("assistants.get_versions")
async def _(sdk: Sdk) -> None:
    identity = await new_assistant(sdk, metadata={"v": 1})
    await sdk("assistants.update", identity, metadata={"v": 2})
    assert [each["version"] for each in await sdk("assistants.get_versions", identity)] == [2, 1]
    assert len(await sdk("assistants.get_versions", identity, metadata={"v": 1}, limit=5)) == 1
    assert [each["version"] for each in await sdk("assistants.get_versions", identity, offset=1)] == [1]


@case("assistants.set_latest")
async def _(sdk: Sdk) -> None:
    identity = await new_assistant(sdk, name="first")
    await sdk("assistants.update", identity, name="second")
    assert (await sdk("assistants.set_latest", identity, 1))["name"] == "first"
    assert (await sdk("assistants.get", identity))["version"] == 1


@case("threads.create")
async def _(sdk: Sdk) -> None:
    identity = str(uuid4())
    steps = [{"updates": [{"values": {"messages": ["a"]}, "as_node": "echo"}]}]
    options: dict[str, Any] = {"metadata": {"m": 1}, "graph_id": "echo", "supersteps": steps, "ttl": 30}
    made = await sdk("threads.create", **options, thread_id=identity)
    assert made["thread_id"] == identity
    assert made["metadata"]["m"] == 1
    assert (await sdk("threads.get_state", identity))["values"]["messages"] == ["a"]
    again = await sdk("threads.create", thread_id=identity, if_exists="do_nothing")
    assert again["metadata"] == made["metadata"]


@case("threads.get")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk, ttl=30)
    assert (await sdk("threads.get", identity, include=["ttl"]))["ttl"]
    assert "ttl" not in await sdk("threads.get", identity)


@case("threads.update")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk, metadata={"a": 1})
    changed = await sdk("threads.update", identity, metadata={"b": 2}, ttl=30)
    assert changed["metadata"] == {"a": 1, "b": 2}
    assert await sdk("threads.update", identity, metadata={"c": 3}, return_minimal=True) is None
    assert (await sdk("threads.get", identity))["metadata"] == {"a": 1, "b": 2, "c": 3}


@case("threads.delete")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    await sdk("threads.delete", identity)
    assert await sdk("threads.search", ids=[identity]) == []


@case("threads.search")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    threads = [await new_thread(sdk, metadata={"mark": mark}) for _ in range(3)]
    await sdk("runs.wait", threads[0], "echo", input={**HELLO, "n": 7})
    asked = {"metadata": {"mark": mark}, "sort_by": "created_at", "sort_order": "asc"}
    found = await sdk("threads.search", **asked, limit=2, offset=1)
    assert [each["thread_id"] for each in found] == threads[1:]
    (one,) = await sdk(
        "threads.search",
        **asked,
        values={"n": 7},
        ids=threads,
        status="idle",
        select=["thread_id", "values"],
        extract={"last": "values.messages[-1].content"},
    )
    assert set(one) == {"thread_id", "values", "extracted"}
    assert one["extracted"]["last"].startswith("echo")


@case("threads.count")
async def _(sdk: Sdk) -> None:
    mark = uuid4().hex
    identity = await new_thread(sdk, metadata={"mark": mark})
    await sdk("runs.wait", identity, "echo", input={**HELLO, "n": 7})
    asked = {"metadata": {"mark": mark}, "status": "idle"}
    assert await sdk("threads.count", **asked, values={"n": 7}) == 1
    assert await sdk("threads.count", **asked, values={"n": 8}) == 0


@case("threads.copy")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    await sdk("runs.wait", identity, "echo", input=HELLO)
    copy = await sdk("threads.copy", identity)
    assert copy["thread_id"] != identity
    assert len(await sdk("threads.get_history", copy["thread_id"])) == len(
        await sdk("threads.get_history", identity)
    )


@case("threads.prune")
async def _(sdk: Sdk) -> None:
    kept, gone = await new_thread(sdk), await new_thread(sdk)
    await sdk("runs.wait", kept, "echo", input=HELLO)
    assert await sdk("threads.prune", [kept], strategy="keep_latest") == {"pruned_count": 1}
    assert len(await sdk("threads.get_history", kept)) == 1
    assert await sdk("threads.prune", [gone]) == {"pruned_count": 1}
    assert await sdk("threads.search", ids=[gone]) == []


@case("threads.get_state")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    await sdk("runs.wait", identity, "subgraph", input={"n": 1})
    state = await sdk("threads.get_state", identity, subgraphs=True)
    first = (await sdk("threads.get_history", identity))[-1]
    by_checkpoint = await sdk("threads.get_state", identity, checkpoint=first["checkpoint"])
    by_id = await sdk("threads.get_state", identity, checkpoint_id=first["checkpoint"]["checkpoint_id"])
    assert by_checkpoint["checkpoint"] == by_id["checkpoint"] == first["checkpoint"]
    assert state["checkpoint"] != first["checkpoint"]
    assert set(await sdk("threads.get_state", identity, select=["next"])) == {"next"}


@case("threads.update_state")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    await sdk("runs.wait", identity, "echo", input=HELLO)
    await sdk("threads.update_state", identity, {"n": 9}, as_node="echo")
    state = await sdk("threads.get_state", identity)
    assert state["values"]["n"] == 9
    first = (await sdk("threads.get_history", identity))[-1]["checkpoint"]
    for named in ({"checkpoint": first}, {"checkpoint_id": first["checkpoint_id"]}):
        forked = await sdk("threads.update_state", identity, {"n": 1}, as_node="echo", **named)
        assert forked["checkpoint_id"]
        after = await sdk("threads.get_state", identity)
        assert after["parent_checkpoint"]["checkpoint_id"] == first["checkpoint_id"]


@case("threads.get_history")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    for _ in range(2):
        await sdk("runs.wait", identity, "echo", input=HELLO)
    history = await sdk("threads.get_history", identity, limit=50)
    assert len(history) == 6
    before = await sdk("threads.get_history", identity, limit=2, before=history[1]["checkpoint"])
    assert [each["checkpoint"] for each in before] == [each["checkpoint"] for each in history[2:4]]
    inputs = await sdk("threads.get_history", identity, metadata={"source": "input"}, select=["metadata"])
    assert [each["metadata"]["source"] for each in inputs] == ["input", "input"]
    root = {"checkpoint_ns": ""}
    assert len(await sdk("threads.get_history", identity, limit=50, checkpoint=root)) == 6


@case("threads.join_stream")
async def _(sdk: Sdk) -> None:
    identity = await new_thread(sdk)
    await sdk("runs.wait", identity, "echo", input=HELLO)
    joined = sdk.client.threads.join_stream(identity, last_event_id="-", stream_mode="run_modes")
    if sdk.is_async:
        joined = await joined
        async with contextlib.aclosing(joined):
            async for part in joined:
                if (part.data or {}).get("status") == "run_done":
                    return
        pytest.fail("the stream of a thread has ended")
    await asyncio.to_thread(_read_until_done, joined)


def _read_until_done(joined: Any) -> None:
    with contextlib.closing(joined):
        assert any((part.data or {}).get("status") == "run_done" for part in joined)


@case("threads.stream")
async def _(sdk: Sdk) -> None:
    if sdk.is_async:
        async with sdk.client.threads.stream(assistant_id="echo") as thread:
            await thread.run.start(input=HELLO)
            output = await thread.output
    else:
        output = await asyncio.to_thread(_streamed, sdk)
    assert len(output["messages"]) == 2


def _streamed(sdk: Sdk) -> Any:
    with sdk.client.threads.stream(assistant_id="echo") as thread:
        thread.run.start(input=HELLO)
        return thread.output
