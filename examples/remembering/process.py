"""One process of the demo: it tells or asks, and writes what happens as JSON lines for its parent."""

from __future__ import annotations

import argparse
import json
import os
import sqlite3
import sys
import tomllib
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph.state import CompiledStateGraph

from remembering.agent import INDEX, Context, State, build, memories_of
from stateroom import InMemoryStore, SearchItem, SqliteStore
from stateroom.errors import Misconfigured, StateroomError

Graph = CompiledStateGraph[State, Context, State, State]
Store = SqliteStore | InMemoryStore
SCRIPT = Path(__file__).with_name("conversation.toml")
SHOWN = 3


def main() -> int:
    """Play Monday, Tuesday or both, as told on the command line; 2 if the store refuses to start."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("part", choices=["monday", "tuesday", "both"])
    parser.add_argument("--path", help="the database; without it everything is in memory")
    options = parser.parse_args()
    script = tomllib.loads(SCRIPT.read_text(encoding="utf-8"))
    try:
        with opened(options.path) as (store, checkpointer):
            graph = build(store, checkpointer)
            report("started", pid=os.getpid())
            if options.part != "tuesday":
                tell(graph, script["monday"], to_the_end=options.part == "both")
            look(store, script["monday"])
            ask(graph, script["tuesday"])
            report("done")
    except StateroomError as error:
        report("refused", code=error.code, field=error.field, message=str(error))
        return 2
    except BrokenPipeError:
        # The parent is gone, and so is the reason to go on.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    return 0


@contextmanager
def opened(path: str | None) -> Iterator[tuple[Store, BaseCheckpointSaver[Any]]]:
    """Open the store for memories and LangGraph's saver for threads; on SQLite both live in one file."""
    if path is None:
        with InMemoryStore(index=INDEX) as memory:
            yield memory, InMemorySaver()
        return
    try:
        from langgraph.checkpoint.sqlite import SqliteSaver
    except ImportError:
        raise Misconfigured(
            "Threads are kept by LangGraph's SqliteSaver. Run: pip install langgraph-checkpoint-sqlite.",
            field="checkpointer",
        ) from None
    with SqliteStore(path, index=INDEX) as store, closing(connected(path)) as connection:
        yield store, SqliteSaver(connection)


def connected(path: str) -> sqlite3.Connection:
    """Open the file for LangGraph's saver, which locks by itself and so may be called from any thread."""
    return sqlite3.connect(path, check_same_thread=False)


def tell(graph: Graph, turns: list[dict[str, str]], *, to_the_end: bool) -> None:
    """Say what there is to say, and report each memory as soon as the store has acknowledged it.

    Unless it may go on to the end, the process stops after the last memory, in the middle of the graph's run
    and with everything open, for its parent to kill it.
    """
    for turn in turns:
        user, says = turn["user"], turn["says"]
        report("said", user=user, thread=thread_of(user, "monday"), text=says)
        for heard in run(graph, user, "monday", says):
            report("remembered", user=user, **heard)
            if turn is turns[-1] and not to_the_end:
                report("waiting")
                sys.stdin.readline()


def look(store: Store, turns: list[dict[str, str]]) -> None:
    """Report all that is stored for each user, before anything is asked."""
    for user in dict.fromkeys(turn["user"] for turn in turns):
        items = store.search(memories_of(user), limit=1_000)
        report("stored", user=user, texts={item.key: item.value["text"] for item in reversed(items)})


def ask(graph: Graph, questions: list[dict[str, str]]) -> None:
    """Ask each question on a thread that is new, and report the answer with what was found for it."""
    for question in questions:
        user = question["user"]
        (found,) = run(graph, user, "tuesday", question["asks"])
        state = graph.get_state(config_of(user, "tuesday"))
        report(
            "answered",
            user=user,
            thread=thread_of(user, "tuesday"),
            question=question["asks"],
            reply=state.values["messages"][-1].text,
            by=found["by"],
            hits=[shown(hit) for hit in found["hits"][:SHOWN]],
            expected={"by": question["by"], "text": question["expects"]},
        )


def run(graph: Graph, user: str, day: str, text: str) -> Iterator[dict[str, Any]]:
    """Run the graph on one message, and yield what its nodes report while it runs."""
    message: State = {"messages": [HumanMessage(text)]}
    context = Context(user_id=user)
    yield from graph.stream(message, config_of(user, day), context=context, stream_mode="custom")


def config_of(user: str, day: str) -> RunnableConfig:
    """Return the configuration by which LangGraph keeps threads apart."""
    return {"configurable": {"thread_id": thread_of(user, day)}}


def thread_of(user: str, day: str) -> str:
    """Return the id of a user's thread of a day."""
    return f"{user}-{day}"


def shown(hit: SearchItem) -> dict[str, Any]:
    """Return what the report says about a hit."""
    components = hit.components or {}
    return {
        "namespace": list(hit.namespace),
        "text": hit.value["text"],
        "score": hit.score,
        "components": {name: components.get(name) for name in ("text", "vector")},
    }


def report(event: str, **facts: Any) -> None:
    """Write one line to the parent; once it has been read, the process may die."""
    print(json.dumps({"event": event, **facts}, ensure_ascii=True), flush=True)


if __name__ == "__main__":
    sys.exit(main())
