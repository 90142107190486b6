"""Whoever watches a run learns of every interrupt, wherever it was raised, and how to answer it (A17)."""

from __future__ import annotations

from typing import Any

import pytest
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.func import entrypoint
from langgraph.types import Command, interrupt

from tests.streaming.graphs import HELLO, asking, single
from tests.streaming.running import named, params, protocol, run

QUESTIONS = {
    "node": ["node"],
    "tool": ["tool"],
    "subgraph": ["subgraph"],
    "parallel": ["left", "right"],
}


def _given(where: str) -> dict[str, Any]:
    return HELLO if where == "tool" else {"notes": []}


def _waiting(graph: Any) -> dict[str, Any]:
    state = graph.get_state({"configurable": {"thread_id": "t"}})
    return {each.id: each.value for each in state.interrupts}


@pytest.mark.parametrize("subgraphs", [False, True])
@pytest.mark.parametrize("where", QUESTIONS)
def test_updates_and_the_last_values_tell_what_the_state_does(where: str, subgraphs: bool) -> None:
    graph = asking(where)
    modes = ("values", "updates")
    frames = run(graph, _given(where), stream_mode=modes, stream_subgraphs=subgraphs)
    waiting = _waiting(graph)
    assert sorted(value["q"] for value in waiting.values()) == QUESTIONS[where]
    expected = [{"value": value, "id": key} for key, value in waiting.items()]
    last = named(frames, "values")[-1]["__interrupt__"]
    updates = [data["__interrupt__"] for data in named(frames, "updates") if "__interrupt__" in data]
    assert sorted(last, key=str) == sorted(expected, key=str)
    assert sorted((each for told in updates for each in told), key=str) == sorted(expected, key=str)


def test_values_alone_tell_of_interrupts() -> None:
    *before, last = run(asking("node"), {"notes": []})
    assert [name for name, _ in before] == ["values"]
    assert last[0] == "values"
    assert [each["value"] for each in last[1]["__interrupt__"]] == [{"q": "node"}]


def test_a_subgraph_tells_of_its_interrupt_too() -> None:
    frames = run(asking("subgraph"), {"notes": []}, stream_mode=("values",), stream_subgraphs=True)
    inside = [data for name, data in frames if name.startswith("values|sub:")]
    assert inside[-1]["__interrupt__"] == named(frames, "values")[-1]["__interrupt__"]


@pytest.mark.parametrize("way", [{}, {"protocol": True}, {"stream_mode": ("events", "values")}])
@pytest.mark.parametrize("where", QUESTIONS)
def test_an_answer_ends_the_run_and_nothing_is_asked_again(where: str, way: dict[str, Any]) -> None:
    graph = asking(where)
    run(graph, _given(where), **way)
    answers = {key: f"answer to {value['q']}" for key, value in _waiting(graph).items()}
    frames = run(graph, Command(resume=answers), **way)
    assert not _waiting(graph)
    assert "__interrupt__" not in repr(frames)
    assert "input.requested" not in repr(frames)
    assert all(answer in repr(frames) for answer in answers.values())


def test_what_is_left_unanswered_is_told_again() -> None:
    for way in ({}, {"protocol": True}):
        graph = asking("parallel")
        run(graph, {"notes": []}, **way)
        [first, second] = _waiting(graph)
        frames = run(graph, Command(resume={first: "yes"}), **way)
        assert list(_waiting(graph)) == [second]
        if way:
            asked = [each["data"]["interrupt_id"] for each in named(frames, "protocol/input.requested")]
            last = named(frames, "protocol/values")[-1]
            values, waits = last["data"], last["interrupts"]
        else:
            values = named(frames, "values")[-1]
            waits = values.pop("__interrupt__")
            asked = [second]
        # The last values have the answer of the one in them, and the question of the other beside them.
        assert (values, asked, [each["id"] for each in waits]) == ({"notes": ["yes"]}, [second], [second])


def test_an_interrupt_has_the_schema_of_its_answer() -> None:
    def node(_: Any) -> dict[str, Any]:
        return {"notes": [interrupt("how many?", response_schema=int)]}

    [told] = run(single(node), {"notes": []})[-1][1]["__interrupt__"]
    assert told == {"value": "how many?", "id": told["id"], "response_schema": {"type": "integer"}}


def test_a_run_that_stops_before_a_node_has_no_interrupts_to_tell() -> None:
    graph = single({"notes": [1]})
    frames = run(graph, {"notes": []}, stream_mode=("updates",), interrupt_before="*")
    assert frames == [("updates", {"__interrupt__": []})]


@pytest.mark.parametrize("where", QUESTIONS)
def test_the_protocol_requests_input_once_for_each_interrupt(where: str) -> None:
    graph = asking(where)
    events = protocol(graph, _given(where))
    asked = params(events, "input.requested")
    assert {each["data"]["interrupt_id"]: each["data"]["value"] for each in asked} == _waiting(graph)
    assert all(each["data"]["payload"] == each["data"]["value"] for each in asked)
    assert len(asked) == len(QUESTIONS[where])
    within = ["sub"] if where == "subgraph" else []
    assert all([part.partition(":")[0] for part in each["namespace"]] == within for each in asked)


def test_values_of_the_protocol_tell_of_interrupts_beside_the_state() -> None:
    last = params(protocol(asking("node"), {"notes": []}), "values")[-1]
    assert last["data"] == {"notes": []}
    assert [each["value"] for each in last["interrupts"]] == [{"q": "node"}]


def test_the_functional_api_asks_too() -> None:
    def work(given: Any) -> Any:
        return interrupt({"q": given})

    graph = entrypoint(checkpointer=InMemorySaver())(work)
    told = run(graph, "why?")[-1][1]["__interrupt__"]
    assert [each["value"] for each in told] == [{"q": "why?"}]
    again = params(protocol(entrypoint(checkpointer=InMemorySaver())(work), "why?"), "input.requested")
    assert [each["data"]["value"] for each in again] == [{"q": "why?"}]
    assert run(graph, Command(resume=7))[-1] == ("values", 7)
