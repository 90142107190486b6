"""Streams of runs as server-sent events."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import orjson

from stateroom.api.filtering import View, shown
from stateroom.api.live import LiveResponse, OnDisconnect
from stateroom.api.outcomes import unsaid_failure
from stateroom.engine.following import Ended
from stateroom.errors import InvalidInput
from stateroom.model.text import show

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["FROM_THE_START", "HEARTBEAT", "last_event_id", "run_stream", "sse_event", "sse_response"]

HEARTBEAT: Final = b": heartbeat\n\n"
"""A comment that clients pass over, and proxies take for a sign of life."""

FROM_THE_START: Final = ("-", "-1")
"""What a client sends as its last event's id to get everything."""

MEDIA_TYPE: Final = "text/event-stream"


def sse_event(event: str, data: bytes, number: int | None = None) -> bytes:
    """Return one event. ``data`` is JSON without line breaks, as all JSON is that was not made pretty."""
    if number is None:
        return b"event: %b\ndata: %b\n\n" % (event.encode(), data)
    return b"event: %b\ndata: %b\nid: %d\n\n" % (event.encode(), data, number)


def sse_response(
    parts: Parts,
    chunks: AsyncGenerator[bytes],
    *,
    headers: Mapping[str, str] | None = None,
    on_disconnect: OnDisconnect | None = None,
    resumable: bool = True,
) -> LiveResponse:
    """Return an answer that streams events as they come; see ``LiveResponse``."""
    return LiveResponse(
        chunks,
        sign=HEARTBEAT,
        heartbeat=parts.settings.limits.heartbeat,
        media_type=MEDIA_TYPE,
        headers=headers or {},
        resumable=resumable,
        on_disconnect=on_disconnect,
    )


async def run_stream(
    parts: Parts, run_id: str, *, after: int = 0, view: View = shown, ids: bool = True
) -> AsyncGenerator[bytes]:
    """Yield the events of a run behind number ``after``, and last one ``end`` with the run's status.

    ``gap`` says that frames which were asked for are no longer kept. Without ``ids`` the client has nothing
    to go on from after a break. A run that failed without a word gets an ``error`` before its end.
    """
    async with aclosing(parts.followers.parts(run_id, after=after)) as stream:
        async for part in stream:
            lines = []
            if part.gap:
                lines.append(sse_event("gap", b'{"first":%d}' % part.gap.first))
            for frame in part.frames:
                if seen := view(frame):
                    lines.append(sse_event(seen.event, seen.data, seen.seq if ids else None))
            if part.ended:
                if error := await unsaid_failure(parts, run_id, part.ended.status):
                    lines.append(sse_event("error", orjson.dumps(error)))
                lines.append(sse_event("end", _end(run_id, part.ended)))
            if lines:
                yield b"".join(lines)


def _end(run_id: str, ended: Ended) -> bytes:
    """Return what the end of a run says: its status, null when it was rolled back or deleted."""
    found: dict[str, Any] = {"status": ended.status, "run_id": run_id}
    return orjson.dumps(found)


def last_event_id(header: str | None, *, default: int = 0) -> int:
    """Return the number that a ``Last-Event-ID`` header names, 0 for the start; or raise InvalidInput."""
    text = (header or "").strip()
    if not text:
        return default
    if text in FROM_THE_START:
        return 0
    if not (text.isascii() and text.isdecimal()):
        raise InvalidInput(
            f"Last-Event-ID is {show(text)}; pass the id of an event of this stream, or - for its start",
            field="Last-Event-ID",
        )
    return int(text)
