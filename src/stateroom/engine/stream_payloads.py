"""What a graph streams in each mode, without what is nobody's business outside."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from langgraph.types import Interrupt, StateSnapshot

from stateroom.engine.encoding import interrupt_json
from stateroom.engine.frame_names import INTERRUPTS
from stateroom.model.private_keys import is_private

__all__ = ["SeenInterrupts", "public_metadata", "public_payload"]

_NAMES_A_CHECKPOINT: Final = ("thread_id", "checkpoint_ns", "checkpoint_id", "checkpoint_map")
_NAMES_A_RUN: Final = ("run_id", "graph_id", "assistant_id")


def public_payload(mode: str, payload: Any) -> Any:
    """Return what a graph streams in a mode as all may see it.

    Configurations keep what names a checkpoint and a run; anything else in them may be the caller's secret,
    or an object that only the process knows. Metadata lose what ``is_private`` names.
    """
    if mode == "checkpoints":
        return _checkpoint(payload)
    if mode == "debug" and isinstance(payload, Mapping):
        return {**payload, "payload": _debugged(payload.get("type"), payload.get("payload"))}
    if mode == "tasks":
        return _with_public_metadata(payload)
    if mode == "messages":
        message, metadata = payload
        return [message, public_metadata(metadata)]
    return payload


def public_metadata(metadata: Any) -> Any:
    """Return metadata of a run or task without its private keys."""
    if not isinstance(metadata, Mapping):
        return metadata
    return {key: value for key, value in metadata.items() if not (isinstance(key, str) and is_private(key))}


def _debugged(kind: Any, payload: Any) -> Any:
    return _checkpoint(payload) if kind == "checkpoint" else _with_public_metadata(payload)


def _with_public_metadata(payload: Any) -> Any:
    if not isinstance(payload, Mapping) or "metadata" not in payload:
        return payload
    return {**payload, "metadata": public_metadata(payload["metadata"])}


def _checkpoint(payload: Any) -> Any:
    if not isinstance(payload, Mapping):
        return payload
    found = dict(_with_public_metadata(payload))
    for key in ("config", "parent_config"):
        if key in found:
            found[key] = _public_config(found[key])
    found["tasks"] = [_task(task) for task in found.get("tasks") or ()]
    return found


def _task(task: Any) -> Any:
    found = task._asdict() if hasattr(task, "_asdict") else task
    if not isinstance(found, Mapping) or not found.get("state"):
        return found
    state = found["state"]
    told = _checkpoint(state._asdict()) if isinstance(state, StateSnapshot) else _public_config(state)
    return {**found, "state": told}


def _public_config(config: Any) -> Any:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    if not isinstance(configurable, Mapping):
        return None
    kept = (*_NAMES_A_CHECKPOINT, *_NAMES_A_RUN)
    return {"configurable": {key: configurable[key] for key in kept if key in configurable}}


class SeenInterrupts:
    """The interrupts of a run so far, by the namespace that told of them.

    A graph tells of each of several parallel interrupts in values of its own, and then, if other tasks have
    ended, of values without any; whoever reads the last values alone must find all that wait.
    """

    def __init__(self) -> None:
        self._seen: dict[tuple[str, ...], dict[str, Any]] = {}

    def add(self, namespace: tuple[str, ...], interrupts: Iterable[Interrupt[Any]]) -> list[Any] | None:
        """Return all that a namespace has had with these, as JSON; None if it never stopped."""
        seen = self._seen.setdefault(namespace, {})
        seen |= {interrupt.id: interrupt_json(interrupt) for interrupt in interrupts}
        return list(seen.values()) or None

    def told(self, namespace: tuple[str, ...], values: Any) -> Any:
        """Return values with all interrupts that this namespace has had."""
        if not isinstance(values, Mapping):
            return values
        seen = self.add(namespace, values.get(INTERRUPTS, ()))
        return values if seen is None else {**values, INTERRUPTS: seen}
