"""An assistant: a graph with the configuration that its runs start from, in immutable versions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

__all__ = ["ASSISTANT_SORTS", "Assistant"]

ASSISTANT_SORTS: Final = ("assistant_id", "graph_id", "name", "created_at", "updated_at")
"""What assistants can be sorted by."""


@dataclass(frozen=True, slots=True)
class Assistant:
    """An assistant as one of its versions has it.

    ``config``, ``context`` and ``metadata`` are JSON objects. ``created_at`` and ``updated_at`` are
    microseconds since 1970 UTC: of an assistant, when it and its latest version were made; of an entry in
    the list of versions, both say when that version was made.
    """

    assistant_id: str
    graph_id: str
    name: str
    version: int
    created_at: int
    updated_at: int
    description: str | None
    config: dict[str, Any]
    context: dict[str, Any]
    metadata: dict[str, Any]
