"""A worker over a storage of its own, with what tests need to have runs executed and to look at them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson
from langgraph.store.base import BaseStore
from langgraph.store.memory import InMemoryStore

from stateroom.contract.assistants import NewAssistant
from stateroom.contract.runs import NewRun
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.engine.graphs import Graphs
from stateroom.engine.loops import Loops
from stateroom.engine.worker import Worker
from stateroom.ids import random_ids
from stateroom.model.frame import Frame
from stateroom.model.run import ENDED, Run
from stateroom.model.run_kwargs import OUTPUT_EVENT, RunKwargs, RunPrivate
from stateroom.model.thread import Thread
from stateroom.savers.base import Saver
from stateroom.settings import Limits
from tests.engine.graphs import Stage
from tests.storage.saving import saver_over

__all__ = ["LIMITS", "PATIENCE", "Engine", "until"]

PATIENCE: Final = 30.0

LIMITS: Final = Limits(concurrency=4, lease=3.0, shutdown_grace=0.2)


def until(check: Callable[[], Any], *, within: float = PATIENCE) -> Any:
    """Call ``check`` until it answers something true, and return that; fail in the end."""
    deadline, pause = time.monotonic() + within, threading.Event()
    while not (found := check()):
        assert time.monotonic() < deadline, f"not within {within} s: the last answer was {found!r}"
        pause.wait(0.005)
    return found


class Engine:
    """One process's worker; several may share a storage that allows it."""

    def __init__(
        self,
        storage: Storage,
        stage: Stage,
        folder: Path,
        *,
        scoped_store: Callable[[Mapping[str, Any]], BaseStore] | None = None,
        **changes: Any,
    ) -> None:
        self.storage, self.stage = storage, stage
        self.saver: Saver = saver_over(storage)
        self.loops = Loops(patience=0.1)
        self.graphs = Graphs(stage.graphs(), base=folder, checkpointer=self.saver, store=InMemoryStore())
        limits = replace(LIMITS, **changes)
        self.worker = Worker(
            storage, self.graphs, self.loops, limits, owner="test", ids=random_ids, scoped_store=scoped_store
        )
        self.assistants: dict[str, str] = {}

    def __enter__(self) -> Engine:
        self.worker.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stage.gate.set()
        self.worker.stop()
        self.loops.close()

    # ---- making

    def assistant(self, graph_id: str, **options: Any) -> str:
        """Return an assistant of a graph."""
        made = self.storage.assistants.create(NewAssistant(random_ids(), graph_id, **options))
        return made.assistant_id

    def new(
        self,
        graph_id: str,
        said: str = "a",
        *,
        thread: str | None = None,
        private: RunPrivate | None = None,
        assistant: str | None = None,
        run_metadata: Mapping[str, Any] | None = None,
        options: Mapping[str, Any] | None = None,
        **kwargs: Any,
    ) -> Run:
        """Make a run; ``options`` are those of ``NewRun``, ``kwargs`` those of ``RunKwargs``."""
        if graph_id not in self.assistants:
            self.assistants[graph_id] = self.assistant(graph_id)
        given = {"input": None if "command" in kwargs else {"said": said}, **kwargs}
        thread_id = thread or random_ids()
        new = NewRun(
            run_id=random_ids(),
            thread_id=thread_id,
            assistant_id=assistant or self.assistants[graph_id],
            assistant_version=1,
            kwargs=RunKwargs(**given).to_json(),
            private=None if private is None else private.to_json(),
            metadata=run_metadata or {},
            new_thread=NewThread(thread_id),
            **(options or {}),
        )
        return self.storage.runs.create([new])[0]

    def done(self, *args: Any, **options: Any) -> Run:
        """Make a run, and return it when it has ended."""
        return self.ended(self.new(*args, **options))

    def ended(self, run: Run) -> Run:
        """Wait for the end of a run; return it as it is then."""

        def look() -> Run | None:
            found = self.storage.runs.get(run.run_id)
            assert found is not None, "the run has gone"
            return found if found.status in ENDED else None

        found: Run = until(look)
        return found

    def entered(self, said: str) -> None:
        """Wait until a node has begun."""
        until(lambda: f"enter {said}" in self.stage.calls)

    # ---- looking

    def thread(self, run: Run) -> Thread:
        """Return a run's thread."""
        found = self.storage.threads.get(run.thread_id)
        assert found is not None
        return found

    def frames(self, run: Run) -> list[Frame]:
        """Return the frames of a run."""
        return self.storage.events.read(run.run_id).frames

    def events(self, run: Run) -> list[str]:
        """Return the names of a run's frames."""
        return [frame.event for frame in self.frames(run)]

    def data(self, run: Run, event: str) -> list[Any]:
        """Return what the frames of a name hold."""
        return [orjson.loads(frame.data) for frame in self.frames(run) if frame.event == event]

    def output(self, run: Run) -> Any:
        """Return what waiting for a run answers."""
        (output,) = self.data(run, OUTPUT_EVENT)
        assert self.events(run)[-1] == OUTPUT_EVENT
        return output

    def log(self, run: Run) -> Sequence[str]:
        """Return the log that a thread's nodes have written."""
        values = self.thread(run).values
        assert values is not None
        found: Sequence[str] = values["log"]
        return found
