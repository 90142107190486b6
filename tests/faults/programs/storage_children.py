"""What the processes do that the tests of storages start, and sometimes kill."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from multiprocessing.connection import Connection
from typing import Any

from stateroom.contract.runs import NewRun, Settlement
from stateroom.contract.threads import NewThread
from stateroom.drivers.sql import deletions
from stateroom.drivers.sql.dialect import Session
from stateroom.errors import StateroomError
from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.stores.postgres import PostgresStore
from stateroom.stores.sqlite import SqliteStore
from tests.faults.programs.histories import index
from tests.faults.programs.storage_places import Place, open_storage, storage_at
from tests.storage.saving import put_checkpoint, saver_over
from tests.storage.working import Worker, two_steps

__all__ = [
    "LEASE",
    "claim_and_wait",
    "delete_until_killed",
    "execute_and_wait",
    "open_and_hold",
    "open_at_once",
    "open_store_at_once",
    "take_turns",
]

LEASE = 30_000_000


def delete_until_killed(pipe: Connection, place: Place, thread_id: str, after: int, together: int) -> None:
    """Delete a thread, and die at once, as by ``kill -9``, after so many commits."""
    deletions.ERASED_AT_ONCE = together  # type: ignore[misc]  # smaller, so that there are many
    with open_storage(place) as storage:
        pipe.send("ready")
        write, commits = storage.dialect.write, iter(range(after))

        def killed(work: Callable[[Session], Any], *, repeats: bool = False) -> Any:
            if next(commits, None) is None:
                os.kill(os.getpid(), signal.SIGKILL)
            return write(work, repeats=repeats)

        storage.dialect.write = killed  # type: ignore[method-assign]
        storage.threads.delete(thread_id)
    pipe.send("the deletion had fewer commits")


def open_and_hold(pipe: Connection, place: Place) -> None:
    """Open a storage, tell what came of it, and hold it until told to let go."""
    storage = storage_at(place)
    pipe.send(_problem(storage.open))
    pipe.recv()
    storage.close()
    pipe.send("closed")


def open_at_once(pipe: Connection, place: Place) -> None:
    """Say that everything is imported, wait for the start, then open a storage and use it."""
    storage = storage_at(place)
    pipe.send("ready")
    pipe.recv()
    problem, name = _problem(storage.open), f"thread of {os.getpid()}"
    pipe.send(problem)
    pipe.send(problem or _problem(lambda: storage.threads.create(NewThread(name))))
    pipe.send(problem or _problem(lambda: put_checkpoint(saver_over(storage), name, 1)))
    # Until all have looked, so that one has the file throughout.
    pipe.recv()
    storage.close()


def open_store_at_once(pipe: Connection, place: Place) -> None:
    """Say that everything is imported, wait for the start, then open a store there and put an item."""
    store: Any = (
        SqliteStore(place.at, index=index())
        if place.is_file
        else PostgresStore(place.at, schema=place.schema, index=index())
    )
    pipe.send("ready")
    pipe.recv()
    pipe.send(_problem(store.setup))
    pipe.send(_problem(lambda: store.put(("opened",), str(os.getpid()), {"text": "tide"})))
    pipe.send(None)
    pipe.recv()
    store.close()


def take_turns(pipe: Connection, place: Place, name: str) -> None:
    """Execute runs for as long as some are left; tell which."""
    with open_storage(place) as storage:
        pipe.send("ready")
        pipe.recv()
        # Whoever ends a run sees that the next of its thread is there, so that none is left.
        while storage.runs.next_available_at() is not None:
            for run in storage.runs.claim(name, lease=LEASE, limit=2):
                pipe.send(run.run_id)
                storage.runs.settle(
                    run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"by": name})
                )
    pipe.send("done")


def claim_and_wait(pipe: Connection, place: Place) -> None:
    """Take what there is to execute, tell which runs, and wait for the end."""
    with open_storage(place) as storage:
        pipe.send([run.run_id for run in storage.runs.claim("w", lease=LEASE, limit=100)])
        pipe.recv()


def execute_and_wait(pipe: Connection, place: Place) -> None:
    """Finish one run of a real graph, put an item, begin another run, and wait in the middle of it."""

    def between(state: Any) -> None:
        if state["said"] == "unfinished":
            pipe.send("executing")
            pipe.recv()

    with open_storage(place) as storage:
        worker = Worker(storage, two_steps(between))
        for run_id, said in (("a", "finished"), ("b", "unfinished"), ("c", "waiting")):
            new = NewRun(run_id, "t", "a", 1, {"input": {"said": said}}, new_thread=NewThread("t"))
            storage.runs.create([new])
        worker.work()


def _problem(act: Callable[[], Any]) -> tuple[str, str | None, str] | None:
    try:
        act()
    except StateroomError as error:
        return type(error).__name__, error.field, str(error)
    return None
