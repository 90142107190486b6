"""Gives an application that has a server of its own the agent server as a part to mount."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore
from starlette.types import Receive, Scope, Send

from stateroom.api.problems import problem
from stateroom.boot.compose import Server
from stateroom.engine.graphs import Source
from stateroom.errors import Misconfigured, Unavailable
from stateroom.model.thread_ttl import parse_thread_ttl_config
from stateroom.settings import HttpSettings, Limits, Settings, StorageKind

if TYPE_CHECKING:
    from langgraph_sdk import Auth

__all__ = ["EmbeddedGraphs", "embed_in_memory_graphs", "embed_postgres_graphs", "embed_sqlite_graphs"]

Graphs = Mapping[str, Source]

Checkpointer = (
    BaseCheckpointSaver[Any]
    | AbstractAsyncContextManager[BaseCheckpointSaver[Any]]
    | AbstractContextManager[BaseCheckpointSaver[Any]]
    | Callable[[], Any]
)
"""What ``checkpointer.path`` of a ``langgraph.json`` may name."""


class EmbeddedGraphs:
    """The agent server as an ASGI application, to be mounted in another one at any path.

    It opens its storage and begins to execute runs with the first request, in ``async with``, or when it is
    served by itself. ``aclose`` ends it: runs go on to their next step within the grace, and those that are
    not done then go on when it is opened again. ``server`` has the parts.
    """

    def __init__(self, server: Server) -> None:
        self.server = server

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve one connection."""
        if scope["type"] == "lifespan":
            await self._live(receive, send)
            return
        try:
            await self.server.begin()
        except Unavailable as error:
            if scope["type"] != "http":
                raise
            await problem(error)(scope, receive, send)
            return
        await self.server.app(scope, receive, send)

    async def __aenter__(self) -> Self:
        await self.server.begin()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Execute no more, and let go of everything; nothing can be served any more."""
        await self.server.aclose()

    async def _live(self, receive: Receive, send: Send) -> None:
        """Begin and end with a server that serves nothing else."""
        await receive()
        try:
            await self.server.begin()
        except Exception as error:  # whatever it is, the server is told in the words of its protocol
            await send({"type": "lifespan.startup.failed", "message": str(error)})
            return
        await send({"type": "lifespan.startup.complete"})
        await receive()
        await self.aclose()
        await send({"type": "lifespan.shutdown.complete"})


def embed_in_memory_graphs(graphs: Graphs, **options: Any) -> EmbeddedGraphs:
    """Serve graphs with everything in this process, for tests: nothing survives it.

    The options are those of ``embed_sqlite_graphs``, except ``synchronous``.
    """
    return _embedded(graphs, "memory", {}, **options)


def embed_sqlite_graphs(
    graphs: Graphs,
    path: str | os.PathLike[str],
    *,
    synchronous: str = "NORMAL",
    **options: Any,
) -> EmbeddedGraphs:
    """Serve graphs with everything in one SQLite file, which this process owns meanwhile.

    ``graphs`` maps ids to compiled graphs, builders, functions that make them, or ``"module:name"``.
    ``synchronous`` is described with ``SqliteStore``. The options: ``store`` (any LangGraph store, instead of
    the file), ``checkpointer`` (any of LangGraph's with async methods, or a context manager or function that
    makes one, instead of the file), ``index``, ``index_keys`` and ``ttl`` of the items, ``thread_ttl`` (as
    ``checkpointer.ttl`` of a ``langgraph.json``), ``auth`` (a ``langgraph_sdk.Auth``), ``limits``, ``http``,
    ``base`` (where relative names start), ``keep_graph_storage``.
    """
    if synchronous not in ("NORMAL", "FULL"):
        raise Misconfigured(f"synchronous is {synchronous!r}; use 'NORMAL' or 'FULL'", field="synchronous")
    where = {"sqlite_path": str(Path(path).absolute()), "synchronous": synchronous}
    return _embedded(graphs, "sqlite", where, **options)


def embed_postgres_graphs(
    graphs: Graphs,
    uri: str,
    *,
    schema: str = "stateroom",
    pool: Mapping[str, Any] | None = None,
    prepared_statements: bool = True,
    **options: Any,
) -> EmbeddedGraphs:
    """Serve graphs with everything in a schema of a Postgres database, which other processes may share.

    ``uri``, ``schema``, ``pool`` (its options) and ``prepared_statements`` are described with
    ``PostgresStore``, the options with ``embed_sqlite_graphs``.
    """
    where = {
        "postgres_uri": uri,
        "postgres_schema": schema,
        "postgres_pool": pool or {},
        "prepared_statements": prepared_statements,
    }
    return _embedded(graphs, "postgres", where, **options)


def _embedded(
    graphs: Graphs,
    kind: StorageKind,
    where: Mapping[str, Any],
    *,
    store: BaseStore | None = None,
    checkpointer: Checkpointer | None = None,
    index: Mapping[str, Any] | None = None,
    index_keys: Sequence[str] = (),
    ttl: Mapping[str, Any] | None = None,
    thread_ttl: Mapping[str, Any] | None = None,
    auth: Auth | None = None,
    limits: Limits | None = None,
    http: HttpSettings | None = None,
    base: str | os.PathLike[str] = ".",
    keep_graph_storage: bool = False,
) -> EmbeddedGraphs:
    if not graphs:
        raise Misconfigured('graphs is empty; pass {"agent": graph}', field="graphs")
    settings = Settings(
        base=Path(base).absolute(),
        storage=kind,
        store={key: value for key, value in (("index", index), ("ttl", ttl)) if value is not None},
        index_keys=tuple(index_keys),
        thread_ttl=None if thread_ttl is None else parse_thread_ttl_config(thread_ttl),
        keep_graph_storage=keep_graph_storage,
        limits=limits or Limits(),
        http=http or HttpSettings(),
        **where,
    )
    return EmbeddedGraphs(Server(settings, graphs=graphs, store=store, checkpointer=checkpointer, auth=auth))
