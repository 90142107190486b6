"""Opening backends for the suite of file systems: over any store, and in the state of a graph that runs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, Final

from langgraph._internal._constants import CONFIG_KEY_READ, CONFIG_KEY_SEND
from langgraph.config import get_config
from langgraph.graph import START, StateGraph
from langgraph.store.base import NOT_PROVIDED, BaseStore, PutOp

from stateroom.clock import Clock, system_clock
from stateroom.contract.items import Capability
from stateroom.errors import NotSupported
from stateroom.files.state import FilesState, StateBackend
from stateroom.files.store import StoreBackend
from stateroom.stores.foreign import from_base_store
from stateroom.testing.files_harness import HOME, FileSystem

__all__ = ["InState", "OverStore"]

EVERYTHING: Final = 1_000_000
SECONDS: Final = 30.0


class OverStore:
    """Opens ``StoreBackend`` over one store, which ``make(ttl=..., clock=...)`` returns; and closes it.

    ``wrap`` puts another backend around it. ``settings`` are options of each.
    """

    def __init__(
        self,
        make: Callable[..., BaseStore],
        *,
        wrap: Callable[[StoreBackend], Any] = lambda backend: backend,
        **settings: Any,
    ) -> None:
        self._make = make
        self._wrap = wrap
        self._settings = settings
        self._store: BaseStore | None = None

    def __call__(
        self,
        *,
        namespace: tuple[str, ...] = HOME,
        ttl: Mapping[str, Any] | None = None,
        clock: Clock = system_clock,
        **options: Any,
    ) -> FileSystem:
        """Open a file system of the store; the first opening says how that is made."""
        if self._store is None:
            self._store = self._make(ttl=ttl, clock=clock)
        given = self._store
        store = from_base_store(given)

        def plant(path: str, value: Mapping[str, Any], ttl: Any = NOT_PROVIDED) -> None:
            given.batch([PutOp(namespace, path, dict(value), ttl=ttl)])

        def everything() -> dict[str, Any]:
            found = store.search(namespace, limit=EVERYTHING, refresh_ttl=False)
            return {item.key: item.value for item in found if item.namespace == namespace}

        backend = StoreBackend(store=given, namespace=namespace, clock=clock, **self._settings | options)
        return FileSystem(
            self._wrap(backend),
            plant,
            everything,
            Capability.CONDITIONAL in store.capabilities,
            Capability.KEY_INDEX in store.capabilities,
            Capability.FULL_LIMITS in store.capabilities,
        )

    def close(self) -> None:
        """Close the store, if it can be closed."""
        close = getattr(self._store, "close", None)
        if close is not None:
            close()


class InState:
    """Opens ``StateBackend`` in graphs that run until this is closed, one for each namespace."""

    def __init__(self, **settings: Any) -> None:
        self._settings = settings
        self._runs: dict[tuple[str, ...], _Run] = {}

    def __call__(
        self,
        *,
        namespace: tuple[str, ...] = HOME,
        ttl: Mapping[str, Any] | None = None,
        clock: Clock = system_clock,
        **options: Any,
    ) -> FileSystem:
        """Open a file system, in a run of its own."""
        unknown = [name for name in ("max_files", "max_bytes") if name in options]
        if ttl is not None or unknown:
            raise NotSupported(f"{', '.join(unknown) or 'ttl'}: files in a state have none")
        if namespace not in self._runs:
            self._runs[namespace] = _Run()
        run = self._runs[namespace]
        backend = StateBackend(run.config, clock=clock, **self._settings | options)
        return FileSystem(backend, run.plant, run.everything, is_conditional=False)

    def close(self) -> None:
        """Let the graphs end; what they answer must be what was there to be read."""
        for run in self._runs.values():
            run.close()


class _Run:
    """A graph of one node, which waits."""

    def __init__(self) -> None:
        ready: Future[Any] = Future()
        self._end = threading.Event()

        def node(state: FilesState) -> dict[str, Any]:  # noqa: ARG001  # it is for the graph to pass
            ready.set_result(get_config())
            self._end.wait()
            return {}

        graph = StateGraph(FilesState)
        graph.add_node("node", node)
        graph.add_edge(START, "node")
        compiled: Any = graph.compile()
        self._thread = ThreadPoolExecutor(1, "graph")
        self._answer = self._thread.submit(compiled.invoke, {"files": {}})
        self.config = ready.result(SECONDS)

    def plant(self, path: str, value: Mapping[str, Any]) -> None:
        """Send a file's object as any other part of the node would."""
        self.config["configurable"][CONFIG_KEY_SEND]([("files", {path: dict(value)})])

    def everything(self) -> dict[str, Any]:
        """Return the files of the state, with what has been sent."""
        return dict(self.config["configurable"][CONFIG_KEY_READ]("files", True))

    def close(self) -> None:
        seen = self.everything()
        self._end.set()
        answer = self._answer.result(SECONDS)
        self._thread.shutdown()
        assert answer.get("files", {}) == seen
