"""What every part of the savers' suite stands on: opening the saver under test, and checkpoints to put."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

import pytest
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import Checkpoint, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from stateroom.savers.base import Saver

__all__ = [
    "OpensSaver",
    "SaverHarness",
    "checkpoint",
    "config",
    "count",
    "listed",
    "name",
    "put",
    "stored",
    "write",
]


class OpensSaver(Protocol):
    """What the fixture ``new_saver`` returns: a function that makes a saver, on a database that is empty."""

    def __call__(self, *, serde: SerializerProtocol | None = None, keep_last: int | None = None) -> Saver:
        """Make a saver that belongs to no storage."""


class SaverHarness:
    """The fixtures of the savers' suite."""

    @pytest.fixture
    def new_saver(self) -> OpensSaver:
        """Return what makes the saver under test; each suite gives this fixture."""
        raise NotImplementedError("a suite overrides the fixture new_saver")

    @pytest.fixture
    def saver(self, new_saver: OpensSaver) -> Iterator[Saver]:
        """Return the saver under test, open and empty."""
        with new_saver() as saver:
            yield saver


def name(number: int) -> str:
    """Return the id of a checkpoint, which is higher for a higher number."""
    return f"{number:08}"


def config(
    thread_id: str = "t", ns: str = "", number: int | None = None, **configurable: Any
) -> RunnableConfig:
    """Return the config of a thread, or of one of its checkpoints."""
    at = {} if number is None else {"checkpoint_id": name(number)}
    return {"configurable": {"thread_id": thread_id, "checkpoint_ns": ns, **at, **configurable}}


def checkpoint(number: int, values: Mapping[str, Any] | None = None, **other: Any) -> Checkpoint:
    """Return a checkpoint with values that are all new in it."""
    filled: dict[str, Any] = {
        "v": 4,
        "id": name(number),
        "ts": "2026-01-01T00:00:00+00:00",
        "channel_values": dict(values or {}),
        "channel_versions": dict.fromkeys(values or (), f"{number:032}.5"),
        "versions_seen": {"node": {"channel": "1"}},
        "updated_channels": None,
        **other,
    }
    return filled  # type: ignore[return-value]  # a checkpoint is such a dict


def put(
    saver: Saver,
    number: int,
    *,
    thread_id: str = "t",
    ns: str = "",
    parent: int | None = None,
    values: Mapping[str, Any] | None = None,
    metadata: Mapping[str, Any] | None = None,
    configurable: Mapping[str, Any] | None = None,
    **other: Any,
) -> RunnableConfig:
    """Put a checkpoint and return its config."""
    made = checkpoint(number, values, **other)
    return saver.put(
        config(thread_id, ns, parent, **(configurable or {})),
        made,
        {"source": "loop", "step": number, "parents": {}, **(metadata or {})},  # type: ignore[typeddict-item]
        made["channel_versions"],
    )


def write(
    saver: Saver,
    number: int,
    *writes: tuple[str, Any],
    task_id: str = "task",
    path: str = "",
    thread_id: str = "t",
    ns: str = "",
) -> None:
    """Put what a task wrote with a checkpoint."""
    saver.put_writes(config(thread_id, ns, number), writes, task_id, path)


def stored(saver: Saver, number: int | None = None, *, thread_id: str = "t", ns: str = "") -> CheckpointTuple:
    """Return a checkpoint that must be there, or the latest."""
    found = saver.get_tuple(config(thread_id, ns, number))
    assert found is not None
    return found


def listed(saver: Saver, *, thread_id: str = "t", ns: str = "", **options: Any) -> Sequence[int]:
    """Return the numbers of a namespace's checkpoints as they are listed."""
    return [int(found.checkpoint["id"]) for found in saver.list(config(thread_id, ns), **options)]


def count(saver: Saver, *, thread_id: str = "t", ns: str = "") -> int:
    """Return how many checkpoints a namespace has."""
    return len(list(saver.list(config(thread_id, ns))))
