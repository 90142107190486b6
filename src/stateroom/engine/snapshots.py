"""A graph's state as clients read it, and as the row of its thread mirrors it."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson
from langgraph.types import PregelTask, StateSnapshot

from stateroom.engine.encoding import encode, interrupt_json, plain
from stateroom.model.thread import ThreadStatus

__all__ = ["EMPTY", "STATE_FIELDS", "Mirror", "checkpoint_json", "exists", "mirror_of", "state_json"]

STATE_FIELDS: Final = (
    *("values", "next", "tasks", "metadata", "created_at", "checkpoint", "parent_checkpoint", "interrupts"),
    *("checkpoint_id", "parent_checkpoint_id"),
)
"""What a state has."""

EMPTY: Final = StateSnapshot({}, (), {}, None, None, None, (), ())
"""The state of a thread on which nothing has been done."""

_KEYS: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_VALUES: Final = "values."


class Mirror(NamedTuple):
    """What the row of a thread shows of its state: plain JSON."""

    values: Any
    interrupts: dict[str, list[dict[str, Any]]]
    status: ThreadStatus


def exists(snapshot: StateSnapshot) -> bool:
    """Tell whether a state is that of a checkpoint which was saved."""
    return snapshot.metadata is not None


def mirror_of(snapshot: StateSnapshot) -> Mirror:
    """Return what a thread shows whose latest state this is, unless its run failed.

    It is interrupted while questions wait for an answer, or nodes for somebody to go on.
    """
    interrupts = {
        task.id: [plain(interrupt_json(each)) for each in task.interrupts]
        for task in snapshot.tasks
        if task.interrupts
    }
    waits = bool(interrupts or snapshot.next)
    return Mirror(
        plain(snapshot.values), interrupts, ThreadStatus.INTERRUPTED if waits else ThreadStatus.IDLE
    )


def state_json(snapshot: StateSnapshot, select: Collection[str] | None = None) -> dict[str, Any]:
    """Return a state as clients read it; what users' code made is JSON already, in fragments.

    ``select`` are names of fields, or of single keys of the values as ``values.<key>``; None is all.
    """
    parts = set(STATE_FIELDS) if select is None else {name for name in select if "." not in name}
    keys = [name.removeprefix(_VALUES) for name in select or () if name.startswith(_VALUES)]
    checkpoint = checkpoint_json(snapshot.config) if exists(snapshot) else None
    parent = checkpoint_json(snapshot.parent_config)
    makers: dict[str, Callable[[], Any]] = {
        "values": lambda: _json(snapshot.values),
        "next": lambda: list(snapshot.next),
        "tasks": lambda: [_task_json(task) for task in snapshot.tasks],
        "metadata": lambda: _json(snapshot.metadata),
        "created_at": lambda: snapshot.created_at,
        "checkpoint": lambda: checkpoint,
        "parent_checkpoint": lambda: parent,
        "interrupts": lambda: [_json(interrupt_json(each)) for each in snapshot.interrupts],
        "checkpoint_id": lambda: (checkpoint or {}).get("checkpoint_id"),
        "parent_checkpoint_id": lambda: (parent or {}).get("checkpoint_id"),
    }
    found: dict[str, Any] = {name: makers[name]() for name in STATE_FIELDS if name in parts}
    if keys and "values" not in parts:
        found["values"] = _json(_only(snapshot.values, keys))
    return found


def checkpoint_json(config: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return what names a checkpoint, out of a config; None for none."""
    configurable = (config or {}).get("configurable") or {}
    found = {key: configurable[key] for key in _KEYS if configurable.get(key) is not None}
    return {"checkpoint_ns": "", **found} if found else None


def _task_json(task: PregelTask) -> dict[str, Any]:
    inner = task.state if isinstance(task.state, StateSnapshot) else None
    config = inner.config if inner is not None else task.state
    return {
        "id": task.id,
        "name": task.name,
        "path": _json(task.path),
        "error": None if task.error is None else _error_text(task.error),
        "interrupts": [_json(interrupt_json(each)) for each in task.interrupts],
        "checkpoint": checkpoint_json(config),  # type: ignore[arg-type]  # no snapshot is left
        "state": None if inner is None else state_json(inner),
        "result": _json(task.result),
    }


def _error_text(error: Any) -> str:
    return error if isinstance(error, str) else repr(error)


def _only(values: Any, keys: Sequence[str]) -> Any:
    return {key: values[key] for key in keys if key in values} if isinstance(values, Mapping) else {}


def _json(value: Any) -> Any:
    return None if value is None else orjson.Fragment(encode(value))
