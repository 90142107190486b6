"""The graphs that a server serves: loaded, opened for each use, and loaded anew."""

from __future__ import annotations

import copy
import logging
import threading
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager, asynccontextmanager
from pathlib import Path
from typing import Any, TypeAlias

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore

from stateroom.engine.factories import FORMS, Access, Call, Factory, compiled
from stateroom.engine.loading import Project
from stateroom.errors import Misconfigured, NotFound
from stateroom.model.text import show

__all__ = ["Access", "Graph", "Graphs", "Source"]

Graph: TypeAlias = Pregel[Any, Any, Any, Any]

Source: TypeAlias = str | Graph | StateGraph[Any, Any, Any, Any] | Callable[..., Any]
"""What makes a graph known: ``"./file.py:name"``, ``"package.module:name"``, or an object held in code."""

_Made: TypeAlias = Graph | Factory | Misconfigured

_log = logging.getLogger(__name__)


class Graphs:
    """The graphs of a project, each by its id.

    ``base`` is the folder of the ``langgraph.json``, ``dependencies`` what its section of that name says. A
    graph that was compiled with a store or a checkpointer of its own is served with ours, and a warning says
    so once, unless ``keep_storage``. ``lenient`` is for development: a graph that cannot be loaded does not
    stop the others, and whoever opens it is told why.
    """

    def __init__(
        self,
        sources: Mapping[str, Source],
        *,
        base: Path,
        checkpointer: BaseCheckpointSaver[Any],
        store: BaseStore,
        descriptions: Mapping[str, str] = {},
        keep_storage: bool = False,
        dependencies: Sequence[str] = (),
        lenient: bool = False,
    ) -> None:
        self._sources, self._descriptions = dict(sources), dict(descriptions)
        self._checkpointer, self._store, self._keep_storage = checkpointer, store, keep_storage
        self._project = Project(base, dependencies)
        self._lenient = lenient
        self._lock = threading.RLock()
        self._made: dict[str, _Made] | None = None
        self._warned: set[str] = set()

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of all graphs, in the order in which they were given."""
        return tuple(self._sources)

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that the project's code lies in."""
        return self._project.folders

    def description(self, graph_id: str) -> str | None:
        """Return what a graph is for, if the project says it."""
        return self._descriptions.get(graph_id)

    def load(self) -> None:
        """Load every graph, unless that has been done.

        Raises ``Misconfigured``, which names the graph, the file, the attribute and the fix.
        """
        with self._lock:
            if self._made is None:
                self._made = self._load_all(working=())

    def reload(self) -> None:
        """Import all modules of the project anew, and serve what they hold from now on.

        What is open stays as it was. If a graph that can be used cannot be loaded any more, all stay as they
        were, and ``Misconfigured`` is raised.
        """
        with self._lock:
            before = self._made or {}
            working = [name for name, made in before.items() if not isinstance(made, Misconfigured)]
            with self._project.afresh():
                made = self._load_all(working=working)
            self._made = made
            self._warned.clear()

    @asynccontextmanager
    async def open(
        self,
        graph_id: str,
        *,
        config: RunnableConfig | None = None,
        access: Access = "threads.read",
        user: Any = None,
        store: BaseStore | None = None,
        context: Any = None,
    ) -> AsyncIterator[Graph]:
        """Open a graph for one use, with our checkpointer and with ``store``, or else ours.

        ``config``, ``access``, ``user`` and ``context`` are for graphs that are made by a function. Raises
        ``NotFound`` for an unknown id. It runs users' code: call it where graphs run.
        """
        made = self._find(graph_id)
        store = store or self._store
        if not isinstance(made, Factory):
            yield self._served(graph_id, made, store)
            return
        call = Call(access, config or {}, store, user, context)
        async with made.open(call) as graph:
            yield self._served(graph_id, graph, store)

    def _find(self, graph_id: str) -> Graph | Factory:
        if self._made is None:
            self.load()
        # Without the lock: whoever loads anew holds it for as long as that takes.
        made = (self._made or {}).get(graph_id)
        if made is None:
            raise NotFound(f"there is no graph {graph_id!r}", field="graph_id")
        if isinstance(made, Misconfigured):
            raise Misconfigured(str(made), field=made.field) from made.__cause__
        return made

    # ---- loading

    def _load_all(self, *, working: Sequence[str]) -> dict[str, _Made]:
        """Load every graph; if lenient, and it is not working now, what fails is kept in a graph's place."""
        made: dict[str, _Made] = {}
        for graph_id, source in self._sources.items():
            try:
                made[graph_id] = self._load(graph_id, source)
            except Misconfigured as error:
                if not self._lenient or graph_id in working:
                    raise
                _log.error("the graph %r cannot be used: %s", graph_id, error)
                made[graph_id] = error
        return made

    def _load(self, graph_id: str, source: Source) -> Graph | Factory:
        field = f"graphs.{graph_id}"
        found = self._project.load(source, field=field) if isinstance(source, str) else source
        name = f"{field} {source!r}" if isinstance(source, str) else f"{field} {show(source)}"
        graph = compiled(found, name, field=field)
        if graph is not None:
            self._check_storage(graph_id, graph)
            return graph
        manager = isinstance(found, AbstractAsyncContextManager | AbstractContextManager)
        if manager and not isinstance(found, type):
            raise Misconfigured(
                f"{name} is a context manager that can be entered but once; name the function or class that"
                " makes it, which is called for each use",
                field=field,
            )
        if not callable(found):
            raise Misconfigured(f"{name} is {show(found)}; make it {FORMS}", field=field)
        return Factory(found, name, field=field)

    # ---- serving

    def _served(self, graph_id: str, graph: Graph, store: BaseStore) -> Graph:
        """Return a copy with the storage that it is served with."""
        self._check_storage(graph_id, graph)
        # Pregel.copy() forgets what compiling a StateGraph has set beside its arguments.
        served = copy.copy(graph)
        if not self._keep_storage or not isinstance(graph.checkpointer, BaseCheckpointSaver):
            served.checkpointer = self._checkpointer
        if not self._keep_storage or graph.store is None:
            served.store = store
        return served

    def _check_storage(self, graph_id: str, graph: Graph) -> None:
        """Warn once of storage that a graph brings along and that is not used."""
        own = [
            f"{what} ({type(value).__name__})"
            for what, value in (("checkpointer", graph.checkpointer), ("store", graph.store))
            if isinstance(value, BaseCheckpointSaver | BaseStore)
        ]
        if own and not self._keep_storage and graph_id not in self._warned:
            self._warned.add(graph_id)
            _log.warning(
                "the graph %r was compiled with its own %s; it is served with the server's instead. Leave it"
                ' out of the graph, or keep it with "stateroom": {"keep_graph_storage": true}',
                graph_id,
                " and ".join(own),
            )
