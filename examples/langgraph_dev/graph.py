"""A graph that keeps what it is told, and answers with what it remembers of the same words."""

from typing import TypedDict

from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime

NOTES = ("notes",)


class State(TypedDict, total=False):
    """A note, and the notes before it that have words in common with it."""

    note: str
    found: list[str]


async def remember(state: State, runtime: Runtime[None]) -> State:
    """Find what is like the note, then keep it."""
    store = runtime.store
    if store is None:
        raise RuntimeError("this graph needs a store: see langgraph.json")
    found = await store.asearch(NOTES, query=state["note"], limit=3)
    await store.aput(NOTES, state["note"].lower(), {"text": state["note"]})
    return {"found": [item.value["text"] for item in found]}


builder = StateGraph(State)
builder.add_node("remember", remember)
builder.add_edge(START, "remember")
builder.add_edge("remember", END)
graph = builder.compile()
