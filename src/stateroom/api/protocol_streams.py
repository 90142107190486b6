"""A thread's protocol as a stream: the events that a client asked for, until the thread is deleted."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import orjson

from stateroom.api.protocol_events import ProtocolEvent, RunEvents, Wanted, asks
from stateroom.api.sse import sse_event
from stateroom.api.thread_streams import check_seen
from stateroom.api.wire.protocol import Subscribe
from stateroom.contract.runs import RunQuery
from stateroom.engine.news import Stopped
from stateroom.errors import StateroomError
from stateroom.model.run import RunStatus
from stateroom.service.scope import Scope

if TYPE_CHECKING:
    from stateroom.api.parts import Parts
    from stateroom.engine.thread_runs import Beginning

__all__ = ["error_frame", "events_of", "protocol_chunks"]

_WATCHED: Final = frozenset({"lifecycle", "input"})
"""The channels of who watches over a thread's runs, and lets others look at what they do."""

_log = logging.getLogger(__name__)


async def events_of(
    parts: Parts, thread_id: str, scope: Scope, asked: Subscribe, wanted: Wanted
) -> AsyncGenerator[list[ProtocolEvent]]:
    """Yield events, those that came together at once.

    They begin behind ``since``; without it with the runs that wait or are executed, and if there are none
    with the latest. Who wants only the beginnings and ends of runs, and their questions, gets no run that
    has ended before, unless it asked or is the only one: he would take its end for that of the next. The
    thread need not be there yet; whose it is, is seen when it is.
    """
    begin = asked.since if asked.since is not None else await _beginning(parts, thread_id, asked)
    made = RunEvents(parts, "")
    async with aclosing(parts.thread_followers.follow(thread_id, begin=begin)) as stream:
        known = ""
        async for one in stream:
            if one.run_id != known:
                if scope.metadata is not None:
                    await check_seen(parts, thread_id, scope)
                known, made = one.run_id, RunEvents(parts, one.run_id)
            events = [event for event in await made.of(one) if wanted(event)]
            if events:
                yield events


async def _beginning(parts: Parts, thread_id: str, asked: Subscribe) -> Beginning:
    if not _WATCHED.issuperset(asked.channels):
        return "latest"
    newest = await parts.offload(parts.storage.runs.search, RunQuery(thread_id), limit=1)
    asking = newest.rows and newest.rows[0].status is RunStatus.SUCCESS
    return "latest" if asking and await asks(parts, newest.rows[0].run_id) else "new"


async def protocol_chunks(
    parts: Parts, thread_id: str, scope: Scope, asked: Subscribe, wanted: Wanted
) -> AsyncGenerator[bytes]:
    """Yield the events as server-sent events; what goes wrong is told before the stream ends."""
    try:
        async with aclosing(events_of(parts, thread_id, scope, asked, wanted)) as stream:
            async for events in stream:
                yield b"".join(sse_event(each.method, each.json(), each.seq) for each in events)
    except (GeneratorExit, Stopped):
        raise
    except Exception as error:
        yield sse_event("error", orjson.dumps(error_frame(error)))


def error_frame(error: Exception) -> dict[str, Any]:
    """Return what a client is told who did not ask: why his stream ends."""
    if isinstance(error, StateroomError):
        return {"type": "error", "id": None, "error": "unknown_error", "message": str(error)}
    _log.error("a thread's stream failed", exc_info=error)
    return {"type": "error", "id": None, "error": "unknown_error", "message": "the server failed"}
