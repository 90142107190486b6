"""LangGraph's Python SDK, its async and its sync client called in one way; and what its methods take."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Iterator
from functools import partial
from typing import Any, Final

from langgraph_sdk import get_client, get_sync_client
from langgraph_sdk.client import LangGraphClient, SyncLangGraphClient

__all__ = ["PARAMETERS", "RESOURCES", "Sdk", "methods", "parameters"]

RESOURCES: Final = ("assistants", "threads", "runs", "crons", "store")

_CREATE: Final = (
    "thread_id assistant_id input command metadata config context checkpoint checkpoint_id checkpoint_during"
    " interrupt_before interrupt_after webhook on_completion multitask_strategy if_not_exists after_seconds"
    " langsmith_tracing on_run_created durability strict_resume"
)
_STREAM: Final = " stream_mode stream_subgraphs stream_resumable"
_CRON: Final = (
    "assistant_id schedule input metadata config context checkpoint_during interrupt_before interrupt_after"
    " webhook multitask_strategy end_time enabled timezone durability"
)

PARAMETERS: Final = {
    "assistants.count": "metadata graph_id name",
    "assistants.create": "graph_id config context metadata assistant_id if_exists name description",
    "assistants.delete": "assistant_id delete_threads",
    "assistants.get": "assistant_id",
    "assistants.get_graph": "assistant_id xray",
    "assistants.get_schemas": "assistant_id",
    "assistants.get_subgraphs": "assistant_id namespace recurse",
    "assistants.get_versions": "assistant_id metadata limit offset",
    "assistants.search": "metadata graph_id name limit offset sort_by sort_order select response_format",
    "assistants.set_latest": "assistant_id version",
    "assistants.update": "assistant_id graph_id config context metadata name description",
    "threads.copy": "thread_id",
    "threads.count": "metadata values status",
    "threads.create": "metadata thread_id if_exists supersteps graph_id ttl",
    "threads.delete": "thread_id",
    "threads.get": "thread_id include",
    "threads.get_history": "thread_id limit before metadata checkpoint select",
    "threads.get_state": "thread_id checkpoint checkpoint_id subgraphs select",
    "threads.join_stream": "thread_id last_event_id stream_mode",
    "threads.prune": "thread_ids strategy",
    "threads.search": "metadata values ids status limit offset sort_by sort_order select extract",
    "threads.stream": "thread_id assistant_id run_start_timeout transport",
    "threads.update": "thread_id metadata ttl return_minimal",
    "threads.update_state": "thread_id values as_node checkpoint checkpoint_id",
    "runs.cancel": "thread_id run_id wait action",
    "runs.cancel_many": "thread_id run_ids status action",
    "runs.create": _CREATE + _STREAM,
    "runs.create_batch": "payloads",
    "runs.delete": "thread_id run_id",
    "runs.get": "thread_id run_id",
    "runs.join": "thread_id run_id",
    "runs.join_stream": "thread_id run_id cancel_on_disconnect stream_mode last_event_id",
    "runs.list": "thread_id limit offset status select",
    "runs.stream": _CREATE + _STREAM + " feedback_keys on_disconnect version",
    "runs.wait": _CREATE + " on_disconnect raise_error",
    "crons.count": "assistant_id thread_id metadata",
    "crons.create": _CRON + _STREAM + " on_run_completed",
    "crons.create_for_thread": _CRON + _STREAM + " thread_id",
    "crons.delete": "cron_id",
    "crons.search": "assistant_id thread_id enabled metadata limit offset sort_by sort_order select",
    "crons.update": "cron_id schedule end_time input metadata config context webhook interrupt_before"
    " interrupt_after on_run_completed enabled timezone durability" + _STREAM,
    "store.delete_item": "namespace key",
    "store.get_item": "namespace key refresh_ttl",
    "store.list_namespaces": "prefix suffix max_depth limit offset",
    "store.put_item": "namespace key value index ttl",
    "store.search_items": "namespace_prefix filter limit offset query refresh_ttl",
}
"""Every method of the SDK that the tests know, with its parameters but for headers and further query."""


def methods(client: LangGraphClient | SyncLangGraphClient) -> Iterator[str]:
    """Return the names of everything that a client does, such as ``threads.create``."""
    for resource in RESOURCES:
        api = getattr(client, resource)
        for name in dir(api):
            if not name.startswith("_") and name != "http" and callable(getattr(api, name)):
                yield f"{resource}.{name}"


def parameters(client: LangGraphClient | SyncLangGraphClient, method: str) -> frozenset[str]:
    """Return the names of what a method takes."""
    resource, name = method.split(".")
    signature = inspect.signature(inspect.unwrap(getattr(getattr(client, resource), name)))
    return frozenset(signature.parameters) - {"headers", "params"}


class Sdk:
    """A client of either kind, all of whose methods are awaited; what streams is answered as a list."""

    def __init__(self, url: str, *, is_async: bool, headers: dict[str, str] | None = None) -> None:
        self.is_async = is_async
        make: Any = get_client if is_async else get_sync_client
        self.client: Any = make(url=url, headers=headers)

    async def __call__(self, method: str, *arguments: Any, **options: Any) -> Any:
        """Call a method, such as ``threads.create``."""
        resource, name = method.split(".")
        call = partial(getattr(getattr(self.client, resource), name), *arguments, **options)
        if not self.is_async:
            return await asyncio.to_thread(_completed, call)
        answer = call()
        if inspect.isasyncgen(answer) or hasattr(answer, "__aiter__"):
            return [part async for part in answer]
        return await answer

    async def close(self) -> None:
        """Close its connections."""
        await self.client.aclose() if self.is_async else self.client.close()


def _completed(call: Any) -> Any:
    answer = call()
    return list(answer) if hasattr(answer, "__next__") else answer
