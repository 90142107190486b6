"""The demo's assistant: a LangGraph graph that stores what a user tells it and searches that for answers."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, Any, Literal, TypedDict, cast

from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from langgraph.graph.state import CompiledStateGraph
from langgraph.runtime import Runtime

from stateroom import InMemoryStore, SearchItem, SqliteStore

INDEX = {"embed": "local", "fields": ["text"]}
"""The store's index: words and, without any key or network, meaning."""

NEAR = 0.2
"""Cosine similarity from which the assistant takes a memory without a shared word for an answer."""

_SENTENCE_END = re.compile(r"(?<=[.!?])\s+")
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|mine|we|us|our|ours)\b", re.IGNORECASE)


class State(TypedDict, total=False):
    """What a thread holds; memories are not here, since they outlive threads."""

    messages: Annotated[list[AnyMessage], add_messages]
    noted: list[str]


@dataclass(frozen=True)
class Context:
    """Who is talking: given with each run, and half of the namespace of all that is remembered."""

    user_id: str


def build(
    store: SqliteStore | InMemoryStore, checkpointer: BaseCheckpointSaver[Any]
) -> CompiledStateGraph[State, Context, State, State]:
    """Compile the graph: listen, then recall if there is a question, or else acknowledge."""
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("listen", listen)
    graph.add_node("recall", recall)
    graph.add_node("acknowledge", acknowledge)
    graph.add_edge(START, "listen")
    graph.add_conditional_edges("listen", after_listening)
    graph.add_edge("recall", END)
    graph.add_edge("acknowledge", END)
    return graph.compile(checkpointer=checkpointer, store=store)


def memories_of(user_id: str) -> tuple[str, str]:
    """Return the namespace of what a user has told."""
    return (user_id, "memories")


def listen(state: State, runtime: Runtime[Context]) -> State:
    """Remember each sentence in which the user speaks of themselves."""
    store = _store(runtime)
    namespace = memories_of(runtime.context.user_id)
    told = [sentence for sentence in _sentences(state) if _is_statement(sentence)]
    for sentence in told:
        # The key is made from the words, so that telling something twice is one memory.
        key = blake2b(sentence.encode(), digest_size=6).hexdigest()
        item = store.put_item(namespace, key, {"text": sentence})
        # From here on it is stored, whatever happens: the caller may hear of it at once.
        runtime.stream_writer({"key": key, "text": sentence, "revision": item.revision})
    return {"noted": told}


def after_listening(state: State) -> Literal["recall", "acknowledge"]:
    """Choose the next node: questions want memories."""
    return "recall" if any(sentence.endswith("?") for sentence in _sentences(state)) else "acknowledge"


def recall(state: State, runtime: Runtime[Context]) -> State:
    """Search the user's memories with the question, and quote the best one that is an answer."""
    question = " ".join(sentence for sentence in _sentences(state) if sentence.endswith("?"))
    namespace = memories_of(runtime.context.user_id)
    hits = _store(runtime).search(namespace, query=question, limit=3, explain=True)
    by = found_by(hits)
    runtime.stream_writer({"question": question, "by": by, "hits": hits})
    if by == "nothing":
        return {"messages": [AIMessage("You have not told me anything about that.")]}
    return {"messages": [AIMessage(f"You told me: “{hits[0].value['text']}”")]}


def found_by(hits: Sequence[SearchItem]) -> Literal["text", "meaning", "nothing"]:
    """Tell what made the best hit an answer, if it is one.

    A vector search ranks everything, however remote, so that "nothing" is for the caller to decide.
    """
    best = (hits[0].components or {}) if hits else {}
    if best.get("text") is not None:
        return "text"
    return "meaning" if (best.get("vector") or 0.0) >= NEAR else "nothing"


def acknowledge(state: State) -> State:
    """Say how much was worth remembering."""
    count = len(state["noted"])
    return {"messages": [AIMessage(f"Noted, {count} thing{'' if count == 1 else 's'}.")]}


def _sentences(state: State) -> list[str]:
    return _SENTENCE_END.split(state["messages"][-1].text.strip())


def _is_statement(sentence: str) -> bool:
    return not sentence.endswith("?") and _FIRST_PERSON.search(sentence) is not None


def _store(runtime: Runtime[Context]) -> SqliteStore | InMemoryStore:
    # LangGraph hands over the store that the graph was compiled with, typed as any store of its own.
    return cast(SqliteStore | InMemoryStore, runtime.store)
