"""The Postgres saver by itself: its arguments, loops, cut connections, odd values, old rows."""

from __future__ import annotations

import asyncio
import json
import math
import operator
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from enum import StrEnum
from typing import Annotated, Any, TypedDict

import pytest
from langchain_core.messages import AIMessage, AnyMessage
from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.postgres import PostgresSaver as Theirs
from langgraph.checkpoint.serde.types import TASKS
from langgraph.graph import END, START, StateGraph
from langgraph.graph.message import add_messages
from psycopg_pool import AsyncConnectionPool, ConnectionPool

from stateroom.errors import InvalidInput, InvalidPage, InvalidValue, Misconfigured, Unavailable
from stateroom.savers.postgres import PostgresSaver
from tests.conftest import NewSchema
from tests.faults.programs.pooler import PROGRAM, Pooler
from tests.faults.watching import Watch, named, set_to, until
from tests.postgres.server import FAST, Server

PLACE: Any = {"configurable": {"thread_id": "t", "checkpoint_ns": ""}}


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def saver(watch: Watch) -> Iterator[PostgresSaver]:
    with PostgresSaver(named(watch.uri, watch.name), schema=watch.name) as saver:
        yield saver


def checkpoint(values: dict[str, Any]) -> Any:
    made = empty_checkpoint()
    return {**made, "channel_values": values, "channel_versions": dict.fromkeys(values, made["id"])}


def put(saver: PostgresSaver, values: dict[str, Any], place: Any = PLACE, **metadata: Any) -> Any:
    made = checkpoint(values)
    return saver.put(place, made, metadata, made["channel_versions"])  # type: ignore[arg-type]  # any keys


class State(TypedDict, total=False):
    messages: Annotated[list[AnyMessage], add_messages]
    values: Annotated[list[Any], operator.add]
    note: Any


def graph_of(saver: Any, node: Callable[[State], Any]) -> Any:
    graph: Any = StateGraph(State)
    graph.add_node("node", node)
    graph.add_edge(START, "node")
    graph.add_edge("node", END)
    return graph.compile(checkpointer=saver)


class TestArguments:
    @pytest.mark.parametrize(
        ("given", "field"),
        [
            ({}, "uri"),
            ({"uri": ""}, "uri"),
            ({"uri": "mysql://x"}, "uri"),
            ({"uri": "postgresql:///x", "schema": "a b"}, "schema"),
            ({"uri": "postgresql:///x", "schema": 'a"b'}, "schema"),
            ({"uri": "postgresql:///x", "pool": 3}, "pool"),
            ({"uri": "postgresql:///x", "keep_last": 0}, "keep_last"),
            ({"uri": "postgresql:///x", "keep_last": True}, "keep_last"),
        ],
    )
    def test_what_is_wrong_is_named_before_anything_is_connected(
        self, given: dict[str, Any], field: str
    ) -> None:
        with pytest.raises(Misconfigured) as refused:
            PostgresSaver(**given)
        assert refused.value.field == field

    def test_an_async_pool_is_refused_with_what_to_pass(self) -> None:
        async def make() -> None:
            pool: Any = AsyncConnectionPool("", open=False)
            with pytest.raises(Misconfigured, match="pass a ConnectionPool"):
                PostgresSaver(pool=pool)

        asyncio.run(make())

    def test_pipeline_is_refused_where_LangGraphs_savers_take_it(self) -> None:
        with pytest.raises(Misconfigured) as refused:
            PostgresSaver.from_conn_string("postgresql:///x", pipeline=True)
        assert refused.value.field == "pipeline"

    def test_from_conn_string_works_in_with_and_in_async_with(self, watch: Watch) -> None:
        with PostgresSaver.from_conn_string(watch.uri, schema=watch.name) as saver:
            put(saver, {"a": 1})

        async def again() -> Any:
            async with PostgresSaver.from_conn_string(watch.uri, schema=watch.name) as saver:
                return await saver.aget_tuple(PLACE)

        assert asyncio.run(again()).checkpoint["channel_values"] == {"a": 1}

    def test_a_pool_that_is_shared_stays_open_and_as_it_was(self, watch: Watch) -> None:
        with ConnectionPool(watch.uri, open=True, min_size=1, max_size=1) as pool:
            with PostgresSaver(pool=pool, schema=watch.name) as saver:
                put(saver, {"a": 1})
                assert saver.get_tuple(PLACE) is not None
            with pool.connection() as connection:
                assert not connection.autocommit

    def test_the_first_call_sets_up_and_a_closed_saver_opens_again(self, watch: Watch) -> None:
        saver = PostgresSaver(watch.uri, schema=watch.name)
        put(saver, {"a": 1})
        saver.close()
        saver.close()
        assert saver.get_tuple(PLACE) is not None
        saver.close()


class TestA07:
    """Any method, from anywhere."""

    def test_sync_methods_work_while_a_loop_runs_in_the_thread(self, saver: PostgresSaver) -> None:
        async def inside() -> None:
            saved = put(saver, {"a": [1]})
            saver.put_writes(saved, [("a", 2)], "task")
            assert saver.get_tuple(PLACE) is not None
            assert len(list(saver.list(PLACE))) == 1
            saver.copy_thread("t", "copy")
            saver.prune(["t"])
            saver.delete_for_runs(["r"])
            saver.delete_thread("t")
            assert saver.get_tuple(PLACE) is None

        asyncio.run(inside())

    def test_loops_and_threads_come_and_go(self, saver: PostgresSaver) -> None:
        put(saver, {"a": [1]})

        def in_thread(number: int) -> None:
            place = {"configurable": {"thread_id": f"{number}", "checkpoint_ns": ""}}

            async def in_loop() -> None:
                made = checkpoint({"a": [number]})
                await saver.aput(place, made, {}, made["channel_versions"])  # type: ignore[arg-type]
                found = await saver.aget_tuple(place)  # type: ignore[arg-type]
                assert found is not None
                assert found.checkpoint["channel_values"] == {"a": [number]}

            asyncio.run(in_loop())

        with ThreadPoolExecutor(8) as threads:
            list(threads.map(in_thread, range(40)))
        assert len(list(saver.list(None))) == 41

    def test_a_saver_opened_in_one_loop_serves_another_that_runs_meanwhile(self, watch: Watch) -> None:
        async def opened() -> None:
            async with PostgresSaver(watch.uri, schema=watch.name) as saver:
                put(saver, {"a": 1})
                other: list[Any] = []
                thread = threading.Thread(target=lambda: other.append(asyncio.run(saver.aget_tuple(PLACE))))
                thread.start()
                mine = await saver.aget_tuple(PLACE)
                thread.join()
                assert other == [mine]

        asyncio.run(opened())

    def test_many_callers_share_few_connections(self, watch: Watch) -> None:
        async def many() -> None:
            async with PostgresSaver(watch.uri, schema=watch.name, pool={"max_size": 2}) as saver:
                put(saver, {"a": 1})
                found = await asyncio.gather(*(saver.aget_tuple(PLACE) for _ in range(200)))
                assert all(found)

        asyncio.run(many())


@pytest.mark.parametrize("size", [1, 4])
class TestA03:
    """Connections that are cut."""

    @pytest.fixture
    def saver(self, watch: Watch, size: int) -> Iterator[PostgresSaver]:
        pool = {"min_size": size, "max_size": size}
        with PostgresSaver(named(watch.uri, watch.name), schema=watch.name, pool=pool) as saver:
            until(lambda: len(watch.sessions()) == size)
            yield saver

    @pytest.mark.parametrize("form", ["sync", "async"])
    def test_after_a_cut_of_all_idle_connections_every_call_succeeds(
        self, saver: PostgresSaver, watch: Watch, form: str
    ) -> None:
        for number in range(4):
            made = checkpoint({"a": [number]})
            if form == "sync":
                saver.put(PLACE, made, {}, made["channel_versions"])
                found = saver.get_tuple(PLACE)
            else:
                asyncio.run(saver.aput(PLACE, made, {}, made["channel_versions"]))
                found = asyncio.run(saver.aget_tuple(PLACE))
            assert found is not None
            assert found.checkpoint["channel_values"] == {"a": [number]}
            assert watch.cut() > 0

    @pytest.mark.parametrize("keep_last", [None, 1])
    def test_a_put_that_is_cut_while_it_runs_is_made_once_more(
        self, saver: PostgresSaver, watch: Watch, keep_last: int | None
    ) -> None:
        saver._keep_last = keep_last
        put(saver, {"a": [1]})
        with ThreadPoolExecutor(1) as threads:
            with watch.holding("lock table {}.checkpoints in access exclusive mode"):
                done = threads.submit(put, saver, {"a": [2]})
                until(watch.waiting)
                assert watch.cut_waiting() == 1
                until(watch.waiting)
            done.result()
        found = saver.get_tuple(PLACE)
        assert found is not None
        assert found.checkpoint["channel_values"] == {"a": [2]}

    def test_a_call_that_is_cut_twice_is_unavailable_and_the_next_one_works(
        self, saver: PostgresSaver, watch: Watch
    ) -> None:
        lock = "lock table {}.checkpoints in access exclusive mode"
        with ThreadPoolExecutor(1) as threads, watch.holding(lock):
            done = threads.submit(put, saver, {"a": [2]})
            for _ in range(2):
                until(watch.waiting)
                watch.cut_waiting()
            with pytest.raises(Unavailable):
                done.result()
        put(saver, {"a": [3]})
        assert len(list(saver.list(PLACE))) == 1


class Mood(StrEnum):
    GOOD = "good"


ODD: dict[str, Any] = {
    "NUL": "a\0b",
    "the escape spelled out": "a\\u0000b",
    "NaN": math.nan,
    "infinity": -math.inf,
    "a large float": 1e300,
    "a float that is whole": 1e16,
    "a small float": 5e-324,
    "minus zero": -0.0,
    "a plain float": 0.1,
    "the largest integer": 2**64 - 1,
    "the least integer": -(2**63),
    "a string of a kind": Mood.GOOD,
    "a boolean": True,
    "text": "häßlich 🙂",
}


@pytest.mark.parametrize("kind", ODD)
def test_A08_A23_A33_a_plain_value_comes_back_as_it_was(saver: PostgresSaver, kind: str) -> None:
    value = ODD[kind]
    put(saver, {"note": value})
    found = saver.get_tuple(PLACE)
    assert found is not None
    back = found.checkpoint["channel_values"]["note"]
    assert (repr(back), type(back)) == (repr(value), type(value))


def test_A08_a_lone_surrogate_becomes_what_LangGraphs_serialiser_makes_of_it(saver: PostgresSaver) -> None:
    put(saver, {"note": "a\ud800b"})
    found = saver.get_tuple(PLACE)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"note": "a?b"}


@pytest.mark.parametrize("kind", ["NUL", "NaN", "a large float"])
def test_an_odd_plain_value_is_kept_though_it_has_not_just_changed(saver: PostgresSaver, kind: str) -> None:
    saver.put(PLACE, checkpoint({"note": ODD[kind]}), {}, {})
    found = saver.get_tuple(PLACE)
    assert found is not None
    assert repr(found.checkpoint["channel_values"]["note"]) == repr(ODD[kind])


def test_an_odd_plain_value_without_a_version_is_refused_by_name(saver: PostgresSaver) -> None:
    made = {**checkpoint({"note": "a\0b"}), "channel_versions": {}}
    with pytest.raises(InvalidValue, match="no version") as refused:
        saver.put(PLACE, made, {}, {})  # type: ignore[arg-type]  # a dict
    assert refused.value.field == "note"
    assert list(saver.list(None)) == []


@pytest.mark.parametrize("name", ["a\0b", "a\ud800"])
def test_a_channel_whose_name_no_JSON_can_hold_is_refused_by_name(saver: PostgresSaver, name: str) -> None:
    with pytest.raises(InvalidValue) as refused:
        put(saver, {name: 1})
    assert refused.value.field == name
    assert list(saver.list(None)) == []


def test_A08_a_run_whose_node_returns_NUL_succeeds(saver: PostgresSaver) -> None:
    told = {"messages": [AIMessage("x\0y", id="1")], "note": "x\0y", "values": ["\0"]}
    graph = graph_of(saver, lambda _: told)
    place = {**PLACE, "metadata": {"origin": "a\0b"}}
    assert graph.invoke({"values": ["\\u0000"]}, place)["note"] == "x\0y"
    state = graph.get_state(PLACE)
    assert state.values == {**told, "values": ["\\u0000", "\0"]}
    assert state.metadata["origin"] == "ab"


def test_theirs_reads_the_values_that_are_kept_beside_the_row(saver: PostgresSaver, watch: Watch) -> None:
    put(saver, {"note": "a\0b", "score": 1e300, "plain": "text"})
    with Theirs.from_conn_string(set_to(watch.uri, "search_path", watch.name)) as theirs:
        found = theirs.get_tuple(PLACE)
    assert found is not None
    assert found.checkpoint["channel_values"] == {"note": "a\0b", "score": 1e300, "plain": "text"}


def test_A33_what_cannot_be_serialised_is_named_and_nothing_is_written(saver: PostgresSaver) -> None:
    with pytest.raises(InvalidValue, match="'values'") as refused:
        put(saver, {"fine": [1], "values": [1, {"lock": threading.Lock()}]})
    assert refused.value.field is not None
    assert refused.value.field.startswith("values[1]")
    saved = put(saver, {"a": 1})
    with pytest.raises(InvalidValue, match="'values'"):
        saver.put_writes(saved, [("fine", 1), ("values", threading.Lock())], "task")
    (found,) = saver.list(None)
    assert found.pending_writes == []


def test_A32_limits(saver: PostgresSaver) -> None:
    for number in range(3):
        put(saver, {"a": number})
    with pytest.raises(InvalidPage):
        list(saver.list(PLACE, limit=-1))
    assert list(saver.list(PLACE, limit=0)) == []
    assert len(list(saver.list(PLACE, limit=2))) == 2
    assert len(list(saver.list(PLACE, limit=10**9))) == 3


@pytest.mark.parametrize("config", [{}, {"configurable": {}}, {"configurable": {"thread_id": "a\0"}}])
def test_a_config_without_a_thread_is_refused(saver: PostgresSaver, config: Any) -> None:
    with pytest.raises(InvalidInput) as refused:
        saver.get_tuple(config)
    assert refused.value.field == "configurable.thread_id"


def test_several_writes_of_one_place_in_one_call_are_one_row(saver: PostgresSaver) -> None:
    saved = put(saver, {"a": 1})
    saver.put_writes(saved, [("__interrupt__", "first"), ("__interrupt__", "last")], "task")
    (found,) = saver.list(None)
    assert found.pending_writes == [("task", "__interrupt__", "last")]


def test_a_filter_is_answered_by_the_database_and_reaches_into_objects(saver: PostgresSaver) -> None:
    for number in range(4):
        put(saver, {"a": 1}, source="loop", step=number, parents={"": f"{number % 2}"})
    assert [each.metadata["step"] for each in saver.list(PLACE, filter={"parents": {"": "1"}})] == [3, 1]
    assert [each.metadata["step"] for each in saver.list(None, filter={"step": 2})] == [2]
    assert list(saver.list(PLACE, filter={"missing": 1})) == []


OLD = [f"1ef00000-0000-6000-8000-00000000000{number}" for number in range(4)]


class TestA34:
    """Rows as older releases wrote them."""

    @pytest.fixture
    def old(self, saver: PostgresSaver, watch: Watch) -> PostgresSaver:
        """Return a saver of a thread of three checkpoints, the oldest the first release's."""
        rows: list[tuple[str, str | None, dict[str, Any], dict[str, Any]]] = [
            # No values at all, integers as versions, and what nodes wrote in the metadata.
            (OLD[1], None, {"v": 1, "channel_versions": {"a": 1}}, {"writes": {"node": {"messages": ["x"]}}}),
            (OLD[2], OLD[1], {"v": 2, "channel_values": None, "channel_versions": {"a": 2}}, {"step": 1}),
            (OLD[3], OLD[2], {"v": 3, "channel_versions": {"a": "3.0"}}, {"step": 2, "writes": None}),
        ]
        for checkpoint_id, parent, body, metadata in rows:
            full = {"id": checkpoint_id, "ts": "2024-01-01", "versions_seen": {}, "pending_sends": [], **body}
            watch.execute(
                "insert into {}.checkpoints "
                "(thread_id, checkpoint_id, parent_checkpoint_id, checkpoint, metadata) "
                "values ('t', %s, %s, %s::jsonb, %s::jsonb)",
                *(checkpoint_id, parent, json.dumps(full), json.dumps(metadata)),
            )
        blob = (
            "insert into {}.checkpoint_blobs (thread_id, channel, version, type, blob) "
            "values ('t', 'a', %s, %s, %s)"
        )
        for version, value in (("1", [1]), ("2", [1, 2]), ("3.0", [1, 2, 3])):
            watch.execute(blob, version, *saver.serde.dumps_typed(value))
        watch.execute(
            "insert into {}.checkpoint_writes (thread_id, checkpoint_id, task_id, idx, channel, type, blob)"
            " values ('t', %s, 'task', 0, %s, %s, %s)",
            *(OLD[2], TASKS, *saver.serde.dumps_typed("sent")),
        )
        return saver

    def test_they_are_read(self, old: PostgresSaver) -> None:
        found = list(old.list(PLACE))
        assert [each.checkpoint["channel_values"].get("a") for each in found] == [[1, 2, 3], [1, 2], [1]]
        assert found[0].checkpoint["channel_values"][TASKS] == ["sent"]
        assert dict(found[2].metadata) == {"writes": {"node": {"messages": ["x"]}}}

    def test_they_are_gone_on_with(self, old: PostgresSaver) -> None:
        graph = graph_of(old, lambda _: {"note": "new"})
        assert graph.get_state(PLACE).config["configurable"]["checkpoint_id"] == OLD[3]
        graph.invoke({"values": ["more"]}, PLACE)
        assert graph.get_state(PLACE).values["note"] == "new"
        assert len(list(graph.get_state_history(PLACE))) == 6
        old.prune(["t"])
        assert graph.get_state(PLACE).values["note"] == "new"

    def test_a_thread_whose_versions_are_numbers_is_gone_on_with(
        self, saver: PostgresSaver, watch: Watch
    ) -> None:
        versions: Any = {"values": 2, "__start__": 2, "note": 3}
        made: Any = {**checkpoint({"values": ["old"], "note": "old"}), "channel_versions": versions}
        saver.put(PLACE, made, {"source": "loop", "step": 1}, versions)
        graph = graph_of(saver, lambda _: {"note": "new"})
        graph.invoke({"messages": [AIMessage("said", id="1")]}, PLACE)
        assert graph.get_state(PLACE).values["values"] == ["old"]
        graph.invoke({"values": ["more"]}, PLACE)
        saver.prune(["t"])
        assert graph.get_state(PLACE).values["values"] == ["old", "more"]
        with Theirs.from_conn_string(set_to(watch.uri, "search_path", watch.name)) as theirs:
            assert graph_of(theirs, lambda _: {}).get_state(PLACE).values["values"] == ["old", "more"]

    def test_a_prune_leaves_what_the_latest_reads_of_its_parent(self, old: PostgresSaver) -> None:
        before = old.get_tuple(PLACE)
        old.prune(["t"])
        assert old.get_tuple(PLACE) == before


class TestPooler:
    """Behind a transaction pooler, where no two statements need meet the same server process."""

    # Where tests run by themselves, nobody would notice that these do not.
    pytestmark = pytest.mark.skipif(
        PROGRAM is None and "CI" not in os.environ, reason="PgBouncer is not installed"
    )

    @pytest.mark.parametrize("options", [{}, {"prepared_statements": False}, {"keep_last": 1}])
    def test_A42_everything_works(self, options: dict[str, Any]) -> None:
        with (
            Server(FAST) as server,
            Pooler(server, 3) as pooler,
            PostgresSaver(pooler.uri, **options) as saver,
        ):

            def work(number: int) -> None:
                place: Any = {"configurable": {"thread_id": f"{number}"}}
                graph = graph_of(saver, lambda _: {"values": ["node"]})
                for turn in range(3):
                    assert len(graph.invoke({"values": ["said"]}, place)["values"]) == 2 * (turn + 1)
                saver.copy_thread(f"{number}", f"copy of {number}")
                saver.prune([f"{number}"])
                assert len(graph.get_state(place).values["values"]) == 6
                saver.delete_thread(f"copy of {number}")
                saver.delete_thread(f"{number}")

            with ThreadPoolExecutor(6) as threads:
                list(threads.map(work, range(12)))
            assert list(saver.list(None)) == []
