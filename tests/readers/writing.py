"""Runs whose frames a test writes itself, in place of a worker, and parts of a server that only show them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from stateroom.clock import system_clock
from stateroom.contract.events import EventLimits
from stateroom.contract.runs import NewRun, Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.engine.following import Followers
from stateroom.engine.thread_following import ThreadFollowers
from stateroom.model.frame import NewFrame
from stateroom.model.run import Attempt, Run, RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.model.thread import ThreadStatus
from stateroom.offload import Offload
from stateroom.search.index_config import parse_index_config
from stateroom.settings import Limits, Settings

__all__ = ["LEASE", "claimed", "custom", "end", "new_run", "opened", "parts_of", "rest", "write"]

LEASE = 60 * 1_000_000


async def rest(seconds: float = 0.05) -> None:
    """Let readers come to where they wait."""
    # tidy: allow sleep because nothing tells from outside that a reader has looked, and waits
    await asyncio.sleep(seconds)


@contextlib.contextmanager
def opened(path: Path | str = ":memory:", limits: EventLimits | None = None) -> Iterator[Storage]:
    """Open a storage that goes by the machine's clock."""
    storage = SqliteStorage(str(path), parse_index_config(None), clock=system_clock, limits=limits)
    storage.open()
    try:
        yield storage
    finally:
        storage.close()


def new_run(storage: Storage, run_id: str, thread_id: str = "t", **fields: Any) -> Run:
    """Make a run, and its thread if there is none."""
    new = NewRun(
        **{"assistant_id": "a", "assistant_version": 1, "kwargs": {}, **fields},
        run_id=run_id,
        thread_id=thread_id,
        new_thread=NewThread(thread_id),
    )
    (run,) = storage.runs.create([new])
    return run


def claimed(storage: Storage, run_id: str, thread_id: str = "t") -> Attempt:
    """Make a run, and begin to execute it."""
    new_run(storage, run_id, thread_id)
    (run,) = storage.runs.claim("worker", lease=LEASE)
    assert run.run_id == run_id
    return run.lease


def custom(*data: bytes) -> list[NewFrame]:
    """Return frames of the mode custom."""
    return [NewFrame("custom", each) for each in data]


def write(storage: Storage, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
    """Add frames to a run's stream."""
    return storage.events.append(attempt, frames)


def end(
    storage: Storage,
    attempt: Attempt,
    status: RunStatus = RunStatus.SUCCESS,
    *,
    output: bytes | None = b"{}",
    **fields: Any,
) -> None:
    """End a run, with what it answers."""
    if output is not None:
        storage.events.append(attempt, [NewFrame(OUTPUT_EVENT, output)])
    storage.runs.settle(attempt, Settlement(status, ThreadStatus.IDLE, **fields))


@contextlib.asynccontextmanager
async def parts_of(storage: Storage, *, heartbeat: float = 5.0, poll: float = 5.0) -> AsyncIterator[Any]:
    """Yield those parts of a server that readers need."""
    offload = Offload(8)
    settings = Settings(limits=Limits(heartbeat=heartbeat))
    followers = Followers(storage.events, offload, poll=poll)
    yield SimpleNamespace(
        storage=storage,
        offload=offload,
        settings=settings,
        followers=followers,
        thread_followers=ThreadFollowers(storage, followers, offload, poll=poll),
    )
    offload.close()
