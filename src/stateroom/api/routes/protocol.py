"""The routes of a thread's protocol: commands, and its events over HTTP or a WebSocket."""

from __future__ import annotations

import re
from typing import Any, Final

from fastapi import Request, WebSocket
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import answer
from stateroom.api.commands import Commands
from stateroom.api.envelopes import answered
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.protocol_events import Wanted
from stateroom.api.protocol_streams import protocol_chunks
from stateroom.api.sockets import CLOSED, ProtocolSocket, is_foreign
from stateroom.api.sse import MEDIA_TYPE, sse_response
from stateroom.api.thread_streams import may_follow
from stateroom.api.wire.base import THREAD_ID_PATTERN, ThreadId
from stateroom.api.wire.protocol import Command, Subscribe

__all__ = ["router"]

router = Routes()

_COMMAND: Final[dict[str, Any]] = {
    "requestBody": {
        "required": True,
        "content": {"application/json": {"schema": Command.model_json_schema()}},
    }
}
_EVENTS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "Server-sent events", "content": {MEDIA_TYPE: {"schema": {"type": "string"}}}}
}

_FORBIDDEN, _UNPROCESSABLE = CLOSED + 403, CLOSED + 422


@router.post("/threads/{thread_id}/commands", openapi_extra=_COMMAND)
async def command(thread_id: ThreadId, request: Request, parts: PartsDep, access: AccessDep) -> Response:
    """Obey a command of the thread's protocol.

    One that cannot be obeyed is answered with 200 as well, and the protocol's word for why in ``error``.
    """
    commands = Commands(parts, access, thread_id, request.headers)
    understood, found = await answered(commands, await request.body())
    return answer(found, status=200 if understood else 400)


@router.post("/threads/{thread_id}/stream/events", response_class=Response, responses=_EVENTS)
async def stream_events(thread_id: ThreadId, body: Subscribe, parts: PartsDep, access: AccessDep) -> Response:
    """Stream events of a thread, which need not exist yet, until it is deleted.

    Without ``since`` from the runs that wait or are executed, and if there are none from the latest.
    """
    wanted = Wanted(body)
    scope = await may_follow(parts, access, thread_id)
    # Cut when the server stops: clients take an end for the thread's.
    return sse_response(parts, protocol_chunks(parts, thread_id, scope, body, wanted), resumable=False)


@router.websocket("/threads/{thread_id}/stream/events")
async def socket_events(socket: WebSocket, thread_id: str, parts: PartsDep, access: AccessDep) -> None:
    """Serve the thread's protocol over one connection."""
    code = None
    if is_foreign(socket, parts.settings.http.cors):
        code = _FORBIDDEN
    elif not re.fullmatch(THREAD_ID_PATTERN, thread_id):
        code = _UNPROCESSABLE
    if code is None:
        await ProtocolSocket(socket, parts, access, thread_id).serve()
    else:
        # A browser learns of a code only once it was let in.
        await socket.accept()
        await socket.close(code)
