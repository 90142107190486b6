"""Joins a server from its settings, and starts and stops its parts in the right order."""

from __future__ import annotations

import asyncio
import os
import socket
import threading
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from langgraph.checkpoint.base import BaseCheckpointSaver
from langgraph.store.base import BaseStore

from stateroom import __version__
from stateroom.api.app import make_app
from stateroom.api.parts import Parts
from stateroom.api.rules import scoped_stores
from stateroom.boot.custom_checkpointer import open_custom_saver
from stateroom.boot.storing import Kept, make_kept, names_a_store
from stateroom.contract.storage import StorageCapability
from stateroom.engine.custom_checkpoints import CustomSaver
from stateroom.engine.following import Followers
from stateroom.engine.graphs import Graphs, Source
from stateroom.engine.loading import Project
from stateroom.engine.loops import Loops
from stateroom.engine.retention import Retention
from stateroom.engine.states import States
from stateroom.engine.thread_following import ThreadFollowers
from stateroom.engine.worker import Worker
from stateroom.errors import Misconfigured, Unavailable
from stateroom.ids import IdSource, random_ids
from stateroom.importing import load_named
from stateroom.offload import Offload
from stateroom.service.assistants import AssistantService
from stateroom.service.crons import CronService
from stateroom.service.runs import RunService
from stateroom.service.threads import ThreadService
from stateroom.settings import Settings
from stateroom.stores.base import Store
from stateroom.stores.foreign import from_base_store
from stateroom.stores.loading import open_named_store

if TYPE_CHECKING:
    from fastapi import FastAPI
    from langgraph_sdk import Auth

__all__ = ["POLL_ALONE", "POLL_SHARED", "Server"]

POLL_SHARED: Final = 1.0
"""Seconds after which a reader looks for frames that nobody told it of, where other processes write them."""

POLL_ALONE: Final = 15.0
"""The same where this process writes all frames, and tells of each."""


class _Opened(NamedTuple):
    """What a server's parts are made of."""

    kept: Kept
    store: Store
    loops: Loops
    offload: Offload
    graphs: Graphs
    auth: Auth | None
    elsewhere: CustomSaver | None


class Server:
    """One server: its parts, opened together and closed together.

    ``graphs`` are added to those of the settings, and may be objects. ``store`` is any LangGraph store
    instead of the storage's own, ``checkpointer`` any that can be asked asynchronously, or what makes one,
    and ``auth`` a ``langgraph_sdk.Auth`` instead of what ``auth_path`` names; what is passed open is left
    open. ``lenient``: a graph that cannot be loaded does not stop the others. All methods may be called from
    any thread, and again.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        graphs: Mapping[str, Source] | None = None,
        store: BaseStore | None = None,
        checkpointer: object = None,
        auth: Auth | None = None,
        lenient: bool = False,
        ids: IdSource = random_ids,
    ) -> None:
        self.settings = settings
        self._sources: dict[str, Source] = {**settings.graphs, **(graphs or {})}
        self._given_store = store
        self._given_checkpointer = checkpointer
        self._given_auth = auth
        self._lenient = lenient
        self._ids = ids
        self._lock = threading.RLock()
        self._stack: ExitStack | None = None
        self._closed = False
        self._started = False
        self.parts: Parts
        self.app: FastAPI
        self.saver: BaseCheckpointSaver[Any]
        self.worker: Worker
        self.retention: Retention

    def open(self) -> None:
        """Open the storage, load the graphs and make the application; no run is executed yet.

        Raises ``Misconfigured`` and ``Unavailable``; nothing is open then.
        """
        with self._lock:
            if self._stack is not None:
                return
            if self._closed:
                raise Unavailable("this server has been closed")
            with ExitStack() as stack:
                self._open(stack)
                self._stack = stack.pop_all()

    def start(self) -> None:
        """Execute runs and crons, and free what has expired, from now on; opens what is not open."""
        with self._lock:
            self.open()
            if self._started:
                return
            self._started = True
            self.worker.start()
            self.retention.start()

    async def begin(self) -> None:
        """Do what ``start`` does, without blocking the event loop."""
        if self._closed or not self._started:
            await asyncio.to_thread(self.start)

    def drain(self) -> None:
        """Execute no more: let runs end within the grace, and hand back those that go on."""
        with self._lock:
            if self._started:
                self.retention.stop()
                self.worker.stop()
            if self._stack is not None:
                # Whoever waits for a run that goes on elsewhere, or later, is told to come back.
                self.parts.followers.close()

    def close(self) -> None:
        """Drain, and let go of everything; nothing can be opened again."""
        with self._lock:
            self._closed = True
            if self._stack is None:
                return
            try:
                self.drain()
            finally:
                stack, self._stack = self._stack, None
                stack.close()

    async def aclose(self) -> None:
        """Do what ``close`` does, without blocking the event loop."""
        await asyncio.to_thread(self.close)

    def reload(self) -> None:
        """Load the project's modules anew; on failure the old graphs stay, and ``Misconfigured`` says why."""
        self.parts.graphs.reload()

    # ---- Putting it together.

    def _open(self, stack: ExitStack) -> None:
        """Open everything, in the order in which one needs the other; the stack closes it in reverse."""
        settings = self.settings
        Project(settings.base, settings.dependencies).prepare()
        kept = make_kept(settings)
        loops = Loops()
        stack.callback(loops.close)
        offload = Offload()
        stack.callback(kept.storage.close)
        kept.storage.open()
        stack.callback(offload.close)
        setup = getattr(kept.saver, "setup", None)
        if setup is not None:
            setup()
        elsewhere = open_custom_saver(settings, self._given_checkpointer, kept.storage, offload, stack)
        kept = kept if elsewhere is None else replace(kept, saver=elsewhere)
        store = self._opened_store(kept, loops, stack)
        graphs = Graphs(
            self._sources,
            base=settings.base,
            checkpointer=kept.saver,
            store=store,
            descriptions=settings.descriptions,
            keep_storage=settings.keep_graph_storage,
            dependencies=settings.dependencies,
            lenient=self._lenient,
        )
        graphs.load()
        auth = self._auth()
        scoped = scoped_stores(auth, store, loops)
        if scoped is not None:
            stack.callback(scoped.close)
        self.parts = self._parts(_Opened(kept, store, loops, offload, graphs, auth, elsewhere))
        self.parts.assistants.make_graphs_own()
        checkpoints: Any = kept.saver
        self.saver = kept.saver
        self.retention = Retention(kept.storage, checkpoints, settings.thread_ttl, elsewhere=elsewhere)
        self.worker = Worker(
            kept.storage,
            graphs,
            loops,
            settings.limits,
            owner=_owner(),
            ids=self._ids,
            scoped_store=scoped,
            elsewhere=elsewhere,
        )
        self.app = make_app(self.parts)

    def _opened_store(self, kept: Kept, loops: Loops, stack: ExitStack) -> Store:
        """Return the one store that is inside nodes and behind ``/store``."""
        if self._given_store is not None:
            _refuse_options(self.settings)
            return from_base_store(self._given_store)
        if names_a_store(self.settings):
            opening = open_named_store(self.settings.store, base=self.settings.base)
            store = loops.submit(opening.__aenter__).result()
            stack.callback(lambda: loops.submit(lambda: opening.__aexit__(None, None, None)).result())
        else:
            store = kept.store
        if store.supports_ttl:
            store.start_ttl_sweeper()
            stack.callback(store.stop_ttl_sweeper)
        return store

    def _parts(self, opened: _Opened) -> Parts:
        settings, storage, graphs = self.settings, opened.kept.storage, opened.graphs
        shared = StorageCapability.MULTI_PROCESS in storage.capabilities
        checkpoints: Any = opened.kept.saver
        assistants = AssistantService(storage, graphs.ids, self._ids, descriptions=settings.descriptions)
        elsewhere = opened.elsewhere
        threads = ThreadService(storage, checkpoints, self._ids, ttl=settings.thread_ttl, elsewhere=elsewhere)
        poll = POLL_SHARED if shared else POLL_ALONE
        followers = Followers(storage.events, opened.offload, poll=poll)
        return Parts(
            settings=settings,
            storage=storage,
            store=opened.store,
            offload=opened.offload,
            loops=opened.loops,
            graphs=graphs,
            ids=self._ids,
            assistants=assistants,
            threads=threads,
            runs=RunService(
                storage, assistants, self._ids, thread_ttl=threads.default_ttl, elsewhere=elsewhere
            ),
            crons=CronService(storage, assistants, self._ids, elsewhere=elsewhere),
            states=States(storage, graphs, opened.loops, opened.offload, saver=opened.kept.saver),
            followers=followers,
            thread_followers=ThreadFollowers(storage, followers, opened.offload, poll=poll),
            auth=opened.auth,
            version=__version__,
            begin=self.begin,
        )

    def _auth(self) -> Auth | None:
        """Return who says who callers are and what they may, None if anybody may do anything."""
        found: Any = self._given_auth
        reference = self.settings.auth_path
        if found is None and reference is not None:
            found = load_named(reference, base=self.settings.base, field="auth.path")
        if found is None:
            return None
        from langgraph_sdk import Auth

        if not isinstance(found, Auth):
            raise Misconfigured(
                f"auth.path {reference!r} is a {type(found).__name__}; name a langgraph_sdk.Auth",
                field="auth.path",
            )
        return found


def _refuse_options(settings: Settings) -> None:
    """Refuse what could have no effect beside a store that is passed ready."""
    for key, value in settings.store.items():
        if value is not None:
            raise Misconfigured(
                f"store.{key} has no effect beside a store of your own: give it to that store",
                field=f"store.{key}",
            )


def _owner() -> str:
    """Return a name that tells a reader where a run is executed."""
    return f"{socket.gethostname()}-{os.getpid()}"
