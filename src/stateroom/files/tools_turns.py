"""Calls of one message that would undo each other: each sees the files as they were before the message."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.messages import AIMessage, ToolCall

from stateroom.files.factory import FactoryBackend
from stateroom.files.paths import directory_prefix, normal_path
from stateroom.files.permissions import PermittedBackend
from stateroom.files.store import StoreBackend

__all__ = ["rival"]


def rival(backend: Any, path: str, runtime: Any, changing: Iterable[str]) -> str | None:
    """Return the path that an earlier call of the same message changes, if this one must not change ``path``.

    Two paths meet if they are the same, or one is a directory that the other is in. Only ``StoreBackend``
    keeps every change apart; all other backends may see the files without what the earlier call does.
    ``changing`` are the names of the tools that change files. Without a runtime there is nothing to see.
    """
    wanted = _normal(path)
    if runtime is None or wanted is None:
        return None
    for call in _earlier_calls(runtime.state, runtime.tool_call_id):
        other = _normal(call["args"].get("file_path")) if call["name"] in changing else None
        if other is not None and _meet(wanted, other) and not _is_kept(backend, wanted):
            return other
    return None


def _earlier_calls(state: Any, tool_call_id: str | None) -> list[ToolCall]:
    """Return the calls that stand before one in its message."""
    for messages in _lists(state):
        message = next((one for one in reversed(messages) if isinstance(one, AIMessage)), None)
        ids = [call["id"] for call in message.tool_calls] if message else []
        if message and tool_call_id in ids:
            return message.tool_calls[: ids.index(tool_call_id)]
    return []


def _lists(state: Any) -> Iterator[Sequence[Any]]:
    """Yield what may be the messages of a state, whatever its form and whatever they are called in it."""
    parts = [state] if isinstance(state, list) else _parts(state)
    yield from (part for part in parts if isinstance(part, list))


def _parts(state: Any) -> Iterable[Any]:
    return state.values() if isinstance(state, Mapping) else getattr(state, "__dict__", {}).values()


def _normal(path: Any) -> str | None:
    """Return a path's one spelling; None for what is no path, which the backend will say better."""
    try:
        return normal_path(path)
    except ValueError:
        return None


def _meet(one: str, other: str) -> bool:
    return one == other or one.startswith(directory_prefix(other)) or other.startswith(directory_prefix(one))


def _is_kept(backend: Any, path: str) -> bool:
    """Tell whether a path's files are where no change is lost."""
    if isinstance(backend, FactoryBackend):
        return _is_kept(backend.made(), path)
    if isinstance(backend, PermittedBackend):
        return _is_kept(backend.backend, path)
    if routes := getattr(backend, "sorted_routes", None):
        for prefix, route in routes:
            if path.startswith(prefix):
                return _is_kept(route, path.removeprefix(prefix.rstrip("/")))
        return _is_kept(backend.default, path)
    return isinstance(backend, StoreBackend)
