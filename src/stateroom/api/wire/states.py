"""How the states of threads are spelled in requests and answers."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field

from stateroom.api.wire.base import Body, JsonObject, split
from stateroom.api.wire.lists import part_of
from stateroom.engine.snapshots import STATE_FIELDS
from stateroom.errors import InvalidInput
from stateroom.model.text import show

__all__ = [
    "HISTORY_LIMIT",
    "CheckpointAnswer",
    "ListHistory",
    "ReadState",
    "StateAnswer",
    "StateFields",
    "StatePart",
    "StateParts",
    "UpdateState",
    "UpdatedStateAnswer",
    "before_of",
    "checkpoint_of",
    "json_of",
]

HISTORY_LIMIT: Final = 10
"""States that a history has if nobody says how many."""

_CHECKPOINT_KEYS: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
_VALUES: Final = "values."


def _checked(select: list[str]) -> list[str]:
    for name in select:
        if name not in STATE_FIELDS and not (name.startswith(_VALUES) and len(name) > len(_VALUES)):
            raise ValueError(f"use {', '.join(STATE_FIELDS)}, or values.<key>")
    return select


StateFields = Annotated[list[str], BeforeValidator(split), AfterValidator(_checked)]
"""Fields of a state, or single keys of its values as ``values.<key>``."""

Named = str | JsonObject
"""A checkpoint: its id, a ``Checkpoint`` as a state has it, or a config."""


class ReadState(Body):
    """Which state to read, and what of it."""

    checkpoint: Named | None = None
    subgraphs: bool | None = None
    select: StateFields | None = None


class UpdateState(Body):
    """What a node would have answered, and after which checkpoint; null answers nothing."""

    values: Any = None
    as_node: str | None = None
    checkpoint: Named | None = None
    checkpoint_id: str | None = None


class ListHistory(Body):
    """Which states to list. Of ``checkpoint`` the namespace counts: a subgraph's, or the graph's own."""

    limit: Annotated[int, Field(strict=True, ge=1)] = HISTORY_LIMIT
    before: Named | None = None
    metadata: JsonObject | None = None
    checkpoint: Named | None = None
    select: StateFields | None = None


class CheckpointAnswer(BaseModel):
    """What names a checkpoint."""

    thread_id: str
    checkpoint_ns: str
    checkpoint_id: str | None = None
    checkpoint_map: JsonObject | None = None


class InterruptAnswer(BaseModel):
    """A question that waits for an answer."""

    value: Any
    id: str
    response_schema: JsonObject | None = None


class TaskAnswer(BaseModel):
    """A node's task in the step that follows a state."""

    id: str
    name: str
    path: list[Any]
    error: str | None
    interrupts: list[InterruptAnswer]
    checkpoint: CheckpointAnswer | None
    state: JsonObject | None
    result: Any


class StateAnswer(BaseModel):
    """The state of a thread at one checkpoint; without one, that of a thread on which nothing was done."""

    values: Any
    next: list[str]
    tasks: list[TaskAnswer]
    metadata: JsonObject | None
    created_at: str | None
    checkpoint: CheckpointAnswer | None
    parent_checkpoint: CheckpointAnswer | None
    interrupts: list[InterruptAnswer]
    checkpoint_id: str | None
    parent_checkpoint_id: str | None


StatePart: Any = part_of(StateAnswer)
"""A state, with the fields that were selected."""

StateParts: Any = list[StatePart]
"""States, newest first."""


class UpdatedStateAnswer(BaseModel):
    """What names the new checkpoint, in the three ways that clients look for it."""

    checkpoint: CheckpointAnswer
    configurable: CheckpointAnswer
    checkpoint_id: str


def checkpoint_of(given: Named | None, thread_id: str, field: str = "checkpoint") -> dict[str, Any] | None:
    """Return which checkpoint is named, in any of its forms; None for none.

    Raises InvalidInput, also for a checkpoint of another thread.
    """
    if given is None or isinstance(given, str):
        return {"checkpoint_id": given} if given else None
    named = given
    if isinstance(given.get("configurable"), Mapping):
        # A config has much beside; all of it that names a checkpoint is here.
        named = {key: value for key, value in given["configurable"].items() if key in _ALL_KEYS}
    for key, value in named.items():
        _check(key, value, f"{field}.{key}")
    if named.get("thread_id") not in (None, "", thread_id):
        raise InvalidInput(
            f"{field}.thread_id is {show(named['thread_id'])}, not the thread of this address; leave it out",
            field=f"{field}.thread_id",
        )
    found = {key: named[key] for key in _CHECKPOINT_KEYS if named.get(key)}
    return found or None


_ALL_KEYS: Final = frozenset({"thread_id", *_CHECKPOINT_KEYS})


def _check(key: str, value: Any, field: str) -> None:
    if key not in _ALL_KEYS:
        raise InvalidInput(f"{field} is not known; use {', '.join(sorted(_ALL_KEYS))}", field=field)
    fits = isinstance(value, dict) if key == "checkpoint_map" else isinstance(value, str)
    if value is not None and not fits:
        wanted = "an object" if key == "checkpoint_map" else "a text"
        raise InvalidInput(f"{field} is {show(value)}; pass {wanted}", field=field)


def before_of(given: Named | None, thread_id: str) -> str | None:
    """Return the id of the checkpoint before which states are wanted."""
    named = checkpoint_of(given, thread_id, "before")
    if named is None:
        return None
    if not isinstance(named.get("checkpoint_id"), str):
        raise InvalidInput("before names no checkpoint_id; pass the checkpoint of a state", field="before")
    return str(named["checkpoint_id"])


def json_of(given: str | None, field: str) -> Any:
    """Return what a query parameter spells as a JSON object, or the text as it is."""
    if given is None or not given.startswith("{"):
        return given
    try:
        return json.loads(given)
    except (ValueError, RecursionError) as error:
        raise InvalidInput(f"{field} is {show(given)}, which is no JSON; correct it", field=field) from error
