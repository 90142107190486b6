"""The states of threads over HTTP: now, at a checkpoint, through history, and changed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query
from starlette.responses import Response

from stateroom.api.access import Access, AccessDep
from stateroom.api.answers import answer
from stateroom.api.including import Routes
from stateroom.api.parts import Parts, PartsDep
from stateroom.api.wire.base import ThreadId, check_limit
from stateroom.api.wire.states import (
    HISTORY_LIMIT,
    ListHistory,
    ReadState,
    StateFields,
    StatePart,
    StateParts,
    UpdatedStateAnswer,
    UpdateState,
    before_of,
    checkpoint_of,
    json_of,
)
from stateroom.api.wire.threads import PatchMetadata, ThreadAnswer, thread_json
from stateroom.errors import InvalidInput
from stateroom.model.thread import Thread

__all__ = ["read_thread", "router", "user_of"]

router = Routes()


def user_of(access: Access) -> Mapping[str, Any] | None:
    """Return the authenticated caller as users' code meets him."""
    return None if access.principal is None else access.principal.user


async def read_thread(thread_id: str, parts: Parts, access: Access) -> Thread:
    """Return a thread that the caller may read."""
    scope = await access.allow("threads", "read", {"thread_id": thread_id, "run_id": None})
    return await parts.offload(parts.threads.get, thread_id, scope)


Subgraphs = Annotated[bool, Query(description="Also the states of subgraphs, in `tasks[].state`")]
Select = Annotated[StateFields | None, Query(description="Fields, or `values.<key>`")]


@router.get("/threads/{thread_id}/state", response_model=StatePart)
async def get_state(
    thread_id: ThreadId,
    parts: PartsDep,
    access: AccessDep,
    subgraphs: Subgraphs = False,
    select: Select = None,
    checkpoint_ns: Annotated[str | None, Query(description="A subgraph's namespace")] = None,
) -> Response:
    """Return a thread's state as it is now."""
    named = {"checkpoint_ns": checkpoint_ns} if checkpoint_ns else None
    return await _state(thread_id, parts, access, named, subgraphs=subgraphs, select=select)


@router.get("/threads/{thread_id}/state/{checkpoint_id}", response_model=StatePart)
async def get_state_at(
    thread_id: ThreadId,
    checkpoint_id: str,
    parts: PartsDep,
    access: AccessDep,
    subgraphs: Subgraphs = False,
    select: Select = None,
) -> Response:
    """Return a thread's state at a checkpoint."""
    named = {"checkpoint_id": checkpoint_id}
    return await _state(thread_id, parts, access, named, subgraphs=subgraphs, select=select)


@router.post("/threads/{thread_id}/state/checkpoint", response_model=StatePart)
async def read_state(thread_id: ThreadId, body: ReadState, parts: PartsDep, access: AccessDep) -> Response:
    """Return a thread's state at a checkpoint, of which the body may say all there is to say."""
    named = checkpoint_of(body.checkpoint, thread_id)
    return await _state(thread_id, parts, access, named, subgraphs=bool(body.subgraphs), select=body.select)


async def _state(
    thread_id: str,
    parts: Parts,
    access: Access,
    checkpoint: Mapping[str, Any] | None,
    *,
    subgraphs: bool,
    select: list[str] | None,
) -> Response:
    thread = await read_thread(thread_id, parts, access)
    found = await parts.states.get(
        thread, checkpoint=checkpoint, subgraphs=subgraphs, select=select or None, user=user_of(access)
    )
    return answer(found)


@router.post("/threads/{thread_id}/state", response_model=UpdatedStateAnswer)
async def update_state(
    thread_id: ThreadId, body: UpdateState, parts: PartsDep, access: AccessDep
) -> Response:
    """Change a thread's state as if a node had answered."""
    named = checkpoint_of(body.checkpoint, thread_id)
    if body.checkpoint_id:
        if named is not None and named.get("checkpoint_id") not in (None, body.checkpoint_id):
            raise InvalidInput(
                "checkpoint_id is another than checkpoint's; pass one of the two", field="checkpoint_id"
            )
        named = {**(named or {}), "checkpoint_id": body.checkpoint_id}
    value: dict[str, Any] = {"thread_id": thread_id, "metadata": {}, "action": None}
    scope = await access.allow("threads", "update", value)
    thread = await parts.offload(parts.threads.get, thread_id, scope)
    updated = await parts.states.update(
        thread, values=body.values, as_node=body.as_node, checkpoint=named, user=user_of(access)
    )
    return answer(updated)


@router.patch("/threads/{thread_id}/state", response_model=ThreadAnswer)
async def patch_state(
    thread_id: ThreadId, body: PatchMetadata, parts: PartsDep, access: AccessDep
) -> Response:
    """Change the metadata of a thread, key by key."""
    value: dict[str, Any] = {"thread_id": thread_id, "metadata": body.metadata, "action": None}
    scope = await access.allow("threads", "update", value)
    changed = await parts.offload(parts.threads.update, thread_id, scope, metadata=value["metadata"])
    return answer(thread_json(changed))


@router.post("/threads/{thread_id}/history", response_model=StateParts)
async def list_history(
    thread_id: ThreadId, parts: PartsDep, access: AccessDep, body: ListHistory | None = None
) -> Response:
    """List a thread's states, the newest first."""
    return await _history(thread_id, body or ListHistory(), parts, access)


@router.get("/threads/{thread_id}/history", response_model=StateParts)
async def get_history(
    thread_id: ThreadId,
    parts: PartsDep,
    access: AccessDep,
    limit: Annotated[int, Query(ge=1)] = HISTORY_LIMIT,
    before: Annotated[str | None, Query(description="A checkpoint's id, or a checkpoint as JSON")] = None,
    metadata: Annotated[str | None, Query(description="A JSON object")] = None,
    checkpoint_ns: Annotated[str | None, Query(description="A subgraph's namespace")] = None,
    select: Select = None,
) -> Response:
    """List a thread's states, the newest first."""
    wanted = json_of(metadata, "metadata")
    if wanted is not None and not isinstance(wanted, dict):
        raise InvalidInput("metadata is no JSON object; pass one", field="metadata")
    body = ListHistory(
        limit=limit,
        before=json_of(before, "before"),
        metadata=wanted,
        checkpoint={"checkpoint_ns": checkpoint_ns} if checkpoint_ns else None,
        select=select,
    )
    return await _history(thread_id, body, parts, access)


async def _history(thread_id: str, body: ListHistory, parts: Parts, access: Access) -> Response:
    check_limit(body.limit, parts.settings.limits)
    before = before_of(body.before, thread_id)
    named = checkpoint_of(body.checkpoint, thread_id)
    thread = await read_thread(thread_id, parts, access)
    found = await parts.states.history(
        thread,
        limit=body.limit,
        before=before,
        metadata=body.metadata,
        checkpoint=named,
        select=body.select or None,
        user=user_of(access),
    )
    return answer(found)
