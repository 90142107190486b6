"""Running a graph, and saying what it streams as frames."""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import aclosing
from dataclasses import replace
from typing import Any, NamedTuple, cast

from langchain_core.runnables import RunnableConfig
from langgraph.errors import ParentCommand
from langgraph.pregel import Pregel
from langgraph.runtime import RunControl
from langgraph.types import Command

from stateroom.engine.encoding import Encoded, encode
from stateroom.engine.event_streaming import stream_events
from stateroom.engine.frame_names import frame_name
from stateroom.engine.message_streaming import MessageFrames
from stateroom.engine.protocol_streaming import stream_protocol
from stateroom.engine.stream_payloads import SeenInterrupts, public_payload
from stateroom.model.frame import NewFrame
from stateroom.model.run_kwargs import RunKwargs

__all__ = ["stream_run"]

Graph = Pregel[Any, Any, Any, Any]


async def stream_run(
    graph: Graph,
    input: Any,
    config: RunnableConfig,
    kwargs: RunKwargs,
    *,
    graph_id: str,
    context: Any,
    control: RunControl,
) -> AsyncIterator[NewFrame]:
    """Run a graph to its end or to where it stops, and yield its frames; raise what it raises.

    These are the frames between ``metadata`` and the end, of the modes that ``kwargs`` names, or of the
    threads' protocol. Closing this stops the graph. A command to the parent of the whole graph, which whoever
    called it from a graph of his own shall carry out, is its last frame.
    """
    options = _options(kwargs, context, control)
    if kwargs.protocol:
        frames = stream_protocol(graph, input, config, options, graph_id=graph_id)
    elif "events" in kwargs.stream_mode:
        frames = _frames_with_events(graph, input, config, kwargs, options)
    else:
        frames = _frames(graph, input, config, kwargs, options)
    async with aclosing(cast("Any", frames)):
        try:
            async for frame in frames:
                yield frame
        except ParentCommand as raised:
            if kwargs.protocol:
                raise
            yield NewFrame("command", encode(replace(raised.args[0], graph=Command.PARENT)))


def _options(kwargs: RunKwargs, context: Any, control: RunControl) -> dict[str, Any]:
    """Return what ``astream`` and ``astream_events`` take alike."""
    before, after = kwargs.interrupt_before, kwargs.interrupt_after
    return {
        "context": context,
        "interrupt_before": list(before) if isinstance(before, tuple) else before,
        "interrupt_after": list(after) if isinstance(after, tuple) else after,
        "durability": kwargs.durability,
        "control": control,
    }


async def _frames(
    graph: Graph, graph_input: Any, config: RunnableConfig, kwargs: RunKwargs, options: Mapping[str, Any]
) -> AsyncIterator[NewFrame]:
    teller = _Teller(kwargs)
    chunks: Any = graph.astream(
        graph_input, config, stream_mode=teller.graph_modes, subgraphs=kwargs.stream_subgraphs, **options
    )
    async with aclosing(chunks):
        async for chunk in chunks:
            for frame in teller.tell(chunk).frames:
                yield frame


async def _frames_with_events(
    graph: Graph, graph_input: Any, config: RunnableConfig, kwargs: RunKwargs, options: Mapping[str, Any]
) -> AsyncIterator[NewFrame]:
    teller = _Teller(kwargs)
    modes = {"stream_mode": teller.graph_modes, "subgraphs": kwargs.stream_subgraphs}
    events = stream_events(graph, graph_input, config, {**options, **modes})
    async with aclosing(cast("Any", events)):
        async for event in events:
            if event.chunk is None:
                yield NewFrame("events", encode(event.body))
                continue
            told = teller.tell(event.chunk)
            yield NewFrame("events", encode({**event.body, "data": {"chunk": told.chunk}}))
            for frame in told.frames:
                yield frame


class _Told(NamedTuple):
    """What a chunk of a graph's stream becomes: its frames, and itself with the JSON that they hold."""

    frames: Iterator[NewFrame]
    chunk: list[Any]


class _Teller:
    """Makes frames of a graph's chunks: what they tell, in the modes that were asked for."""

    def __init__(self, kwargs: RunKwargs) -> None:
        self._wanted = kwargs.stream_mode
        self._subgraphs = kwargs.stream_subgraphs
        self._messages = MessageFrames()
        self._interrupts = SeenInterrupts()

    @property
    def graph_modes(self) -> list[Any]:
        """The modes in which the graph itself streams."""
        names = {"messages-tuple": "messages"}
        return list(dict.fromkeys(names.get(mode, mode) for mode in self._wanted if mode != "events"))

    def tell(self, chunk: Any) -> _Told:
        """Return what becomes of a chunk; its payload is encoded once."""
        namespace, mode, payload = chunk if self._subgraphs else ((), *chunk)
        public = public_payload(mode, payload)
        if mode == "values":
            public = self._interrupts.told(namespace, public)
        data = encode(public)
        head = [list(namespace), mode] if self._subgraphs else [mode]
        return _Told(self._frames(namespace, mode, public, data), [*head, Encoded(data)])

    def _frames(self, namespace: tuple[str, ...], mode: str, public: Any, data: bytes) -> Iterator[NewFrame]:
        if mode == "messages":
            if "messages-tuple" in self._wanted:
                yield NewFrame(frame_name("messages", namespace), data)
            if "messages" in self._wanted:
                yield from self._messages.frames(namespace, *public)
        elif mode in self._wanted:
            yield NewFrame(frame_name(mode, namespace), data)
