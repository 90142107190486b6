"""A frame of either kind of stream is read by the readers of both."""

from __future__ import annotations

import json
from typing import Any

import pytest

from stateroom.engine.frame_names import frame_name, mode_of, protocol_events, v1_event, v1_frame
from stateroom.model.run_kwargs import OUTPUT_EVENT
from tests.streaming.graphs import HELLO, agent, asking, single
from tests.streaming.running import named, params, protocol, read, run


@pytest.mark.parametrize(
    ("event", "mode"),
    [
        ("values", "values"),
        ("values|sub:1|leaf:2", "values"),
        ("messages", "messages-tuple"),
        ("messages|sub:1", "messages-tuple"),
        ("messages/partial", "messages"),
        ("messages/metadata|sub:1", "messages"),
        ("messages/complete", "messages"),
        ("protocol/values", "values"),
        ("protocol/messages", "messages-tuple"),
        ("protocol/input.requested", "input.requested"),
        ("metadata", "metadata"),
        ("error", "error"),
        (OUTPUT_EVENT, OUTPUT_EVENT),
    ],
)
def test_a_frame_is_of_the_mode_that_asks_for_it(event: str, mode: str) -> None:
    assert mode_of(event) == mode


@pytest.mark.parametrize(
    ("event", "namespace", "name"),
    [
        ("values|sub:1", [], "values|sub:1"),
        ("messages/partial", [], "messages/partial"),
        ("protocol/values", [], "values"),
        ("protocol/updates", ["sub:1", "leaf:2"], "updates|sub:1|leaf:2"),
        ("protocol/messages", [], None),
        ("protocol/tools", [], None),
        ("protocol/lifecycle", [], None),
        ("protocol/input.requested", [], None),
    ],
)
def test_what_a_frame_is_called_in_a_runs_stream(event: str, namespace: list[str], name: str | None) -> None:
    assert v1_event(event, namespace) == name


def test_a_name_is_a_mode_and_a_path() -> None:
    assert frame_name("values") == "values"
    assert frame_name("values", ("sub:1", "leaf:2")) == "values|sub:1|leaf:2"


def _as_run(events: list[dict[str, Any]]) -> list[tuple[str, Any]]:
    frames = [
        v1_frame(f"protocol/{event['method']}", json.dumps(event["params"]).encode()) for event in events
    ]
    return [(frame.event, read(frame.data)) for frame in frames if frame]


def _as_protocol(frames: list[tuple[str, Any]]) -> list[dict[str, Any]]:
    return [
        {"type": "event", "method": method, "params": read(data)}
        for event, said in frames
        for method, data in protocol_events(event, json.dumps(said).encode(), timestamp=5)
    ]


MODES = ("values", "updates", "custom", "tasks")


@pytest.mark.parametrize("way", ["single", "node", "subgraph"])
def test_a_run_of_the_protocol_reads_like_any_other(way: str) -> None:
    graphs = [single({"notes": [1]}) if way == "single" else asking(way) for _ in range(2)]
    here = _as_run(protocol(graphs[0], {"notes": []}))
    there = run(graphs[1], {"notes": []}, stream_mode=MODES, stream_subgraphs=True)
    mine = [(name, data) for name, data in here if mode_of(name) in MODES]
    assert _without_ids(mine) == _without_ids(there)


@pytest.mark.parametrize("way", ["single", "node", "subgraph", "parallel"])
def test_a_run_reads_like_one_of_the_protocol(way: str) -> None:
    graphs = [single({"notes": [1]}) if way == "single" else asking(way) for _ in range(2)]
    frames = run(graphs[0], {"notes": []}, stream_mode=(*MODES, "checkpoints"), stream_subgraphs=True)
    there = protocol(graphs[1], {"notes": []})
    for method in ("values", "updates", "tasks", "checkpoints"):
        here = [each["data"] for each in params(_as_protocol(frames), method)]
        assert _without_ids(here) == _without_ids([each["data"] for each in params(there, method)])
    asked = [each["data"]["value"] for each in params(_as_protocol(frames), "input.requested")]
    assert {str(each) for each in asked} == {
        str(each["data"]["payload"]) for each in params(there, "input.requested")
    }


def test_numbers_survive_translation() -> None:
    data = b'{"notes":[1180591620717411303424,0.1]}'
    [(method, said)] = protocol_events("values|sub:1", data, timestamp=5)
    assert (method, said) == ("values", b'{"namespace":["sub:1"],"timestamp":5,"data":' + data + b"}")
    [(_, told)] = protocol_events("updates", b'{"node":' + data + b"}", timestamp=5)
    assert data in told
    frame = v1_frame("protocol/values", said)
    assert frame == ("values|sub:1", data)


def test_frames_of_the_protocol_are_passed_on_as_they_are() -> None:
    assert protocol_events("protocol/tools", b"whatever", timestamp=5) == [("tools", b"whatever")]
    assert v1_frame("custom", b"whatever") == ("custom", b"whatever")


def test_what_the_protocol_lacks_is_left_out() -> None:
    frames = run(agent(), HELLO, stream_mode=("messages", "messages-tuple", "events", "debug"))
    assert named(frames, "messages/complete")
    assert _as_protocol([*frames, ("metadata", {}), ("error", {}), (OUTPUT_EVENT, {})]) == []


def _without_ids(value: Any) -> Any:
    """Return what is told without what differs from run to run: ids, and the paths and times made of them."""
    if isinstance(value, dict):
        changing = {"id", "parent_id", "config", "parent_config", "checkpoint_id", "parents", "state"}
        return {key: _without_ids(part) for key, part in value.items() if key not in changing}
    if isinstance(value, list | tuple):
        return [_without_ids(part) for part in value]
    return "|".join(part.partition(":")[0] for part in value.split("|")) if isinstance(value, str) else value
