"""How runs are made, with what they do to the other runs of their threads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from stateroom.contract.runs import NewRun
from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.drivers.sql.checkpoints import CheckpointTables
from stateroom.drivers.sql.dialect import Session
from stateroom.drivers.sql.documents import (
    checked_duration,
    checked_id,
    maybe_state,
    metadata_bytes,
    object_of,
    state_bytes,
)
from stateroom.drivers.sql.run_moves import Stoppable, Topics, lock_thread, noted, stop
from stateroom.drivers.sql.run_rows import SQL
from stateroom.drivers.sql.thread_changes import (
    PreparedChange,
    change_locked,
    insert_thread,
    locked,
    prepare_change,
)
from stateroom.errors import Conflict, NotFound, ThreadBusy, ThreadStatusMismatch
from stateroom.model.limits import RUN_BATCH_MAX, check_limit
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.text import show
from stateroom.model.thread import ThreadStatus

__all__ = ["NewRow", "columns_of", "create_runs", "insert_runs"]


def create_runs(
    session: Session, checkpoints: CheckpointTables, new: Sequence[NewRun], topics: Topics
) -> list[Run]:
    """Make runs within a transaction, as ``Runs.create`` does; ``topics`` are to be sent after it."""
    return insert_runs(session, checkpoints, columns_of(new), topics)


class NewRow(NamedTuple):
    """A new run, its columns, and what becomes of its thread unless that has some of it, None: nothing."""

    new: NewRun
    columns: Mapping[str, Any]
    change: PreparedChange | None


def columns_of(new: Sequence[NewRun]) -> list[NewRow]:
    """Check new runs and return what goes into their columns."""
    check_limit(len(new), RUN_BATCH_MAX, "runs", field="runs")
    return [NewRow(each, _columns(each), _change(each)) for each in new]


def insert_runs(
    session: Session, checkpoints: CheckpointTables, rows: Sequence[NewRow], topics: Topics
) -> list[Run]:
    """Make runs whose columns are ready."""
    statuses = _lock(session, [row.new for row in rows])
    # Read once the threads are locked, so that who waited for another comes after him.
    now = session.now()
    runs = []
    for new, columns, change in rows:
        _check_status(new, statuses[new.thread_id])
        _make_way(session, checkpoints, new, now, topics)
        if change is not None and new.thread_metadata:
            _note(session, new.thread_id, new.thread_metadata, change)
        runs.append(_insert(session, columns, new.delay, now))
    for thread_id in statuses:
        noted(session.fetch(SQL["enqueue"], {"thread_id": thread_id}), topics)
    return runs


def _columns(new: NewRun) -> dict[str, Any]:
    checked_duration(new.delay, "delay")
    return {
        "run_id": checked_id(new.run_id, "run_id"),
        "thread_id": checked_id(new.thread_id, "thread_id"),
        "assistant_id": checked_id(new.assistant_id, "assistant_id"),
        "assistant_version": new.assistant_version,
        "multitask": Multitask(new.multitask),
        "metadata": metadata_bytes(new.metadata),
        "kwargs": state_bytes(new.kwargs, "kwargs"),
        "private": None if new.private is None else state_bytes(new.private, "private"),
    }


def _change(new: NewRun) -> PreparedChange | None:
    return prepare_change(ThreadChange(metadata=new.thread_metadata)) if new.thread_metadata else None


def _note(session: Session, thread_id: str, metadata: Mapping[str, Any], change: PreparedChange) -> None:
    """Change a locked thread whose metadata has none of these keys."""
    thread = locked(session, thread_id)
    if object_of(thread.metadata).keys().isdisjoint(metadata):
        change_locked(session, thread_id, thread, change)


def _lock(session: Session, new: Iterable[NewRun]) -> Mapping[str, ThreadStatus]:
    """Lock the threads of new runs, making those that are to be made; return their statuses."""
    made: dict[str, NewThread | None] = {}
    for each in new:
        made[each.thread_id] = made.get(each.thread_id) or each.new_thread
    return {thread_id: _locked(session, thread_id, made[thread_id]) for thread_id in sorted(made)}


def _locked(session: Session, thread_id: str, new_thread: NewThread | None) -> ThreadStatus:
    status = lock_thread(session, thread_id)
    while status is None and new_thread is not None:
        insert_thread(session, new_thread._replace(thread_id=thread_id))
        # Another may have made it meanwhile, and even deleted it again.
        status = lock_thread(session, thread_id)
    if status is None:
        raise NotFound(f"thread {show(thread_id)} does not exist; create it first", field="thread_id")
    return status


def _check_status(new: NewRun, status: ThreadStatus) -> None:
    wanted = new.if_thread_status
    if wanted is not None and status not in wanted:
        raise ThreadStatusMismatch(
            f"thread {show(new.thread_id)} is {status}, and not {' or '.join(sorted(wanted)) or 'anything'}",
            field="if_thread_status",
        )


def _make_way(session: Session, checkpoints: CheckpointTables, new: NewRun, now: int, topics: Topics) -> None:
    """Do what a new run asks for to the active runs of its locked thread."""
    active = {"thread_id": new.thread_id, "at": now}
    if new.multitask is Multitask.ENQUEUE:
        return
    if new.multitask is Multitask.REJECT:
        if session.fetch(SQL["is_active"], active):
            raise ThreadBusy(
                f"thread {show(new.thread_id)} has a run that waits or executes; wait for its end, or "
                "choose another multitask strategy",
                field="multitask",
            )
        return
    rows = session.fetch(SQL["executing"], {"thread_id": new.thread_id}) + session.fetch(SQL["due"], active)
    stop(session, checkpoints, [Stoppable.of(row) for row in rows], CancelAction(new.multitask), None, topics)


def _insert(session: Session, row: Mapping[str, Any], delay: int, now: int) -> Run:
    if not session.execute(SQL["insert"], {**row, "at": now, "available_at": now + delay}):
        raise Conflict(f"run {show(row['run_id'])} exists already; pass another id", field="run_id")
    return Run(
        run_id=row["run_id"],
        thread_id=row["thread_id"],
        assistant_id=row["assistant_id"],
        assistant_version=row["assistant_version"],
        status=RunStatus.PENDING,
        created_at=now,
        updated_at=now,
        available_at=now + delay,
        started_at=None,
        ended_at=None,
        multitask=row["multitask"],
        metadata=object_of(row["metadata"]),
        kwargs=maybe_state(row["kwargs"]),
        private=None,
        attempt=0,
        fence=0,
        lease_owner=None,
        lease_until=None,
        cancel=None,
        cancel_reason=None,
        error=None,
    )
