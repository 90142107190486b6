"""The checkpointer's side that LangGraph sees, over the tables of any SQL database."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from langgraph.checkpoint.serde.base import SerializerProtocol
from typing_extensions import override

from stateroom.drivers.sql.checkpoint_rows import Key, SaverTables, Stored, Write
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.errors import Conflict, InvalidInput, Misconfigured
from stateroom.model.run import Attempt
from stateroom.model.text import show
from stateroom.savers.admission import Guard, admit, guard
from stateroom.savers.configs import checked_thread, config_of, key_of, query_of
from stateroom.savers.measuring import ThreadBytes
from stateroom.savers.metadata import metadata_bytes
from stateroom.savers.pruning import Pruning
from stateroom.savers.reading import Reading
from stateroom.savers.twins import AsyncTwins
from stateroom.savers.unserialisable import refusal
from stateroom.savers.versions import next_version

__all__ = ["Saver"]


class Saver(AsyncTwins):
    """A checkpointer on LangGraph's own tables, whose sync and async methods work from any thread and loop.

    Over a storage it is ``managed``: what it writes is refused with Fenced once the attempt that writes has
    lost its run, and with NotFound where there is no such thread, in the transaction that writes it. A
    config that cannot be understood is an InvalidInput, a negative limit InvalidPage. What cannot be
    serialised is an InvalidValue that names the channel and the path to it, and nothing is written.

    ``keep_last`` is how many checkpoints of each namespace stay (None: all): older ones go with the put that
    adds one, except those from which the kept are made up, and the last of the run before the one that is
    executed, which may be rolled back.
    """

    def __init__(
        self,
        dialect: Dialect,
        tables: SaverTables,
        *,
        serde: SerializerProtocol | None,
        keep_last: int | None,
        managed: bool,
    ) -> None:
        super().__init__(serde=serde)
        if keep_last is not None and (type(keep_last) is not int or keep_last < 1):
            raise Misconfigured(f"keep_last is {show(keep_last)}; pass 1 or more, or None", field="keep_last")
        self._dialect = dialect
        self._tables = tables
        self._keep_last = keep_last
        self._managed = managed

    @abstractmethod
    def _packed(
        self, key: Key, parent_id: str | None, checkpoint: Checkpoint, metadata: bytes, new: ChannelVersions
    ) -> Stored:
        """Return a checkpoint as its row and its values hold it."""

    @abstractmethod
    def _unpacked(self, stored: Stored) -> dict[str, Any]:
        """Return the checkpoint that ``_packed`` was given, or one that an older release wrote."""

    @abstractmethod
    def _channel_bytes(self, session: Session, thread_id: str) -> Mapping[str, int]:
        """Return the bytes that the rows of checkpoints have for each channel's values."""

    # ---- writing

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint as the child of the one that ``config`` names, and return its own config."""
        thread_id, ns, parent_id = key_of(config)
        key = Key(thread_id, ns, checkpoint["id"])
        guard = self._guard(config, thread_id)
        if isinstance(guard, Attempt):
            # By which a roll-back finds what the run has left, whatever its config says.
            metadata = {**metadata, "run_id": guard.run_id}
        stored = self._packed(key, parent_id, checkpoint, metadata_bytes(config, metadata), new_versions)
        self._save(guard, stored)
        return config_of(key)

    @override
    def put_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Save what a task wrote, with the checkpoint that ``config`` names.

        Errors, interrupts and the like replace what the task had of that kind; else the first save counts.
        """
        thread_id, ns, checkpoint_id = key_of(config)
        if checkpoint_id is None:
            raise InvalidInput(
                "configurable.checkpoint_id is missing; name the checkpoint that the writes belong to",
                field="configurable.checkpoint_id",
            )
        rows = [
            Write(
                task_id, task_path, WRITES_IDX_MAP.get(channel, idx), channel, *self._dumped(value, channel)
            )
            for idx, (channel, value) in enumerate(writes)
        ]
        replace = all(channel in WRITES_IDX_MAP for channel, _ in writes)
        self._save_writes(
            self._guard(config, thread_id), Key(thread_id, ns, checkpoint_id), rows, replace=replace
        )

    def _save(self, guard: Guard, stored: Stored) -> None:
        """Write a checkpoint in one transaction with what must hold for it."""
        key = stored.key

        def work(session: Session) -> None:
            admit(session, guard)
            self._tables.insert(session, stored)
            if self._keep_last is not None:
                run_id = guard.run_id if isinstance(guard, Attempt) else None
                self._pruning.trim(session, key.thread_id, key.ns, self._keep_last, run_id)

        self._ready.write(work, repeats=True)

    def _save_writes(self, guard: Guard, key: Key, writes: Sequence[Write], *, replace: bool) -> None:
        """Write pending writes in one transaction with what must hold for them."""

        def work(session: Session) -> None:
            admit(session, guard)
            self._tables.insert_writes(session, key, writes, replace=replace)

        self._ready.write(work, repeats=True)

    def _guard(self, config: RunnableConfig | None, thread_id: str) -> Guard:
        return guard(config, thread_id) if self._managed else None

    def _dumped(self, value: Any, channel: str) -> tuple[str, bytes]:
        """Serialise a channel's value; raise InvalidValue that names the channel and the culprit in it."""
        try:
            return self.serde.dumps_typed(value)
        except Exception as error:  # serialisers raise what they like
            raise refusal(self.serde, value, channel, error) from error

    # ---- reading

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that ``config`` names, or the newest of its namespace, or None."""
        return self._reading.one(*key_of(config))

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Return checkpoints, the highest id first; without ``config`` of all threads.

        ``filter`` is what the metadata have: equal values, objects contained, None also where it is missing.
        """
        return (found for page in self._pages(config, filter, before, limit) for found in page)

    @override
    def _pages(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        return self._reading.pages(*query_of(config, filter, before, limit))

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Return for each channel the nearest value that an ancestor has, and what was written since."""
        return self._reading.history(key_of(config), channels)

    @override
    def storage(self, thread_id: str) -> ThreadBytes:
        asked = checked_thread(thread_id, "thread_id")

        def work(session: Session) -> ThreadBytes:
            found = self._tables.measure(session, asked)
            inline = self._channel_bytes(session, asked)
            channels = {
                channel: found.values.get(channel, 0) + inline.get(channel, 0)
                for channel in sorted({*found.values, *inline})
            }
            rest = found.checkpoint_bytes - sum(inline.values())
            return ThreadBytes(found.checkpoints, rest, channels, found.writes, found.write_bytes)

        return self._ready.read_together(work)

    # ---- removing and copying

    @override
    def delete_thread(self, thread_id: str) -> None:
        """Remove everything of a thread, in transactions of bounded size; doing so again finishes it."""
        self._pruning.erase(checked_thread(thread_id, "thread_id"))

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints whose metadata have one of these as ``run_id``, a thread in a transaction.

        Those stay from which a later checkpoint is made up that stays.
        """
        self._pruning.of_runs(map(str, _several(run_ids, "run_ids")))

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy everything of a thread, as it is at one moment; raise Conflict if the target has anything."""
        source = checked_thread(source_thread_id, "source_thread_id")
        target = checked_thread(target_thread_id, "target_thread_id")

        def work(session: Session) -> None:
            admit(session, self._guard(None, target))
            if self._tables.namespaces(session, target):
                raise Conflict(
                    f"target_thread_id: {target!r} has checkpoints already; copy to a thread that has none",
                    field="target_thread_id",
                )
            self._tables.copy(session, source, target)

        self._ready.write(work)

    @override
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Remove from threads all but the latest of each namespace, or, by ``delete``, everything.

        With the latest stay its pending writes, and the older checkpoints that it is made up from. The
        namespaces of subgraphs' calls go which were made in other checkpoints of the root graph. It works
        in transactions of bounded size, beside runs that go on; breaking it off does no harm.
        """
        if strategy not in ("keep_latest", "delete"):
            raise InvalidInput(
                f"strategy is {show(strategy)}; use 'keep_latest' or 'delete'", field="strategy"
            )
        remove = self._pruning.keep_latest if strategy == "keep_latest" else self._pruning.erase
        for thread_id in _several(thread_ids, "thread_ids"):
            remove(checked_thread(thread_id, "thread_ids"))

    # ---- what it stands on

    @override
    def get_next_version(self, current: str | None, channel: None) -> str:
        """Return the version that follows a channel's."""
        following: str = next_version(current)
        return following

    def _seeds(self, session: Session, key: Key, channels: Collection[str]) -> Mapping[str, Any]:
        """Return the values that a checkpoint has of some channels."""
        found = self._tables.load(session, *key)
        values = self._unpacked(found[0])["channel_values"] if found else {}
        return {channel: values[channel] for channel in channels if channel in values}

    def _load_in(self, work: Callable[[Session], Any]) -> Any:
        """Let ``work`` read a checkpoint and its writes as of one moment."""
        return self._dialect.read_together(work)

    @property
    def _ready(self) -> Dialect:
        """The database, with the tables in place."""
        self.setup()
        return self._dialect

    # Made anew for each call, since a clone of this saver has another serialiser.

    @property
    def _reading(self) -> Reading:
        return Reading(
            self._ready,
            self._tables,
            self.serde,
            load=self._load_in,
            unpacked=self._unpacked,
            seeds=self._seeds,
        )

    @property
    def _pruning(self) -> Pruning:
        return Pruning(self._ready, self._tables, self._reading.sends_parent)


def _several(ids: Sequence[str], field: str) -> list[str]:
    if isinstance(ids, str):
        raise InvalidInput(f"{field} is a string; pass a list of ids", field=field)
    return list(ids)
