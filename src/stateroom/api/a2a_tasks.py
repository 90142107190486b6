"""Runs as tasks of the Agent2Agent protocol: which run a task is at, where it stands, what it has made."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from uuid import UUID

from stateroom.api.a2a_messages import MESSAGES, asked, made, marker_of, said, since
from stateroom.api.outcomes import failure
from stateroom.api.wire.a2a import (
    TASK_NOT_FOUND,
    A2ARefused,
    artifact_json,
    message_json,
    status_json,
    task_json,
    text_part,
)
from stateroom.contract.runs import RunQuery
from stateroom.engine.frame_names import INTERRUPTS
from stateroom.errors import NotFound
from stateroom.model.run import ENDED, Run, RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.model.text import show
from stateroom.model.thread import ThreadStatus
from stateroom.service.scope import Scope

if TYPE_CHECKING:
    from stateroom.api.parts import Parts

__all__ = ["GOES_ON", "Look", "Task", "Waiting", "find_task", "gone", "look", "refreshed", "waiting_at"]

GOES_ON: Final = "a2a_task_id"
"""The key of a run's metadata that names the task that it goes on with, since it answers its question."""

_ID_LENGTH: Final = 36
"""Characters of an id that we make; longer ones are not shown in full."""

_AT_ONCE: Final = 100
"""Runs that are looked through together for a task's latest."""

_STATES: Final[Mapping[RunStatus, str]] = {
    RunStatus.PENDING: "submitted",
    RunStatus.RUNNING: "working",
    RunStatus.SUCCESS: "completed",
    RunStatus.ERROR: "failed",
    RunStatus.TIMEOUT: "failed",
    RunStatus.INTERRUPTED: "canceled",
}


@dataclass(frozen=True, slots=True)
class Task:
    """A task: the run that it began with, whose id it has, and that which it is at: after answers another."""

    first: Run
    run: Run

    @property
    def task_id(self) -> str:
        """The id by which clients know it."""
        return self.first.run_id

    @property
    def context_id(self) -> str:
        """The thread that it is on."""
        return self.first.thread_id


class Look(NamedTuple):
    """What is to be seen of a task at one moment, as clients read it."""

    status: dict[str, Any]
    artifact: dict[str, Any] | None
    history: list[dict[str, Any]]

    def json(self, task: Task, history_length: int | None = None) -> dict[str, Any]:
        """Return the task, with so many of its latest messages; all of them if nothing is said."""
        kept = len(self.history) if history_length is None else history_length
        latest = self.history[len(self.history) - min(kept, len(self.history)) :]
        return task_json(task.task_id, task.context_id, self.status, artifact=self.artifact, history=latest)


class Waiting(NamedTuple):
    """A thread waits for answers to these interrupts of a task; None if its last answer was stopped."""

    task_id: str | None
    interrupt_ids: list[str]


# ---- finding


async def find_task(parts: Parts, scope: Scope, assistant_id: str, task_id: str, field: str) -> Task:
    """Return a task of an assistant; one that is not there, or somebody else's, is refused."""
    try:
        first = await parts.offload(parts.runs.get, str(UUID(task_id)), scope)
    except (ValueError, NotFound):
        raise gone(task_id, field) from None
    if first.assistant_id != assistant_id:
        raise gone(task_id, field)
    return Task(first, await _latest(parts, first))


def gone(task_id: str, field: str) -> A2ARefused:
    """Return what is said of a task that is not there."""
    shown = repr(task_id) if len(task_id) <= _ID_LENGTH else show(task_id)
    return A2ARefused(TASK_NOT_FOUND, f"there is no task {shown}", field)


async def _latest(parts: Parts, first: Run) -> Run:
    after = None
    while True:
        page = await parts.offload(
            parts.storage.runs.search, RunQuery(first.thread_id), limit=_AT_ONCE, after=after
        )
        for run in page.rows:
            if first.run_id in (run.run_id, run.metadata.get(GOES_ON)):
                return run
        if page.next is None:
            return first
        after = page.next


async def refreshed(parts: Parts, task: Task) -> Task | None:
    """Return a task as its run is now; None if that is gone."""
    run = await parts.offload(parts.storage.runs.get, task.run.run_id)
    return None if run is None else replace(task, run=run)


async def waiting_at(parts: Parts, scope: Scope, thread_id: str) -> Waiting | None:
    """Return what a thread waits for; None while it works, and where there is none that the caller sees."""
    try:
        thread = await parts.offload(parts.threads.get, thread_id, scope)
    except NotFound:
        return None
    ids = [each["id"] for asks in thread.interrupts.values() for each in asks if "id" in each]
    if thread.status is not ThreadStatus.INTERRUPTED or not ids:
        return None
    # Not the newest of all, which may be due later.
    query = RunQuery(thread_id, statuses=ENDED)
    for run in (await parts.offload(parts.storage.runs.search, query, limit=1)).rows:
        if run.status is RunStatus.SUCCESS:
            return Waiting(run.metadata.get(GOES_ON) or run.run_id, ids)
    return Waiting(None, ids)


# ---- looking


async def look(parts: Parts, task: Task) -> Look:
    """Return what is to be seen of a task."""
    run, values = task.run, await _values(parts, task.run)
    messages = since(values, marker_of(task.first.kwargs.get("input")))
    interrupts = values.get(INTERRUPTS) if isinstance(values, Mapping) else None
    state = "input-required" if interrupts else _STATES[run.status]
    words = asked(interrupts) if interrupts else await _reason(parts, run, values)
    message = _message(task, words) if words else None
    parts_made = made(values, messages, whole=not interrupts) if run.status is RunStatus.SUCCESS else []
    history = messages or _sent(task.first)
    return Look(
        status_json(state, run.updated_at, message),
        artifact_json(run.run_id, parts_made) if parts_made else None,
        said(history, run.run_id, context_id=task.context_id, task_id=task.task_id),
    )


def _message(task: Task, words: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    message_id = f"{task.run.run_id}:status"
    return message_json(message_id, "agent", words, context_id=task.context_id, task_id=task.task_id)


async def _values(parts: Parts, run: Run) -> Any:
    """Return what a run has ended with: what it answers or, once that is gone, the state of its thread."""
    if run.status not in ENDED:
        return {}
    last = await parts.offload(parts.storage.events.last, run.run_id)
    if last is not None and last.event == OUTPUT_EVENT:
        return json.loads(last.data)
    newest = await parts.offload(parts.storage.runs.search, RunQuery(run.thread_id), limit=1)
    thread = await parts.offload(parts.storage.threads.get, run.thread_id)
    if run.status is not RunStatus.SUCCESS or thread is None or newest.rows[0].run_id != run.run_id:
        return {}
    interrupts = [each for asks in thread.interrupts.values() for each in asks]
    values = thread.values if isinstance(thread.values, Mapping) else {}
    return {**values, INTERRUPTS: interrupts} if interrupts else thread.values


async def _reason(parts: Parts, run: Run, values: Any) -> list[dict[str, Any]]:
    """Return the words for why a run was stopped or failed; none for others."""
    if run.status is RunStatus.INTERRUPTED:
        return [text_part(run.cancel_reason)] if run.cancel_reason else []
    if _STATES[run.status] != "failed":
        return []
    error = values.get("__error__") if isinstance(values, Mapping) else None
    error = error or await failure(parts, run.run_id, run.status)
    return [text_part(f"{error['error']}: {error['message']}")]


def _sent(first: Run) -> list[Any]:
    """Return the messages that a run was sent."""
    given = first.kwargs.get("input")
    messages = given.get(MESSAGES) if isinstance(given, Mapping) else None
    return messages if isinstance(messages, list) else []
