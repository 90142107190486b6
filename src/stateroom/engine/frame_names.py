"""What frames are called, in runs' streams and in threads' protocol, and how one is said as the other."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any, Final

from stateroom.engine.encoding import Encoded, encode
from stateroom.model.frame import NewFrame
from stateroom.model.run_kwargs import PROTOCOL_PREFIX

__all__ = [
    *("INPUT_REQUESTED", "INTERRUPTS", "frame_name", "input_requested", "mode_of", "protocol_data"),
    *("protocol_events", "protocol_params", "v1_event", "v1_frame"),
]

INPUT_REQUESTED: Final = "input.requested"
"""The method of an event of the channel ``input``."""

INTERRUPTS: Final = "__interrupt__"
"""The key of interrupts in values and updates."""

_ALIKE: Final = frozenset({"values", "updates", "custom", "tasks", "checkpoints"})
"""What is called alike in both streams."""

_SAID_DIFFERENTLY: Final = {"messages": "messages-tuple"}


def frame_name(mode: str, namespace: Sequence[str] = ()) -> str:
    """Return the event of a run's stream for a mode inside a subgraph: ``values|sub:1``."""
    return "|".join((mode, *namespace))


def mode_of(event: str) -> str:
    """Return the stream mode that asks for a frame of a run, or the frame's own name if none does.

    ``messages|sub:1`` is of messages-tuple, ``messages/partial`` of messages, ``protocol/values`` of values;
    ``metadata`` and ``error`` are of no mode.
    """
    mode = event.removeprefix(PROTOCOL_PREFIX).partition("|")[0]
    if mode.startswith("messages/"):
        return "messages"
    return _SAID_DIFFERENTLY.get(mode, mode)


def v1_event(event: str, namespace: Sequence[str] = ()) -> str | None:
    """Return what a frame is called in a run's stream; None for a protocol frame that such a stream lacks."""
    if not event.startswith(PROTOCOL_PREFIX):
        return event
    method = event.removeprefix(PROTOCOL_PREFIX)
    return frame_name(method, namespace) if method in _ALIKE else None


def v1_frame(event: str, data: bytes) -> NewFrame | None:
    """Return a frame as a run's stream has it; None for one of the protocol that such a stream lacks."""
    if not event.startswith(PROTOCOL_PREFIX):
        return NewFrame(event, data)
    if v1_event(event) is None:
        return None
    params = json.loads(data)
    name = v1_event(event, params["namespace"])
    assert name is not None
    return NewFrame(name, encode(_v1_data(mode_of(event), params)))


def _v1_data(mode: str, params: Mapping[str, Any]) -> Any:
    data = params["data"]
    if mode == "values" and params.get("interrupts"):
        return {**(data if isinstance(data, dict) else {}), INTERRUPTS: params["interrupts"]}
    if mode == "updates" and isinstance(data, dict):
        return {data["node"]: data.get("values")} if "node" in data else data.get("values")
    if mode == "custom" and isinstance(data, dict) and "name" not in data:
        return data.get("payload")
    return data


def protocol_params(
    namespace: Sequence[str], timestamp: int, data: Any, *, interrupts: Any = None, node: str | None = None
) -> bytes:
    """Return the ``params`` of a protocol event as JSON; ``data`` may be JSON already."""
    params: dict[str, Any] = {"namespace": list(namespace), "timestamp": timestamp}
    if node is not None:
        params["node"] = node
    params["data"] = data
    if interrupts:
        params["interrupts"] = interrupts
    return encode(params)


def protocol_data(mode: str, data: Any) -> Any:
    """Return what a run streams in a mode as the data of the protocol's channel of that name."""
    if mode == "updates" and isinstance(data, Mapping):
        if len(data) == 1 and INTERRUPTS not in data:
            [(node, values)] = data.items()
            return {"node": node, "values": values}
        return {"values": data}
    if mode == "custom":
        named = isinstance(data, Mapping) and isinstance(data.get("name"), str) and "payload" in data
        return data if named else {"payload": data}
    if mode == "checkpoints" and isinstance(data, Mapping):
        return _checkpoint(data)
    return data


def _checkpoint(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a checkpoint as the protocol says it, then all else but the values, which have a channel."""
    metadata = data.get("metadata") or {}
    found = {"id": _checkpoint_id(data.get("config"))}
    if (parent := _checkpoint_id(data.get("parent_config"))) is not None:
        found["parent_id"] = parent
    found |= {"step": metadata.get("step"), "source": metadata.get("source")}
    return found | {key: part for key, part in data.items() if key != "values"}


def _checkpoint_id(config: Any) -> Any:
    configurable = config.get("configurable") if isinstance(config, Mapping) else None
    return configurable.get("checkpoint_id") if isinstance(configurable, Mapping) else None


def protocol_events(event: str, data: bytes, *, timestamp: int) -> list[tuple[str, bytes]]:
    """Return a frame as events of the thread's protocol: their methods, and their params as JSON.

    A frame of the protocol is one already. One of a run's stream is one or none, except that values with
    interrupts also request input, once for each. Tokens of messages and events of LangChain have no
    counterpart, nor have ``metadata`` and ``error``. ``timestamp``, in milliseconds, is for those that have
    none.
    """
    if event.startswith(PROTOCOL_PREFIX):
        return [(event.removeprefix(PROTOCOL_PREFIX), data)]
    mode, *namespace = event.split("|")
    if mode not in _ALIKE:
        return []
    if mode == "values" and b'"__interrupt__"' not in data:
        return [(mode, protocol_params(namespace, timestamp, Encoded(data)))]
    said = json.loads(data)
    if mode != "values" or not isinstance(said, dict):
        return [(mode, protocol_params(namespace, timestamp, protocol_data(mode, said)))]
    interrupts = said.pop(INTERRUPTS, None) or []
    asked = [input_requested(namespace, timestamp, each["id"], each.get("value")) for each in interrupts]
    return [(mode, protocol_params(namespace, timestamp, said, interrupts=interrupts)), *asked]


def input_requested(
    namespace: Sequence[str], timestamp: int, interrupt_id: str, value: Any
) -> tuple[str, bytes]:
    """Return the event that an interrupt waits for an answer, its value twice: each SDK reads another."""
    said = Encoded(encode(value))
    data = {"interrupt_id": interrupt_id, "payload": said, "value": said}
    return INPUT_REQUESTED, protocol_params(namespace, timestamp, data)
