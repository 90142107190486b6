"""The events of a thread's protocol, out of the frames of its runs, whatever these were written as."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import orjson

from stateroom.api.outcomes import failure
from stateroom.api.wire.protocol import CHANNELS, CUSTOM, Subscribe
from stateroom.engine.frame_names import INPUT_REQUESTED, INTERRUPTS, protocol_events, protocol_params
from stateroom.errors import InvalidInput
from stateroom.model.frame import Frame
from stateroom.model.run import RunStatus
from stateroom.model.text import show

if TYPE_CHECKING:
    from stateroom.api.parts import Parts
    from stateroom.engine.following import Ended
    from stateroom.engine.thread_following import RunPart
    from stateroom.model.run import Run

__all__ = ["ProtocolEvent", "RunEvents", "Wanted", "asks"]

MILLISECOND: Final = 1000
"""A millisecond, as storages count time."""

LIFECYCLE: Final = "lifecycle"

_AT_ROOT: Final = b'{"namespace":[],'

_ASKED: Final = f'"{INTERRUPTS}"'.encode()

_ENDS: Final = {
    RunStatus.SUCCESS: "completed",
    RunStatus.ERROR: "failed",
    RunStatus.TIMEOUT: "failed",
    RunStatus.INTERRUPTED: "interrupted",
    None: "interrupted",
}
"""How the protocol calls the end of a run; one that is gone was rolled back."""


class ProtocolEvent(NamedTuple):
    """An event: ``seq`` is its frame's number in the thread, ``params`` are JSON.

    Events that one frame holds have one number, and each an id of its own.
    """

    event_id: str
    seq: int
    method: str
    params: bytes

    def json(self) -> bytes:
        """Return the event as clients get it."""
        head = {"type": "event", "event_id": self.event_id, "seq": self.seq, "method": self.method}
        return orjson.dumps({**head, "params": orjson.Fragment(self.params)})


class RunEvents:
    """Makes the events of one run, of which it looks up what the frames do not say."""

    def __init__(self, parts: Parts, run_id: str) -> None:
        self._parts = parts
        self._run_id = run_id
        self._graph_name: str | None = None

    async def of(self, one: RunPart) -> list[ProtocolEvent]:
        """Return the events of a part of the run's stream, and behind its end that of its whole graph."""
        found: list[ProtocolEvent] = []
        for frame in one.part.frames:
            told = await self._begun(one, frame) if frame.event == "metadata" else self._told(one, frame)
            number = one.began + frame.seq
            for place, (method, params) in enumerate(told):
                event_id = f"{self._run_id}:{frame.seq}" + (f".{place}" if place else "")
                found.append(ProtocolEvent(event_id, number, method, params))
        if one.part.ended:
            number = one.began + one.part.ended.last + 1
            params = await self._ended(one, one.part.ended)
            found.append(ProtocolEvent(f"{self._run_id}:end", number, LIFECYCLE, params))
        return found

    def _told(self, one: RunPart, frame: Frame) -> Sequence[tuple[str, bytes]]:
        return protocol_events(frame.event, frame.data, timestamp=one.began // MILLISECOND)

    async def _begun(self, one: RunPart, frame: Frame) -> Sequence[tuple[str, bytes]]:
        """Return what a run of the other kind of stream does not say: that its graph is being executed."""
        run = await self._run()
        if run is None or run.kwargs.get("protocol"):
            return ()
        first = orjson.loads(frame.data).get("attempt") == 1
        events = ("started", "running") if first else ("running",)
        said = [{"event": event, "graph_name": await self._name(run)} for event in events]
        return [(LIFECYCLE, protocol_params([], one.began // MILLISECOND, data)) for data in said]

    async def _ended(self, one: RunPart, ended: Ended) -> bytes:
        run = await self._run()
        data: dict[str, Any] = {"event": _ENDS[ended.status]}
        if run is not None:
            data["graph_name"] = await self._name(run)
        if ended.status is RunStatus.SUCCESS and await asks(self._parts, self._run_id):
            data["event"] = "interrupted"
        if data["event"] == "failed":
            error = await failure(self._parts, self._run_id, ended.status)
            data["error"] = f"{error['error']}: {error['message']}"
        when = one.began if run is None or run.ended_at is None else run.ended_at
        return protocol_params([], when // MILLISECOND, data)

    async def _run(self) -> Run | None:
        return await self._parts.offload(self._parts.storage.runs.get, self._run_id)

    async def _name(self, run: Run) -> str:
        if self._graph_name is None:
            found = await self._parts.offload(self._parts.storage.assistants.get, run.assistant_id)
            self._graph_name = run.assistant_id if found is None else found.graph_id
        return self._graph_name


async def asks(parts: Parts, run_id: str) -> bool:
    """Tell whether a run stopped at questions."""
    last = await parts.offload(parts.storage.events.last, run_id)
    if last is None or _ASKED not in last.data:
        return False
    output = orjson.loads(last.data)
    return isinstance(output, dict) and bool(output.get(INTERRUPTS))


class Wanted:
    """Tells which events a client asked for; InvalidInput if it cannot be understood."""

    def __init__(self, asked: Subscribe) -> None:
        for channel in asked.channels:
            if channel not in CHANNELS and not (channel.startswith(CUSTOM) and channel != CUSTOM):
                raise InvalidInput(
                    f"channels holds {show(channel)}; pass some of {', '.join(CHANNELS)}, or custom:<name>",
                    field="channels",
                )
        self._channels = frozenset(asked.channels)
        self._named = frozenset(each.removeprefix(CUSTOM) for each in asked.channels if ":" in each)
        # Without a namespace the depth counts from the root.
        self._prefixes = asked.namespaces or ([] if asked.depth is None else [[]])
        self._depth = asked.depth

    def __call__(self, event: ProtocolEvent) -> bool:
        """Tell whether the client wants an event."""
        channel = "input" if event.method == INPUT_REQUESTED else event.method
        if channel not in self._channels:
            return bool(channel == "custom" and self._named) and self._is_named(event) and self._near(event)
        return self._near(event)

    def _is_named(self, event: ProtocolEvent) -> bool:
        data = orjson.loads(event.params).get("data")
        return isinstance(data, dict) and data.get("name") in self._named

    def _near(self, event: ProtocolEvent) -> bool:
        if not self._prefixes:
            return True
        at_root = event.params.startswith(_AT_ROOT)
        namespace = [] if at_root else orjson.loads(event.params)["namespace"]
        return any(
            begins_with(namespace, prefix)
            and (self._depth is None or len(namespace) - len(prefix) <= self._depth)
            for prefix in self._prefixes
        )


def begins_with(namespace: Sequence[str], prefix: Sequence[str]) -> bool:
    """Tell whether a namespace begins with another, whose segments without ``:`` fit any suffix."""
    if len(prefix) > len(namespace):
        return False
    pairs = zip(prefix, namespace, strict=False)
    return all(mine == its or (":" not in mine and its.partition(":")[0] == mine) for mine, its in pairs)
