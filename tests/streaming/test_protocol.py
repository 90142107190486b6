"""A run says on every channel of the threads' protocol what langgraph's SDKs read there."""

from __future__ import annotations

import asyncio
import warnings
from itertools import groupby
from typing import Any

import pytest
from langchain_core.language_models.chat_model_stream import ChatModelStream
from langchain_core.messages import AIMessage, ChatMessage, HumanMessage, SystemMessage, ToolMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.config import get_stream_writer
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.stream import CustomTransformer, ProtocolEvent, StreamChannel, StreamTransformer
from langgraph_sdk.stream.decoders import MessagesDecoder, SubgraphsDecoder, ToolCallsDecoder
from langgraph_sdk.stream.subscription import infer_channel
from typing_extensions import override

from tests.streaming.graphs import (
    HARD_TEXT,
    HELLO,
    TALK,
    Notes,
    agent,
    asking,
    compiled,
    parallel_models,
    single,
)
from tests.streaming.running import params, protocol, read, stream

CHANNELS = {
    *{"values", "updates", "messages", "tools"},
    *{"lifecycle", "tasks", "custom", "checkpoints"},
}


@pytest.fixture(scope="module")
def told() -> list[dict[str, Any]]:
    """Return the events of a run in which everything happens."""
    return protocol(agent(), HELLO, config={"metadata": {"mine": 1}})


def _spoken(events: list[dict[str, Any]], namespace: list[str]) -> list[ChatModelStream]:
    made = lambda **named: ChatModelStream(**named)  # noqa: E731
    decoder = MessagesDecoder(namespace, made)
    return [message for event in events for message in decoder.feed(event)]


def _namespace(events: list[dict[str, Any]]) -> list[str]:
    return next(each["namespace"] for each in params(events, "custom"))


def test_every_channel_is_fed(told: list[dict[str, Any]]) -> None:
    assert {infer_channel(event) for event in told} == CHANNELS  # type: ignore[arg-type]
    asked = protocol(asking("node"), {"notes": []})
    assert "input" in {infer_channel(event) for event in asked}  # type: ignore[arg-type]


def test_every_event_has_a_namespace_and_a_time_in_milliseconds(told: list[dict[str, Any]]) -> None:
    times = [event["params"]["timestamp"] for event in told]
    # In no order: LangGraph reads the wall clock, and says that its times may go back.
    assert all(1_700_000_000_000 < time < 10_000_000_000_000 for time in times)
    assert all(isinstance(event["params"]["namespace"], list) for event in told)


def test_the_root_begins_first_and_its_end_is_left_to_readers(told: list[dict[str, Any]]) -> None:
    root = [(event["method"], event["params"]["data"]) for event in told[:2]]
    assert root == [
        ("lifecycle", {"event": "started", "graph_name": "agent"}),
        ("lifecycle", {"event": "running", "graph_name": "agent"}),
    ]
    assert [each for each in params(told, "lifecycle")[2:] if not each["namespace"]] == []


def test_a_subgraph_begins_and_ends_in_its_own_namespace(told: list[dict[str, Any]]) -> None:
    started, completed = params(told, "lifecycle")[2:]
    assert started["namespace"] == completed["namespace"] == _namespace(told)
    task = started["namespace"][0].partition(":")[2]
    assert started["data"] == {"event": "started", "graph_name": "sub", "trigger_call_id": task}
    assert completed["data"] == {"event": "completed"}


def test_a_subgraph_that_asks_is_interrupted() -> None:
    states = [
        each["data"]["event"] for each in params(protocol(asking("subgraph"), {"notes": []}), "lifecycle")
    ]
    assert states == ["started", "running", "started", "interrupted"]


def test_the_sdk_finds_subgraphs(told: list[dict[str, Any]]) -> None:
    class Handle:
        def __init__(self, **named: Any) -> None:
            self.trigger_call_id, self.graph_name = named["trigger_call_id"], named["graph_name"]
            self.events: list[Any] = []
            self.ends: list[Any] = []

        def _push_event(self, event: Any) -> None:
            self.events.append(event["method"])

        def _finish(self, *end: Any) -> None:
            self.ends.append(end)

    decoder = SubgraphsDecoder((), lambda **named: Handle(**named))
    [handle] = [found for event in told for found in decoder.feed(event)]
    assert (handle.graph_name, handle.ends) == ("sub", [("completed", None)])
    assert {"messages", "values", "custom"} <= set(handle.events)


def test_the_sdk_reads_tool_calls(told: list[dict[str, Any]]) -> None:
    seen: list[Any] = []

    class Handle:
        def __init__(self, **named: Any) -> None:
            seen.append((named["tool_call_id"], named["name"], named["input"]))

        def _finish(self, output: Any) -> None:
            seen.append((output["type"], output["content"]))

    decoder = ToolCallsDecoder([], lambda **named: Handle(**named))
    for event in told:
        list(decoder.feed(event))
    assert seen == [("call-1", "add", {"a": 1, "b": 2}), ("tool", "3")]


def test_the_sdk_reads_messages_as_they_are_generated(told: list[dict[str, Any]]) -> None:
    namespace = _namespace(told)
    [message] = _spoken(told, namespace)
    assert (str(message.text), message.node) == (TALK, "inner")
    events = [each["data"] for each in params(told, "messages") if each["namespace"] == namespace]
    kinds = [kind for kind, _ in groupby(event["event"] for event in events)]
    assert kinds == [
        *["message-start", "content-block-start", "content-block-delta"],
        *["content-block-finish", "message-finish"],
    ]
    assert events[0]["role"] == "ai"
    assert events[0]["metadata"]["mine"] == 1
    final = params(told, "values")[-1]["data"]["messages"]
    assert message.message_id in [each["id"] for each in final]


def test_a_message_that_a_node_returns_is_told_like_a_generated_one(told: list[dict[str, Any]]) -> None:
    [message] = _spoken(told, [])
    assert (message.message_id, message.node) == ("decided", "decide")
    calls = message.output.tool_calls
    assert [(call["name"], call["args"], call["id"]) for call in calls] == [
        ("add", {"a": 1, "b": 2}, "call-1")
    ]


def test_messages_that_are_generated_together_are_told_apart() -> None:
    events = protocol(parallel_models(), HELLO)
    data = [each["data"] for each in params(events, "messages")]
    # By its run in JavaScript, by the message in Python.
    assert len(list(groupby(each["run_id"] for each in data))) > 2, "the two did not speak at the same time"
    assert {each["run_id"] for each in data} == {each["run_id"] for each in data if "id" in each}
    said = sorted(str(message.text) for message in _spoken(events, []))
    assert said == ["five six seven eight", "one two three four"]


def test_roles_are_those_of_the_messages_and_tools_answer_elsewhere() -> None:
    answer = {
        "messages": [
            *[HumanMessage("a", id="1"), SystemMessage("b", id="2"), AIMessage("c", id="3")],
            *[ToolMessage("d", tool_call_id="x", id="4"), ChatMessage(content="e", role="critic", id="5")],
        ]
    }
    events = protocol(single(answer, MessagesState), HELLO)
    starts = [each["data"] for each in params(events, "messages") if each["data"]["event"] == "message-start"]
    assert [(each["role"], each["id"]) for each in starts] == [("human", "1"), ("system", "2"), ("ai", "3")]


def test_updates_name_their_node() -> None:
    events = protocol(single({"notes": [1]}), {"notes": []})
    assert [each["data"] for each in params(events, "updates")] == [
        {"node": "node", "values": {"notes": [1]}}
    ]
    asked = protocol(asking("node"), {"notes": []})
    [interrupts] = [each["data"]["values"] for each in params(asked, "updates")]
    assert list(interrupts) == ["__interrupt__"]


def test_values_are_the_state() -> None:
    events = protocol(single({"notes": [1]}), {"notes": []})
    assert [each["data"] for each in params(events, "values")] == [{"notes": []}, {"notes": [1]}]
    assert all("interrupts" not in each for each in params(events, "values"))


def test_checkpoints_are_light(told: list[dict[str, Any]]) -> None:
    found = [each["data"] for each in params(told, "checkpoints") if not each["namespace"]]
    assert [each["step"] for each in found] == [-1, 0, 1, 2, 3]
    assert [each["source"] for each in found] == ["input", *["loop"] * 4]
    assert [each.get("parent_id") for each in found] == [None, *(each["id"] for each in found[:-1])]
    assert all("values" not in each for each in found)
    assert found[-1]["config"]["configurable"]["checkpoint_id"] == found[-1]["id"]


def test_a_checkpoint_comes_right_before_its_values(told: list[dict[str, Any]]) -> None:
    for number, event in enumerate(told):
        if event["method"] == "values":
            before = told[number - 1]
            assert before["method"] == "checkpoints"
            assert before["params"]["namespace"] == event["params"]["namespace"]
    # The first checkpoint has the input still before it.
    assert len(params(told, "checkpoints")) == len(params(told, "values")) + 2


@pytest.mark.filterwarnings("ignore:.durability. has no effect")
def test_values_that_no_checkpoint_follows_come_too() -> None:
    builder = StateGraph(Notes).add_node("node", lambda _: {"notes": [1]}).add_edge(START, "node")
    events = protocol(builder.compile(), {"notes": []})
    assert [each["data"] for each in params(events, "values")] == [{"notes": []}, {"notes": [1]}]


def test_tasks_are_starts_and_results_in_their_namespaces(told: list[dict[str, Any]]) -> None:
    tasks = params(told, "tasks")
    names = [(each["data"]["name"], "result" in each["data"]) for each in tasks]
    assert names == [
        *[("sub", False), ("inner", False), ("inner", True), ("sub", True)],
        *[("decide", False), ("decide", True), ("tools", False), ("tools", True)],
    ]
    assert tasks[1]["namespace"] == _namespace(told)
    assert tasks[0]["namespace"] == []


def test_custom_events_are_payloads_with_a_name_if_they_say_so() -> None:
    def node(_: Any) -> dict[str, Any]:
        for written in (HARD_TEXT, {"a": 1}, {"name": "progress", "payload": 0.5}, {"name": "no payload"}):
            get_stream_writer()(written)
        return {}

    events = [event for event in protocol(single(node), {"notes": []}) if event["method"] == "custom"]
    assert [event["params"]["data"] for event in events] == [
        {"payload": HARD_TEXT},
        {"payload": {"a": 1}},
        {"name": "progress", "payload": 0.5},
        {"payload": {"name": "no payload"}},
    ]
    channels = [infer_channel(event) for event in events]  # type: ignore[arg-type]
    assert channels == ["custom", "custom", "custom:progress", "custom"]


def test_a_graphs_own_transformers_are_heard() -> None:
    class Counting(StreamTransformer):
        required_stream_modes = ("updates",)

        @override
        def init(self) -> dict[str, Any]:
            self.counts: StreamChannel[int] = StreamChannel("count")
            return {"count": self.counts}

        @override
        def process(self, event: ProtocolEvent) -> bool:
            if event["method"] == "updates":
                self.counts.push(len(event["params"]["data"]))
            return True

    builder = StateGraph(Notes).add_node("node", lambda _: {"notes": [1]}).add_edge(START, "node")
    graph = builder.compile(checkpointer=InMemorySaver(), transformers=[Counting, CustomTransformer])
    custom = [each["data"] for each in params(protocol(graph, {}), "custom")]
    assert custom == [{"name": "count", "payload": 1}]


def test_a_failing_subgraph_fails_before_the_run_does() -> None:
    def fail(_: Any) -> dict[str, Any]:
        raise ValueError("boom")

    sub: Any = StateGraph(Notes)
    sub = sub.add_node("inner", fail).add_edge(START, "inner").compile()
    graph = compiled(StateGraph(Notes).add_node("sub", sub).add_edge(START, "sub"))
    frames: list[Any] = []

    async def gather() -> None:
        async for frame in stream(graph, {"notes": []}, protocol=True):
            frames.append((frame.event, read(frame.data)["data"]))

    with pytest.raises(ValueError, match="boom"):
        asyncio.run(gather())
    failed = {"event": "failed", "error": "boom"}
    assert ("protocol/lifecycle", failed) in frames
    assert ("protocol/values", {"notes": []}) in frames


def test_nothing_warns_of_the_protocol_being_young() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert protocol(single({"notes": [1]}), {"notes": []})
