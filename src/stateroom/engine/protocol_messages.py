"""Messages on their channel of the threads' protocol: as they are generated, and whole ones alike."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from langchain_core.language_models._compat_bridge import message_to_events
from langchain_core.messages import BaseMessage, BaseMessageChunk

from stateroom.engine.stream_payloads import public_metadata

__all__ = ["ProtocolMessages"]

_ROLES: Final = frozenset({"ai", "human", "system"})
"""Whose messages the channel carries. What tools answer has one of its own."""


class ProtocolMessages:
    """Says of each event which message it belongs to: several may be generated at the same time.

    Python's SDK tells them apart by ``message_id``, the JavaScript one by ``run_id``.
    """

    def __init__(self) -> None:
        self._generating: dict[str, str] = {}

    def events(self, payload: Any, metadata: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        """Return the data of the events for what a graph streams of a message, be it a part or all of it."""
        if isinstance(payload, BaseMessage):
            if payload.type in _ROLES and not isinstance(payload, BaseMessageChunk):
                for event in message_to_events(payload, message_id=payload.id):
                    yield _told(dict(event), payload.id, None, metadata, role=payload.type)
        elif isinstance(payload, Mapping) and payload.get("role", "ai") in _ROLES:
            yield self._part(dict(payload), metadata)

    def _part(self, event: dict[str, Any], metadata: Mapping[str, Any]) -> dict[str, Any]:
        run_id = str(metadata.get("run_id", ""))
        if event.get("event") == "message-start":
            self._generating[run_id] = event.get("id") or event.get("message_id") or run_id
        message_id = self._generating.get(run_id)
        if event.get("event") in ("message-finish", "error"):
            self._generating.pop(run_id, None)
        return _told(event, message_id, run_id or None, metadata)


def _told(
    event: dict[str, Any],
    message_id: str | None,
    run_id: str | None,
    metadata: Mapping[str, Any],
    *,
    role: str | None = None,
) -> dict[str, Any]:
    if event.get("event") == "message-start":
        event |= {"id": message_id or "", "metadata": {**_scalars(metadata), **event.get("metadata", {})}}
        if role is not None:
            event["role"] = role
    elif message_id is not None:
        event["message_id"] = message_id
    if run_id is not None:
        event["run_id"] = run_id
    return event


def _scalars(metadata: Mapping[str, Any]) -> dict[str, Any]:
    public = public_metadata(metadata)
    return {key: value for key, value in public.items() if isinstance(value, str | int | float | bool)}
