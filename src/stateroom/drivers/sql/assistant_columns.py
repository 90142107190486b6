"""What an assistant's version has, as columns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from stateroom.contract.assistants import AssistantChange, NewAssistant
from stateroom.drivers.sql.documents import checked_id, checked_text, merged_metadata, metadata_bytes
from stateroom.model.change import UNSET

__all__ = ["changed_columns", "merged_columns", "new_columns"]


def new_columns(new: NewAssistant) -> dict[str, Any]:
    """Return the columns of a new assistant; raise InvalidInput or LimitExceeded naming the field."""
    named = new._replace(name=new.graph_id if new.name is None else new.name)
    return {field: _CHECKS[field](value, field) for field, value in named._asdict().items()}


def changed_columns(change: AssistantChange) -> dict[str, Any]:
    """Return the columns that a change mentions; raise InvalidInput or LimitExceeded naming the field."""
    given = {field: value for field, value in change._asdict().items() if value is not UNSET}
    return {field: _CHECKS[field](value, field) for field, value in given.items()}


def merged_columns(before: Mapping[str, Any], changed: Mapping[str, Any]) -> dict[str, Any]:
    """Return the columns of the version that follows one; raise LimitExceeded for metadata too large."""
    metadata = merged_metadata(before["metadata"], changed.get("metadata"))
    return {**before, **changed, "metadata": metadata}


def _maybe_text(value: object, field: str) -> str | None:
    return None if value is None else checked_text(value, field)


_CHECKS: Final[Mapping[str, Callable[[Any, str], Any]]] = {
    "assistant_id": checked_id,
    "graph_id": checked_id,
    "name": checked_text,
    "description": _maybe_text,
    "config": metadata_bytes,
    "context": metadata_bytes,
    "metadata": metadata_bytes,
}
