"""What runs have done to checkpoints, and that what is private is nowhere once they have ended."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery, Settlement
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.runs import SqlRuns
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import Fenced, Unavailable
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.storage_harness import LEASE, OpensStorage, make_thread, new_run

MARK = b"as it was"
ROLLED_BACK = Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, roll_back=True)


class Call(NamedTuple):
    """What was asked of the checkpoints."""

    name: str
    arguments: tuple[Any, ...]


class Recorder:
    """Checkpoints that note what they are asked for, in the transaction of whoever asks."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.is_down = False

    def set_up(self) -> None:
        """Do nothing."""

    def erase(self, session: Session, thread_id: str, limit: int) -> bool:  # noqa: ARG002
        """Have nothing."""
        if self.is_down:
            raise Unavailable("down")
        return True

    def copy(self, session: Session, thread_id: str, new_id: str) -> None:
        """Have nothing."""

    def mark(self, session: Session, thread_id: str, checkpoint_id: str | None) -> bytes:
        """Return a mark."""
        assert session.now()
        self.calls.append(Call("mark", (thread_id, checkpoint_id)))
        return MARK

    def roll_back(self, session: Session, thread_id: str, run_id: str, mark: bytes | None) -> None:
        """Note it."""
        assert session.now()
        self.calls.append(Call("roll_back", (thread_id, run_id, mark)))


class Marked:
    """A storage with one thread, whose runs' checkpoints are recorded."""

    def __init__(self, storage: SqlStorage) -> None:
        self.storage = storage
        self.recorder = Recorder()
        self.runs = SqlRuns(storage.dialect, storage.signals, self.recorder)
        make_thread(storage, "t")

    def make(self, run_id: str, **fields: Any) -> None:
        self.runs.create([new_run(run_id, "t", private={"token": "SECRET"}, **fields)])

    def claim(self) -> Run:
        (run,) = self.runs.claim("w", lease=LEASE)
        return run

    def held_of(self, run_id: str) -> tuple[object, object]:
        """Return what the table holds of a run's private part and mark."""
        statement = "select private, mark from stateroom.run where run_id = :run_id"
        (row,) = self.storage.dialect.read(lambda session: session.fetch(statement, {"run_id": run_id}))
        return row[0], row[1]


@pytest.fixture
def marked(any_storage: OpensStorage) -> Marked:
    storage = any_storage(clock=ManualClock())
    storage.open()
    assert isinstance(storage, SqlStorage)
    return Marked(storage)


def test_rolling_back_returns_to_the_mark(marked: Marked) -> None:
    marked.make("r")
    run = marked.claim()
    assert marked.runs.mark(run.lease, "checkpoint") is True
    assert marked.held_of("r")[1] == MARK
    assert marked.runs.mark(run.lease, "another") is False
    marked.runs.settle(run.lease, ROLLED_BACK)
    assert marked.recorder.calls == [("mark", ("t", "checkpoint")), ("roll_back", ("t", "r", MARK))]


def test_a_run_without_a_mark_is_rolled_back_too(marked: Marked) -> None:
    marked.make("r")
    marked.runs.settle(marked.claim().lease, ROLLED_BACK)
    assert marked.recorder.calls == [("roll_back", ("t", "r", None))]


def test_a_late_roll_back_touches_no_checkpoint(marked: Marked) -> None:
    marked.make("r")
    run = marked.claim()
    marked.runs.release(run.lease)
    with pytest.raises(Fenced):
        marked.runs.settle(run.lease, ROLLED_BACK)
    with pytest.raises(Fenced):
        marked.runs.mark(run.lease)
    assert marked.recorder.calls == []


@pytest.mark.parametrize("way", ["cancel", "create"])
def test_what_a_former_attempt_left_goes_with_a_pending_run(marked: Marked, way: str) -> None:
    marked.make("tried")
    run = marked.claim()
    marked.runs.mark(run.lease)
    marked.runs.release(run.lease)
    marked.make("fresh")
    if way == "cancel":
        marked.runs.cancel(RunQuery("t"), CancelAction.ROLLBACK)
    else:
        marked.make("new", multitask=Multitask.ROLLBACK)
    # The other was never executed, and has left nothing.
    assert marked.recorder.calls == [("mark", ("t", None)), ("roll_back", ("t", "tried", MARK))]


def test_a_run_has_ended_also_when_its_thread_is_erased_later(marked: Marked) -> None:
    marked.make("r")
    marked.recorder.is_down = True
    ending = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, delete_thread=True)
    assert marked.runs.settle(marked.claim().lease, ending).status is RunStatus.SUCCESS
    assert marked.storage.threads.get("t") is None
    assert marked.storage.threads.resume_deletions() == 1


def settled(marked: Marked, run: Run) -> None:
    marked.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))


def cancelled_pending(marked: Marked, run: Run) -> None:
    marked.runs.release(run.lease)
    marked.runs.cancel(RunQuery("t"), CancelAction.INTERRUPT)


def outdone(marked: Marked, run: Run) -> None:
    marked.runs.release(run.lease)
    marked.make("new", multitask=Multitask.INTERRUPT)


def stopped_on_release(marked: Marked, run: Run) -> None:
    marked.runs.cancel(RunQuery("t"), CancelAction.INTERRUPT)
    marked.runs.release(run.lease)


def lost(marked: Marked, run: Run) -> None:  # noqa: ARG001
    marked.runs.reap(everybody=True)


def lost_while_stopping(marked: Marked, run: Run) -> None:  # noqa: ARG001
    marked.runs.cancel(RunQuery("t"), CancelAction.INTERRUPT)
    marked.runs.reap(everybody=True, max_attempts=9)


ENDS = (settled, cancelled_pending, outdone, stopped_on_release, lost, lost_while_stopping)


@pytest.mark.parametrize("end", ENDS, ids=lambda end: end.__name__)
def test_every_end_erases_what_is_private_and_the_mark(
    marked: Marked, end: Callable[[Marked, Run], None]
) -> None:
    marked.make("r")
    run = marked.claim()
    assert run.private == {"token": "SECRET"}
    marked.runs.mark(run.lease)
    assert None not in marked.held_of("r")
    end(marked, run)
    assert marked.held_of("r") == (None, None)
    ended = marked.runs.get("r")
    assert ended is not None
    assert ended.ended_at is not None


def test_what_goes_on_keeps_both(marked: Marked) -> None:
    marked.make("r")
    run = marked.claim()
    marked.runs.mark(run.lease)
    marked.runs.release(run.lease)
    assert None not in marked.held_of("r")
    marked.claim()
    marked.runs.reap(everybody=True, max_attempts=9)
    assert None not in marked.held_of("r")
