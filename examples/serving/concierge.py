"""A concierge without a model: remembers what a guest likes, and books only what the guest approves."""

from __future__ import annotations

from typing import Any
from uuid import uuid4

from langchain_core.messages import AIMessage
from langgraph.graph import END, START, MessagesState, StateGraph
from langgraph.runtime import Runtime
from langgraph.types import interrupt
from typing_extensions import TypedDict


class Guest(TypedDict):
    """Who is asking: each run is told by its ``context``."""

    guest: str


async def listen(state: MessagesState, runtime: Runtime[Guest]) -> None:
    """Keep what the guest says about their taste, for every conversation to come."""
    said = state["messages"][-1].text
    if said.startswith("I "):
        await runtime.store.aput((runtime.context["guest"], "likes"), str(uuid4()), {"text": said})


def propose(state: MessagesState) -> dict[str, Any]:
    """Ask the guest before anything is booked."""
    wish = next(each.text for each in reversed(state["messages"]) if each.text.startswith("Book "))
    approved = interrupt({"question": f"{wish.rstrip('.')}: shall I?"})
    return {"messages": [AIMessage("It is booked." if approved else "Then I leave it.")]}


async def recall(state: MessagesState, runtime: Runtime[Guest]) -> dict[str, Any]:
    """Answer from what the guest has said in any conversation."""
    question = state["messages"][-1].text
    found = await runtime.store.asearch((runtime.context["guest"], "likes"), query=question, limit=1)
    known = f"You told me: {found[0].value['text']}" if found else "I do not know."
    return {"messages": [AIMessage(known)]}


def chosen(state: MessagesState) -> str:
    """Return what is to be done with what the guest said."""
    said = state["messages"][-1].text
    return "propose" if said.startswith("Book ") else "recall" if said.endswith("?") else END


graph = (
    StateGraph(MessagesState, context_schema=Guest)
    .add_node(listen)
    .add_node(propose)
    .add_node(recall)
    .add_edge(START, "listen")
    .add_conditional_edges("listen", chosen, ["propose", "recall", END])
    .add_edge("propose", END)
    .add_edge("recall", END)
    .compile()
)
