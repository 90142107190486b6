"""How threads are spelled in requests and answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal

from pydantic import BaseModel, Field

from stateroom.api.wire.base import Body, JsonObject, Limit, Offset, ThreadId
from stateroom.api.wire.lists import SortOrder, part_of, sort_of, time_text
from stateroom.contract.assistants import IfExists
from stateroom.contract.threads import ThreadQuery
from stateroom.engine.states import Superstep
from stateroom.model.paging import Sort
from stateroom.model.thread import Thread, ThreadStatus

__all__ = [
    "EXTRACT_ROOTS",
    "CountThreads",
    "CreateThread",
    "PatchMetadata",
    "PruneThreads",
    "PrunedAnswer",
    "SearchThreads",
    "StorageAnswer",
    "ThreadAnswer",
    "ThreadParts",
    "UpdateThread",
    "storage_json",
    "thread_json",
]

ThreadField = Literal[
    "thread_id",
    "created_at",
    "updated_at",
    "state_updated_at",
    "metadata",
    "config",
    "context",
    "status",
    "values",
    "interrupts",
    "error",
    "ttl",
]

TTL = Annotated[float, Field(strict=True)] | JsonObject
"""Minutes, or ``{"ttl": minutes, "strategy": "delete" or "keep_latest"}``."""

_USUAL: Final = (
    *("thread_id", "created_at", "updated_at", "state_updated_at", "metadata", "status", "config"),
    *("values", "interrupts", "error"),
)
"""What a thread is answered with that nobody has asked particular fields of."""

EXTRACT_ROOTS: Final = frozenset({*_USUAL, "ttl"})
"""What the paths of ``extract`` may begin with."""

SUPERSTEPS_MAX: Final = 100
UPDATES_MAX: Final = 100


class Update(Body):
    """What one node did in a superstep: ``values``, or a command with ``update``, ``goto`` and ``resume``."""

    values: Any = None
    command: JsonObject | None = None
    as_node: str | None = None


class UpdatesTogether(Body):
    """One superstep."""

    updates: Annotated[list[Update], Field(min_length=1, max_length=UPDATES_MAX)]


class CreateThread(Body):
    """A thread to be made. ``supersteps`` are applied to the graph that ``metadata.graph_id`` names.

    ``ttl`` null never expires; left out is as configured.
    """

    thread_id: ThreadId | None = None
    metadata: JsonObject | None = None
    if_exists: IfExists | None = None
    supersteps: Annotated[list[UpdatesTogether], Field(max_length=SUPERSTEPS_MAX)] | None = None
    ttl: TTL | None = None

    def steps(self) -> list[list[Superstep]]:
        """Return the supersteps."""
        return [
            [Superstep(each.values, each.command, each.as_node) for each in step.updates]
            for step in self.supersteps or ()
        ]


class UpdateThread(Body):
    """What changes: metadata by keys; ``ttl`` null never expires, left out stays."""

    metadata: JsonObject | None = None
    ttl: TTL | None = None


class PatchMetadata(Body):
    """What of the metadata changes."""

    metadata: JsonObject


class CountThreads(Body):
    """Which threads count: metadata and values that contain what is given, any of the ids, the status."""

    metadata: JsonObject | None = None
    values: JsonObject | None = None
    status: Literal["idle", "busy", "interrupted", "error"] | None = None
    ids: list[str] | None = None

    def query(self) -> ThreadQuery:
        """Return the conditions."""
        return ThreadQuery(
            metadata=self.metadata or None,
            values=self.values or None,
            status=None if self.status is None else ThreadStatus(self.status),
            ids=self.ids,
        )


class SearchThreads(CountThreads):
    """Which threads to list, and how. ``after`` is a former answer's ``X-Pagination-Cursor``.

    ``extract`` are paths such as ``values.messages[-1]`` under aliases, which ``extracted`` answers.
    """

    limit: Limit = 10
    offset: Offset = 0
    after: str | None = None
    sort_by: Literal["thread_id", "status", "created_at", "updated_at", "state_updated_at"] | None = None
    sort_order: SortOrder | None = None
    select: list[ThreadField] | None = None
    extract: dict[str, str] | None = None

    def sort(self) -> Sort:
        """Return the order."""
        return sort_of(self.sort_by, self.sort_order)


class PruneThreads(Body):
    """Threads to be removed, or of which only the latest state is kept."""

    thread_ids: list[str]
    strategy: Literal["delete", "keep_latest"] = "delete"


class TTLAnswer(BaseModel):
    """How many minutes a thread lives after it was last changed, what happens then, and when."""

    ttl: float
    strategy: str
    expires_at: str


class ThreadAnswer(BaseModel):
    """A thread. ``ttl`` only where it is asked for, ``extracted`` in a search that extracts."""

    thread_id: str
    created_at: str
    updated_at: str
    state_updated_at: str
    metadata: JsonObject
    status: Literal["idle", "busy", "interrupted", "error"]
    config: JsonObject
    values: Any
    interrupts: dict[str, list[JsonObject]]
    error: JsonObject | None
    ttl: TTLAnswer | None = None
    extracted: JsonObject | None = None


ThreadParts: Any = list[part_of(ThreadAnswer)]  # type: ignore[misc]  # a type made just now
"""A page of threads, with the fields that were selected."""


class PrunedAnswer(BaseModel):
    """How many threads were pruned."""

    pruned_count: int


class CountedBytes(BaseModel):
    """Rows, and their bytes."""

    count: int
    bytes: int


class ChannelBytes(BaseModel):
    """The bytes of channels' values, in all and by channel."""

    bytes: int
    by_channel: dict[str, int]


class StorageAnswer(BaseModel):
    """What a thread's checkpoints take."""

    total_bytes: int
    checkpoints: CountedBytes
    channel_values: ChannelBytes
    pending_writes: CountedBytes


def thread_json(
    thread: Thread, select: list[ThreadField] | None = None, *, ttl: bool = False
) -> dict[str, Any]:
    """Return a thread as it is answered, or some of its fields."""
    found = {
        "thread_id": thread.thread_id,
        "created_at": time_text(thread.created_at),
        "updated_at": time_text(thread.updated_at),
        "state_updated_at": time_text(thread.state_updated_at),
        "metadata": thread.metadata,
        "status": thread.status.value,
        "config": thread.config,
        # Contexts may hold secrets and are kept with no thread.
        "context": {},
        "values": thread.values,
        "interrupts": thread.interrupts,
        "error": thread.error,
        "ttl": _ttl_json(thread),
    }
    wanted = set(select or _USUAL) | ({"ttl"} if ttl else set())
    return {name: value for name, value in found.items() if name in wanted}


def _ttl_json(thread: Thread) -> dict[str, Any] | None:
    if thread.ttl is None or thread.expires_at is None:
        return None
    return {
        "ttl": thread.ttl.minutes,
        "strategy": thread.ttl.strategy.value,
        "expires_at": time_text(thread.expires_at),
    }


def storage_json(found: Any) -> Mapping[str, Any]:
    """Return what a saver measured as it is answered."""
    return {
        "total_bytes": found.total,
        "checkpoints": {"count": found.checkpoints, "bytes": found.checkpoint_bytes},
        "channel_values": {"bytes": sum(found.channels.values()), "by_channel": dict(found.channels)},
        "pending_writes": {"count": found.writes, "bytes": found.write_bytes},
    }
