"""Runs as clients write and read them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import ConfigDict, Field, model_validator

from stateroom.api.wire.base import Body, JsonObject, ThreadId
from stateroom.clock import microseconds_to_datetime
from stateroom.errors import InvalidInput
from stateroom.model.limits import AFTER_SECONDS_MAX
from stateroom.model.run import Run
from stateroom.model.run_kwargs import RunKwargs
from stateroom.model.text import show
from stateroom.service.run_requests import RunRequest
from stateroom.service.runs import ManyCancelled, Selection

__all__ = [
    *("RUN_FIELDS", "BatchedRun", "CancelAction", "CancelMany", "RunBody", "RunField", "RunStatusName"),
    *("cancelled_json", "namespaces_of", "picked", "run_fields", "run_json"),
]

CancelAction = Literal["interrupt", "rollback"]

RunStatusName = Literal["pending", "running", "error", "success", "timeout", "interrupted"]

RunField = Literal[
    "run_id",
    "thread_id",
    "assistant_id",
    "created_at",
    "updated_at",
    "status",
    "metadata",
    "kwargs",
    "multitask_strategy",
    "cancel_reason",
    "error",
]

RUN_FIELDS: Final[tuple[str, ...]] = get_args(RunField)

Text = Annotated[str, Field(min_length=1)]
Names = Literal["*"] | list[str]


class Tracer(Body):
    """Where the traces of a run go in LangSmith."""

    project_name: str | None = None
    example_id: str | None = None


class RunPayload(Body):
    """What a run and a cron are made with."""

    assistant_id: Text
    input: Any = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    webhook: str | None = None
    multitask_strategy: Literal["reject", "interrupt", "rollback", "enqueue"] | None = None
    if_not_exists: Literal["create", "reject"] | None = None
    durability: Literal["sync", "async", "exit"] | None = None
    checkpoint_during: bool | None = None

    def said(self) -> dict[str, Any]:
        """Return the fields of a ``RunRequest`` that the client says something about."""
        given = {name: getattr(self, name) for name in type(self).model_fields if name in _REQUESTED}
        return {name: value for name, value in given.items() if value is not None}


class RunBody(RunPayload):
    """A run to be made. ``thread_id`` is in the path, or there is none."""

    command: JsonObject | None = None
    checkpoint: JsonObject | None = None
    checkpoint_id: str | None = None
    if_thread_status: (
        Annotated[list[Literal["idle", "busy", "interrupted", "error"]], Field(min_length=1)] | None
    ) = None
    after_seconds: Annotated[float, Field(ge=0, le=AFTER_SECONDS_MAX)] | None = None
    strict_resume: bool | None = None
    on_disconnect: Literal["cancel", "continue"] | None = None
    on_completion: Literal["delete", "keep"] | None = None
    feedback_keys: list[str] | None = None
    langsmith_tracer: Tracer | None = None

    def request(self, thread_id: str | None) -> RunRequest:
        """Return what the client asks for."""
        said = self.said()
        if self.langsmith_tracer is not None:
            said["langsmith_tracer"] = self.langsmith_tracer.model_dump(exclude_none=True)
        return RunRequest(**said, thread_id=thread_id)


_JAVASCRIPT: Final = {
    "".join((first, *(word.capitalize() for word in rest))): name
    for name in (*RunBody.model_fields, "thread_id")
    for first, *rest in [name.split("_")]
    if rest
}
"""The fields as JavaScript writes them, whose SDK sends batches just as it was given them."""


class BatchedRun(RunBody):
    """A run of a batch, which may name its thread."""

    model_config = ConfigDict(extra="forbid")

    thread_id: ThreadId | None = None

    @model_validator(mode="before")
    @classmethod
    def _from_javascript(cls, given: Any) -> Any:
        if not isinstance(given, Mapping):
            return given
        found = {name: value for name, value in given.items() if name not in _JAVASCRIPT}
        for name, value in given.items():
            if name in _JAVASCRIPT:
                found.setdefault(_JAVASCRIPT[name], value)
        return found


class CancelMany(Body):
    """Which runs are to be stopped; all of the caller's if nothing is said."""

    thread_id: ThreadId | None = None
    run_ids: list[str] | None = None
    status: Literal["pending", "running", "all"] | None = None

    def selection(self) -> Selection:
        """Return it in the terms of the service."""
        return Selection(self.thread_id, self.run_ids, self.status or "all")


_REQUESTED: Final = frozenset(RunRequest.__slots__) - {"thread_id"}


def run_json(run: Run) -> dict[str, Any]:
    """Return a run as clients read it; nothing that is kept apart is in it."""
    found = {
        "run_id": run.run_id,
        "thread_id": run.thread_id,
        "assistant_id": run.assistant_id,
        "created_at": microseconds_to_datetime(run.created_at),
        "updated_at": microseconds_to_datetime(run.updated_at),
        "status": run.status,
        "metadata": run.metadata,
        "kwargs": _kwargs_json(RunKwargs.from_json(run.kwargs)),
        "multitask_strategy": run.multitask,
        "cancel_reason": run.cancel_reason,
    }
    return found if run.error is None else {**found, "error": run.error}


def _kwargs_json(kwargs: RunKwargs) -> dict[str, Any]:
    found = {
        "input": kwargs.input,
        "command": kwargs.command,
        "config": kwargs.config,
        "checkpoint": kwargs.checkpoint,
        "stream_mode": kwargs.stream_mode,
        "stream_subgraphs": kwargs.stream_subgraphs,
        "interrupt_before": kwargs.interrupt_before,
        "interrupt_after": kwargs.interrupt_after,
        "durability": kwargs.durability,
        "strict_resume": kwargs.strict_resume,
        "langsmith_tracer": kwargs.tracer,
    }
    return found | {"on_completion": kwargs.on_completion} if kwargs.temporary else found


def cancelled_json(found: ManyCancelled) -> dict[str, Any]:
    """Return what became of many runs that were to be stopped."""
    return {
        "cancelled_count": len(found.cancelled),
        "cancelled_run_ids": [each.run_id for each in found.cancelled],
        "truncated": found.truncated,
    }


def run_fields(select: Sequence[str] | None) -> Sequence[str] | None:
    """Return the fields that a query selects; raise InvalidInput for what a run has not."""
    for name in select or ():
        if name not in RUN_FIELDS:
            raise InvalidInput(f"select has {show(name)}; use {', '.join(RUN_FIELDS)}", field="select")
    return select


def picked(found: Mapping[str, Any], select: Sequence[str] | None) -> dict[str, Any]:
    """Return the fields that a client selects, all without a selection."""
    return {name: value for name, value in found.items() if not select or name in select}


def namespaces_of(given: Sequence[str] | None) -> frozenset[str] | None:
    """Return the namespaces of subgraphs that a stream is narrowed to, ``""`` for the graph itself.

    They come repeated, or as one JSON array.
    """
    if given is None:
        return None
    found: list[str] = []
    for text in given:
        if text.startswith("["):
            try:
                found += map(str, json.loads(text))
                continue
            except ValueError:
                pass
        found.append(text)
    return frozenset(found)
