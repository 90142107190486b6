"""Running graphs on one SQLite file with our saver and with LangGraph's own, sync and async."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.sqlite import SqliteSaver as TheirSaver
from langgraph.checkpoint.sqlite.aio import AsyncSqliteSaver as TheirAsyncSaver

from stateroom.savers import SqliteSaver
from stateroom.testing.savers_graphs import Graph, graph_config

__all__ = ["KINDS", "Build", "invoke", "listed", "values"]

Build = Callable[[BaseCheckpointSaver[Any]], Graph]

KINDS = ("ours", "ours async", "theirs", "theirs async")


def invoke(kind: str, path: Path, build: Build, asked: Any, thread_id: str = "t") -> Any:
    """Open the file with a saver of a kind, run a graph on it once, and close it."""
    return _use(
        kind,
        path,
        lambda saver: build(saver).invoke(asked, graph_config(thread_id)),
        lambda saver: build(saver).ainvoke(asked, graph_config(thread_id)),
    )


def values(kind: str, path: Path, build: Build, thread_id: str = "t") -> Any:
    """Return the state that a graph has with a saver of a kind."""
    state = _use(
        kind,
        path,
        lambda saver: build(saver).get_state(graph_config(thread_id)),
        lambda saver: build(saver).aget_state(graph_config(thread_id)),
    )
    return state.values


def listed(kind: str, path: Path, thread_id: str = "t") -> list[Any]:
    """Return what a saver of a kind lists of a thread."""
    at = {"configurable": {"thread_id": thread_id}}

    async def collect(saver: Any) -> list[Any]:
        return [found async for found in saver.alist(at)]

    return _use(kind, path, lambda saver: list(saver.list(at)), collect)  # type: ignore[no-any-return]


def _use(kind: str, path: Path, act: Callable[[Any], Any], aact: Callable[[Any], Any]) -> Any:
    ours = kind.startswith("ours")
    if not kind.endswith("async"):
        with (SqliteSaver if ours else TheirSaver).from_conn_string(str(path)) as saver:
            return act(saver)

    async def work() -> Any:
        async with (SqliteSaver if ours else TheirAsyncSaver).from_conn_string(str(path)) as saver:
            return await aact(saver)

    return asyncio.run(work())
