"""Everything that a server can be told, in one frozen value."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from stateroom.model.thread_ttl import ThreadTTLSettings

__all__ = ["HttpSettings", "Limits", "Settings", "StorageKind"]

StorageKind = Literal["memory", "sqlite", "postgres"]


@dataclass(frozen=True, slots=True)
class Limits:
    """How much a server does and keeps. Times are seconds.

    ``concurrency``: runs that this process executes at the same time. ``lease``: how long a run stays this
    process's without a word. ``max_attempts``: how often a run is executed whose workers die.
    ``run_timeout``: after how long a run is ended, None never. ``shutdown_grace``: how long runs may go on to
    their next step when the server stops. ``heartbeat``: silence after which a stream says that it lives.
    ``page_size``: rows of one page at most. ``body_bytes``: of one request. ``frames_per_run``,
    ``bytes_per_run``, ``retained_runs``: what is kept of streams. ``idempotency_lifetime``: of an answer that
    is given again.
    """

    concurrency: int = 10
    lease: float = 10.0
    max_attempts: int = 3
    run_timeout: float | None = None
    shutdown_grace: float = 10.0
    heartbeat: float = 15.0
    page_size: int = 1_000
    body_bytes: int = 32 * 1024 * 1024
    frames_per_run: int = 10_000
    bytes_per_run: int = 64 * 1024 * 1024
    retained_runs: int = 1_000
    idempotency_lifetime: float = 24 * 60 * 60.0


@dataclass(frozen=True, slots=True)
class HttpSettings:
    """What the HTTP side serves: the ``http`` section of a ``langgraph.json``, and the address.

    ``disabled`` are groups of routes that do not exist: assistants, threads, runs, crons, store, mcp, a2a,
    meta.
    ``app`` names an ASGI application whose routes are served beside ours.
    ``configurable_includes`` and ``configurable_excludes`` are patterns of headers that reach a run's
    configurable.
    """

    host: str = "127.0.0.1"
    port: int = 2024
    mount_prefix: str = ""
    cors: Mapping[str, Any] | None = None
    disabled: frozenset[str] = frozenset()
    app: str | None = None
    custom_route_auth: bool = False
    middleware_order: Literal["auth_first", "middleware_first"] = "middleware_first"
    configurable_includes: tuple[str, ...] = ()
    configurable_excludes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Settings:
    """A server's settings, from its ``langgraph.json``, its environment and its command line.

    ``base`` is the folder that relative paths start from. ``graphs`` maps ids to ``"./file.py:name"`` or
    ``"package.module:name"``, ``descriptions`` to what they are for. ``dependencies`` are what
    its section of that name says. ``postgres_pool`` are the options of its pool, ``prepared_statements`` is
    described with ``PostgresStore``. ``store`` is the section of that name as it is, ``index_keys`` are the
    keys of items whose filters an index answers. ``checkpointer_path`` and ``serde`` are
    ``checkpointer.path`` and ``checkpointer.serde``. ``auth_path`` names a ``langgraph_sdk.Auth``.
    ``keep_graph_storage``: a graph that was compiled with a store or checkpointer of
    its own keeps it.
    """

    base: Path = field(default_factory=Path)
    graphs: Mapping[str, str] = field(default_factory=dict)
    descriptions: Mapping[str, str] = field(default_factory=dict)
    dependencies: tuple[str, ...] = ()
    storage: StorageKind = "sqlite"
    sqlite_path: str = ".stateroom/stateroom.db"
    synchronous: Literal["NORMAL", "FULL"] = "NORMAL"
    postgres_uri: str | None = None
    postgres_schema: str = "stateroom"
    postgres_pool: Mapping[str, Any] = field(default_factory=dict)
    prepared_statements: bool = True
    store: Mapping[str, Any] = field(default_factory=dict)
    index_keys: tuple[str, ...] = ()
    checkpointer_path: str | None = None
    serde: Mapping[str, Any] | None = None
    thread_ttl: ThreadTTLSettings | None = None
    auth_path: str | None = None
    studio_auth: bool = True
    keep_graph_storage: bool = False
    limits: Limits = field(default_factory=Limits)
    http: HttpSettings = field(default_factory=HttpSettings)
