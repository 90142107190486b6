"""Threads over HTTP: conversations, without their runs and states."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query
from starlette.responses import Response

from stateroom.api.access import Access, AccessDep
from stateroom.api.answers import answer, nothing, page_headers
from stateroom.api.including import Routes
from stateroom.api.parts import Parts, PartsDep
from stateroom.api.routes import states
from stateroom.api.wire.base import Texts, ThreadId, check_limit
from stateroom.api.wire.threads import (
    EXTRACT_ROOTS,
    CountThreads,
    CreateThread,
    PrunedAnswer,
    PruneThreads,
    SearchThreads,
    StorageAnswer,
    ThreadAnswer,
    ThreadParts,
    UpdateThread,
    storage_json,
    thread_json,
)
from stateroom.contract.threads import ThreadQuery
from stateroom.errors import Denied, InvalidInput
from stateroom.model.change import UNSET
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.service.extracts import Extracts
from stateroom.service.scope import Scope
from stateroom.service.threads import UNFINISHED_MINUTES

__all__ = ["router"]

router = Routes()


@router.post("/threads", response_model=ThreadAnswer)
async def create_thread(parts: PartsDep, access: AccessDep, body: CreateThread | None = None) -> Response:
    """Make a thread, and apply supersteps to it: all of that, or nothing."""
    body = body or CreateThread()
    value: dict[str, Any] = {
        "thread_id": body.thread_id or parts.ids(),
        "metadata": body.metadata or {},
        "if_exists": body.if_exists or "raise",
    }
    if "ttl" in body.model_fields_set:
        value["ttl"] = body.ttl
    scope = await access.allow("threads", "create", value)
    steps = body.steps()
    ttl = parts.threads.parse_ttl(value["ttl"]) if "ttl" in value else parts.threads.default_ttl
    if steps:
        graph_id = value["metadata"].get("graph_id")
        if not isinstance(graph_id, str) or not graph_id:
            raise InvalidInput(
                "supersteps are given, but metadata.graph_id is not; name the graph that they are for",
                field="metadata.graph_id",
            )
        await parts.states.check_supersteps(graph_id, steps, user=states.user_of(access))
    thread, made = await parts.offload(
        parts.threads.create,
        str(value["thread_id"]),
        scope,
        metadata=value["metadata"],
        # Until it is whole, it goes by itself if the server dies.
        ttl=ThreadTTL(UNFINISHED_MINUTES) if steps else ttl,
        if_exists=value["if_exists"],
    )
    if made and steps:
        thread = await _completed(thread, body, ttl, parts, access)
    return answer(thread_json(thread))


async def _completed(
    thread: Thread, body: CreateThread, ttl: ThreadTTL | None, parts: Parts, access: Access
) -> Thread:
    """Apply the supersteps to a thread that was just made; remove it if that fails."""
    try:
        await parts.states.apply(thread, body.steps(), user=states.user_of(access))
        return await parts.offload(parts.threads.update, thread.thread_id, Scope(), ttl=ttl)
    except BaseException:
        await parts.offload(parts.threads.remove, thread.thread_id)
        raise


@router.post("/threads/search", response_model=ThreadParts)
async def search_threads(body: SearchThreads, parts: PartsDep, access: AccessDep) -> Response:
    """List threads; ``X-Pagination-Next`` is the offset of the next page."""
    extracts = Extracts(body.extract, EXTRACT_ROOTS) if body.extract else None
    query, scope, value = await _searched(body, access, limit=body.limit, offset=body.offset)
    limit, offset = check_limit(value["limit"], parts.settings.limits), value["offset"]
    page, total = await parts.offload(
        parts.threads.search, query, scope, sort=body.sort(), limit=limit, offset=offset, after=body.after
    )
    headers = page_headers(
        total, offset=offset, count=len(page.rows), more=page.next is not None, cursor=page.next
    )
    found = [thread_json(each, body.select) for each in page.rows]
    if extracts is not None:
        for thread, shown in zip(page.rows, found, strict=True):
            shown["extracted"] = extracts.of(thread_json(thread, ttl=True))
    return answer(found, headers=headers)


@router.post("/threads/count", response_model=int)
async def count_threads(parts: PartsDep, access: AccessDep, body: CountThreads | None = None) -> Response:
    """Count threads."""
    query, scope, _ = await _searched(body or CountThreads(), access, limit=0, offset=0)
    return answer(await parts.offload(parts.threads.count, query, scope))


async def _searched(
    body: CountThreads, access: Access, **page: int
) -> tuple[ThreadQuery, Scope, dict[str, Any]]:
    """Return the conditions as the rules leave them, and what of the threads may be seen."""
    value: dict[str, Any] = {
        "metadata": body.metadata or {},
        "values": body.values or {},
        "status": body.status,
        "ids": body.ids,
        **page,
    }
    scope = await access.allow("threads", "search", value)
    query = body.query()._replace(
        metadata=value["metadata"] or None,
        values=value["values"] or None,
        status=None if value["status"] is None else ThreadStatus(value["status"]),
        ids=value["ids"],
    )
    return query, scope, value


@router.post("/threads/prune", response_model=PrunedAnswer)
async def prune_threads(body: PruneThreads, parts: PartsDep, access: AccessDep) -> Response:
    """Remove threads, or all of their past but the latest state; those of active runs keep their past."""
    strategy = parts.threads.check_prune(body.thread_ids, body.strategy)
    action = "delete" if strategy is TTLStrategy.DELETE else "update"
    pruned = 0
    for thread_id in dict.fromkeys(body.thread_ids):
        try:
            scope = await access.allow("threads", action, {"thread_id": thread_id, "metadata": {}})
        except Denied:
            if len(body.thread_ids) == 1:
                raise
            continue
        pruned += await parts.offload(parts.threads.prune, thread_id, strategy, scope)
    return answer({"pruned_count": pruned})


@router.get("/threads/{thread_id}", response_model=ThreadAnswer)
async def get_thread(
    thread_id: ThreadId,
    parts: PartsDep,
    access: AccessDep,
    include: Annotated[Texts | None, Query(description="`ttl`: also the time to live")] = None,
) -> Response:
    """Return a thread."""
    for name in include or ():
        if name != "ttl":
            raise InvalidInput(f"include is {show(name)}; use ttl", field="include")
    thread = await states.read_thread(thread_id, parts, access)
    return answer(thread_json(thread, ttl=bool(include)))


@router.patch(
    "/threads/{thread_id}",
    response_model=ThreadAnswer,
    responses={204: {"description": "Changed; with `Prefer: return=minimal`"}},
)
async def update_thread(
    thread_id: ThreadId,
    body: UpdateThread,
    parts: PartsDep,
    access: AccessDep,
    prefer: Annotated[str | None, Header(description="`return=minimal`: answer nothing")] = None,
) -> Response:
    """Change the metadata of a thread, key by key, and its time to live."""
    value: dict[str, Any] = {"thread_id": thread_id, "metadata": body.metadata or {}, "action": None}
    scope = await access.allow("threads", "update", value)
    thread = await parts.offload(
        parts.threads.update,
        thread_id,
        scope,
        metadata=value["metadata"] or UNSET,
        ttl=parts.threads.parse_ttl(body.ttl) if "ttl" in body.model_fields_set else UNSET,
    )
    if prefer is not None and "return=minimal" in prefer.replace(" ", "").lower():
        return nothing(headers={"Preference-Applied": "return=minimal"})
    return answer(thread_json(thread))


@router.delete("/threads/{thread_id}", status_code=204)
async def delete_thread(thread_id: ThreadId, parts: PartsDep, access: AccessDep) -> Response:
    """Remove a thread with everything that is known under its id; its run is stopped."""
    scope = await access.allow("threads", "delete", {"thread_id": thread_id, "run_id": None})
    await parts.offload(parts.threads.delete, thread_id, scope)
    return nothing()


@router.post("/threads/{thread_id}/copy", response_model=ThreadAnswer)
async def copy_thread(thread_id: ThreadId, parts: PartsDep, access: AccessDep) -> Response:
    """Make a thread with the state and all the history of another."""
    original = await states.read_thread(thread_id, parts, access)
    value: dict[str, Any] = {"thread_id": parts.ids(), "metadata": dict(original.metadata)}
    await access.allow("threads", "create", value)
    copy = await parts.offload(
        parts.threads.copy, original, str(value["thread_id"]), metadata=value["metadata"]
    )
    return answer(thread_json(copy))


@router.get("/threads/{thread_id}/storage", response_model=StorageAnswer)
async def get_thread_storage(thread_id: ThreadId, parts: PartsDep, access: AccessDep) -> Response:
    """Return how many bytes a thread's checkpoints take."""
    scope = await access.allow("threads", "read", {"thread_id": thread_id, "run_id": None})
    return answer(storage_json(await parts.offload(parts.threads.storage, thread_id, scope)))


router.include_router(states.router)
