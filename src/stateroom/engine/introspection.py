"""What a graph looks like from outside: its drawing, the schemas of its data, its subgraphs."""

from __future__ import annotations

import copy
import logging
import warnings
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from langgraph.graph.state import CompiledStateGraph
from langgraph.pregel import Pregel
from langgraph.pregel.protocol import PregelProtocol

from stateroom.engine.encoding import plain

__all__ = ["drawing", "input_fields", "schemas", "subgraphs"]

_Schema: TypeAlias = dict[str, Any]

_log = logging.getLogger(__name__)


async def drawing(graph: Pregel[Any, Any, Any, Any], *, xray: int | bool = False) -> dict[str, Any]:
    """Return the nodes and the edges; with ``xray`` those of subgraphs too, to so many levels."""
    drawn: dict[str, Any] = plain((await graph.aget_graph(xray=xray)).to_json())
    return drawn


def schemas(graph: PregelProtocol[Any, Any, Any, Any], graph_id: str) -> dict[str, Any]:
    """Return the JSON schemas of a graph's data, None for one that cannot be made.

    A graph's configurable values are its context, so that both have one schema.
    """
    context = _made(graph, "context", _own)
    return {
        "graph_id": graph_id,
        "input_schema": _made(graph, "input", _own, _field_by_field),
        "output_schema": _made(graph, "output", _own, _field_by_field),
        "state_schema": _made(graph, "state", _state_schema),
        "config_schema": context,
        "context_schema": context,
    }


def input_fields(graph: PregelProtocol[Any, Any, Any, Any]) -> frozenset[str] | None:
    """Return the names that a graph's input may have, None where it does not say; faster than its schema."""
    if isinstance(graph, CompiledStateGraph):
        return frozenset(graph.builder.schemas[graph.builder.input_schema]) - {"__root__"}
    schema = _made(graph, "input", _own) or {}
    name = schema.get("$ref", "").rpartition("/")[2]
    schema = schema.get("$defs", {}).get(name, schema)
    if schema.get("type", "object") != "object":
        return frozenset()
    return frozenset(schema["properties"]) if schema.get("properties") else None


def subgraphs(
    graph: Pregel[Any, Any, Any, Any], *, namespace: str | None = None, recurse: bool = False
) -> dict[str, Any]:
    """Return the schemas of a graph's subgraphs by their namespaces, ``"parent|child"``.

    With ``namespace`` only those of the subgraph there; the ids of tasks in it do not count. Without
    ``recurse`` none of subgraphs' subgraphs are listed.
    """
    if namespace is not None:
        namespace = "|".join(part.partition(":")[0] for part in namespace.split("|"))
        recurse = True
    found = graph.get_subgraphs(namespace=namespace, recurse=recurse)
    return {name: schemas(subgraph, name) for name, subgraph in found}


def _own(graph: Any, what: str) -> _Schema | None:
    """Return the schema of an input, an output or a context as the graph itself makes it."""
    schema: _Schema | None = getattr(graph, f"get_{what}_jsonschema")()
    return schema


def _state_schema(graph: object, what: str) -> _Schema | None:
    """Return the schema of everything that a state holds: that of an output of all channels."""
    return _channels_schema(graph, graph.stream_channels_asis, what) if isinstance(graph, Pregel) else None


def _field_by_field(graph: object, what: str) -> _Schema | None:
    """Return the schema of an input or an output by the channels of its fields.

    The way out where the type as a whole has none: before Python 3.12 Pydantic knows no ``typing.TypedDict``.
    """
    if not isinstance(graph, CompiledStateGraph):
        return None
    fields = graph.builder.schemas[getattr(graph.builder, f"{what}_schema")]
    return _channels_schema(graph, [name for name in fields if name in graph.channels], what)


def _channels_schema(graph: Pregel[Any, Any, Any, Any], channels: str | Sequence[str], what: str) -> _Schema:
    shown = copy.copy(graph)
    shown.output_channels = channels
    return {**Pregel.get_output_jsonschema(shown), "title": graph.get_name(what.capitalize())}


def _made(graph: object, what: str, *ways: Callable[[object, str], _Schema | None]) -> _Schema | None:
    """Return the schema that the first of some ways makes."""
    for make in ways:
        try:
            with warnings.catch_warnings():
                # Such as a default that has no JSON: the schema goes without it.
                warnings.simplefilter("ignore")
                return make(graph, what)
        except Exception as error:
            # Pydantic may find no schema for a type of the user's own, or a hint that cannot be evaluated.
            _log.debug("%s has no %s schema: %s", type(graph).__name__, what, error)
    return None
