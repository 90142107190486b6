"""Readers of a thread: the frames of all its runs, once and in order, without asking for each reader."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import aclosing
from functools import partial
from typing import Any

import pytest

from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.engine import thread_runs
from stateroom.engine.following import Followers
from stateroom.engine.news import Stopped
from stateroom.engine.thread_following import RunPart, ThreadFollowers
from stateroom.engine.thread_runs import From
from stateroom.errors import Unavailable
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.offload import Offload
from tests.readers.test_following import PATIENCE, until
from tests.readers.writing import LEASE, claimed, custom, end, new_run, opened, rest, write

NEVER = 3600.0

BEGINNINGS: tuple[From, ...] = ("now", "latest", 0)


@pytest.fixture
def storage() -> Iterator[Storage]:
    with opened() as storage:
        yield storage


@pytest.fixture
def offload() -> Iterator[Offload]:
    offload = Offload(8)
    yield offload
    offload.close()


def followers_of(storage: Storage, offload: Offload, poll: float = NEVER) -> ThreadFollowers:
    return ThreadFollowers(storage, Followers(storage.events, offload, poll=poll), offload, poll=poll)


@pytest.fixture
async def followers(storage: Storage, offload: Offload) -> AsyncGenerator[ThreadFollowers]:
    followers = followers_of(storage, offload)
    yield followers
    assert followers.news.watching == 0


class Reader:
    """Somebody who reads a thread: notes the frames, and the ends of runs."""

    def __init__(self, followers: ThreadFollowers, begin: From = "now", thread_id: str = "t") -> None:
        self.frames: list[tuple[str, str]] = []
        self.ends: list[tuple[str, RunStatus | None]] = []
        self.numbers: list[int] = []
        self.task = asyncio.create_task(self._read(followers, begin, thread_id))

    async def _read(self, followers: ThreadFollowers, begin: From, thread_id: str) -> None:
        async with aclosing(followers.follow(thread_id, begin=begin)) as stream:
            async for part in stream:
                self._note(part)

    def _note(self, one: RunPart) -> None:
        for frame in one.part.frames:
            self.numbers.append(one.began + frame.seq)
            if frame.event != OUTPUT_EVENT:
                self.frames.append((one.run_id, frame.data.decode()))
        if one.part.ended:
            self.numbers.append(one.began + one.part.ended.last + 1)
            self.ends.append((one.run_id, one.part.ended.status))

    async def until_ended(self, *run_ids: str) -> None:
        await until(lambda: self.task.done() or [run_id for run_id, _ in self.ends] == [*run_ids])
        assert [run_id for run_id, _ in self.ends] == [*run_ids]
        assert self.numbers == sorted(set(self.numbers))

    async def leave(self) -> None:
        self.task.cancel()
        await asyncio.wait((self.task,))


def work(storage: Storage, run_id: str, count: int = 3) -> None:
    """Make a run and execute it."""
    attempt = claimed(storage, run_id)
    write(storage, attempt, custom(*(b"%d" % n for n in range(count))))
    end(storage, attempt)


async def test_runs_to_come_are_read_one_after_another(storage: Storage, followers: ThreadFollowers) -> None:
    storage.threads.create(NewThread("t"))
    work(storage, "before")
    reader = Reader(followers)
    await until(lambda: followers.news.watching)
    await rest()
    for run_id in ("a", "b", "c"):
        await asyncio.to_thread(work, storage, run_id)
    await reader.until_ended("a", "b", "c")
    assert reader.frames == [(run_id, str(n)) for run_id in "abc" for n in range(3)]
    await reader.leave()


async def test_a_run_under_way_is_read_from_now_or_from_its_start(
    storage: Storage, followers: ThreadFollowers
) -> None:
    work(storage, "before")
    attempt = claimed(storage, "r")
    write(storage, attempt, custom(b"1", b"2"))
    readers = {begin: Reader(followers, begin) for begin in BEGINNINGS}
    await rest(0.1)
    write(storage, attempt, custom(b"3"))
    end(storage, attempt)
    await readers["now"].until_ended("r")
    await readers["latest"].until_ended("r")
    await readers[0].until_ended("before", "r")
    assert readers["now"].frames == [("r", "3")]
    assert readers["latest"].frames == [("r", "1"), ("r", "2"), ("r", "3")]
    for reader in readers.values():
        await reader.leave()


async def test_with_nothing_under_way_the_latest_run_is_read(
    storage: Storage, followers: ThreadFollowers
) -> None:
    for run_id in ("a", "b"):
        work(storage, run_id)
    reader = Reader(followers, "latest")
    await reader.until_ended("b")
    work(storage, "c")
    await reader.until_ended("b", "c")
    await reader.leave()


async def test_only_a_threads_first_run_is_new_once_it_has_ended(
    storage: Storage, followers: ThreadFollowers
) -> None:
    work(storage, "a")
    first = Reader(followers, "new")
    await first.until_ended("a")
    work(storage, "b")
    second = Reader(followers, "new")
    await rest(0.1)
    work(storage, "c")
    await first.until_ended("a", "b", "c")
    await second.until_ended("c")
    for reader in (first, second):
        await reader.leave()


async def test_a_reader_goes_on_behind_any_number(storage: Storage, followers: ThreadFollowers) -> None:
    for run_id in ("a", "b", "c"):
        work(storage, run_id)
    new_run(storage, "cancelled")
    storage.runs.cancel(RunQuery(run_ids=["cancelled"]), CancelAction.INTERRUPT)
    whole = Reader(followers, 0)
    await whole.until_ended("a", "b", "c", "cancelled")
    assert len(whole.numbers) == 16
    for place, number in enumerate(whole.numbers):
        reader = Reader(followers, number)
        await until(lambda: len(reader.numbers) == len(whole.numbers) - place - 1)  # noqa: B023
        await rest(0.005)
        assert reader.numbers == whole.numbers[place + 1 :]
        await reader.leave()
    await whole.leave()


async def test_runs_that_wait_are_read_when_they_begin(
    storage: Storage, followers: ThreadFollowers, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if they had been made long before the reader came.
    monkeypatch.setattr(thread_runs, "OVERLAP", 0)
    attempt = claimed(storage, "a")
    new_run(storage, "late", delay=200_000)
    new_run(storage, "b")
    new_run(storage, "given up")
    reader = Reader(followers)
    await rest()
    storage.runs.cancel(RunQuery(run_ids=["given up"]), CancelAction.ROLLBACK)
    end(storage, attempt)

    def run() -> None:
        for _ in range(2):
            while not (runs := storage.runs.claim("worker", lease=LEASE)):
                pass
            write(storage, runs[0].lease, custom(b"1"))
            end(storage, runs[0].lease)

    await asyncio.to_thread(run)
    await reader.until_ended("a", "b", "late")
    assert reader.frames == [("b", "1"), ("late", "1")]
    await reader.leave()


async def test_many_runs_in_quick_succession(storage: Storage, followers: ThreadFollowers) -> None:
    storage.threads.create(NewThread("t"))
    readers = [Reader(followers, begin) for begin in BEGINNINGS for _ in range(5)]
    await rest(0.1)
    runs = [f"r{n}" for n in range(40)]
    writer = threading.Thread(target=lambda: [*map(partial(work, storage, count=5), runs)])
    writer.start()
    for reader in readers:
        await reader.until_ended(*runs)
        assert reader.frames == [(run_id, str(n)) for run_id in runs for n in range(5)]
        await reader.leave()
    writer.join()


async def test_a_thread_need_not_be_there_yet_and_its_deletion_is_the_end(
    storage: Storage, offload: Offload
) -> None:
    followers = followers_of(storage, offload, poll=0.05)
    readers = [Reader(followers), Reader(followers, "latest"), Reader(followers, 0)]
    await rest(0.1)
    assert not any(reader.task.done() for reader in readers)
    work(storage, "a")
    for reader in readers:
        await reader.until_ended("a")
    new_run(storage, "b")
    storage.threads.delete("t")
    async with asyncio.timeout(PATIENCE):
        for reader in readers:
            await reader.task
    assert followers.news.watching == 0
    # Who knows that it was there need not have seen it.
    assert [part async for part in followers.follow("t", begin="now", existed=True)] == []


async def test_a_thousand_idle_readers_ask_together(storage: Storage, offload: Offload) -> None:
    followers = followers_of(storage, offload, poll=0.2)
    for n in range(1000):
        storage.threads.create(NewThread(f"t{n}"))
    asked: dict[str, int] = {}

    def counted(repository: Any, name: str) -> Callable[..., Any]:
        real = getattr(repository, name)

        def count(*arguments: Any, **options: Any) -> Any:
            asked[name] = asked.get(name, 0) + 1
            return real(*arguments, **options)

        setattr(repository, name, count)
        return count

    readers = [Reader(followers, "now", f"t{n}") for n in range(1000)]
    await until(lambda: followers.news.watching == 1000 and all(not r.task.done() for r in readers))
    await rest(1)
    for repository, name in ((storage.runs, "search"), (storage.threads, "count"), (storage.threads, "get")):
        counted(repository, name)
    await rest(1)
    # A look asks once for runs, and once for each hundred of threads.
    looks = asked["search"]
    assert looks < 10
    assert asked["count"] <= 10 * (looks + 1)
    assert "get" not in asked
    (run,) = [new_run(storage, "r", "t500")]
    (claim,) = storage.runs.claim("worker", lease=LEASE)
    end(storage, claim.lease)
    await readers[500].until_ended(run.run_id)
    assert sum(len(reader.numbers) for reader in readers) == 2
    for reader in readers:
        reader.task.cancel()
    await asyncio.wait([reader.task for reader in readers])
    assert followers.news.watching == 0


async def test_a_storage_that_is_away_for_a_while_loses_nobody(storage: Storage, offload: Offload) -> None:
    followers = followers_of(storage, offload, poll=0.02)
    real, fails = storage.runs.search, [5]

    def search(*arguments: Any, **options: Any) -> Any:
        if fails[0]:
            fails[0] -= 1
            raise Unavailable
        return real(*arguments, **options)

    storage.runs.search = search  # type: ignore[method-assign]
    reader = Reader(followers, 0)
    await until(lambda: not fails[0])
    work(storage, "a")
    fails[0] = 5
    work(storage, "b")
    await reader.until_ended("a", "b")
    await reader.leave()


async def test_a_server_that_stops_lets_its_readers_go(storage: Storage, offload: Offload) -> None:
    runs = Followers(storage.events, offload, poll=NEVER)
    followers = ThreadFollowers(storage, runs, offload, poll=NEVER)
    readers = [Reader(followers), Reader(followers, 0)]
    claimed(storage, "r", "busy")
    readers.append(Reader(followers, "latest", "busy"))
    await until(lambda: followers.news.watching == 2 and runs.following)
    await asyncio.to_thread(runs.close)
    for reader in [*readers, Reader(followers)]:
        with pytest.raises(Stopped):
            await reader.task
