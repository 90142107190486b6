"""Files in a store, which last from thread to thread."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

from langgraph.store.base import BaseStore
from typing_extensions import override

from stateroom.clock import Clock, system_clock
from stateroom.contract.items import Capability
from stateroom.files.data import FileFormat, check_file_format
from stateroom.files.quota import has_quota, quota
from stateroom.files.running import NamespaceSource, namespace_of, store_of
from stateroom.files.volume import Volume
from stateroom.files.volumes import Place, VolumeBackend
from stateroom.stores.base import Store
from stateroom.stores.foreign import from_base_store

__all__ = ["StoreBackend"]

STORES_KNOWN: Final = 16
"""Stores of others that are kept in hand, as they come from the graphs that run."""


class StoreBackend(VolumeBackend):
    """Files as items of a store: the key is the path, the value Deep Agents' ``FileData``.

    ``runtime`` is what a backend factory is called with, a configuration or a runtime; without it, the
    graph that is running says whatever is asked. ``store`` is any LangGraph ``BaseStore``, by default the
    one that the graph was compiled with. ``namespace`` is a tuple of labels, or a function of the runtime
    that returns one; by default ``(assistant_id, "filesystem")``. Labels may hold dots.

    ``file_format`` says how text is written: ``"v1"`` as a list of lines, ``"v2"`` as one string with its
    encoding. All forms are read. ``max_files`` and ``max_bytes`` bound what the namespace holds; a write
    that would go beyond is refused, at the cost of counting what is there.

    On Stateroom's own stores an edit that reports success is kept, whoever else writes; listings and
    patterns read no file, and only what reads one for its own sake (``read``, ``download_files``) refreshes
    its time to live. On any other store writers
    take turns within this process, and every listing reads all files at or below the namespace, 1,000 a
    call; ``is_conditional`` tells the two apart.
    """

    def __init__(
        self,
        runtime: Any = None,
        *,
        store: BaseStore | None = None,
        namespace: NamespaceSource = None,
        file_format: FileFormat = "v1",
        max_files: int | None = None,
        max_bytes: int | None = None,
        clock: Clock = system_clock,
    ) -> None:
        check_file_format(file_format)
        if namespace is not None and not callable(namespace):
            namespace = namespace_of(namespace, None)
        self._runtime = runtime
        self._store = store
        if store is not None:
            _adopt(store)
        self._namespace = namespace
        self._options = file_format, quota(max_files, "max_files"), quota(max_bytes, "max_bytes")
        self._clock = clock

    @property
    def is_conditional(self) -> bool:
        """Whether no edit that reports success can be lost to another process."""
        return Capability.CONDITIONAL in _adopt(self._current_store()).capabilities

    @override
    def _place(self) -> Place:
        given = self._current_store()
        store = _adopt(given)
        file_format, max_files, max_bytes = self._options
        is_ours = Capability.CONDITIONAL in store.capabilities
        volume = Volume(
            namespace_of(self._namespace, self._runtime),
            self._clock,
            file_format,
            is_indexed=is_ours and not (store.index_config or {}).get("fields"),
            is_conditional=is_ours,
            lists_cheaply=Capability.KEY_INDEX in store.capabilities,
            max_files=max_files,
            max_bytes=max_bytes,
        )
        lock = (id(given), volume.namespace) if not is_ours or has_quota(volume) else None
        return Place(volume, store.batch, store.abatch, lock, has_threads=is_ours)

    def _current_store(self) -> BaseStore:
        return store_of(self._runtime) if self._store is None else self._store


@lru_cache(maxsize=STORES_KNOWN)
def _adopt(store: BaseStore) -> Store:
    """Return a store with our meaning: the same one for the same store, so that its callers share locks."""
    return from_base_store(store)
