"""An async LangGraph graph whose nodes use the injected store: many users at once, one file."""

from __future__ import annotations

import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import END, START, StateGraph
from langgraph.runtime import Runtime
from langgraph.store.base import BaseStore

from stateroom import SqliteStore


class State(TypedDict, total=False):
    """What one message is about."""

    text: str
    reply: str


@dataclass(frozen=True)
class Context:
    """Who is writing."""

    user_id: str


async def remember(state: State, runtime: Runtime[Context]) -> None:
    """Store the message among the user's own."""
    store = _store(runtime)
    namespace = (runtime.context.user_id, "messages")
    earlier = await store.asearch(namespace, limit=1_000)
    await store.aput(namespace, f"{len(earlier):04}", {"text": state["text"]})


async def recall(state: State, runtime: Runtime[Context]) -> State:
    """Look for an earlier message that shares words with this one."""
    hits = await _store(runtime).asearch((runtime.context.user_id,), query=state["text"], limit=2)
    others = [hit.value["text"] for hit in hits if hit.value["text"] != state["text"]]
    return {"reply": f"That reminds me: {others[0]}" if others else "That is new to me."}


def _store(runtime: Runtime[Context]) -> BaseStore:
    assert runtime.store is not None
    return runtime.store


async def main() -> None:
    """Let twenty users write at the same time, twice each."""
    graph = StateGraph(State, context_schema=Context)
    graph.add_node("remember", remember)
    graph.add_node("recall", recall)
    graph.add_edge(START, "remember")
    graph.add_edge("remember", "recall")
    graph.add_edge("recall", END)
    with tempfile.TemporaryDirectory() as folder:
        async with SqliteStore(Path(folder) / "memory.db") as store:
            agent = graph.compile(checkpointer=InMemorySaver(), store=store)

            async def say(user: str, text: str) -> str:
                config: RunnableConfig = {"configurable": {"thread_id": user}}
                state = await agent.ainvoke({"text": text}, config, context=Context(user))
                return str(state["reply"])

            users = [f"user-{number}" for number in range(20)]
            await asyncio.gather(*(say(user, f"The locker of {user} is painted green") for user in users))
            replies = await asyncio.gather(*(say(user, "Which locker was it?") for user in users))
            own = sum(f" {user} " in reply for user, reply in zip(users, replies, strict=True))
            print(replies[7])
            print(f"{own} of {len(users)} users got their own memory back")
            print(f"{await store.acount(())} memories in {len(await store.alist_namespaces())} namespaces")


if __name__ == "__main__":
    asyncio.run(main())
