"""The stream mode ``events``: LangChain's events of a run, and in the same pass whatever else it streams."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple

from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel

from stateroom.engine.stream_payloads import public_metadata

__all__ = ["Event", "stream_events"]


class Event(NamedTuple):
    """An event of LangChain, and what the graph itself streamed with it: None for all events but some."""

    body: dict[str, Any]
    chunk: Any


async def stream_events(
    graph: Pregel[Any, Any, Any, Any], graph_input: Any, config: RunnableConfig, options: Mapping[str, Any]
) -> AsyncIterator[Event]:
    """Run a graph and yield all events within it; ``options`` are those of ``astream``."""
    events: Any = graph.astream_events(graph_input, config, version="v2", **options)
    root: str | None = None
    async with aclosing(events):
        async for event in events:
            # The graph itself begins before anything in it.
            root = root or event["run_id"]
            body = {**event, "metadata": public_metadata(event.get("metadata"))}
            streamed = event["event"] == "on_chain_stream" and event["run_id"] == root
            yield Event(body, event["data"].get("chunk") if streamed else None)
