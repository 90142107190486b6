"""Streams of threads as server-sent events: those of their runs, one after another."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping
from contextlib import aclosing
from typing import TYPE_CHECKING, Final

import orjson

from stateroom.api.filtering import ALWAYS, View, shown
from stateroom.api.outcomes import unsaid_failure
from stateroom.api.sse import sse_event
from stateroom.engine.frame_names import mode_of
from stateroom.errors import InvalidInput
from stateroom.model.text import show
from stateroom.service.scope import Scope

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.engine.thread_following import RunPart
    from stateroom.engine.thread_runs import From

__all__ = ["THREAD_MODES", "check_seen", "may_follow", "thread_stream", "thread_view"]

_EVERYTHING: Final = "run_modes"

THREAD_MODES: Final[Mapping[str, frozenset[str]]] = {
    _EVERYTHING: frozenset(),
    "lifecycle": ALWAYS,
    "state_update": ALWAYS | {"values", "updates"},
}
"""What of its runs each mode of a thread's stream shows, by the modes of runs; nothing means everything."""


def thread_view(modes: Iterable[str] | None = None) -> View:
    """Return what shows the frames of some modes of threads, ``run_modes`` without any; or InvalidInput."""
    asked = [mode for mode in modes or () if mode] or [_EVERYTHING]
    for mode in asked:
        if mode not in THREAD_MODES:
            raise InvalidInput(
                f"stream_mode holds {show(mode)}; pass some of {', '.join(THREAD_MODES)}", field="stream_mode"
            )
    if _EVERYTHING in asked:
        return shown
    wanted = frozenset().union(*(THREAD_MODES[mode] for mode in asked))
    return lambda frame: shown(frame) if mode_of(frame.event) in wanted else None


async def check_seen(parts: Parts, thread_id: str, scope: Scope) -> None:
    """Raise NotFound unless the thread is there, and within the scope."""
    await parts.offload(parts.threads.get, thread_id, scope)


async def may_follow(parts: Parts, access: Access, thread_id: str) -> Scope:
    """Return what of threads a caller may read; NotFound if this one is there, and is not for him.

    It need not be there yet.
    """
    scope = await access.allow("threads", "read", {"thread_id": thread_id, "run_id": None})
    thread = await parts.offload(parts.storage.threads.get, thread_id)
    if thread is not None:
        scope.check(thread.metadata, "thread", thread_id)
    return scope


async def thread_stream(
    parts: Parts, thread_id: str, scope: Scope, *, begin: From, view: View = shown
) -> AsyncGenerator[bytes]:
    """Yield the events of a thread's runs, and after each run that it is done, until the thread is deleted.

    An event's id is its number in the thread.
    """
    async with aclosing(parts.thread_followers.follow(thread_id, begin=begin, existed=True)) as stream:
        known = ""
        async for one in stream:
            if one.run_id != known and scope.metadata is not None:
                # The thread may be another by now, or have become somebody else's.
                await check_seen(parts, thread_id, scope)
            known = one.run_id
            if chunk := b"".join(await _events(parts, one, view)):
                yield chunk


async def _events(parts: Parts, one: RunPart, view: View) -> list[bytes]:
    part, events = one.part, []
    if part.gap:
        events.append(sse_event("gap", b'{"first":%d}' % (one.began + part.gap.first)))
    for frame in part.frames:
        if seen := view(frame):
            events.append(sse_event(seen.event, seen.data, one.began + seen.seq))
    if part.ended:
        if error := await unsaid_failure(parts, one.run_id, part.ended.status):
            events.append(sse_event("error", orjson.dumps(error)))
        done = orjson.dumps({"status": "run_done", "run_id": one.run_id})
        events.append(sse_event("metadata", done, one.began + part.ended.last + 1))
    return events
