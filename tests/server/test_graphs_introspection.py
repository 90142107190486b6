"""Drawings, schemas and subgraphs of graphs of every kind."""

from __future__ import annotations

import json
import operator
from dataclasses import dataclass
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.tools import tool
from langgraph.func import entrypoint
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from pydantic import BaseModel

from stateroom.engine.graphs import Graph
from stateroom.engine.introspection import drawing, schemas, subgraphs

KINDS = {"input_schema", "output_schema", "state_schema", "config_schema", "context_schema"}


class S(TypedDict, total=False):
    """What the graphs here work on."""

    x: Annotated[int, operator.add]
    y: str


class Input(BaseModel):
    """What is put in."""

    x: int


class Output(TypedDict):
    """What comes out."""

    y: str


@dataclass
class Ctx:
    """A context."""

    model: str = "small"


def step(state: Any) -> dict[str, Any]:
    return {"x": len(state)}


def built(**inner: Graph) -> Graph:
    """Return a graph with one plain node, and a node for each inner graph."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(S, Ctx, input_schema=Input, output_schema=Output)
    builder.add_node("step", step).add_edge(START, "step")
    for name, graph in inner.items():
        builder.add_node(name, graph).add_edge("step", name)
    return builder.compile()


INNER = built(deepest=built())
NESTED = built(child=INNER, other=built())


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


def agent() -> Graph:
    """Return a graph with tools on the state that everybody uses."""
    builder: StateGraph[Any, Any, Any, Any] = StateGraph(MessagesState)
    builder.add_node("model", step).add_node("tools", ToolNode([add]))
    builder.add_edge(START, "model").add_conditional_edges("model", tools_condition).add_edge(
        "tools", "model"
    )
    return builder.compile()


@entrypoint()
def workflow(x: int) -> str:
    """Return a text."""
    return str(x)


def fields(schema: Any) -> list[str]:
    """Return the names of an object's fields."""
    return sorted(schema["properties"])


def test_schemas_tell_inputs_outputs_states_and_contexts_apart() -> None:
    found = schemas(built(), "g")
    assert json.loads(json.dumps(found)) == found
    assert found.keys() == {"graph_id", *KINDS}
    assert found["graph_id"] == "g"
    assert fields(found["input_schema"]) == ["x"]
    assert fields(found["output_schema"]) == ["y"]
    assert fields(found["state_schema"]) == ["x", "y"]
    assert found["state_schema"]["properties"]["x"]["type"] == "integer"
    assert found["context_schema"]["properties"]["model"]["default"] == "small"
    assert found["config_schema"] == found["context_schema"]


def test_schemas_of_an_agent_with_tools_describe_its_messages() -> None:
    found = schemas(agent(), "agent")
    assert [fields(found[f"{kind}_schema"]) for kind in ("input", "output", "state")] == [["messages"]] * 3
    assert (found["context_schema"], found["config_schema"]) == (None, None)


def test_schemas_of_an_entrypoint_are_those_of_its_function() -> None:
    found = schemas(workflow, "w")
    assert (found["input_schema"]["type"], found["output_schema"]["type"]) == ("integer", "string")
    assert found["state_schema"]["type"] == "string"


class Unknown:
    """What no schema can be made for."""


class Odd(TypedDict):
    """A state of it."""

    thing: Unknown


class Missing(BaseModel):
    """A model that was never finished."""

    thing: OnlyForTypeCheckers  # type: ignore[name-defined]  # noqa: F821


@pytest.mark.parametrize("odd", ["input", "output", "context"])
def test_a_schema_that_cannot_be_made_is_null_and_the_others_are_there(odd: str) -> None:
    options: dict[str, Any] = {"input_schema": Input, "output_schema": Output, "context_schema": Ctx}
    graph = StateGraph(S, **options).add_node("step", step).add_edge(START, "step").compile()
    if odd == "context":
        graph.context_schema = int
    else:
        setattr(graph.builder, f"{odd}_schema", Missing)
    nulls = {"context_schema", "config_schema"} if odd == "context" else {f"{odd}_schema"}
    found = schemas(graph, "g")
    assert {kind for kind in KINDS if found[kind] is None} == nulls


def test_a_state_of_any_type_answers() -> None:
    graph = StateGraph(Odd).add_node("step", step).add_edge(START, "step").compile()
    assert schemas(graph, "g").keys() == {"graph_id", *KINDS}


async def test_a_drawing_has_nodes_and_edges() -> None:
    drawn = await drawing(agent())
    assert [node["id"] for node in drawn["nodes"]] == [START, "model", "tools", END]
    edges = {(edge["source"], edge["target"], edge.get("conditional", False)) for edge in drawn["edges"]}
    assert edges == {
        (START, "model", False),
        ("model", "tools", True),
        ("model", END, True),
        ("tools", "model", False),
    }
    assert json.loads(json.dumps(drawn)) == drawn


@pytest.mark.parametrize(
    ("xray", "seen"),
    [
        (False, {"child", "step"}),
        (1, {"child:step", "child:deepest", "step"}),
        (2, {"child:step", "child:deepest:step", "step"}),
        (True, {"child:step", "child:deepest:step", "step"}),
    ],
)
async def test_a_drawing_looks_into_subgraphs_as_deep_as_it_is_told(xray: int | bool, seen: set[str]) -> None:
    drawn = await drawing(built(child=INNER), xray=xray)
    names = {node["id"] for node in drawn["nodes"]} - {START, END}
    assert {name for name in names if "__" not in name} == seen


@pytest.mark.parametrize(
    ("namespace", "recurse", "names"),
    [
        (None, False, ["child", "other"]),
        (None, True, ["child", "child|deepest", "other"]),
        ("child", False, ["child"]),
        ("child", True, ["child"]),
        ("child|deepest", False, ["child|deepest"]),
        ("child:8f1c|deepest:2b", True, ["child|deepest"]),
        ("deepest", True, []),
        ("chil", True, []),
        ("step", True, []),
        ("", True, []),
    ],
)
def test_subgraphs_are_found_by_their_namespaces(
    namespace: str | None, recurse: bool, names: list[str]
) -> None:
    found = subgraphs(NESTED, namespace=namespace, recurse=recurse)
    assert list(found) == names
    for name in names:
        assert found[name].keys() == {"graph_id", *KINDS}
        assert fields(found[name]["input_schema"]) == ["x"]
