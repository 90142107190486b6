"""A saver over a storage in Postgres: what a lost attempt may not write, with others writing beside it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import Any, TypedDict

import pytest
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.graph import END, START, StateGraph
from psycopg import sql

from stateroom.clock import ManualClock
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.errors import Fenced, NotFound
from stateroom.model.run import Attempt
from stateroom.savers.attempts import ATTEMPT_KEY, bound
from stateroom.savers.postgres import PostgresSaver
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import claim_one, make_run, make_thread
from tests.conftest import NewSchema
from tests.faults.watching import Watch, named, until

FORMS = ["sync", "async"]
COUNTS = """
select (select count(*) from {}.checkpoints), (select count(*) from {}.checkpoint_blobs),
    (select count(*) from {}.checkpoint_writes)
"""


class State(TypedDict, total=False):
    seen: list[str]
    note: str


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def storage(watch: Watch) -> Iterator[PostgresStorage]:
    storage = PostgresStorage(
        named(watch.uri, watch.name), parse_index_config(None), clock=ManualClock(), schema=watch.name
    )
    storage.open()
    yield storage
    storage.close()


@pytest.fixture(params=[None, 1], ids=["keeps all", "keeps one"])
def saver(request: pytest.FixtureRequest, storage: PostgresStorage) -> PostgresSaver:
    return PostgresSaver.over(storage, keep_last=request.param)


def attempt_on(storage: PostgresStorage, thread_id: str) -> Attempt:
    """Return the attempt of a run that has just been claimed on a new thread."""
    make_thread(storage, thread_id)
    make_run(storage, f"run of {thread_id}", thread_id)
    run = claim_one(storage)
    assert run is not None
    return Attempt(run.run_id, run.thread_id, run.fence)


def bump(watch: Watch, attempt: Attempt) -> None:
    """Let the run move on, as a reaper would from another process."""
    watch.execute("update {}.run set fence = fence + 1 where run_id = %s", attempt.run_id)


def rows(watch: Watch) -> list[int]:
    return list(watch.execute(COUNTS)[0])


def config(thread_id: str, attempt: Attempt | None = None, **more: Any) -> Any:
    named = {} if attempt is None else {ATTEMPT_KEY: attempt}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": "", **named, **more}}


def checkpoint(number: int = 1) -> Any:
    versions = {"messages": f"{number}", "note": f"{number}"}
    values = {"messages": ["hello", number], "note": "plain"}
    return {**empty_checkpoint(), "channel_values": values, "channel_versions": versions}


def put(saver: PostgresSaver, form: str, place: Any, number: int = 1) -> Any:
    made = checkpoint(number)
    arguments: Any = (place, made, {"source": "loop", "step": 1, "parents": {}}, made["channel_versions"])
    return saver.put(*arguments) if form == "sync" else asyncio.run(saver.aput(*arguments))


def put_writes(saver: PostgresSaver, form: str, place: Any) -> None:
    writes = [("messages", ["later"])]
    if form == "sync":
        saver.put_writes(place, writes, "task", "path")
    else:
        asyncio.run(saver.aput_writes(place, writes, "task", "path"))


@pytest.mark.parametrize("form", FORMS)
def test_an_attempt_that_has_its_run_writes(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, form: str
) -> None:
    attempt = attempt_on(storage, "t")
    saved = put(saver, form, config("t", attempt))
    put_writes(saver, form, config("t", attempt, checkpoint_id=saved["configurable"]["checkpoint_id"]))
    assert rows(watch) == [1, 1, 1]


@pytest.mark.parametrize("form", FORMS)
def test_once_its_run_has_moved_on_nothing_of_it_lands(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, form: str
) -> None:
    attempt = attempt_on(storage, "t")
    saved = put(saver, form, config("t", attempt))
    bump(watch, attempt)
    before = rows(watch)
    with pytest.raises(Fenced) as refused:
        put(saver, form, config("t", attempt), 2)
    assert refused.value.field == "run_id"
    with pytest.raises(Fenced):
        put_writes(saver, form, config("t", attempt, checkpoint_id=saved["configurable"]["checkpoint_id"]))
    assert rows(watch) == before


@pytest.mark.parametrize("status", ["pending", "success", "error", "interrupted"])
def test_a_run_that_is_not_running_writes_nothing_under_its_own_fence(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, status: str
) -> None:
    attempt = attempt_on(storage, "t")
    watch.execute("update {}.run set status = %s", status)
    with pytest.raises(Fenced):
        put(saver, "sync", config("t", attempt))
    assert rows(watch) == [0, 0, 0]


def test_the_attempt_that_is_bound_counts_where_the_config_names_none(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch
) -> None:
    attempt = attempt_on(storage, "t")
    with bound(attempt):
        put(saver, "sync", config("t"))
        bump(watch, attempt)
        with pytest.raises(Fenced):
            put(saver, "sync", config("t"), 2)
        with pytest.raises(Fenced):
            put(saver, "async", config("t"), 2)
    assert rows(watch) == [1, 1, 0]


@pytest.mark.parametrize("writes", [put, put_writes])
def test_a_write_waits_for_who_moves_the_run_on_and_then_is_refused(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, writes: Callable[..., Any]
) -> None:
    attempt = attempt_on(storage, "t")
    place = config("t", attempt, checkpoint_id=empty_checkpoint()["id"])
    with ThreadPoolExecutor(1) as threads:
        with watch.holding("select 1 from {}.run where run_id = %s for update", attempt.run_id) as other:
            done = threads.submit(writes, saver, "sync", place)
            until(watch.waiting)
            other.execute(sql.SQL("update {}.run set fence = fence + 1").format(sql.Identifier(watch.name)))
            other.commit()
        with pytest.raises(Fenced):
            done.result()
    assert rows(watch) == [0, 0, 0]


def test_who_moves_the_run_on_waits_for_a_write_that_was_let_through(
    storage: PostgresStorage, watch: Watch
) -> None:
    saver = PostgresSaver.over(storage)
    attempt = attempt_on(storage, "t")
    saved = put(saver, "sync", config("t", attempt))
    key = saved["configurable"]["checkpoint_id"]
    with ThreadPoolExecutor(2) as threads:
        # The write has been let through and waits for a row that somebody else is changing.
        with watch.holding("select 1 from {}.checkpoints where checkpoint_id = %s for update", key):
            again: Any = {**checkpoint(), "id": key}
            written = threads.submit(saver.put, config("t", attempt), again, {}, again["channel_versions"])
            until(watch.waiting)
            bumping = threads.submit(bump, Watch(named(watch.uri, watch.name), watch.name), attempt)
            until(lambda: watch.waiting("update%"))
            assert not bumping.done()
        written.result()
        bumping.result()
    with pytest.raises(Fenced):
        put(saver, "sync", config("t", attempt), 2)


@pytest.mark.parametrize("form", FORMS)
def test_without_an_attempt_the_thread_must_exist(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, form: str
) -> None:
    with pytest.raises(NotFound) as refused:
        put(saver, form, config("nobody"))
    assert refused.value.field == "thread_id"
    with pytest.raises(NotFound):
        put_writes(saver, form, config("nobody", checkpoint_id="1"))
    assert rows(watch) == [0, 0, 0]
    make_thread(storage, "t")
    put(saver, form, config("t"))
    assert rows(watch) == [1, 1, 0]


def test_A21_nothing_is_written_to_a_thread_that_is_being_deleted(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch
) -> None:
    make_thread(storage, "t")
    with ThreadPoolExecutor(1) as threads:
        with watch.holding("delete from {}.thread") as other:
            done = threads.submit(put, saver, "sync", config("t"))
            until(watch.waiting)
            other.commit()
        with pytest.raises(NotFound):
            done.result()
    assert rows(watch) == [0, 0, 0]


@pytest.mark.parametrize("form", FORMS)
def test_a_graph_whose_attempt_is_fenced_off_leaves_nothing_not_even_of_its_subgraphs(
    saver: PostgresSaver, storage: PostgresStorage, watch: Watch, form: str
) -> None:
    attempt = attempt_on(storage, "t")
    at_bump: list[list[int]] = []

    def inner(state: State) -> State:
        return {"seen": [*state.get("seen", []), "inner"]}

    def moved_on(_: State) -> State:
        bump(watch, attempt)
        at_bump.append(rows(watch))
        return {"note": "never\0seen"}

    def line(*nodes: Any, **options: Any) -> Any:
        graph = StateGraph(State)
        for number, node in enumerate(nodes):
            graph.add_node(f"n{number}", node)
        names = [START, *(f"n{number}" for number in range(len(nodes))), END]
        for first, second in pairwise(names):
            graph.add_edge(first, second)
        return graph.compile(**options)

    own = line(inner, moved_on, inner, checkpointer=True)
    graph = line(inner, own, inner, checkpointer=saver)
    place = config("t", attempt)

    def run() -> None:
        if form == "sync":
            graph.invoke({"seen": []}, place, durability="sync")
        else:
            asyncio.run(graph.ainvoke({"seen": []}, place, durability="sync"))

    with pytest.raises(Fenced):
        run()
    assert rows(watch) == at_bump[0]


def test_closing_a_managed_saver_leaves_the_storage_open(
    saver: PostgresSaver, storage: PostgresStorage
) -> None:
    make_thread(storage, "t")
    with saver:
        put(saver, "sync", config("t"))
    assert saver.get_tuple(config("t")) is not None
    assert storage.now() > 0
