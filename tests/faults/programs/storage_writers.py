"""Threads that take runs through their lives, whatever happens to the database, and remember their luck."""

from __future__ import annotations

import threading
from typing import Any, Final

from langgraph.checkpoint.base import empty_checkpoint

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.threads import NewThread
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import Fenced, Unavailable
from stateroom.model.frame import NewFrame
from stateroom.model.run import ENDED, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.attempts import bound
from stateroom.savers.base import Saver
from stateroom.testing.storage_harness import LEASE, SECOND, new_run
from tests.faults.programs.queue_ledger import assert_whole
from tests.storage.saving import at

__all__ = ["Writer", "assert_kept"]

OFTEN: Final = 1_000_000
"""As many attempts as it takes."""


class Writer:
    """Makes, executes and ends runs of one thread; one that it hears nothing of is tried again by anybody."""

    def __init__(self, storage: SqlStorage, saver: Saver, clock: ManualClock, name: str) -> None:
        self.storage, self.saver, self.clock, self.name = storage, saver, clock, name
        self.created: set[str] = set()
        self.settled: dict[str, int] = {}
        self.frames: dict[str, int] = {}
        self.checkpoints: set[str] = set()
        self.failed, self.stopped = threading.Event(), threading.Event()

    def run(self) -> None:
        """Go on until stopped."""
        number = 0
        while not self.stopped.is_set():
            try:
                self._round(f"{self.name}-{number}")
            except Unavailable as error:
                assert error.retryable  # noqa: PT017  # it may be any call of the round
                self.failed.set()
                # Whatever was claimed and not heard of is free again.
                self.clock.advance(seconds=LEASE / SECOND)
            except Fenced:
                pass
            number += 1

    def _round(self, run_id: str) -> None:
        if self.failed.is_set():
            self.storage.runs.reap(max_attempts=OFTEN)
        self.storage.runs.create([new_run(run_id, self.name, new_thread=NewThread(self.name))])
        self.created.add(run_id)
        for run in self.storage.runs.claim(self.name, lease=LEASE):
            self._execute(run)

    def _execute(self, run: Run) -> None:
        self.storage.runs.mark(run.lease)
        self._appended(run)
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"x": run.run_id}}
        version = self.saver.get_next_version(None, None)
        checkpoint["channel_versions"] = {"x": version}
        with bound(run.lease):
            stored = self.saver.put(at(run.thread_id), checkpoint, {"source": "loop"}, {"x": version})
            self.saver.put_writes(stored, [("x", run.run_id)], "task")
        self.checkpoints.add(checkpoint["id"])
        last = self._appended(run)
        self.storage.runs.settle(
            run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"by": run.run_id})
        )
        self.settled[run.run_id] = last

    def _appended(self, run: Run) -> int:
        last = self.storage.events.append(run.lease, [NewFrame("values", b"{}")])
        self.frames[run.run_id] = max(last, self.frames.get(run.run_id, 0))
        return last


def assert_kept(storage: SqlStorage, saver: Saver, clock: ManualClock, writers: list[Writer]) -> None:
    """Check that everything acknowledged is there, nothing is half done, and the rest can be done."""
    clock.advance(seconds=LEASE / SECOND)
    while storage.runs.reap(max_attempts=OFTEN):
        pass
    assert_whole(storage)
    checkpoints = {found.checkpoint["id"]: found for found in saver.list(None)}
    for writer in writers:
        for run_id in writer.created:
            assert storage.runs.get(run_id) is not None, f"{run_id} is lost"
        for run_id, number in writer.frames.items():
            page = storage.events.read(run_id)
            last = writer.settled.get(run_id)
            assert [frame.seq for frame in page.frames] == [*range(1, len(page.frames) + 1)]
            assert len(page.frames) >= number if last is None else len(page.frames) == last
            assert last is None or page.status is RunStatus.SUCCESS
        assert writer.checkpoints <= checkpoints.keys()
        assert all(checkpoints[each].pending_writes for each in writer.checkpoints)
    while claimed := storage.runs.claim("drain", lease=LEASE, limit=100):
        for run in claimed:
            storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))
    assert storage.runs.count(RunQuery()) == storage.runs.count(RunQuery(statuses=ENDED))
    assert_whole(storage)
