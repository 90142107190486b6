"""How much a saver stores of a conversation of 50, 100 and 200 turns, by what it is told to keep."""

from __future__ import annotations

import operator
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NamedTuple, TypedDict

from langchain_core.runnables import RunnableConfig
from langgraph.channels.delta import DeltaChannel
from langgraph.graph import START, StateGraph

from benchmarks.checkpoint_data import text
from benchmarks.measure import WRONG, Line, Options
from benchmarks.savers import PEERS, database_bytes, ours, payload_bytes, peer
from benchmarks.storages import Place, place

__all__ = ["TURNS", "measure_growth"]

TURNS, QUICK_TURNS = (50, 100, 200), (4, 8)
THREAD: Final[RunnableConfig] = {"configurable": {"thread_id": "talk"}}


class Whole(TypedDict):
    """A list that every checkpoint has in full."""

    texts: Annotated[list[str], operator.add]


def _joined(state: list[str], writes: list[list[str]]) -> list[str]:
    return [*state, *(text for write in writes for text in write)]


class Delta(TypedDict):
    """The same list, of which checkpoints have what was added, and now and then all."""

    texts: Annotated[list[str], DeltaChannel(_joined)]


class Variant(NamedTuple):
    """A way to keep a conversation: our saver's options, or the peer's None; which list; what comes last."""

    name: str
    options: dict[str, Any] | None
    state: type[Any] = Whole


OURS: Final = (
    Variant("all", {}),
    Variant("keep_last=10", {"keep_last": 10}),
    Variant("keep_last=1", {"keep_last": 1}),
    Variant("DeltaChannel", {}, Delta),
    Variant("DeltaChannel, keep_last=1", {"keep_last": 1}, Delta),
)
THEIRS: Final = (Variant("peer", None), Variant("peer DeltaChannel", None, Delta))


class Stored(NamedTuple):
    """What is there after so many turns: bytes of contents, bytes of tables, and what is wrong."""

    payload: int
    tables: int
    verdict: str


def measure_growth(options: Options, backend: str, folder: Path) -> Iterator[Line]:
    """Hold a conversation with each saver in each way; say what it stores beside LangGraph's."""
    turns = QUICK_TURNS if options.quick else TURNS
    peers = {}
    if options.peers:
        peers = {variant.state: _talk(variant, backend, folder, turns) for variant in THEIRS}
    talks = [
        (variant, _talk(variant, backend, folder, turns, number))
        for number, variant in enumerate(OURS)
        if options.wants(f"stored, {variant.name}")
    ]
    for turn in turns:
        for variant, stored in talks:
            other = peers.get(variant.state, {})
            for n, name in stored:
                if n == turn:
                    yield from _lines(backend, stored, other, n, name, turns[0])


def _lines(
    backend: str,
    stored: dict[tuple[int, str], Stored],
    other: dict[tuple[int, str], Stored],
    n: int,
    name: str,
    first: int,
) -> Iterator[Line]:
    """Return what is stored after so many turns, its growth since the first figure beside it."""
    own = stored[n, name]
    theirs = next((kept for (turns, _), kept in other.items() if turns == n), None)
    base = stored.get((first, name)) if n != first else None
    for title, field in (("stored", "payload"), ("tables", "tables")):
        growth = f"{getattr(own, field) / getattr(base, field):.1f}x of {first} turns" if base else ""
        yield Line(
            suite="checkpoints",
            backend=backend,
            n=n,
            operation=f"{title}, {name}",
            ours=getattr(own, field) / 1e3,
            verdict=own.verdict or growth,
            peer_name=PEERS[backend] if theirs else None,
            peer=getattr(theirs, field) / 1e3 if theirs else None,
            # The same rows may differ by the bytes of the ids in them.
            target=0.99 if theirs and field == "payload" else None,
            unit="kB",
        )


def _talk(
    variant: Variant, backend: str, folder: Path, turns: tuple[int, ...], number: int = 0
) -> dict[tuple[int, str], Stored]:
    """Hold a conversation; return what is stored after each of so many turns, by turns and name."""
    role = "growth_peer" if variant.options is None else f"growth_{number}"
    if variant.state is Delta:
        role += "_delta"
    stored: dict[tuple[int, str], Stored] = {}
    said: list[str] = []
    with place(backend, folder, role) as where, _saver(variant, where) as saver:
        graph = _graph(variant.state, saver)
        for n in range(1, turns[-1] + 1):
            _say(graph, said, n)
            if n in turns:
                stored[n, variant.name] = _stored(where, graph, said)
        if variant.options == {}:
            saver.prune(["talk"], strategy="keep_latest")
            name = f"{variant.name}, then prune keep_latest"
            stored[turns[-1], name] = _stored(where, graph, said)
            # What is pruned can go on.
            _say(graph, said, turns[-1] + 1)
            if problem := _stored(where, graph, said).verdict:
                stored[turns[-1], name] = stored[turns[-1], name]._replace(verdict=problem)
    return stored


@contextmanager
def _saver(variant: Variant, where: Place) -> Iterator[Any]:
    with ExitStack() as stack:
        opening = peer(where) if variant.options is None else ours(where, **variant.options)
        yield stack.enter_context(opening)


def _graph(state: type[Any], saver: Any) -> Any:
    def answer(current: Any) -> dict[str, list[str]]:
        return {"texts": [text(("answer", len(current["texts"])))]}

    builder: Any = StateGraph(state)
    builder.add_node("answer", answer)
    builder.add_edge(START, "answer")
    return builder.compile(checkpointer=saver)


def _say(graph: Any, said: list[str], turn: int) -> None:
    """Say something of a kilobyte, and be answered by as much."""
    question = text(("question", turn))
    graph.invoke({"texts": [question]}, THREAD)
    said += [question, text(("answer", len(said) + 1))]


def _stored(where: Place, graph: Any, said: list[str]) -> Stored:
    there = graph.get_state(THREAD).values.get("texts")
    verdict = "" if there == said else f"{WRONG}: the state is not what was said"
    return Stored(payload_bytes(where), database_bytes(where), verdict)
