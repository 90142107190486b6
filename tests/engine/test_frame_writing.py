"""Frames on their way to the storage: in order, together, bounded, and once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from stateroom.contract.runs import Settlement
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.engine import insisting
from stateroom.engine.frame_writing import BUFFERED_BYTES, FRAME_BYTES, FrameWriter
from stateroom.engine.insisting import insist
from stateroom.errors import Fenced, Unavailable
from stateroom.model.frame import NewFrame
from stateroom.model.run import Attempt, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.offload import Offload
from stateroom.search.index_config import parse_index_config
from tests.engine.engines import PATIENCE, Engine
from tests.engine.graphs import Stage


class Gated:
    """The events of a storage, whose writes wait at a gate, are counted, and fail when they should."""

    def __init__(self, storage: SqliteStorage) -> None:
        self.real = storage.events
        self.gate = threading.Event()
        self.gate.set()
        self.came = threading.Semaphore(0)
        self.sizes: list[int] = []
        self.failures: list[str] = []

    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        self.came.release()
        assert self.gate.wait(PATIENCE)
        failure = self.failures.pop(0) if self.failures else None
        if failure == "before":
            raise Unavailable
        self.sizes.append(len(frames))
        last = self.real.append(attempt, frames)
        if failure == "after":
            raise Unavailable
        return last

    def __getattr__(self, name: str) -> object:
        return getattr(self.real, name)


@pytest.fixture
def storage(tmp_path: Path) -> Iterator[SqliteStorage]:
    storage = SqliteStorage(str(tmp_path / "server.db"), parse_index_config(None))
    storage.open()
    yield storage
    storage.close()


@pytest.fixture
def run(storage: SqliteStorage, tmp_path: Path) -> Run:
    """Return a run that has been claimed."""
    Engine(storage, Stage(), tmp_path).new("echo")
    return storage.runs.claim("me", lease=60_000_000)[0]


@pytest.fixture
def events(storage: SqliteStorage) -> Gated:
    return Gated(storage)


@pytest.fixture
def writer(events: Gated, run: Run) -> Iterator[FrameWriter]:
    offload = Offload(2)
    yield FrameWriter(events, run.lease, offload)  # type: ignore[arg-type]  # it is asked for nothing else
    events.gate.set()
    offload.close()


def frame(number: int) -> NewFrame:
    return NewFrame("values", str(number).encode())


async def test_frames_that_come_during_a_write_are_written_together(
    events: Gated, writer: FrameWriter, run: Run
) -> None:
    events.gate.clear()
    await writer.put(frame(0))
    assert await asyncio.to_thread(events.came.acquire, timeout=PATIENCE)
    for number in range(1, 6):
        await writer.put(frame(number))
    events.gate.set()
    await writer.flush()
    assert events.sizes == [1, 5]
    assert [each.data for each in events.real.read(run.run_id).frames] == [b"0", b"1", b"2", b"3", b"4", b"5"]


async def test_the_end_takes_what_waits_along(events: Gated, writer: FrameWriter, run: Run) -> None:
    events.gate.clear()
    await writer.put(frame(0))
    assert await asyncio.to_thread(events.came.acquire, timeout=PATIENCE)
    await writer.put(frame(1))
    ending = asyncio.create_task(asyncio.to_thread(writer.finish, [frame(2)]))
    events.gate.set()
    await ending
    await writer.flush()
    assert [each.data for each in events.real.read(run.run_id).frames] == [b"0", b"1", b"2"]
    writer.finish()
    assert sum(events.sizes) == 3


@pytest.mark.parametrize(("size", "waits"), [(BUFFERED_BYTES - FRAME_BYTES, False), (BUFFERED_BYTES, True)])
async def test_who_makes_too_much_waits(events: Gated, writer: FrameWriter, size: int, waits: bool) -> None:
    events.gate.clear()
    await writer.put(frame(0))
    assert await asyncio.to_thread(events.came.acquire, timeout=PATIENCE)
    putting = asyncio.create_task(writer.put(NewFrame("values", b" " * size)))
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    assert putting.done() != waits
    events.gate.set()
    await putting
    await writer.flush()
    assert events.sizes == [1, 1]


async def test_who_has_lost_the_run_hears_of_it(
    storage: SqliteStorage, writer: FrameWriter, run: Run
) -> None:
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE))
    await writer.put(frame(0))
    with pytest.raises(Fenced):
        await writer.flush()
    with pytest.raises(Fenced):
        await writer.put(frame(1))
    with pytest.raises(Fenced):
        writer.finish([frame(2)])


@pytest.mark.parametrize("failures", [["before"], ["after"], ["before", "after", "before"]])
async def test_a_storage_that_cannot_be_reached_loses_and_doubles_nothing(
    events: Gated, writer: FrameWriter, run: Run, failures: list[str]
) -> None:
    await writer.put(frame(0))
    await writer.flush()
    events.failures = failures
    await writer.put(frame(1))
    await writer.put(frame(2))
    await writer.flush()
    await writer.put(frame(3))
    await writer.flush()
    assert [each.data for each in events.real.read(run.run_id).frames] == [b"0", b"1", b"2", b"3"]


def test_insisting_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(insisting, "FIRST_PAUSE", 0.001)
    calls: list[int] = []

    def fail() -> None:
        calls.append(1)
        raise Unavailable("down")

    with pytest.raises(Unavailable, match="down"):
        insist(fail, seconds=0.02)
    assert len(calls) > 1
    assert insist(lambda: 5) == 5
