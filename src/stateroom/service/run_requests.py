"""A request for a run, as every door makes it, and how it is kept for a cron."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final, Literal

from stateroom.service.run_config import split_config

__all__ = ["KEPT_APART", "Names", "RunRequest"]

Names = Literal["*"] | Sequence[str]
"""Names of nodes, or all."""

KEPT_APART: Final = ("context", "configurable")
"""What of a request is nobody's to see, not even who made it: its keys in the private part of a cron."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunRequest:
    """What a caller asks for, unchecked. The fields are named as callers name them.

    Without ``thread_id`` the run gets a thread of its own, of which ``on_completion`` decides.
    ``if_not_exists`` says what becomes of a ``thread_id`` that is unknown, ``if_thread_status`` which
    statuses the thread may have. ``config`` is as it came; ``private`` are values of its configurable that
    were kept apart. ``protocol`` is described with ``RunKwargs``. ``webhook`` and ``feedback_keys`` are there
    to be refused by name.
    """

    assistant_id: str
    thread_id: str | None = None
    input: Any = None
    command: Mapping[str, Any] | None = None
    checkpoint: Mapping[str, Any] | None = None
    checkpoint_id: str | None = None
    config: Mapping[str, Any] = field(default_factory=dict)
    context: Mapping[str, Any] | None = None
    private: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, Any] = field(default_factory=dict)
    stream_mode: str | Sequence[str] = "values"
    stream_subgraphs: bool = False
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    multitask_strategy: str = "enqueue"
    if_not_exists: str = "reject"
    if_thread_status: Sequence[str] | None = None
    after_seconds: float | None = None
    durability: str | None = None
    checkpoint_during: bool | None = None
    strict_resume: bool = False
    on_completion: str | None = None
    webhook: str | None = None
    feedback_keys: Sequence[str] | None = None
    langsmith_tracer: Mapping[str, Any] | None = None
    protocol: bool = False

    def to_json(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return two JSON objects that ``from_json`` reads: what may be seen, and what is kept apart.

        Neither has what is as it usually is.
        """
        public, private = split_config(self.config)
        seen = replace(self, config=public)
        found = {
            each.name: getattr(seen, each.name)
            for each in fields(self)
            if each.name not in ("context", "private")
            and getattr(seen, each.name) != getattr(_USUAL, each.name)
        }
        apart = {"context": dict(self.context or {}), "configurable": {**private, **self.private}}
        return found, {key: value for key, value in apart.items() if value}

    @classmethod
    def from_json(cls, public: Mapping[str, Any], private: Mapping[str, Any] | None = None) -> RunRequest:
        """Return the request that was kept, by this release or an earlier one."""
        known = {each.name: public[each.name] for each in fields(cls) if each.name in public}
        apart = private or {}
        return cls(
            **known,
            context=apart.get("context"),
            private=apart.get("configurable", {}),
        )


_USUAL: Final = RunRequest(assistant_id="")
