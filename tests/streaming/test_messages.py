"""Messages come token by token, or grown together, or whole, as each mode has them."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from langchain_core.messages import AIMessage, AIMessageChunk, HumanMessage, ToolMessage
from langgraph.graph import START, MessagesState, StateGraph

from stateroom.engine.message_streaming import MessageFrames
from tests.streaming.graphs import HARD_TEXT, HELLO, TALK, agent, compiled, parallel_models, single, talker
from tests.streaming.running import named, read, run

_WORDS = ["hello", " ", "big", " ", "world"]


def _speaker(text: str) -> Any:
    model = talker(text)

    async def speak(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke(state["messages"])]}

    return compiled(StateGraph(MessagesState).add_node("speak", speak).add_edge(START, "speak"))


def test_messages_tuple_is_each_token_with_where_it_comes_from() -> None:
    frames = run(_speaker(TALK), HELLO, stream_mode=("messages-tuple",), config={"metadata": {"mine": 1}})
    assert {name for name, _ in frames} == {"messages"}
    tokens = [token for _, (token, _) in frames]
    assert [token["content"] for token in tokens] == _WORDS
    assert {token["type"] for token in tokens} == {"AIMessageChunk"}
    assert len({token["id"] for token in tokens}) == 1
    for _, (_, metadata) in frames:
        assert metadata["langgraph_node"] == "speak"
        assert metadata["langgraph_step"] == 1
        assert metadata["langgraph_checkpoint_ns"].startswith("speak:")
        assert (metadata["thread_id"], metadata["mine"]) == ("t", 1)


def test_messages_grow_and_are_complete_at_their_end() -> None:
    frames = run(_speaker(TALK), HELLO, stream_mode=("messages",))
    names = [name for name, _ in frames]
    assert names == ["messages/metadata", *["messages/partial"] * 5, "messages/complete"]
    [told] = frames[0][1].items()
    assert told[1]["metadata"]["langgraph_node"] == "speak"
    grown = [message for _, [message] in frames[1:]]
    assert [each["content"] for each in grown[:5]] == ["".join(_WORDS[: end + 1]) for end in range(5)]
    assert grown[5] == grown[4]
    assert {(each["type"], each["id"]) for each in grown} == {("ai", told[0])}
    assert all("tool_call_chunks" not in each for each in grown)


def test_a_message_that_a_node_returns_is_complete_at_once() -> None:
    answer = {"messages": [AIMessage("whole", id="a"), ToolMessage("done", tool_call_id="c", id="b")]}
    frames = run(single(answer, MessagesState), HELLO, stream_mode=("messages",))
    assert [name for name, _ in frames] == ["messages/metadata", "messages/complete"] * 2
    assert [message["content"] for (message,) in named(frames, "messages/complete")] == ["whole", "done"]
    assert [message["type"] for (message,) in named(frames, "messages/complete")] == ["ai", "tool"]


def test_both_modes_may_be_asked_for() -> None:
    frames = run(_speaker(TALK), HELLO, stream_mode=("messages", "messages-tuple", "values"))
    partial = [message["content"] for (message,) in named(frames, "messages/partial")]
    tokens = [token["content"] for token, _ in named(frames, "messages")]
    assert (partial[-1], "".join(tokens)) == (TALK, TALK)
    assert named(frames, "values")[-1]["messages"][-1]["content"] == TALK


def test_messages_that_are_generated_together_grow_apart() -> None:
    frames = run(parallel_models(), HELLO, stream_mode=("messages",))
    order = [message["id"] for (message,) in named(frames, "messages/partial")]
    assert len(list(groupby(order))) > 2, "the two did not speak at the same time"
    complete = [message["content"] for (message,) in named(frames, "messages/complete")]
    assert sorted(complete) == ["five six seven eight", "one two three four"]


def test_messages_of_subgraphs_are_named_by_their_path() -> None:
    frames = run(agent(), HELLO, stream_mode=("messages", "messages-tuple"), stream_subgraphs=True)
    inside = [(name.split("|")[0], data) for name, data in frames if "|sub:" in name]
    assert {name for name, _ in inside} == {
        *{"messages", "messages/metadata"},
        *{"messages/partial", "messages/complete"},
    }
    assert [message["content"] for (message,) in named(inside, "messages/complete")] == [TALK]
    outside = [message["type"] for (message,) in named(frames, "messages/complete")]
    assert outside == ["ai", "tool"]


def test_messages_keep_hard_text() -> None:
    frames = run(_speaker(HARD_TEXT), HELLO, stream_mode=("messages", "messages-tuple"))
    # The model itself splits at white space, which is what some characters of the text are.
    tokens = "".join(token["content"] for token, _ in named(frames, "messages"))
    [[complete]] = named(frames, "messages/complete")
    assert tokens == complete["content"] == HARD_TEXT


def test_tool_calls_grow_with_their_arguments() -> None:
    frames = MessageFrames()
    pieces: list[Any] = [
        {"name": "add", "args": '{"a":', "id": "c", "index": 0},
        {"name": None, "args": "1}", "id": None, "index": 0},
    ]
    told = []
    for piece in pieces:
        token = AIMessageChunk(content="", id="m", tool_call_chunks=[piece])
        told += [read(frame.data) for frame in frames.frames((), token, {})]
    assert told[-1][0]["tool_calls"] == [{"name": "add", "args": {"a": 1}, "id": "c", "type": "tool_call"}]


def test_a_message_without_an_end_grows_on() -> None:
    frames = MessageFrames()
    for text in ("a", "b"):
        told = list(frames.frames((), AIMessageChunk(content=text, id="m"), {}))
    assert [frame.event for frame in told] == ["messages/partial"]
    assert read(told[0].data)[0]["content"] == "ab"
    whole = list(frames.frames((), HumanMessage("x", id="n"), {}))
    assert [frame.event for frame in whole] == ["messages/metadata", "messages/complete"]
