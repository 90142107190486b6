"""What has to be done twice where an application keeps checkpoints in a checkpointer of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Protocol

from stateroom.contract.runs import RunQuery, Runs
from stateroom.contract.threads import Threads
from stateroom.errors import NotSupported
from stateroom.model.run import Run, RunStatus
from stateroom.model.run_kwargs import RunKwargs

__all__ = ["Elsewhere", "can_be_undone", "remove_thread", "rolling_back"]


class Elsewhere(Protocol):
    """A checkpointer outside of the storage, whose methods block. What it cannot do raises NotSupported."""

    def require(self, method: str) -> None:
        """Raise NotSupported unless it has a method, by the name that LangGraph gives it."""

    def delete_thread(self, thread_id: str) -> None:
        """Remove all checkpoints of a thread; again does nothing."""

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Copy all checkpoints of a thread."""

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Remove the checkpoints that runs have made; again does nothing."""


def remove_thread(
    threads: Threads, elsewhere: Elsewhere | None, thread_id: str, *, if_expires_at: int | None = None
) -> bool:
    """Remove a thread as ``Threads.delete`` does, and its checkpoints wherever they are.

    They go first: if that is cut short, there is a thread that can be deleted again.
    """
    if elsewhere is None:
        return threads.delete(thread_id, if_expires_at=if_expires_at)
    thread = threads.get(thread_id)
    if thread is None:
        # Its checkpoints, if there are any of this id, were never the server's.
        return threads.delete(thread_id)
    if if_expires_at is not None and thread.expires_at != if_expires_at:
        return False
    elsewhere.delete_thread(thread_id)
    # In any case from here on: without its state nobody may go on with it.
    removed = threads.delete(thread_id)
    # What a run of it has written meanwhile, which is refused from now on.
    elsewhere.delete_thread(thread_id)
    return removed


def can_be_undone(run: Run) -> bool:
    """Tell whether all that a run leaves in a checkpointer are checkpoints of its own.

    One that answers a question, or goes on with what is there, also writes beside a checkpoint that was there
    before, and no checkpointer can take that away again.
    """
    return RunKwargs.from_json(run.kwargs).input is not None


@contextmanager
def rolling_back(runs: Runs, elsewhere: Elsewhere | None, what: RunQuery) -> Iterator[None]:
    """Have runs rolled back within, if that can be done; NotSupported otherwise, and nothing has been."""
    if elsewhere is None:
        yield
        return
    elsewhere.require("adelete_for_runs")
    begun = [run for run in _active(runs, what) if run.started_at is not None]
    for run in begun:
        if not can_be_undone(run):
            raise NotSupported(
                f"run {run.run_id!r} goes on from a checkpoint that was there before it, of which the"
                " application's own checkpointer cannot take anything back; interrupt it instead"
            )
    yield
    # Those that waited to be gone on with have gone with the call, and nobody executes them any more.
    if gone := [run.run_id for run in begun if runs.get(run.run_id) is None]:
        elsewhere.delete_for_runs(gone)


def _active(runs: Runs, what: RunQuery) -> Iterator[Run]:
    """Yield the runs of a query that have not ended."""
    statuses = {RunStatus.PENDING, RunStatus.RUNNING}
    chosen = statuses if what.statuses is None else statuses & set(what.statuses)
    after: str | None = None
    while True:
        page = runs.search(what._replace(statuses=chosen), limit=100, after=after)
        yield from page.rows
        after = page.next
        if after is None:
            return
