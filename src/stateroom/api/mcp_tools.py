"""Assistants as tools of the Model Context Protocol: what each is called, and what it takes."""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from stateroom.api.answers import encoded
from stateroom.api.wire.mcp import INVALID_PARAMS, McpError
from stateroom.contract.assistants import AssistantQuery
from stateroom.engine.introspection import schemas
from stateroom.errors import InvalidInput
from stateroom.model.metadata import contains
from stateroom.model.text import show
from stateroom.service.assistants import graph_assistant_id
from stateroom.service.scope import EVERYTHING, Scope

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.model.assistant import Assistant

__all__ = ["NAME_LENGTH", "PAGE", "Tools", "graph_names"]

PAGE: Final = 50
"""Assistants of one page. Each schema costs some milliseconds."""

NAME_LENGTH: Final = 128
"""The longest name that the protocol wants of a tool."""

_NAME: Final = re.compile(rf"[A-Za-z0-9_.-]{{1,{NAME_LENGTH}}}")
_OTHERS: Final = re.compile(r"[^A-Za-z0-9_.-]")
_MARK: Final = 8

_log = logging.getLogger(__name__)


def graph_names(graph_ids: Iterable[str]) -> dict[str, str]:
    """Return the graphs by the names of their tools: the ids, or what is like them and fits."""
    return {_fitting(graph_id): graph_id for graph_id in graph_ids}


def _fitting(graph_id: str) -> str:
    if _NAME.fullmatch(graph_id):
        return graph_id
    mark = f"_{graph_assistant_id(graph_id)[:_MARK]}"
    return _OTHERS.sub("_", graph_id)[: NAME_LENGTH - len(mark)] + mark


class Tools:
    """The tools of one caller.

    A graph's own assistant is called as the graph, any other by its id. Who has an id that no tool can have,
    or a graph whose input is no object, is no tool.
    """

    def __init__(self, parts: Parts, access: Access) -> None:
        self._parts, self._access = parts, access
        self._graphs = graph_names(parts.graphs.ids)
        self._seen: dict[bytes, dict[str, Any] | None] = {}

    def assistant_id(self, name: str) -> str:
        """Return what a run names the assistant that a tool is, if there is one."""
        return self._graphs.get(name, name)

    async def page(self, cursor: str | None) -> tuple[list[dict[str, Any]], str | None]:
        """Return tools behind a cursor, and the cursor for the next; raise McpError for what is none.

        First come those of the graphs, all at once, since every caller may run them.
        """
        condition, scope = await self._conditions()
        rows, following = await self._rows(condition, scope, cursor)
        own = await self._own(condition) if cursor is None else []
        named = [*own, *((each.assistant_id, each) for each in rows if self._is_tool(each))]
        return await self._tools(named), following

    async def _conditions(self) -> tuple[AssistantQuery, Scope]:
        """Return what the rules make of a caller's wish to see every assistant."""
        value: dict[str, Any] = {"graph_id": None, "metadata": {}, "limit": PAGE, "offset": 0}
        scope = await self._access.allow("assistants", "search", value)
        return AssistantQuery(graph_id=value["graph_id"] or None, metadata=value["metadata"] or None), scope

    async def _rows(
        self, condition: AssistantQuery, scope: Scope, after: str | None
    ) -> tuple[list[Assistant], str | None]:
        search = self._parts.assistants.search
        try:
            page, _ = await self._parts.offload(search, condition, scope, limit=PAGE, after=after)
        except InvalidInput as error:
            raise McpError(
                INVALID_PARAMS, f"cursor is {show(after)}; pass the nextCursor of an answer"
            ) from error
        return list(page.rows), page.next

    async def _own(self, condition: AssistantQuery) -> list[tuple[str, Assistant]]:
        """Return the assistants of the graphs that fit a condition."""
        found = []
        for name, graph_id in sorted(self._graphs.items()):
            each = await self._parts.offload(self._parts.assistants.get, graph_id, EVERYTHING)
            if condition.graph_id in (None, graph_id) and _has(each, condition.metadata):
                found.append((name, each))
        return found

    def _is_tool(self, assistant: Assistant) -> bool:
        own = assistant.assistant_id == graph_assistant_id(assistant.graph_id)
        known = assistant.graph_id in self._parts.graphs.ids
        name = assistant.assistant_id
        return known and not own and name not in self._graphs and bool(_NAME.fullmatch(name))

    async def _tools(self, assistants: Iterable[tuple[str, Assistant]]) -> list[dict[str, Any]]:
        found = []
        for name, assistant in assistants:
            if (schema := await self._input_schema(assistant)) is not None:
                found.append(_tool(name, assistant, schema))
        return found

    async def _input_schema(self, assistant: Assistant) -> dict[str, Any] | None:
        """Return what the graph takes, None if that is no object."""
        key = encoded([assistant.graph_id, assistant.config, assistant.context])
        if key not in self._seen:
            # One by one, so that runs go on in between.
            try:
                self._seen[key] = _of_object(await self._schema(assistant))
            except Exception as error:
                # A graph that cannot be opened at the moment fails its runs, and hides no other.
                _log.warning("the input of graph %s is not known: %s", assistant.graph_id, error)
                self._seen[key] = {"type": "object"}
        return self._seen[key]

    async def _schema(self, assistant: Assistant) -> dict[str, Any] | None:
        config: Any = assistant.config
        principal = self._access.principal

        async def look() -> dict[str, Any] | None:
            async with self._parts.graphs.open(
                assistant.graph_id,
                config=config,
                access="assistants.read",
                user=None if principal is None else principal.user,
                context=assistant.context,
            ) as graph:
                schema: dict[str, Any] | None = schemas(graph, assistant.graph_id)["input_schema"]
                return schema

        return await self._parts.loops.run(look)


def _has(assistant: Assistant, metadata: Mapping[str, Any] | None) -> bool:
    return metadata is None or contains(assistant.metadata, metadata)


def _of_object(schema: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """Return a schema as clients want it, which look at its top; None for what is no object."""
    found = dict(schema or {})
    # A type that holds itself is defined beside, and only named at the top.
    name = str(found.get("$ref", "")).rpartition("/")[2]
    if name in found.get("$defs", {}):
        del found["$ref"]
        found |= found["$defs"][name]
    return {**found, "type": "object"} if found.get("type", "object") == "object" else None


def _tool(name: str, assistant: Assistant, schema: dict[str, Any]) -> dict[str, Any]:
    description = assistant.description or schema.get("description") or f"Runs the agent {assistant.name}."
    return {"name": name, "title": assistant.name, "description": description, "inputSchema": schema}
