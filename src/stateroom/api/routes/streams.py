"""The route that streams what happens on a thread."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Header, Query, Request
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.sse import MEDIA_TYPE, last_event_id, sse_response
from stateroom.api.thread_streams import check_seen, thread_stream, thread_view
from stateroom.api.wire.base import Texts, ThreadId
from stateroom.engine.thread_runs import From

__all__ = ["router"]

router = Routes()

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"description": "Server-sent events", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}


@router.get("/threads/{thread_id}/stream", response_class=Response, responses=_STREAM)
async def join_thread(
    thread_id: ThreadId,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    stream_mode: Annotated[Texts | None, Query()] = None,
    stream_modes: Annotated[Texts | None, Query()] = None,
    last_id: Annotated[str | None, Header(alias="Last-Event-ID")] = None,
) -> Response:
    """Stream the runs of a thread, present and future, until it is deleted.

    Without ``Last-Event-ID`` from now on, with ``-`` from the first run whose frames are kept. The modes, by
    either name: run_modes, lifecycle, state_update.
    """
    view = thread_view([*(stream_mode or ()), *(stream_modes or ())])
    begin: From = last_event_id(last_id) if last_id else "now"
    scope = await access.allow("threads", "read", {"thread_id": thread_id})
    await check_seen(parts, thread_id, scope)
    chunks = thread_stream(parts, thread_id, scope, begin=begin, view=view)
    query = f"?{request.url.query}" if request.url.query else ""
    return sse_response(parts, chunks, headers={"Location": f"/threads/{thread_id}/stream{query}"})
