"""Running a graph, and saying what it streams as events of its thread's protocol."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from typing import Any, ClassVar, Final, NamedTuple

from langchain_core._api import suppress_langchain_beta_warning
from langchain_core.runnables import RunnableConfig
from langgraph.pregel import Pregel
from langgraph.stream import AsyncGraphRunStream, ProtocolEvent, StreamChannel, StreamTransformer
from typing_extensions import override

from stateroom.clock import Clock, system_clock
from stateroom.engine.frame_names import input_requested, protocol_data, protocol_params
from stateroom.engine.protocol_messages import ProtocolMessages
from stateroom.engine.stream_payloads import SeenInterrupts, public_payload
from stateroom.model.frame import NewFrame
from stateroom.model.run_kwargs import PROTOCOL_PREFIX

__all__ = ["stream_protocol"]

_CUSTOM: Final = "custom:"
"""What the method of an event begins with that a graph's own transformer made."""

_PASSED_ON: Final = frozenset({"updates", "custom", "checkpoints"})
_STATUSES: Final = frozenset({"started", "running", "completed", "failed", "interrupted"})
"""What the protocol says of a graph. One that was drained goes on in another process, and says nothing."""


async def stream_protocol(
    graph: Pregel[Any, Any, Any, Any],
    graph_input: Any,
    config: RunnableConfig,
    options: Mapping[str, Any],
    *,
    graph_id: str,
    clock: Clock = system_clock,
) -> AsyncIterator[NewFrame]:
    """Run a graph and yield its events on every channel, but for its own end, which readers know."""
    for status in ("started", "running"):
        data = {"event": status, "graph_name": graph_id}
        yield _frame("lifecycle", protocol_params([], clock() // 1000, data))
    with suppress_langchain_beta_warning():
        run: AsyncGraphRunStream = await graph.astream_events(
            graph_input, config, version="v3", transformers=[_Everything], **options
        )
    teller = _Teller()
    events: Any = aiter(run)
    try:
        async with aclosing(events):
            async for event in events:
                for frame in teller.frames(event):
                    yield frame
        for frame in teller.release():
            yield frame
    except Exception:
        for frame in teller.release():
            yield frame
        raise
    finally:
        await run.abort()


class _Everything(StreamTransformer):
    """Asks a graph for all that the protocol has channels for.

    LangGraph keeps tasks to itself, as the starts and ends of subgraphs; so they are said once more.
    """

    _native = True
    required_stream_modes: ClassVar[tuple[str, ...]] = (
        *("values", "updates", "messages", "tools"),
        *("custom", "tasks", "checkpoints"),
    )

    def __init__(self, scope: tuple[str, ...] = ()) -> None:
        super().__init__(scope)
        self._tasks: StreamChannel[ProtocolEvent] = StreamChannel("tasks")

    @override
    def init(self) -> dict[str, Any]:
        return {"stateroom_tasks": self._tasks}

    @override
    def process(self, event: ProtocolEvent) -> bool:
        if event["method"] == "tasks":
            # What a subgraph's own copy of this says, nobody hears; it has come by the root before.
            self._tasks.push(event)
        return True


class _Held(NamedTuple):
    """Values that wait for their checkpoint."""

    namespace: list[str]
    timestamp: int
    frame: NewFrame


class _Teller:
    """Makes frames of a run's events.

    A graph tells of a step's values and then, before the next step begins, of their checkpoint; clients that
    go back in time expect it first. So values are held back until the next event, whichever that is.
    """

    def __init__(self) -> None:
        self._held: _Held | None = None
        self._messages = ProtocolMessages()
        self._interrupts = SeenInterrupts()
        self._asked: set[str] = set()
        self._tellers: dict[str, Callable[[Mapping[str, Any]], Iterator[NewFrame]]] = {
            "values": self._values,
            "messages": self._messages_frames,
            "tools": self._tools,
            "tasks": self._tasks,
            "lifecycle": self._lifecycle,
        }

    def frames(self, event: ProtocolEvent) -> Iterator[NewFrame]:
        """Return what was held back and the frames of an event, if the protocol has a channel for it."""
        method, params = event["method"], event["params"]
        held = self._held
        if held and method == "checkpoints" and held.namespace == params["namespace"]:
            # Time does not run backwards in a stream.
            yield from self._told(method, {**params, "timestamp": held.timestamp})
            yield from self.release()
        else:
            yield from self.release()
            yield from self._told(method, params)

    def release(self) -> Iterator[NewFrame]:
        """Return the frame that is held back."""
        if self._held is not None:
            frame, self._held = self._held.frame, None
            yield frame

    def _told(self, method: str, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        if (teller := self._tellers.get(method)) is not None:
            yield from teller(params)
        elif method in _PASSED_ON:
            data = protocol_data(method, public_payload(method, params["data"]))
            yield _frame(method, protocol_params(params["namespace"], params["timestamp"], data))
        elif method.startswith(_CUSTOM):
            data = {"name": method.removeprefix(_CUSTOM), "payload": params["data"]}
            yield _frame("custom", protocol_params(params["namespace"], params["timestamp"], data))

    def _values(self, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        namespace, timestamp = params["namespace"], params["timestamp"]
        interrupts = params.get("interrupts") or ()
        told = self._interrupts.add(tuple(namespace), interrupts)
        frame = _frame("values", protocol_params(namespace, timestamp, params["data"], interrupts=told))
        if not interrupts:
            self._held = _Held(namespace, timestamp, frame)
            return
        yield frame
        for interrupt in interrupts:
            # A graph tells again of what a graph inside it has told.
            if interrupt.id not in self._asked:
                self._asked.add(interrupt.id)
                yield _frame(*input_requested(namespace, timestamp, interrupt.id, interrupt.value))

    def _messages_frames(self, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        payload, metadata = params["data"]
        for data in self._messages.events(payload, metadata or {}):
            node = (metadata or {}).get("langgraph_node")
            yield _frame(
                "messages", protocol_params(params["namespace"], params["timestamp"], data, node=node)
            )

    def _tools(self, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        yield _frame("tools", protocol_params(params["namespace"], params["timestamp"], params["data"]))

    def _tasks(self, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        # What the channel forwards is the event itself, with the namespace that forwarding would lose.
        told = params["data"]["params"]
        data = public_payload("tasks", told["data"])
        yield _frame("tasks", protocol_params(told["namespace"], told["timestamp"], data))

    def _lifecycle(self, params: Mapping[str, Any]) -> Iterator[NewFrame]:
        data = dict(params["data"])
        namespace = data.pop("namespace", params["namespace"])
        if data.get("event") in _STATUSES:
            yield _frame("lifecycle", protocol_params(namespace, params["timestamp"], data))


def _frame(method: str, params: bytes) -> NewFrame:
    return NewFrame(PROTOCOL_PREFIX + method, params)
