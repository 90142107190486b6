"""Runs to be made: in the background, waited for, or streamed; on a thread or on one of their own."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body, Query
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import encoded
from stateroom.api.creating import create_run as make_run
from stateroom.api.creating import make_runs, permit
from stateroom.api.filtering import narrowed, shown
from stateroom.api.idempotency import Kept, KeyHeader, claimed, refuse_key
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.sse import run_stream, sse_response
from stateroom.api.waiting import run_output, wait_response
from stateroom.api.wire.base import ThreadId
from stateroom.api.wire.runs import BatchedRun, RunBody, namespaces_of, run_json
from stateroom.engine.news import Stopped
from stateroom.errors import InvalidInput
from stateroom.model.limits import RUN_BATCH_MAX
from stateroom.model.run import Run

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.live import OnDisconnect
    from stateroom.api.parts import Parts

__all__ = ["LEFT", "NamespacesQuery", "abandon", "continued", "router", "streamed"]

LEFT = "the client disconnected"
"""Why runs are stopped whose clients leave."""

NamespacesQuery = Annotated[
    list[str] | None,
    Query(alias="namespace", description='Subgraphs whose events are sent, `""` for the graph itself'),
]

router = Routes()

_LOCATED: dict[int | str, dict[str, Any]] = {
    200: {"headers": {"Content-Location": {"description": "The run", "schema": {"type": "string"}}}}
}


@router.post("/threads/{thread_id}/runs", responses=_LOCATED)
async def create_run(
    thread_id: ThreadId,
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread; it is executed in the background."""
    return await _created(thread_id, body, request, parts, access, idempotency_key)


@router.post("/runs", responses=_LOCATED)
async def create_stateless_run(
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread of its own; it is executed in the background."""
    return await _created(None, body, request, parts, access, idempotency_key)


@router.post("/threads/{thread_id}/runs/wait", responses=_LOCATED)
async def wait_for_new_run(
    thread_id: ThreadId,
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread, and answer its final values, or `__error__`."""
    return await _waited(thread_id, body, request, parts, access, idempotency_key)


@router.post("/runs/wait", responses=_LOCATED)
async def wait_for_stateless_run(
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread of its own, and answer its final values, or `__error__`."""
    return await _waited(None, body, request, parts, access, idempotency_key)


@router.post("/threads/{thread_id}/runs/stream", responses=_LOCATED)
@router.post("/threads/{thread_id}/stream", responses=_LOCATED, operation_id="stream_new_run_on_thread")
async def stream_new_run(
    thread_id: ThreadId,
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    namespaces: NamespacesQuery = None,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread, and stream its events."""
    refuse_key(idempotency_key)
    return await streamed(thread_id, body, request, parts, access, namespaces)


@router.post("/runs/stream", responses=_LOCATED)
async def stream_stateless_run(
    body: RunBody,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    namespaces: NamespacesQuery = None,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make a run on a thread of its own, and stream its events."""
    refuse_key(idempotency_key)
    return await streamed(None, body, request, parts, access, namespaces)


@router.post("/runs/batch")
async def create_runs(
    body: Annotated[list[BatchedRun], Body(min_length=1, max_length=RUN_BATCH_MAX)],
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Make several runs, all or none; they are executed in the background."""
    for each in body:
        _refuse_disconnect(each)
    permitted = await permit(access, [each.request(each.thread_id) for each in body])
    async with claimed(parts, access, request, idempotency_key) as kept:
        if (again := await kept.again(permitted.threads)) is not None:
            return again
        runs = await make_runs(parts, permitted, headers=request.headers)
        return await _answered(kept, [run_json(run) for run in runs], {})


async def _created(
    thread_id: str | None, body: RunBody, request: Request, parts: Parts, access: Access, key: str | None
) -> Response:
    _refuse_disconnect(body)
    permitted = await permit(access, [body.request(thread_id)])
    async with claimed(parts, access, request, key) as kept:
        if (again := await kept.again(permitted.threads)) is not None:
            return again
        (run,) = await make_runs(parts, permitted, headers=request.headers)
        return await _answered(kept, run_json(run), _places(run, thread_id), run)


async def _waited(
    thread_id: str | None, body: RunBody, request: Request, parts: Parts, access: Access, key: str | None
) -> Response:
    permitted = await permit(access, [body.request(thread_id)])
    async with claimed(parts, access, request, key) as kept:
        if (again := await kept.again(permitted.threads)) is not None:
            return again
        (run,) = await make_runs(parts, permitted, headers=request.headers)
        headers = _places(run, thread_id, "join")
        # Whoever repeats the request meanwhile waits for this run.
        await kept.note(None, headers, run)

    async def remember(output: bytes) -> None:
        await kept.note(output, headers, run)

    async def remember_later() -> None:
        with suppress(Stopped):
            await remember(await run_output(parts, run.run_id))

    on_disconnect: OnDisconnect | None = remember_later if key is not None else None
    if body.on_disconnect == "cancel":
        on_disconnect = partial(abandon, parts, run.run_id)
    return wait_response(
        parts,
        run.run_id,
        headers=headers,
        on_disconnect=on_disconnect,
        remember=remember if key is not None else None,
    )


async def streamed(
    thread_id: str | None,
    body: RunBody,
    request: Request,
    parts: Parts,
    access: Access,
    namespaces: list[str] | None = None,
) -> Response:
    """Make a run, and stream its events."""
    run = await make_run(parts, access, body.request(thread_id), headers=request.headers)
    view = narrowed(shown, namespaces_of(namespaces))
    return sse_response(
        parts,
        run_stream(parts, run.run_id, view=view, ids=body.stream_resumable is not False),
        headers={**_places(run, thread_id), "Location": continued(run, request.url.query)},
        on_disconnect=partial(abandon, parts, run.run_id) if body.on_disconnect == "cancel" else None,
    )


async def abandon(parts: Parts, run_id: str) -> None:
    """Stop a run whose client has left."""
    await parts.offload(parts.runs.abandon, run_id, LEFT)


async def _answered(kept: Kept, value: Any, headers: Mapping[str, str], run: Run | None = None) -> Response:
    raw = encoded(value)
    await kept.note(raw, headers, run)
    return Response(raw, headers=dict(headers), media_type="application/json")


def continued(run: Run, query: str) -> str:
    """Return where the stream of a run goes on after a break; clients go there without their former query."""
    return f"/threads/{run.thread_id}/runs/{run.run_id}/stream" + (f"?{query}" if query else "")


def _places(run: Run, thread_id: str | None, tail: str | None = None) -> dict[str, str]:
    """Return the headers that say where a run is, and where to go on after a break."""
    here = f"/threads/{run.thread_id}/runs/{run.run_id}"
    found = {"Content-Location": here if thread_id is not None else f"/runs/{run.run_id}"}
    return found if tail is None else {**found, "Location": f"{here}/{tail}"}


def _refuse_disconnect(body: RunBody) -> None:
    if body.on_disconnect == "cancel":
        raise InvalidInput(
            "on_disconnect is cancel, but nobody stays connected to a run in the background; leave it out, "
            "or stream the run or wait for it",
            field="on_disconnect",
        )
