"""Each stream mode says what langgraph's clients read, alone and together with the others."""

from __future__ import annotations

import asyncio
import math
from contextlib import aclosing
from typing import Any, cast

import pytest
from langchain_core.messages import HumanMessage
from langgraph.config import get_stream_writer
from langgraph.errors import GraphDrained
from langgraph.graph import START, StateGraph
from langgraph.runtime import RunControl, Runtime
from langgraph.types import Command
from typing_extensions import TypedDict

from stateroom.engine.frame_names import mode_of
from stateroom.model.run_kwargs import STREAM_MODES
from tests.streaming.graphs import HARD_TEXT, HELLO, TALK, Notes, agent, compiled, single
from tests.streaming.running import named, read, run, stream

SECRET = "hunter2"
WAYS: list[dict[str, Any]] = [
    {"stream_mode": ("values",)},
    {"stream_mode": ("values", "events")},
    {"protocol": True},
]


def test_values_are_the_state_after_each_step() -> None:
    assert run(single({"notes": [1]}), {"notes": [0]}) == [
        ("values", {"notes": [0]}),
        ("values", {"notes": [0, 1]}),
    ]


def test_updates_are_what_nodes_return() -> None:
    assert run(single({"notes": [1]}), {}, stream_mode=("updates",)) == [
        ("updates", {"node": {"notes": [1]}})
    ]


def test_custom_is_what_nodes_write() -> None:
    def node(_: Any) -> dict[str, Any]:
        for written in ({"at": 0.5}, "text", None, [math.nan]):
            get_stream_writer()(written)
        return {}

    frames = run(single(node), {}, stream_mode=("custom",))
    assert frames == [("custom", {"at": 0.5}), ("custom", "text"), ("custom", None), ("custom", [None])]


def test_tasks_are_starts_and_results() -> None:
    start, result = named(run(single({"notes": [1]}), {"notes": []}, stream_mode=("tasks",)), "tasks")
    assert start == {
        **{"id": result["id"], "name": "node", "input": {"notes": []}},
        **{"triggers": ["branch:to:node"]},
    }
    assert {**result, "id": None} == {
        **{"id": None, "name": "node", "error": None},
        **{"result": {"notes": [1]}, "interrupts": []},
    }


def test_checkpoints_are_the_states_that_are_kept() -> None:
    frames = named(run(single({"notes": [1]}), {"notes": []}, stream_mode=("checkpoints",)), "checkpoints")
    assert [each["metadata"]["step"] for each in frames] == [-1, 0, 1]
    for each in frames:
        keys = {"config", "parent_config", "values", "metadata", "next", "tasks"}
        assert set(each) == keys
        configurable = each["config"]["configurable"]
        assert set(configurable) == {"thread_id", "checkpoint_ns", "checkpoint_id"}
    assert frames[1]["parent_config"] == frames[0]["config"]
    assert (frames[0]["parent_config"], frames[-1]["values"]) == (None, {"notes": [1]})


def test_debug_is_checkpoints_and_tasks_with_their_steps() -> None:
    frames = named(run(single({"notes": [1]}), {"notes": []}, stream_mode=("debug",)), "debug")
    told = [(each["type"], each["step"]) for each in frames]
    assert told == [
        *[("checkpoint", -1), ("checkpoint", 0), ("task", 1)],
        *[("task_result", 1), ("checkpoint", 1)],
    ]
    assert all(set(each) == {"step", "timestamp", "type", "payload"} for each in frames)


def test_events_are_langchains_with_the_graphs_own_stream_in_them() -> None:
    frames = run(single({"notes": [1]}), {"notes": []}, stream_mode=("events", "values", "updates"))
    events = named(frames, "events")
    assert [each["event"] for each in events if not each["parent_ids"]] == [
        *["on_chain_start", "on_chain_stream", "on_chain_stream", "on_chain_stream", "on_chain_end"],
    ]
    assert {"event", "name", "run_id", "tags", "metadata", "data", "parent_ids"} <= set(events[0])
    streamed = [
        each["data"]["chunk"] for each in events if "chunk" in each["data"] and not each["parent_ids"]
    ]
    assert streamed == [[name, data] for name, data in frames if name != "events"]
    assert streamed[-1] == ["values", {"notes": [1]}]


def test_events_alone_bring_nothing_else() -> None:
    frames = run(single({"notes": [1]}), {}, stream_mode=("events",))
    assert {name for name, _ in frames} == {"events"}
    last = frames[-1][1]
    assert (last["event"], last["data"]["output"]) == ("on_chain_end", {"notes": [1]})


def test_no_mode_streams_nothing_and_still_runs_the_graph() -> None:
    graph = single({"notes": [1]})
    assert run(graph, {}, stream_mode=()) == []
    assert run(graph, {})[-1] == ("values", {"notes": [1, 1]})


def test_all_modes_come_in_one_pass() -> None:
    frames = run(agent(), HELLO, stream_mode=STREAM_MODES, stream_subgraphs=True)
    assert {mode_of(name) for name, _ in frames} == set(STREAM_MODES)
    said = [data for name, data in frames if name.startswith("messages|")]
    assert "".join(message["content"] for message, _ in said) == TALK


def test_subgraphs_are_named_by_their_path() -> None:
    frames = run(agent(), HELLO, stream_mode=("values", "updates", "custom"), stream_subgraphs=True)
    inside = {name for name, _ in frames if "|" in name}
    [path] = {name.partition("|")[2] for name in inside}
    assert path.startswith("sub:")
    assert {f"custom|{path}", f"values|{path}", f"updates|{path}"} == inside
    assert named(frames, f"custom|{path}") == [{"from": "inner"}]


def test_subgraphs_are_silent_unless_asked_for() -> None:
    frames = run(agent(), HELLO, stream_mode=("values", "updates", "tasks", "events"))
    assert {name for name, _ in frames} == {"values", "updates", "tasks", "events"}


def test_graphs_in_graphs_are_named_by_all_of_their_path() -> None:
    leaf = StateGraph(Notes).add_node("deep", lambda _: {"notes": [1]}).add_edge(START, "deep").compile()
    middle = StateGraph(Notes).add_node("leaf", leaf).add_edge(START, "leaf").compile()
    graph = compiled(StateGraph(Notes).add_node("middle", middle).add_edge(START, "middle"))
    names = {name for name, _ in run(graph, {}, stream_mode=("updates",), stream_subgraphs=True)}
    parts = [[part.partition(":")[0] for part in name.split("|")] for name in sorted(names, key=len)]
    assert parts == [["updates"], ["updates", "middle"], ["updates", "middle", "leaf"]]


@pytest.mark.parametrize("way", WAYS)
def test_what_a_graph_raises_is_raised(way: dict[str, Any]) -> None:
    def node(_: Any) -> dict[str, Any]:
        raise ValueError("boom")

    with pytest.raises(ValueError, match="boom"):
        run(single(node), {}, **way)


@pytest.mark.parametrize("modes", [("values",), ("values", "events")])
def test_a_command_to_the_parent_is_told_to_whoever_is_it(modes: tuple[str, ...]) -> None:
    command = Command(graph=Command.PARENT, goto="elsewhere", update={"notes": [1]})
    frames = run(single(lambda _: command), {"notes": []}, stream_mode=modes)
    told = {"graph": "__parent__", "goto": "elsewhere", "update": {"notes": [1]}, "resume": None}
    assert frames[-1] == ("command", told)


@pytest.mark.parametrize("way", WAYS)
def test_closing_the_stream_stops_the_graph(way: dict[str, Any]) -> None:
    began = asyncio.Event()
    stopped: list[bool] = []

    async def node(_: Any) -> dict[str, Any]:
        began.set()
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        return {}

    async def leave() -> None:
        frames: Any = stream(single(node), {"notes": []}, **way)

        async def follow() -> None:
            async with aclosing(frames):
                async for _ in frames:
                    pass

        task = asyncio.create_task(follow())
        await asyncio.wait_for(began.wait(), 30)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        assert task.cancelled()

    asyncio.run(leave())
    assert stopped == [True]


@pytest.mark.parametrize(
    "way", [{"stream_mode": ("custom",)}, {"stream_mode": ("custom", "events")}, WAYS[2]]
)
def test_leaving_the_stream_at_a_frame_stops_the_graph(way: dict[str, Any]) -> None:
    stopped: list[bool] = []

    async def node(_: Any) -> dict[str, Any]:
        get_stream_writer()("here")
        try:
            await asyncio.Event().wait()
        finally:
            stopped.append(True)
        return {}

    async def leave() -> None:
        async with aclosing(cast("Any", stream(single(node), {"notes": []}, **way))) as frames:
            async for frame in frames:
                if b"here" in frame.data:
                    break
        assert stopped == [True]

    asyncio.run(leave())


@pytest.mark.parametrize("way", WAYS)
def test_a_drained_run_stops_between_steps_and_goes_on_later(way: dict[str, Any]) -> None:
    control = RunControl()

    def first(_: Any) -> dict[str, Any]:
        control.request_drain("stopping")
        return {"notes": ["first"]}

    graph: Any = StateGraph(Notes)
    graph.add_node("first", first).add_node("second", lambda _: {"notes": ["second"]})
    graph = compiled(graph.add_edge(START, "first").add_edge("first", "second"))
    with pytest.raises(GraphDrained):
        run(graph, {}, control=control, **way)
    assert run(graph, None)[-1] == ("values", {"notes": ["first", "second"]})


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(("durability", "kept"), [("exit", 1), ("sync", 3), ("async", 3)])
def test_durability_decides_what_is_kept(way: dict[str, Any], durability: str, kept: int) -> None:
    graph = single({"notes": [1]})
    run(graph, {"notes": []}, durability=durability, **way)
    history = graph.get_state_history({"configurable": {"thread_id": "t"}})
    assert len(list(history)) == kept


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("stops", "notes", "following"),
    [
        ({"interrupt_before": ("node",)}, [], ("node",)),
        ({"interrupt_before": "*"}, [], ("node",)),
        ({"interrupt_after": ("node",)}, [1], ()),
        ({"interrupt_after": ("another",)}, [1], ()),
    ],
)
def test_runs_stop_at_nodes(way: dict[str, Any], stops: dict[str, Any], notes: Any, following: Any) -> None:
    graph = single({"notes": [1]})
    run(graph, {"notes": []}, **stops, **way)
    state = graph.get_state({"configurable": {"thread_id": "t"}})
    assert (state.values["notes"], state.next) == (notes, following)


@pytest.mark.parametrize("way", WAYS)
def test_context_reaches_nodes(way: dict[str, Any]) -> None:
    class Context(TypedDict):
        who: str

    seen: list[Any] = []

    def node(_: Notes, runtime: Runtime[Context]) -> dict[str, Any]:
        seen.append(runtime.context)
        return {}

    builder: Any = StateGraph(Notes, context_schema=Context)
    run(compiled(builder.add_node("node", node).add_edge(START, "node")), {}, context={"who": "me"}, **way)
    assert seen == [{"who": "me"}]


@pytest.mark.parametrize("way", [*WAYS, {"stream_mode": STREAM_MODES, "stream_subgraphs": True}])
def test_secrets_are_in_no_frame(way: dict[str, Any]) -> None:
    config = {
        "configurable": {
            **{"langgraph_auth_user": {"token": SECRET}, "langgraph_auth_user_id": SECRET},
            **{"__hidden": SECRET, "api_key": SECRET, "x-tenant": SECRET, "object": object()},
        },
        "metadata": {"access_token": SECRET, "langgraph_auth_user_id": SECRET, "shown": "yes"},
    }
    frames = run(agent(), HELLO, config=config, context={"password": SECRET}, **way)
    assert SECRET not in repr(frames)
    assert ("'shown': 'yes'" in repr(frames)) is (way != WAYS[0])


@pytest.mark.parametrize("way", [*WAYS, {"stream_mode": STREAM_MODES}])
def test_a23_hard_values_arrive_as_they_are_and_as_strict_json(way: dict[str, Any]) -> None:
    def node(_: Any) -> dict[str, Any]:
        get_stream_writer()({HARD_TEXT: [HARD_TEXT, 2**80, "\ud800"]})
        return {"notes": [HARD_TEXT, math.nan, {"x": [-math.inf]}], "messages": HARD_TEXT}

    class State(Notes):
        messages: Any

    given = {"notes": [HARD_TEXT], "messages": [HumanMessage(HARD_TEXT)]}
    frames = run(single(node, State), given, **way)
    told = [data for name, data in frames if name in ("values", "protocol/values")][-1]
    values = told["data"] if "protocol" in way else told
    assert values["notes"] == [HARD_TEXT, HARD_TEXT, None, {"x": [None]}]
    for name, data in frames:
        if name in ("custom", "protocol/custom"):
            written = data["data"]["payload"] if "protocol" in way else data
            assert written == {HARD_TEXT: [HARD_TEXT, 2**80, "\ufffd"]}


def test_a39_text_is_not_escaped() -> None:
    async def raw() -> bytes:
        return b"".join([frame.data async for frame in stream(single({"notes": ["中\u2028😀"]}), {})])

    data = asyncio.run(raw())
    assert "中\u2028😀".encode() in data
    assert b"\n" not in data
    assert b"\\u" not in data
    assert read(data.partition(b"}")[0] + b"}")
