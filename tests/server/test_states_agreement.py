"""A question that stops a run is the same in the thread, its state, history and searches; then it is gone."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import tool
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode
from langgraph.types import interrupt
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient
from typing_extensions import TypedDict

from stateroom.boot.compose import Server
from tests.server.conftest import Running, run_in_thread

QUESTION = {"q": "ok?"}


class State(TypedDict):
    """What the graphs work on."""

    messages: Annotated[list[AnyMessage], add_messages]


@tool
def book(city: str) -> str:
    """Book a hotel, if somebody agrees."""
    return f"{city}: {interrupt(QUESTION)}"


def call(_: State) -> dict[str, Any]:
    found = {"name": "book", "args": {"city": "Bern"}, "id": "call-1", "type": "tool_call"}
    return {"messages": [AIMessage(content="", tool_calls=[found])]}


def ask(_: State) -> dict[str, Any]:
    answer = str(interrupt(QUESTION))
    # With an id of its own: a message without one gets another whenever a state is read that holds it back.
    return {"messages": [AIMessage(content=answer, id=answer)]}


def ask_twice(_: State) -> dict[str, Any]:
    return {"messages": [("ai", f"{interrupt(QUESTION)} {interrupt({'q': 'sure?'})}")]}


def graph_of(*nodes: tuple[str, Any], together: bool = False) -> Any:
    """Return a graph of nodes that follow each other, or run at once."""
    builder = StateGraph(State)
    before = START
    for name, node in nodes:
        builder.add_node(name, node)
        builder.add_edge(START if together else before, name)
        before = name
        if together:
            builder.add_edge(name, END)
    return builder.compile()


def said(text: str) -> Any:
    """Return an input in which somebody says something."""
    return {"messages": [("human", text)]}


inner = graph_of(("deep", ask))
GRAPHS = {
    "node": graph_of(("ask", ask)),
    "tool": graph_of(("call", call), ("tools", ToolNode([book]))),
    "subgraph": graph_of(("inner", inner)),
    "nested": graph_of(("outer", graph_of(("inner", inner)))),
    "two": graph_of(("left", ask), ("right", ask), together=True),
    "mixed": graph_of(("left", inner), ("right", ask), together=True),
    "twice": graph_of(("ask", ask_twice)),
}


@pytest.fixture(scope="module")
def asking(kind: str, new_settings: Any) -> Iterator[Running]:
    """Return a server of graphs that ask."""
    running = run_in_thread(Server(new_settings(kind, graphs={}), graphs=GRAPHS))
    yield running
    running.close()


@pytest.fixture
async def client(asking: Running) -> Any:
    """Return a client of that server."""
    async with get_client(url=asking.url, api_key=None) as found:
        yield found


async def agreed(client: LangGraphClient, identity: str) -> list[dict[str, Any]]:
    """Return the questions of a thread, after seeing that whatever shows them shows the same."""
    thread: Any = await client.threads.get(identity)
    state: Any = await client.threads.get_state(identity)
    deep: Any = await client.threads.get_state(identity, subgraphs=True)
    history: Any = await client.threads.get_history(identity)
    found: Any = await client.threads.search(ids=[identity])
    asked = [each for questions in thread["interrupts"].values() for each in questions]
    by_task = {task["id"]: task["interrupts"] for task in state["tasks"] if task["interrupts"]}
    assert thread["interrupts"] == by_task
    assert state["interrupts"] == deep["interrupts"] == asked
    assert history[0] == state
    assert found == [thread]
    waiting = await client.threads.search(ids=[identity], status="interrupted", select=["interrupts"])
    assert waiting == ([{"interrupts": thread["interrupts"]}] if asked else [])
    assert thread["status"] == ("interrupted" if asked else "idle")
    assert thread["values"] == state["values"]
    assert thread["error"] is None
    return asked


@pytest.mark.parametrize("graph_id", ["node", "tool", "subgraph", "nested"])
async def test_a17_one_question_is_shown_by_all_and_answered_once(
    client: LangGraphClient, graph_id: str
) -> None:
    identity = str((await client.threads.create())["thread_id"])
    run: Any = await client.runs.create(identity, graph_id, input=said("go"))
    waited: Any = await client.runs.join(identity, run["run_id"])
    (question,) = await agreed(client, identity)
    assert question["value"] == QUESTION
    assert waited["__interrupt__"] == [question]
    assert (await client.runs.get(identity, run["run_id"]))["status"] == "success"

    final: Any = await client.runs.wait(identity, graph_id, command={"resume": "yes"})
    assert "__interrupt__" not in final
    assert "yes" in final["messages"][-1]["content"]
    assert await agreed(client, identity) == []
    # What was asked stays in the past.
    past: Any = await client.threads.get_history(identity, limit=100)
    assert sum(each["interrupts"] == [question] for each in past) == 1


@pytest.mark.parametrize("graph_id", ["two", "mixed"])
async def test_a17_two_questions_at_once_are_answered_by_their_ids(
    client: LangGraphClient, graph_id: str
) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, graph_id, input={"messages": []})
    first, second = await agreed(client, identity)
    assert first["id"] != second["id"]
    # One of them: the other waits on, and is the only one that does.
    await client.runs.wait(identity, graph_id, command={"resume": {first["id"]: "one"}})
    assert await agreed(client, identity) == [second]
    final: Any = await client.runs.wait(identity, graph_id, command={"resume": {second["id"]: "two"}})
    assert sorted(each["content"] for each in final["messages"]) == ["one", "two"]
    assert await agreed(client, identity) == []


async def test_a17_a_node_that_asks_twice_shows_the_question_that_waits(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "twice", input={"messages": []})
    (first,) = await agreed(client, identity)
    await client.runs.wait(identity, "twice", command={"resume": "a"})
    (second,) = await agreed(client, identity)
    assert (first["value"], second["value"]) == (QUESTION, {"q": "sure?"})
    final: Any = await client.runs.wait(identity, "twice", command={"resume": "b"})
    assert final["messages"][-1]["content"] == "a b"
    assert await agreed(client, identity) == []


async def test_a17_a_change_in_place_of_an_answer_ends_the_question(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "node", input={"messages": []})
    await agreed(client, identity)
    await client.threads.update_state(identity, {"messages": [("ai", "by hand")]}, as_node="ask")
    assert await agreed(client, identity) == []
    thread: Any = await client.threads.get(identity)
    assert thread["values"]["messages"][-1]["content"] == "by hand"


async def test_messages_are_the_same_in_every_answer(client: LangGraphClient) -> None:
    identity = str((await client.threads.create())["thread_id"])
    await client.runs.wait(identity, "tool", input=said("Grüße 🚢"))
    state: Any = await client.threads.get_state(identity)
    human, ai = state["values"]["messages"]
    assert (human["type"], human["content"]) == ("human", "Grüße 🚢")
    assert ai["tool_calls"][0]["args"] == {"city": "Bern"}
    (found,) = await client.threads.search(ids=[identity], extract={"last": "values.messages[-1]"})
    assert found["extracted"] == {"last": ai}
