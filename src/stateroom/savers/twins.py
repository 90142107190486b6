"""The async methods of a checkpointer whose sync ones may be called from any thread."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    BaseCheckpointSaver,
    ChannelVersions,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    DeltaChannelHistory,
)
from typing_extensions import override

from stateroom.savers.measuring import ThreadBytes

__all__ = ["AsyncTwins"]


class AsyncTwins(BaseCheckpointSaver[str]):
    """Each async method runs its sync twin in a thread, so that no loop waits and no connection has one.

    What is bound in context variables goes along.
    """

    @abstractmethod
    def setup(self) -> None:
        """Create or complete the tables; also done on first use, and idempotent."""

    @abstractmethod
    def close(self) -> None:
        """Let go of every resource of its own; idempotent."""

    @abstractmethod
    def storage(self, thread_id: str) -> ThreadBytes:
        """Return the exact bytes that a thread's checkpoints take; it reads all of them."""

    @abstractmethod
    def _pages(
        self,
        config: RunnableConfig | None,
        filter: Mapping[str, Any] | None,
        before: RunnableConfig | None,
        limit: int | None,
    ) -> Iterator[Sequence[CheckpointTuple]]:
        """Return what ``list`` does, page by page."""

    @override
    async def aget_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Do what ``get_tuple`` does."""
        return await asyncio.to_thread(self.get_tuple, config)

    @override
    async def alist(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> AsyncIterator[CheckpointTuple]:
        """Do what ``list`` does."""
        pages = self._pages(config, filter, before, limit)
        while (page := await asyncio.to_thread(next, pages, None)) is not None:
            for found in page:
                yield found

    @override
    async def aput(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Do what ``put`` does."""
        return await asyncio.to_thread(self.put, config, checkpoint, metadata, new_versions)

    @override
    async def aput_writes(
        self,
        config: RunnableConfig,
        writes: Sequence[tuple[str, Any]],
        task_id: str,
        task_path: str = "",
    ) -> None:
        """Do what ``put_writes`` does."""
        await asyncio.to_thread(self.put_writes, config, writes, task_id, task_path)

    @override
    async def aget_delta_channel_history(
        self, *, config: RunnableConfig, channels: Sequence[str]
    ) -> Mapping[str, DeltaChannelHistory]:
        """Do what ``get_delta_channel_history`` does."""
        read = partial(self.get_delta_channel_history, config=config, channels=channels)
        return await asyncio.to_thread(read)

    async def astorage(self, thread_id: str) -> ThreadBytes:
        """Do what ``storage`` does."""
        return await asyncio.to_thread(self.storage, thread_id)

    @override
    async def adelete_thread(self, thread_id: str) -> None:
        """Do what ``delete_thread`` does."""
        await asyncio.to_thread(self.delete_thread, thread_id)

    @override
    async def adelete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Do what ``delete_for_runs`` does."""
        await asyncio.to_thread(self.delete_for_runs, run_ids)

    @override
    async def acopy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Do what ``copy_thread`` does."""
        await asyncio.to_thread(self.copy_thread, source_thread_id, target_thread_id)

    @override
    async def aprune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Do what ``prune`` does."""
        await asyncio.to_thread(partial(self.prune, thread_ids, strategy=strategy))

    async def asetup(self) -> None:
        """Do what ``setup`` does."""
        await asyncio.to_thread(self.setup)

    async def aclose(self) -> None:
        """Do what ``close`` does."""
        await asyncio.to_thread(self.close)

    def __enter__(self) -> Self:
        self.setup()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        await self.asetup()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.aclose()
