"""What a run is executed with, as it is kept with the run; and what it needs that nobody may keep."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from stateroom.model.cron import Completion

__all__ = ["OUTPUT_EVENT", "PROTOCOL_PREFIX", "STREAM_MODES", "Durability", "RunKwargs", "RunPrivate"]

STREAM_MODES: Final = (
    *("values", "updates", "messages", "messages-tuple", "custom"),
    *("events", "debug", "tasks", "checkpoints"),
)
"""What a run can stream."""

OUTPUT_EVENT: Final = "__output__"
"""The event of a run's last frame: what waiting for the run answers. No stream shows it."""

PROTOCOL_PREFIX: Final = "protocol/"
"""What the event of a frame begins with that holds the ``params`` of a thread protocol event; the rest is its
method."""

Durability = Literal["sync", "async", "exit"]


@dataclass(frozen=True, slots=True)
class RunKwargs:
    """What a run is executed with. Everything is JSON; the fields are named as callers name them.

    ``config`` is the caller's, over the assistant's: ``tags``, ``recursion_limit``, ``configurable`` and so
    on. ``checkpoint`` names the checkpoint to start from by ``checkpoint_id``, ``checkpoint_ns`` and
    ``checkpoint_map``. ``interrupt_before`` and ``interrupt_after`` are names of nodes, or ``"*"``.
    ``temporary`` says that the thread was made for this run alone; ``on_completion`` decides of it.
    ``protocol`` says that the run streams thread protocol events instead of ``stream_mode``. ``tracer``
    names the LangSmith project and example of its trace.
    """

    input: Any = None
    command: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    stream_mode: tuple[str, ...] = ("values",)
    stream_subgraphs: bool = False
    interrupt_before: Literal["*"] | tuple[str, ...] | None = None
    interrupt_after: Literal["*"] | tuple[str, ...] | None = None
    durability: Durability = "async"
    strict_resume: bool = False
    temporary: bool = False
    on_completion: Completion = Completion.DELETE
    protocol: bool = False
    tracer: Mapping[str, Any] | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the JSON object that ``from_json`` reads, without what is as it usually is."""
        usual = RunKwargs()
        found: dict[str, Any] = {}
        for name in self.__slots__:
            value = getattr(self, name)
            if value != getattr(usual, name):
                found[name] = list(value) if isinstance(value, tuple) else value
        return found

    @classmethod
    def from_json(cls, kept: Mapping[str, Any]) -> RunKwargs:
        """Return what was kept, by this release or an earlier one."""
        known = {name: kept[name] for name in cls.__slots__ if name in kept}
        for name in ("stream_mode", "interrupt_before", "interrupt_after"):
            if isinstance(known.get(name), list):
                known[name] = tuple(known[name])
        if "on_completion" in known:
            known["on_completion"] = Completion(known["on_completion"])
        return cls(**known)


@dataclass(frozen=True, slots=True)
class RunPrivate:
    """What a run needs beside its kwargs, erased when it ends, and never shown.

    ``context`` is the caller's over the assistant's, at the time the run was made. ``user`` is the
    authenticated caller with ``identity`` and ``permissions``, None without authentication.
    ``configurable`` is what reaches the graph's configurable and nothing else: headers, and the values of
    keys that name credentials.
    """

    context: Mapping[str, Any] | None = None
    user: Mapping[str, Any] | None = None
    configurable: Mapping[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any] | None:
        """Return the JSON object that ``from_json`` reads, None if there is nothing."""
        found = {name: getattr(self, name) for name in self.__slots__ if getattr(self, name)}
        return found or None

    @classmethod
    def from_json(cls, kept: Mapping[str, Any] | None) -> RunPrivate:
        """Return what was kept."""
        return cls(**(kept or {}))
