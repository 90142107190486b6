"""The server's checkpointer where an application brings its own: asked on its loop, within its limits."""

from __future__ import annotations

import copy
import inspect
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
    get_checkpoint_metadata,
)
from typing_extensions import override

from stateroom.contract.storage import Storage
from stateroom.engine.loops import Loops
from stateroom.errors import NotSupported, StateroomError, Unavailable
from stateroom.model.run import Attempt
from stateroom.model.thread import ThreadStatus
from stateroom.offload import Offload
from stateroom.savers.admission import Guard, guard, refused
from stateroom.savers.attempts import Resting
from stateroom.savers.loading import lacks
from stateroom.savers.metadata import public_parts

__all__ = ["CustomSaver"]

T = TypeVar("T")

_OFFERS: Final[Mapping[str, str]] = {
    "acopy_thread": "copy threads",
    "adelete_for_runs": "roll runs back",
    "aprune": "keep of threads nothing but their latest state",
    "astorage": "tell how much it keeps",
}
"""What a checkpointer need not be able to do, and by which method it could."""


class CustomSaver(BaseCheckpointSaver[Any]):
    """An application's checkpointer as graphs and the server use it, from any thread and any loop.

    It is only ever asked by its async methods, on the one loop of ``loops``, which it was opened on and which
    no graph can block. It gets nothing that is private, and in the metadata of each checkpoint the run.
    Before each write the storage is asked whether the writer may write; in between he may lose that right,
    since the two have no transaction in common. What it cannot do raises NotSupported; what fails, for the
    server itself, Unavailable.
    """

    def __init__(
        self, saver: BaseCheckpointSaver[Any], loops: Loops, storage: Storage, offload: Offload
    ) -> None:
        # Not that of the base: the serialiser is the checkpointer's own, as it is.
        self.serde = saver.serde
        self._saver, self._loops, self._storage, self._offload = saver, loops, storage, offload
        self._takes_path = "task_path" in inspect.signature(saver.aput_writes).parameters

    # ---- what graphs ask of any checkpointer

    @property
    @override
    def config_specs(self) -> list[Any]:
        return self._saver.config_specs

    @override
    def get_next_version(self, current: Any, channel: None) -> Any:
        return self._saver.get_next_version(current, channel)

    @override
    def with_allowlist(self, extra_allowlist: Collection[tuple[str, ...]]) -> BaseCheckpointSaver[Any]:
        saver = self._saver.with_allowlist(extra_allowlist)
        if saver is self._saver:
            return self
        clone = copy.copy(self)
        clone._saver, clone.serde = saver, saver.serde
        return clone

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return await self._loops.run(lambda: self._saver.aget_tuple(config))

    @override
    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        return self._wait(lambda: self._saver.aget_tuple(config))

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        for each in await self._loops.run(lambda: self._listed(config, filter, before, limit)):
            yield each

    @override
    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        yield from self._wait(lambda: self._listed(config, filter, before, limit))

    async def _listed(
        self,
        config: RunnableConfig | None,
        filter: dict[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Sequence[CheckpointTuple]:
        # At once: most hold a lock, or a connection, for as long as one looks through them.
        found = self._saver.alist(config, filter=filter, before=before, limit=limit)
        return [each async for each in found]

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        await self._offload(self._admit, _guard(config))
        return await self._loops.run(lambda: self._put(config, checkpoint, metadata, new_versions))

    @override
    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        self._admit(_guard(config))
        return self._wait(lambda: self._put(config, checkpoint, metadata, new_versions))

    def _put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> Coroutine[Any, Any, RunnableConfig]:
        public = public_parts(config)
        # Not every checkpointer takes the run out of the config by itself.
        described = get_checkpoint_metadata(public, metadata)
        return self._saver.aput(public, checkpoint, described, new_versions)

    @override
    async def aput_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        await self._offload(self._admit, _guard(config))
        await self._loops.run(lambda: self._put_writes(config, writes, task_id, task_path))

    @override
    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        self._admit(_guard(config))
        self._wait(lambda: self._put_writes(config, writes, task_id, task_path))

    def _put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str
    ) -> Coroutine[Any, Any, None]:
        path = {"task_path": task_path} if self._takes_path else {}
        return self._saver.aput_writes(public_parts(config), writes, task_id, **path)

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return await self._loops.run(
            lambda: self._saver.aget_delta_channel_history(config=config, channels=channels)
        )

    @override
    def get_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        return self._wait(lambda: self._saver.aget_delta_channel_history(config=config, channels=channels))

    # ---- what the server asks beside

    def require(self, method: str) -> None:
        """Raise NotSupported unless the checkpointer has a method."""
        if lacks(self._saver, method):
            raise NotSupported(
                f"the application's own checkpointer, {type(self._saver).__name__}, cannot"
                f" {_OFFERS.get(method, method)}: it has no {method}"
            )

    @override
    def delete_thread(self, thread_id: str) -> None:
        self._kept(lambda: self._saver.adelete_thread(thread_id), "adelete_thread")

    @override
    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        self._kept(lambda: self._saver.acopy_thread(source_thread_id, target_thread_id), "acopy_thread")

    @override
    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        self._kept(lambda: self._saver.adelete_for_runs(run_ids), "adelete_for_runs")

    @override
    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        self._kept(lambda: self._saver.aprune(thread_ids, strategy=strategy), "aprune")

    def storage(self, thread_id: str) -> Any:
        """Return what a thread's checkpoints take."""
        measured: Any = self._saver
        return self._kept(lambda: measured.astorage(thread_id), "astorage")

    def _kept(self, call: Callable[[], Coroutine[Any, Any, T]], method: str) -> T:
        """Return what a method does for the server; whatever it raises is a StateroomError."""
        self.require(method)
        try:
            return self._wait(call)
        except StateroomError:
            raise
        except NotImplementedError as error:
            raise NotSupported(f"the application's own checkpointer has no {method}: {error}") from error
        except Exception as error:
            raise Unavailable(
                f"the application's own checkpointer failed in {method}: {type(error).__name__}: {error}"
            ) from error

    # ---- who may write

    def _admit(self, guard: Guard) -> None:
        """Raise what Stateroom's own checkpointers raise for who may not write; it blocks."""
        if isinstance(guard, Attempt):
            holds = self._storage.runs.is_current(guard)
        else:
            thread_id = guard.thread_id if isinstance(guard, Resting) else str(guard)
            thread = self._storage.threads.get(thread_id)
            rests = isinstance(guard, str) or (thread is not None and thread.status is not ThreadStatus.BUSY)
            holds = thread is not None and rests
        if not holds:
            raise refused(guard)

    def _wait(self, call: Callable[[], Coroutine[Any, Any, T]]) -> T:
        return self._loops.submit(call).result()


def _guard(config: RunnableConfig) -> Guard:
    """Return what must hold for a write, as long as this context lasts."""
    return guard(config, str(config["configurable"]["thread_id"]))
