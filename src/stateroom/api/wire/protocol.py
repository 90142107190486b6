"""The bodies of the thread protocol: its commands, and what of a thread's events a client asks for."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from stateroom.api.wire.base import Body, JsonObject

__all__ = [
    "CHANNELS",
    "COMMANDS",
    "CUSTOM",
    "Command",
    "ForkState",
    "GetState",
    "GetTree",
    "ListCheckpoints",
    "Respond",
    "StartRun",
    "Subscribe",
    "Unsubscribe",
]

CUSTOM: Final = "custom:"
"""What the channel of named custom events begins with."""

CHANNELS: Final = (
    *("values", "updates", "messages", "tools", "lifecycle"),
    *("input", "tasks", "checkpoints", "custom"),
)

Strategy = Literal["reject", "enqueue", "interrupt", "rollback"]
Namespace = list[str]
Number = Annotated[int, Field(strict=True, ge=0)]


class Subscribe(Body):
    """What a client wants to see of a thread; ``since`` is the ``seq`` of the last event that he has.

    An event fits a namespace that its own begins with; a segment without ``:`` fits those with any suffix.
    ``depth`` is how many levels more the event's may have.
    """

    channels: Annotated[list[str], Field(min_length=1, examples=[["values", "lifecycle"]])]
    namespaces: list[Namespace] | None = None
    depth: Number | None = None
    since: Number | None = None


class Command(Body):
    """A command, which its ``id`` is answered with."""

    id: Number
    method: str
    params: JsonObject = Field(default_factory=dict)


class StartRun(Body):
    """``run.start``: a run on the thread, which is made if it does not exist."""

    assistant_id: str
    input: Any = None
    config: JsonObject | None = None
    metadata: JsonObject | None = None
    context: JsonObject | None = None
    langsmith_tracer: JsonObject | None = None
    multitask_strategy: Strategy | None = None
    multitaskStrategy: Strategy | None = None  # what JavaScript's SDK also calls it
    forkFrom: str | None = None


class Response(Body):
    """The answer to one interrupt."""

    interrupt_id: str
    response: Any = None
    namespace: Namespace = Field(default_factory=list)


class Respond(Body):
    """``input.respond``: the answer to one interrupt, or in ``responses`` to several at once."""

    interrupt_id: str | None = None
    response: Any = None
    namespace: Namespace = Field(default_factory=list)
    responses: Annotated[list[Response], Field(min_length=1)] | None = None
    update: JsonObject | None = None
    goto: str | JsonObject | list[str | JsonObject] | None = None
    config: JsonObject | None = None
    metadata: JsonObject | None = None
    strict_resume: bool = False

    def answers(self) -> dict[str, Any]:
        """Return the answers, by the ids of the interrupts; empty if there is none."""
        if self.responses is not None:
            return {one.interrupt_id: one.response for one in self.responses}
        return {} if self.interrupt_id is None else {self.interrupt_id: self.response}


class GetTree(Body):
    """``agent.getTree``: of a run, without one of that which is executed, or else the latest."""

    run_id: str | None = None


class GetState(Body):
    """``state.get``: the state of a graph or, by its namespace, of one inside it."""

    namespace: Namespace = Field(default_factory=list)
    keys: list[str] | None = None


class ListCheckpoints(Body):
    """``state.listCheckpoints``: the newest first; ``before`` is the id of a checkpoint."""

    namespace: Namespace = Field(default_factory=list)
    limit: Number = 10
    before: str | None = None


class ForkState(Body):
    """``state.fork``: a run from a checkpoint on."""

    checkpoint_id: str
    input: Any = None
    config: JsonObject | None = None


class Unsubscribe(Body):
    """``subscription.unsubscribe``."""

    subscription_id: str


COMMANDS: Final[Mapping[str, type[Body]]] = {
    "run.start": StartRun,
    "input.respond": Respond,
    "agent.getTree": GetTree,
    "state.get": GetState,
    "state.listCheckpoints": ListCheckpoints,
    "state.fork": ForkState,
    "subscription.subscribe": Subscribe,
    "subscription.unsubscribe": Unsubscribe,
}
"""The parameters of each command."""
