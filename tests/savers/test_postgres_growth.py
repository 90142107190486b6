"""What threads take in Postgres, what gives it back, and that this is safe beside a run."""

from __future__ import annotations

import operator
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Annotated, Any, TypedDict

import pytest
from langgraph.channels.delta import DeltaChannel
from langgraph.checkpoint.postgres import PostgresSaver as Theirs
from langgraph.graph import END, START, StateGraph

from stateroom.savers.postgres import PostgresSaver
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, set_to, until

PLACE: Any = {"configurable": {"thread_id": "t"}}
TEXT = "x" * 1000

BYTES = """
select (
        select coalesce(sum(octet_length(checkpoint::text) + octet_length(metadata::text)), 0)
        from {}.checkpoints
    )
    + (select coalesce(sum(octet_length(blob)), 0) from {}.checkpoint_blobs)
    + (select coalesce(sum(octet_length(blob)), 0) from {}.checkpoint_writes)
"""
UNUSED = """
select count(*) from {}.checkpoint_blobs b where not exists (
    select 1 from {}.checkpoints c where c.thread_id = b.thread_id and c.checkpoint_ns = b.checkpoint_ns
    and c.checkpoint -> 'channel_versions' ->> b.channel = b.version)
"""
MISSING = """
select c.checkpoint_id, v.key from {}.checkpoints c, jsonb_each_text(c.checkpoint -> 'channel_versions') v
where v.key = 'items' and not exists (
    select 1 from {}.checkpoint_blobs b where b.thread_id = c.thread_id and b.checkpoint_ns = c.checkpoint_ns
    and b.channel = v.key and b.version = v.value)
"""


def extended(value: list[str], writes: list[list[str]]) -> list[str]:
    return [*value, *(item for items in writes for item in items)]


class State(TypedDict, total=False):
    items: Annotated[list[str], operator.add]


class DeltaState(TypedDict, total=False):
    items: Annotated[list[str], DeltaChannel(extended, list, snapshot_frequency=8)]


def chat(saver: Any, state: type = State) -> Any:
    """Return a graph that appends a thousand characters in each turn."""
    graph: Any = StateGraph(state)
    graph.add_node("node", lambda now: {"items": [f"{len(now['items']):04}{TEXT}"]})
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(checkpointer=saver)


def talk(graph: Any, turns: int) -> None:
    for _ in range(turns):
        graph.invoke({"items": ["said"]}, PLACE)


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def saver(watch: Watch) -> Iterator[PostgresSaver]:
    with PostgresSaver(named(watch.uri, watch.name), schema=watch.name) as saver:
        yield saver


def stored(watch: Watch) -> int:
    return int(watch.execute(BYTES)[0][0])


def test_A01_with_keep_last_a_thread_takes_what_was_said(watch: Watch) -> None:
    taken = []
    with PostgresSaver(watch.uri, schema=watch.name, keep_last=1) as saver:
        graph = chat(saver)
        for _ in range(4):
            talk(graph, 10)
            taken.append(stored(watch))
            assert saver.storage("t").total == taken[-1]
            assert watch.execute(UNUSED) == [(0,)]
    # Ten turns more take ten turns more, and a little for what each checkpoint has beside.
    steps = [second - first for first, second in pairwise(taken)]
    assert all(10_000 < step < 12_000 for step in steps), taken
    assert taken[0] < 14_000


def test_A01_prune_gives_back_what_all_its_history_took(saver: PostgresSaver, watch: Watch) -> None:
    graph = chat(saver)
    talk(graph, 20)
    before, state = stored(watch), graph.get_state(PLACE)
    saver.prune(["t"])
    assert before > 10 * stored(watch)
    assert stored(watch) == saver.storage("t").total < 24_000
    assert watch.execute(UNUSED) == [(0,)]
    assert graph.get_state(PLACE).values == state.values
    talk(graph, 1)
    assert len(graph.get_state(PLACE).values["items"]) == 42


def test_without_either_it_takes_what_LangGraphs_saver_takes(
    saver: PostgresSaver, watch: Watch, postgres: str, new_schema: NewSchema
) -> None:
    other = Watch(postgres, new_schema())
    other.execute("create schema {}")
    talk(chat(saver), 10)
    with Theirs.from_conn_string(set_to(other.uri, "search_path", other.name)) as theirs:
        theirs.setup()
        talk(chat(theirs), 10)
    # The random digits of versions differ in number.
    assert stored(watch) == pytest.approx(stored(other), rel=0.01)


@pytest.mark.parametrize("state", [State, DeltaState], ids=["whole", "delta"])
@pytest.mark.parametrize("keep_last", [None, 2], ids=["keeps all", "keeps two"])
def test_a_run_goes_on_unharmed_while_its_thread_is_pruned_again_and_again(
    watch: Watch, state: type, keep_last: int | None
) -> None:
    uri = named(watch.uri, watch.name)
    with PostgresSaver(uri, schema=watch.name, keep_last=keep_last) as saver:
        graph, over = chat(saver, state), threading.Event()
        talk(graph, 1)

        def prune() -> int:
            times = 0
            with PostgresSaver(uri, schema=watch.name) as other:
                while not over.is_set():
                    other.prune(["t"])
                    times += 1
            return times

        with ThreadPoolExecutor(2) as threads:
            pruning = [threads.submit(prune) for _ in range(2)]
            try:
                for turn in range(2, 40):
                    talk(graph, 1)
                    assert len(graph.get_state(PLACE).values["items"]) == 2 * turn
            finally:
                over.set()
            assert all(done.result() > 1 for done in pruning)
        assert len(graph.get_state(PLACE).values["items"]) == 78
        saver.prune(["t"])
        assert watch.execute(UNUSED) == [(0,)]
        assert len(graph.get_state(PLACE).values["items"]) == 78


def test_a_prune_waits_for_no_put_that_is_not_committed_and_takes_nothing_from_it(
    saver: PostgresSaver, watch: Watch
) -> None:
    graph = chat(saver)
    talk(graph, 3)
    head = saver.get_tuple(PLACE)
    assert head is not None
    newer = """
        insert into {}.checkpoints
        select thread_id, checkpoint_ns, %s, checkpoint_id, type, checkpoint, metadata
        from {}.checkpoints where checkpoint_id = %s
    """
    with watch.holding(newer, "ffffffff", head.checkpoint["id"]) as other:
        saver.prune(["t"])
        other.commit()
    assert [each.checkpoint["id"] for each in saver.list(PLACE)] == [head.checkpoint["id"]] * 2
    assert watch.execute(MISSING) == []


def test_two_prunes_of_one_thread_at_once_both_succeed(saver: PostgresSaver, watch: Watch) -> None:
    graph = chat(saver)
    talk(graph, 10)
    state = graph.get_state(PLACE)
    with ThreadPoolExecutor(4) as threads:
        lock = "select 1 from {}.checkpoints for update"
        with watch.holding(lock):
            done = [threads.submit(saver.prune, ["t"]) for _ in range(4)]
            until(lambda: watch.waiting() == 4)
        for each in done:
            each.result()
    assert graph.get_state(PLACE).values == state.values
    assert len(list(saver.list(PLACE))) == 1
    assert watch.execute(UNUSED) == [(0,)]
