"""How assistants are spelled in requests and answers."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import BaseModel, Field

from stateroom.api.wire.base import Body, JsonObject, Limit, Offset
from stateroom.api.wire.lists import SortOrder, part_of, picked, sort_of, time_text
from stateroom.contract.assistants import AssistantChange, AssistantQuery, IfExists
from stateroom.errors import InvalidInput
from stateroom.model.assistant import Assistant
from stateroom.model.named_id import NAMED_ID_PATTERN
from stateroom.model.paging import Sort
from stateroom.model.text import show

__all__ = [
    "ActivateVersion",
    "AssistantAnswer",
    "AssistantParts",
    "CountAssistants",
    "CreateAssistant",
    "DrawingAnswer",
    "ListVersions",
    "SchemasAnswer",
    "SearchAssistants",
    "UpdateAssistant",
    "assistant_json",
    "levels_of",
]

AssistantField = Literal[
    "assistant_id",
    "graph_id",
    "name",
    "description",
    "config",
    "context",
    "created_at",
    "updated_at",
    "metadata",
    "version",
]

Version = Annotated[int, Field(ge=1)]


class CreateAssistant(Body):
    """An assistant to be made. ``if_exists`` says what happens when the id is taken."""

    graph_id: str
    assistant_id: Annotated[str, Field(pattern=NAMED_ID_PATTERN)] | None = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    if_exists: IfExists | None = None
    name: str | None = None
    description: str | None = None


class UpdateAssistant(Body):
    """What the next version has that this one has not: metadata by keys, the rest as a whole."""

    graph_id: str | None = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    metadata: JsonObject | None = None
    name: str | None = None
    description: str | None = None

    def change(self) -> AssistantChange:
        """Return the change; what is null changes nothing, but for the description, which it clears."""
        given = {name: getattr(self, name) for name in self.model_fields_set}
        said = {name: value for name, value in given.items() if value is not None or name == "description"}
        return AssistantChange(**said)


class CountAssistants(Body):
    """Which assistants count. ``name`` is a part of the name, in whatever case."""

    metadata: JsonObject | None = None
    graph_id: str | None = None
    name: str | None = None

    def query(self) -> AssistantQuery:
        """Return the conditions."""
        return AssistantQuery(self.graph_id or None, None, self.metadata or None, name_part=self.name or None)


class SearchAssistants(CountAssistants):
    """Which assistants to list, and how. ``after`` is a former answer's ``X-Pagination-Cursor``."""

    limit: Limit = 10
    offset: Offset = 0
    after: str | None = None
    sort_by: Literal["assistant_id", "graph_id", "name", "created_at", "updated_at"] | None = None
    sort_order: SortOrder | None = None
    select: list[AssistantField] | None = None

    def sort(self) -> Sort:
        """Return the order."""
        return sort_of(self.sort_by, self.sort_order)


class ListVersions(Body):
    """Which versions to list."""

    metadata: JsonObject | None = None
    limit: Limit = 10
    offset: Offset = 0


class ActivateVersion(Body):
    """The version that counts from now on."""

    version: Version


class AssistantAnswer(BaseModel):
    """An assistant as its active version has it."""

    assistant_id: str
    graph_id: str
    config: JsonObject
    context: JsonObject
    metadata: JsonObject
    name: str
    description: str | None
    created_at: str
    updated_at: str
    version: int


AssistantParts: Any = list[part_of(AssistantAnswer)]  # type: ignore[misc]  # a type made just now
"""A page of assistants, with the fields that were selected."""


class DrawingAnswer(BaseModel):
    """A graph to be drawn."""

    nodes: list[JsonObject]
    edges: list[JsonObject]


class SchemasAnswer(BaseModel):
    """The JSON schemas of a graph, null for one that cannot be made."""

    graph_id: str
    input_schema: JsonObject | None
    output_schema: JsonObject | None
    state_schema: JsonObject | None
    config_schema: JsonObject | None
    context_schema: JsonObject | None


def assistant_json(assistant: Assistant, select: list[AssistantField] | None = None) -> dict[str, Any]:
    """Return an assistant as it is answered, or some of its fields."""
    found = {
        "assistant_id": assistant.assistant_id,
        "graph_id": assistant.graph_id,
        "config": assistant.config,
        "context": assistant.context,
        "metadata": assistant.metadata,
        "name": assistant.name,
        "description": assistant.description,
        "created_at": time_text(assistant.created_at),
        "updated_at": time_text(assistant.updated_at),
        "version": assistant.version,
    }
    return picked(found, select)


def levels_of(xray: str) -> bool | int:
    """Return how many levels of subgraphs to draw; ``1`` is one level, unlike ``true``."""
    if xray.lower() in ("true", "false"):
        return xray.lower() == "true"
    if not (xray.isascii() and xray.isdigit() and len(xray) <= 4):
        raise InvalidInput(
            f"xray is {show(xray)}; pass true, false or a number of levels from 0 to 9999", field="xray"
        )
    return int(xray)
