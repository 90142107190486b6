"""A task of the Agent2Agent protocol as a stream: what it says while it works, and how it ends."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

import orjson

from stateroom.api.a2a_tasks import Task, gone, look, refreshed
from stateroom.api.spoken import text_of
from stateroom.api.wire.a2a import (
    A2ARefused,
    artifact_json,
    artifact_update,
    error_json,
    result_json,
    status_json,
    status_update,
    text_part,
)
from stateroom.engine.following import Part
from stateroom.model.frame import Frame

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["task_stream"]

_AGENTS: Final = ("ai", "AIMessageChunk")


async def task_stream(parts: Parts, identity: Any, task: Task) -> AsyncGenerator[bytes]:
    """Yield a task and what becomes of it, as server-sent events, which answer the request ``identity``.

    First comes the task, then its updates from its run's beginning on, last the one that is final.
    """
    yield _event(result_json(identity, (await look(parts, task)).json(task)))
    words = _Words(task)
    try:
        async with aclosing(parts.followers.parts(task.run.run_id)) as stream:
            async for part in stream:
                for update in words.updates(part):
                    yield _event(result_json(identity, update))
        ended = await refreshed(parts, task)
        if ended is None:
            raise gone(task.task_id, "id")
        found = await look(parts, ended)
        if found.artifact is not None:
            yield _event(result_json(identity, words.last(found.artifact)))
        last = status_update(task.task_id, task.context_id, found.status, final=True)
        yield _event(result_json(identity, last))
    except A2ARefused as refused:
        yield _event(error_json(identity, refused))


def _event(data: bytes) -> bytes:
    return b"data: %b\n\n" % data


class _Words:
    """Makes updates of what a run streams: one artifact, that of the message which is being written.

    Another message takes the place of the one before. What models say at the same time is told in turns.
    """

    def __init__(self, task: Task) -> None:
        self._task = task
        self._texts: dict[str, str] = {}
        self._current: str | None = None

    def updates(self, part: Part) -> Iterator[dict[str, Any]]:
        """Yield the updates that a part of the stream makes."""
        if part.gap:
            self._begin_anew()
        for frame in part.frames:
            if frame.event == "metadata":
                self._begin_anew()
                yield self._working()
            elif frame.event == "messages":
                yield from self._grown(frame)

    def last(self, artifact: dict[str, Any]) -> dict[str, Any]:
        """Return the last update of the artifact, which is then ``artifact``."""
        told = self._texts.get(self._current or "")
        as_told = [text_part(told)] if told else None
        if as_told == artifact["parts"]:
            return self._update("", append=True, last=True)
        task = self._task
        return artifact_update(task.task_id, task.context_id, artifact, append=False, last=True)

    def _begin_anew(self) -> None:
        self._texts, self._current = {}, None

    def _working(self) -> dict[str, Any]:
        task = self._task
        status = status_json("working", task.run.updated_at)
        return status_update(task.task_id, task.context_id, status, final=False)

    def _grown(self, frame: Frame) -> Iterator[dict[str, Any]]:
        message, _ = orjson.loads(frame.data)
        text = text_of(message.get("content")) if message.get("type") in _AGENTS else ""
        if not text:
            return
        name = str(message.get("id"))
        known = self._texts.get(name, "") if message["type"] == "AIMessageChunk" else ""
        self._texts[name] = known + text
        append = name == self._current and bool(known)
        self._current = name
        yield self._update(text if append else known + text, append=append, last=False)

    def _update(self, text: str, *, append: bool, last: bool) -> dict[str, Any]:
        task = self._task
        artifact = artifact_json(task.run.run_id, [text_part(text)])
        return artifact_update(task.task_id, task.context_id, artifact, append=append, last=last)
