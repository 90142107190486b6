"""What a saver reads and writes of LangGraph's tables, as rows of bytes that only it can interpret."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, Protocol

from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.dialect import Session

__all__ = ["Key", "Link", "Measured", "Query", "SaverTables", "Stored", "Value", "Write"]


class Key(NamedTuple):
    """Where a checkpoint is."""

    thread_id: str
    ns: str
    checkpoint_id: str


class Value(NamedTuple):
    """One version of a channel's value, where the database keeps values apart from checkpoints."""

    channel: str
    version: str
    type: str
    blob: bytes | None


class Stored(NamedTuple):
    """A checkpoint as its row holds it: ``checkpoint`` is of ``type`` (None: JSON), ``metadata`` is JSON.

    ``values`` are the values that the row only refers to. A parent that is gone is read as None.
    """

    key: Key
    parent_id: str | None
    type: str | None
    checkpoint: bytes
    metadata: bytes | None
    values: Sequence[Value] = ()


class Write(NamedTuple):
    """What a task wrote to one channel, not yet applied to the checkpoint that it is kept with."""

    task_id: str
    task_path: str
    idx: int
    channel: str
    type: str | None
    blob: bytes


class Link(NamedTuple):
    """One checkpoint of a line of descent, with its metadata as JSON."""

    checkpoint_id: str
    parent_id: str | None
    metadata: bytes | None


class Query(NamedTuple):
    """Which checkpoints count: those that fit each condition that is not None.

    ``before`` is an id. ``contains`` is a JSON object that the metadata contain; whoever asks checks that
    again, so that it may be passed over.
    """

    thread_id: str | None = None
    ns: str | None = None
    checkpoint_id: str | None = None
    before: str | None = None
    contains: bytes | None = None


class Measured(NamedTuple):
    """The bytes of a thread's rows, apart from their keys; ``values`` has those kept apart, by channel."""

    checkpoints: int
    checkpoint_bytes: int
    writes: int
    write_bytes: int
    values: Mapping[str, int]


class SaverTables(CheckpointTables, Protocol):
    """LangGraph's own tables, for the saver of one database."""

    def load(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str | None
    ) -> tuple[Stored, list[Write]] | None:
        """Return a checkpoint (None: the one of the highest id) with its values and pending writes, or None.

        Writes are ordered by task_path, task_id and idx.
        """

    def load_all(self, session: Session, keys: Sequence[Key]) -> list[tuple[Stored, list[Write]]]:
        """Return checkpoints as ``load`` does, in the order of their keys, without those that are gone."""

    def parent(self, session: Session, key: Key) -> str | None:
        """Return the id of a checkpoint's parent, if both are there."""

    def writes_to(
        self,
        session: Session,
        thread_id: str,
        ns: str,
        checkpoint_ids: Sequence[str],
        channels: Sequence[str],
    ) -> list[tuple[str, Write]]:
        """Return the writes to some channels that are kept with some checkpoints, each with the
        checkpoint's id, ordered within a checkpoint as with ``load``."""

    def keys(
        self, session: Session, query: Query, *, after: Key | None, limit: int, metadata: bool
    ) -> list[tuple[Key, bytes | None]]:
        """Return the checkpoints that fit, by id descending, then thread and namespace ascending.

        ``after`` is the last key of the page before. The metadata are None unless they are asked for.
        """

    def insert(self, session: Session, stored: Stored) -> None:
        """Put a checkpoint, replacing the one of that key; values that exist stay as they are."""

    def insert_writes(self, session: Session, key: Key, writes: Sequence[Write], *, replace: bool) -> None:
        """Put pending writes; one of the same task and idx is replaced, or else stays as it is."""

    def namespaces(self, session: Session, thread_id: str) -> list[str]:
        """Return the namespaces in which a thread has checkpoints or writes."""

    def newest(self, session: Session, thread_id: str, ns: str, count: int) -> list[tuple[str, str | None]]:
        """Return the ids of a namespace's newest checkpoints, the highest first, each with its parent's."""

    def newest_not_of(self, session: Session, thread_id: str, ns: str, run_id: str) -> str | None:
        """Return the id of a namespace's newest checkpoint whose metadata have not this ``run_id``."""

    def lineage(
        self, session: Session, thread_id: str, ns: str, checkpoint_id: str, count: int
    ) -> list[Link]:
        """Return a checkpoint and its ancestors, nearest first, at most ``count``; no loop is followed."""

    def children(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> list[str]:
        """Return the ids of the checkpoints whose parent is one of these, they themselves left out."""

    def others(
        self, session: Session, thread_id: str, ns: str, before: str, kept: Sequence[str], limit: int
    ) -> list[str]:
        """Return ids of checkpoints lower than ``before`` that are not ``kept``, the lowest first."""

    def exists(self, session: Session, key: Key) -> bool:
        """Tell whether there is such a checkpoint."""

    def remove(self, session: Session, thread_id: str, ns: str, checkpoint_ids: Sequence[str]) -> None:
        """Remove checkpoints with their writes, and the values that no other one refers to."""

    def erase_namespace(self, session: Session, thread_id: str, ns: str, limit: int) -> bool:
        """Remove at most about ``limit`` rows of a namespace; tell whether none is left."""

    def of_run(self, session: Session, run_id: str) -> list[Key]:
        """Return checkpoints whose metadata have this ``run_id``."""

    def measure(self, session: Session, thread_id: str) -> Measured:
        """Return what a thread's rows take."""
