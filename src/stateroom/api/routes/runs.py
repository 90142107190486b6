"""Runs: seen, waited for, streamed, stopped and deleted; how they are made is beside."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

from fastapi import Header, Query
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import answer, nothing, page_headers
from stateroom.api.filtering import narrowed, run_view
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.routes import making
from stateroom.api.routes.making import NamespacesQuery, abandon, continued
from stateroom.api.sse import last_event_id, run_stream, sse_response
from stateroom.api.waiting import wait_response
from stateroom.api.wire.base import Texts, ThreadId, check_limit
from stateroom.api.wire.runs import (
    CancelAction,
    CancelMany,
    RunStatusName,
    cancelled_json,
    namespaces_of,
    picked,
    run_fields,
    run_json,
)
from stateroom.model.run import Run, RunStatus

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts

__all__ = ["router"]

router = Routes()
router.include_router(making.router)

Leaving = Annotated[
    bool, Query(alias="cancel_on_disconnect", description="Stop the run if the client leaves")
]
Modes = Annotated[Texts | None, Query(alias="stream_mode", description="Some of the run's stream modes")]
LastEvent = Annotated[
    str | None,
    Header(alias="Last-Event-ID", description="The id of the last event that was read, `-` for none"),
]


@router.get("/threads/{thread_id}/runs")
async def list_runs(
    thread_id: ThreadId,
    parts: PartsDep,
    access: AccessDep,
    limit: Annotated[int, Query(ge=0)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
    after: str | None = None,
    status: RunStatusName | None = None,
    select: Annotated[Texts | None, Query(description="Fields of a run")] = None,
) -> Response:
    """List a thread's runs, the newest first."""
    fields = run_fields(select)
    scope = await access.allow("threads", "read", {"thread_id": thread_id})
    page, total = await parts.offload(
        parts.runs.search,
        thread_id,
        scope,
        status=None if status is None else RunStatus(status),
        limit=check_limit(limit, parts.settings.limits),
        offset=offset,
        after=after,
    )
    headers = page_headers(
        total, offset=offset, count=len(page.rows), more=page.next is not None, cursor=page.next
    )
    return answer([picked(run_json(run), fields) for run in page.rows], headers=headers)


@router.get("/threads/{thread_id}/runs/{run_id}")
async def get_run(thread_id: ThreadId, run_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Return a run."""
    return answer(run_json(await _run(parts, access, "read", run_id, thread_id)))


@router.delete("/threads/{thread_id}/runs/{run_id}", status_code=204)
async def delete_run(thread_id: ThreadId, run_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Delete a run that does not execute."""
    scope = await access.allow("threads", "delete", {"thread_id": thread_id, "run_id": run_id})
    await parts.offload(parts.runs.delete, run_id, scope, thread_id=thread_id)
    return nothing()


@router.get("/threads/{thread_id}/runs/{run_id}/join")
async def join_run(
    thread_id: ThreadId, run_id: str, parts: PartsDep, access: AccessDep, leaving: Leaving = False
) -> Response:
    """Wait for a run's end; answer its final values, or `__error__`."""
    return await _joined(parts, access, run_id, thread_id, leaving=leaving)


@router.get("/runs/{run_id}/join")
async def join_stateless_run(
    run_id: str, parts: PartsDep, access: AccessDep, leaving: Leaving = False
) -> Response:
    """Wait for the end of a run whose thread need not be named; answer its final values, or `__error__`."""
    return await _joined(parts, access, run_id, None, leaving=leaving)


@router.get("/threads/{thread_id}/runs/{run_id}/stream")
async def stream_run(
    thread_id: ThreadId,
    run_id: str,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    modes: Modes = None,
    namespaces: NamespacesQuery = None,
    last_event: LastEvent = None,
    leaving: Leaving = False,
) -> Response:
    """Stream a run's events, from its first or behind the one that `Last-Event-ID` names."""
    wanted = _Wanted(modes, namespaces, last_event, leaving, request.url.query)
    return await _streamed(parts, access, run_id, thread_id, wanted)


@router.get("/runs/{run_id}/stream")
async def stream_existing_stateless_run(
    run_id: str,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    modes: Modes = None,
    namespaces: NamespacesQuery = None,
    last_event: LastEvent = None,
    leaving: Leaving = False,
) -> Response:
    """Stream the events of a run whose thread need not be named."""
    wanted = _Wanted(modes, namespaces, last_event, leaving, request.url.query)
    return await _streamed(parts, access, run_id, None, wanted)


@router.post("/threads/{thread_id}/runs/{run_id}/cancel")
async def cancel_run(
    thread_id: ThreadId,
    run_id: str,
    parts: PartsDep,
    access: AccessDep,
    wait: bool = False,
    action: CancelAction = "interrupt",
    reason: str | None = None,
) -> Response:
    """Stop a run; `rollback` removes it too, with what it did to the thread's state."""
    value = {"thread_id": thread_id, "run_id": run_id, "action": action}
    scope = await access.allow("threads", "update", value)
    done = await parts.offload(
        parts.runs.cancel, run_id, scope, thread_id=thread_id, action=action, reason=reason
    )
    if wait and not done.ended:
        await parts.followers.ended(run_id)
    return answer({})


@router.post("/runs/cancel")
async def cancel_runs(
    body: CancelMany,
    parts: PartsDep,
    access: AccessDep,
    wait: bool = False,
    action: CancelAction = "interrupt",
    reason: str | None = None,
) -> Response:
    """Stop many runs: those of a thread, those of a list, those of a status, or all of the caller's."""
    value: dict[str, Any] = {"thread_id": body.thread_id, "action": action}
    scope = await access.allow("threads", "update", value)
    found = await parts.offload(parts.runs.cancel_many, body.selection(), scope, action=action, reason=reason)
    if wait:
        for each in found.cancelled:
            if not each.ended:
                await parts.followers.ended(each.run_id)
    return answer(cancelled_json(found))


async def _run(parts: Parts, access: Access, action: str, run_id: str, thread_id: str | None) -> Run:
    """Return a run that the caller may see, or do more with."""
    scope = await access.allow("threads", action, {"thread_id": thread_id, "run_id": run_id})
    return await parts.offload(parts.runs.get, run_id, scope, thread_id=thread_id)


async def _joined(
    parts: Parts, access: Access, run_id: str, thread_id: str | None, *, leaving: bool
) -> Response:
    run = await _run(parts, access, "read", run_id, thread_id)
    if leaving:
        await _run(parts, access, "update", run_id, thread_id)
    return wait_response(
        parts,
        run_id,
        headers={"Location": f"/threads/{run.thread_id}/runs/{run_id}/join"},
        on_disconnect=partial(abandon, parts, run_id) if leaving else None,
    )


class _Wanted(NamedTuple):
    """What of a run's stream a client wants, and how; ``query`` is all of it, as he wrote it."""

    modes: list[str] | None
    namespaces: list[str] | None
    last_event: str | None
    leaving: bool
    query: str


async def _streamed(
    parts: Parts, access: Access, run_id: str, thread_id: str | None, wanted: _Wanted
) -> Response:
    view = narrowed(run_view(wanted.modes), namespaces_of(wanted.namespaces))
    after = last_event_id(wanted.last_event)
    run = await _run(parts, access, "read", run_id, thread_id)
    if wanted.leaving:
        await _run(parts, access, "update", run_id, thread_id)
    return sse_response(
        parts,
        run_stream(parts, run_id, after=after, view=view),
        headers={"Location": continued(run, wanted.query)},
        on_disconnect=partial(abandon, parts, run_id) if wanted.leaving else None,
    )
