"""One attempt at a run, from the claim to the settlement."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import AsyncGenerator, Callable, Mapping
from concurrent.futures import Future
from contextlib import aclosing, suppress
from dataclasses import dataclass, field
from typing import Any, Final, cast

from langchain_core.runnables import RunnableConfig
from langgraph.runtime import RunControl
from langgraph.store.base import BaseStore
from langgraph.types import StateSnapshot

from stateroom.contract.storage import Storage
from stateroom.engine.encoding import encode
from stateroom.engine.endings import Stop, ending_of, stops_by
from stateroom.engine.frame_writing import FrameWriter
from stateroom.engine.graphs import Graph, Graphs
from stateroom.engine.inputs import NOTHING, first_input, next_input
from stateroom.engine.insisting import insist
from stateroom.engine.loops import Loops
from stateroom.engine.run_config import AuthUser, public_config, run_config
from stateroom.engine.settling import settle
from stateroom.engine.snapshots import exists
from stateroom.engine.streaming import stream_run
from stateroom.errors import Denied, Fenced, NotFound, StateroomError
from stateroom.model.assistant import Assistant
from stateroom.model.frame import NewFrame
from stateroom.model.run import Run
from stateroom.model.run_kwargs import RunKwargs, RunPrivate
from stateroom.offload import Offload
from stateroom.savers.attempts import bound
from stateroom.service.elsewhere import Elsewhere, can_be_undone

__all__ = ["VERSIONS_KEPT", "Execution", "Means"]

VERSIONS_KEPT: Final = 1_000
"""Versions of assistants that are kept in memory; a version never changes."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Means:
    """What all attempts of a worker are made with.

    ``scoped_store`` returns the store as a user may use it. ``elsewhere`` is the application's own
    checkpointer. ``over`` is called with each attempt that has ended, from any thread.
    """

    storage: Storage
    graphs: Graphs
    offload: Offload
    over: Callable[[Execution], None]
    scoped_store: Callable[[Mapping[str, Any]], BaseStore] | None = None
    elsewhere: Elsewhere | None = None
    versions: dict[tuple[str, int], Assistant] = field(default_factory=dict)

    def assistant(self, run: Run) -> Assistant:
        """Return the assistant as the run was made with it; NotFound if it is gone."""
        key = (run.assistant_id, run.assistant_version)
        found = self.versions.get(key) or self.storage.assistants.version(*key)
        if found is None:
            raise NotFound(
                f"assistant {run.assistant_id!r} has no version {run.assistant_version} any more; make the"
                " run with one that is there",
                field="assistant_id",
            )
        if len(self.versions) >= VERSIONS_KEPT:
            self.versions.clear()
        self.versions[key] = found
        return found


class Execution:
    """One attempt at a run: it is executed on a loop of users' code, and settled once.

    ``execute`` belongs to that loop, and what it calls; the rest may be called from any thread.
    ``claimed_at`` is when it was made, ``begun_at`` when it began there, ``asked`` and ``asked_at`` what it
    has been asked to stop for, and when it first was. ``left_thread`` is the thread that is to go, once the
    run has been settled.
    """

    def __init__(self, run: Run, means: Means) -> None:
        self.run = run
        self.kwargs = RunKwargs()
        self.graph_id: str | None = None
        self.claimed_at = time.monotonic()
        self.begun_at: float | None = None
        self.asked: Stop | None = None
        self.asked_at: float | None = None
        self.left_thread: str | None = None
        self._means = means
        self._private = RunPrivate()
        self._control = RunControl()
        self._frames = FrameWriter(means.storage.events, run.lease, means.offload)
        self._lock = threading.Lock()
        self._ending = self._ends_here = False
        self._future: Future[None] | None = None
        self._assistant: Assistant | None = None
        self._graph: Graph | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._moved_at = time.monotonic()

    # ---- from outside

    def start(self, loops: Loops) -> None:
        """Begin on one of the loops as soon as one moves."""
        with self._lock:
            self._future = loops.submit(self.execute)

    def drain(self) -> None:
        """Have the graph stop after the step it is at, and the run handed back."""
        with self._lock:
            self.asked = self.asked or Stop.RELEASE
        self._control.request_drain("shutdown")

    def ask(self, stop: Stop) -> None:
        """Have the graph cancelled, unless the attempt is ending already."""
        with self._lock:
            if self._ending:
                return
            if stop is Stop.ROLL_BACK and self._means.elsewhere and not can_be_undone(self.run):
                # Whoever asks is refused; this was asked before there was this checkpointer.
                stop = Stop.CANCEL
            self.asked = max(stop, self.asked or stop)
            self.asked_at = self.asked_at or time.monotonic()
            if self._future is not None:
                self._future.cancel()

    def end_outside(self) -> None:
        """End the attempt without its code, which has not begun or does not obey; it blocks.

        What that code writes from now on is refused.
        """
        if not self._takes_end():
            return
        if self.begun_at is not None:
            _log.warning(
                "run %s of graph %r was asked to stop and goes on, since its code blocks; it is left to"
                " itself, and what it still writes is refused",
                self.run.run_id,
                self.graph_id,
            )
        try:
            self._finish(asyncio.CancelledError(), self._state_now() if self.begun_at else None)
        except (Fenced, NotFound) as error:
            self._lose(error)
        except Exception:
            _log.exception("run %s could not be settled", self.run.run_id)
        finally:
            self._means.over(self)

    def still_for(self) -> float:
        """Return for how many seconds the loop has not moved that this runs on, and have it move."""
        if self._loop is None:
            return 0.0
        with suppress(RuntimeError):  # it has been closed
            self._loop.call_soon_threadsafe(self._move)
        return time.monotonic() - self._moved_at

    def _move(self) -> None:
        self._moved_at = time.monotonic()

    # ---- on the loop

    async def execute(self) -> None:
        """Execute the run and settle it; whatever happens is written down, and nothing raised."""
        self.begun_at = time.monotonic()
        self._loop = asyncio.get_running_loop()
        self._move()
        try:
            with bound(self.run.lease):
                await self._work()
        except (Fenced, NotFound) as error:
            self._lose(error)
        except asyncio.CancelledError:
            pass
        except Exception:
            _log.exception("run %s could not be settled", self.run.run_id)
        finally:
            if self._ends_here or self._takes_end():
                self._means.over(self)

    async def _work(self) -> None:
        try:
            await self._frames.put(NewFrame("metadata", encode(self._named())))
            is_fresh = await self._means.offload(self._prepare)
            async with self._opened() as graph:
                self._graph = graph
                await self._end(await self._failure(graph, is_fresh=is_fresh))
        except (Exception, asyncio.CancelledError) as error:
            if self._ending:
                # What is raised after the end is the storage's refusal, or of no consequence any more.
                raise
            await self._end(error)

    def _prepare(self) -> bool:
        """Find the assistant, and mark what a roll-back returns to; tell whether nobody has before."""
        self.kwargs = RunKwargs.from_json(self.run.kwargs)
        self._private = RunPrivate.from_json(self.run.private)
        self._assistant = insist(lambda: self._means.assistant(self.run))
        self.graph_id = self._assistant.graph_id
        checkpoint_id = (self.kwargs.checkpoint or {}).get("checkpoint_id")
        return insist(lambda: self._means.storage.runs.mark(self.run.lease, checkpoint_id))

    def _opened(self) -> Any:
        """Return what opens the graph as its factory makes it for this run."""
        assert self._assistant is not None
        user, store = self._private.user, None
        if self._means.scoped_store is not None:
            if user is None:
                # It was made before there were rules, or by nobody who could be asked about.
                raise Denied("this run has no user, whom the rules for the store are about; make it again")
            store = self._means.scoped_store(user)
        return self._means.graphs.open(
            self._assistant.graph_id,
            config=self._config(forks=True),
            access="threads.create_run",
            user=None if user is None else AuthUser(user),
            store=store,
            context=self._context(),
        )

    async def _failure(self, graph: Graph, *, is_fresh: bool) -> BaseException | None:
        """Run the graph; return what it raised."""
        try:
            config, given = self._config(forks=True), NOTHING
            if not is_fresh:
                config, given = await next_input(
                    graph, config, self._config(forks=False), self.kwargs, self.run.run_id
                )
            else:
                given = await first_input(graph, config, self.kwargs)
            if given is not NOTHING:
                await self._stream(graph, config, given)
        except (Exception, asyncio.CancelledError) as error:
            return error
        return None

    async def _stream(self, graph: Graph, config: RunnableConfig, given: Any) -> None:
        assert self.graph_id is not None
        frames = stream_run(
            graph,
            given,
            config,
            self.kwargs,
            graph_id=self.graph_id,
            context=self._context(),
            control=self._control,
        )
        async with aclosing(cast(AsyncGenerator[NewFrame], frames)) as closing:
            async for frame in closing:
                await self._frames.put(frame)

    # ---- the end

    async def _end(self, failure: BaseException | None) -> None:
        """Settle the attempt, unless somebody has from outside."""
        while (task := asyncio.current_task()) and task.cancelling():
            # It has been obeyed; what follows is not to be cancelled.
            task.uncancel()
        stop = stops_by(failure, self.asked)
        state = None
        if self._graph is not None and stop in (None, Stop.CANCEL, Stop.TIMEOUT):
            try:
                state = _saved(await self._graph.aget_state(self._thread_config()))
            except Exception:
                _log.warning("the state of thread %s cannot be read", self.run.thread_id, exc_info=True)
        if not self._takes_end():
            return
        self._ends_here = True
        finishing = asyncio.ensure_future(self._means.offload(self._finish, failure, state))
        while not finishing.done():
            # Once begun it is seen through: nobody else does it.
            with suppress(asyncio.CancelledError):
                await asyncio.wait([finishing])
        finishing.result()

    def _state_now(self) -> StateSnapshot | None:
        """Return the state of the thread, read beside the loop that does not move."""
        if self._graph is None:
            return None
        try:
            return _saved(self._graph.get_state(self._thread_config()))
        except Exception:
            # Such as that of a saver that can do nothing but on its loop.
            _log.warning("the state of thread %s cannot be read", self.run.thread_id, exc_info=True)
            return None

    def _takes_end(self) -> bool:
        """Tell whether the caller is the one who settles the attempt."""
        with self._lock:
            takes, self._ending = not self._ending, True
        return takes

    def _finish(self, failure: BaseException | None, state: StateSnapshot | None) -> None:
        """Write the end down; it blocks."""
        stop = stops_by(failure, self.asked)
        if stop is Stop.LOST:
            return
        if stop is Stop.ROLL_BACK and not self._undo():
            stop = Stop.CANCEL
        storage, run = self._means.storage, self.run
        thread = None
        if state is None or stop is Stop.ROLL_BACK:
            thread = insist(lambda: storage.threads.get(run.thread_id))
        ending = ending_of(failure, stop, state, thread)
        self._frames.finish(ending.frames)
        described = None if self._assistant is None else public_config(run, self._assistant, self.kwargs)
        if settle(storage, run, self.kwargs, ending, described):
            self.left_thread = run.thread_id
        if stop is Stop.ROLL_BACK:
            # What its code has written meanwhile, which is refused from now on.
            self._undo(settled=True)
        if failure is not None and stop is None:
            _log.error("run %s of graph %r failed", run.run_id, self.graph_id, exc_info=failure)

    def _undo(self, *, settled: bool = False) -> bool:
        """Take back what the run has left outside of the storage; tell whether it is gone."""
        elsewhere, run = self._means.elsewhere, self.run
        if elsewhere is None:
            return True
        if not settled and not insist(lambda: self._means.storage.runs.is_current(run.lease)):
            raise Fenced(f"run {run.run_id!r} is executed by another worker", field="run_id")
        try:
            insist(lambda: elsewhere.delete_for_runs([run.run_id]))
        except StateroomError:
            _log.exception("what run %s has left in the application's checkpointer stays there", run.run_id)
            return False
        return True

    def _lose(self, error: Exception) -> None:
        _log.info("run %s is somebody else's, or gone: %s", self.run.run_id, error)

    # ---- what it is executed with

    def _named(self) -> dict[str, Any]:
        return {"run_id": self.run.run_id, "attempt": self.run.attempt}

    def _config(self, *, forks: bool) -> RunnableConfig:
        assert self._assistant is not None
        return run_config(self.run, self._assistant, self.kwargs, self._private, forks=forks)

    def _thread_config(self) -> RunnableConfig:
        return {"configurable": {"thread_id": self.run.thread_id}}

    def _context(self) -> Mapping[str, Any] | None:
        assert self._assistant is not None
        return self._private.context or self._assistant.context or None


def _saved(state: StateSnapshot) -> StateSnapshot | None:
    """Return a state if a checkpoint has it: a run that failed before its input counted leaves none."""
    return state if exists(state) else None
