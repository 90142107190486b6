"""Running a graph as the engine does, and reading its frames as strict JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import aclosing
from typing import Any, NoReturn, cast

from langgraph.runtime import RunControl

from stateroom.engine.streaming import stream_run
from stateroom.model.frame import NewFrame
from stateroom.model.run_kwargs import PROTOCOL_PREFIX, RunKwargs

__all__ = ["named", "params", "protocol", "read", "run", "stream"]

Read = tuple[str, Any]


def read(data: bytes) -> Any:
    """Return what strict JSON says; fail for NaN and infinities, which JSON does not have."""
    return json.loads(data.decode(), parse_constant=_refuse)


def _refuse(constant: str) -> NoReturn:
    raise AssertionError(f"{constant} is not JSON")


def stream(
    graph: Any,
    given: Any,
    *,
    thread: str = "t",
    config: dict[str, Any] | None = None,
    context: Any = None,
    control: RunControl | None = None,
    **kwargs: Any,
) -> AsyncIterator[NewFrame]:
    """Return the frames of a run that has not begun yet."""
    full = {**(config or {})}
    full["configurable"] = {**full.get("configurable", {}), "thread_id": thread}
    return stream_run(
        graph,
        given,
        cast("Any", full),
        RunKwargs(**kwargs),
        graph_id="agent",
        context=context,
        control=control or RunControl(),
    )


def run(graph: Any, given: Any, **options: Any) -> list[Read]:
    """Run a graph and return the name and the data of each frame."""

    async def gather() -> list[NewFrame]:
        frames: Any = stream(graph, given, **options)
        async with aclosing(frames):
            return [frame async for frame in frames]

    return [(frame.event, read(frame.data)) for frame in asyncio.run(gather())]


def named(frames: list[Read], event: str) -> list[Any]:
    """Return the data of the frames of a name."""
    return [data for name, data in frames if name == event]


def protocol(graph: Any, given: Any, **options: Any) -> list[dict[str, Any]]:
    """Run a graph and return the events of the protocol, as SDKs read them."""
    frames = run(graph, given, protocol=True, **options)
    assert all(event.startswith(PROTOCOL_PREFIX) for event, _ in frames)
    return [
        {"type": "event", "method": event.removeprefix(PROTOCOL_PREFIX), "params": data}
        for event, data in frames
    ]


def params(events: list[dict[str, Any]], method: str) -> list[dict[str, Any]]:
    """Return the params of the events of a method."""
    return [event["params"] for event in events if event["method"] == method]
