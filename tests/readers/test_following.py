"""Readers of a run: every frame once and in order, then the end, whatever happens around them."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any

import pytest
from typing_extensions import override

from stateroom.contract.events import FRAMES_READ, EventLimits, Events
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.engine.following import PAGE_BYTES, PAGE_FRAMES, Ended, Followers, Gap
from stateroom.engine.news import Stopped
from stateroom.errors import Unavailable
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.run import Attempt, CancelAction, RunStatus
from stateroom.model.run_kwargs import OUTPUT_EVENT
from stateroom.offload import Offload
from tests.readers.writing import claimed, custom, end, new_run, opened, rest, write

NEVER = 3600.0
"""Seconds between two polls of readers that must do without."""

PATIENCE = 30.0

FALSY = (b"0", b'""', b"[]", b"false", b"null", b"{}", b"0.0")

Seen = list[Frame | Gap | Ended]


class Watched(Events):
    """The streams of a storage: counts what is read, and can be deaf, or out of order."""

    def __init__(self, events: Events) -> None:
        self._events = events
        self.limits = events.limits
        self.reads: list[tuple[int, int]] = []
        self.most_bytes = 0
        self.subscribed = 0
        self.deaf = False
        self.fails = 0
        self.gate = threading.Event()
        self.gate.set()

    @override
    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        return self._events.append(attempt, frames)

    @override
    def read(
        self, run_id: str, *, after: int = 0, limit: int = FRAMES_READ, enough_bytes: int | None = None
    ) -> FramePage:
        self.reads.append((after, limit))
        if self.fails:
            self.fails -= 1
            raise Unavailable("the database is away")
        assert self.gate.wait(PATIENCE)
        page = self._events.read(run_id, after=after, limit=limit, enough_bytes=enough_bytes)
        self.most_bytes = max(self.most_bytes, sum(len(frame.data) for frame in page.frames))
        return page

    @override
    def last(self, run_id: str) -> Frame | None:
        return self._events.last(run_id)

    @override
    def subscribe(self, run_id: str, woken: Callable[[], None], *, frames: bool = True) -> Callable[[], None]:
        stop = self._events.subscribe(run_id, (lambda: None) if self.deaf else woken, frames=frames)
        self.subscribed += 1

        def unsubscribe() -> None:
            self.subscribed -= 1
            stop()

        return unsubscribe

    @override
    def sweep(self, *, limit: int = 100) -> int:
        return self._events.sweep(limit=limit)


@pytest.fixture
def storage() -> Iterator[Storage]:
    with opened() as storage:
        yield storage


@pytest.fixture
def events(storage: Storage) -> Watched:
    return Watched(storage.events)


@pytest.fixture
def offload() -> Iterator[Offload]:
    offload = Offload(8)
    yield offload
    offload.close()


@pytest.fixture
async def followers(events: Watched, offload: Offload) -> AsyncGenerator[Followers]:
    followers = Followers(events, offload, poll=NEVER)
    yield followers
    assert followers.following == events.subscribed == 0


async def seen(followers: Followers, run_id: str = "r", after: int = 0, pause: float = 0) -> Seen:
    """Read a run to its end."""
    found: Seen = []
    async with asyncio.timeout(PATIENCE), aclosing(followers.follow(run_id, after=after)) as stream:
        async for each in stream:
            found.append(each)
            if pause:
                await rest(pause)
    return found


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not condition():
            await rest(0.005)


def payloads(count: int) -> list[NewFrame]:
    """Return frames, some of them with payloads that are not true."""
    return custom(*(FALSY[n % 14] if n % 14 < len(FALSY) else b"%d" % n for n in range(count)))


async def test_a_run_that_has_ended_is_read_after_any_number(storage: Storage, followers: Followers) -> None:
    attempt = claimed(storage, "r")
    frames = payloads(200)
    write(storage, attempt, frames)
    end(storage, attempt)
    everything: Seen = [Frame(n, *frame) for n, frame in enumerate(frames, start=1)]
    everything += [Frame(201, OUTPUT_EVENT, b"{}"), Ended(RunStatus.SUCCESS, 201)]
    for after in (0, 1, 7, 8, 50, 199, 200, 201):
        assert await seen(followers, after=after) == everything[after:]
    assert await seen(followers, after=1000) == [Ended(RunStatus.SUCCESS, 1000)]


async def test_who_comes_and_goes_gets_every_frame_once(storage: Storage, followers: Followers) -> None:
    attempt = claimed(storage, "r")

    def run() -> None:
        for frame in payloads(200):
            write(storage, attempt, [frame])
        end(storage, attempt)

    writer = threading.Thread(target=run)
    found: Seen = []
    after = 0
    writer.start()
    while not found or not isinstance(found[-1], Ended):
        # A connection that breaks after 23 frames, and the next.
        async with asyncio.timeout(PATIENCE), aclosing(followers.follow("r", after=after)) as stream:
            async for each in stream:
                found.append(each)
                if isinstance(each, Frame):
                    after = each.seq
                    if after % 23 == 0:
                        break
    writer.join()
    assert [frame.seq for frame in found if isinstance(frame, Frame)] == [*range(1, 202)]
    data = [frame.data for frame in found if isinstance(frame, Frame)]
    assert data == [frame.data for frame in payloads(200)] + [b"{}"]
    assert found[-1] == Ended(RunStatus.SUCCESS, 201)


async def test_frames_that_are_gone_are_told_once(offload: Offload) -> None:
    with opened(limits=EventLimits(frames_per_run=30)) as storage:
        followers = Followers(storage.events, offload, poll=NEVER)
        attempt = claimed(storage, "r")
        write(storage, attempt, payloads(100))
        end(storage, attempt)
        for after in (0, 69):
            gap, *frames, last = await seen(followers, after=after)
            assert gap == Gap(72)
            assert [frame.seq for frame in frames if isinstance(frame, Frame)] == [*range(72, 102)]
            assert last == Ended(RunStatus.SUCCESS, 101)
        assert not any(isinstance(each, Gap) for each in await seen(followers, after=71))


async def test_who_reads_too_slowly_learns_what_he_lost(offload: Offload) -> None:
    with opened(limits=EventLimits(frames_per_run=10)) as storage:
        followers = Followers(storage.events, offload, poll=NEVER)
        attempt = claimed(storage, "r")
        write(storage, attempt, payloads(5))
        async with asyncio.timeout(PATIENCE), aclosing(followers.follow("r")) as stream:
            assert [(await anext(stream))[0] for _ in range(5)] == [1, 2, 3, 4, 5]
            write(storage, attempt, payloads(35))
            end(storage, attempt)
            rest = [each async for each in stream]
        assert rest[0] == Gap(32)
        assert [each[0] for each in rest[1:-1]] == [*range(32, 42)]


async def test_readers_are_told_of_frames_and_of_the_end(storage: Storage, followers: Followers) -> None:
    attempt = claimed(storage, "r")
    async with asyncio.timeout(PATIENCE), aclosing(followers.follow("r")) as stream:
        for number in range(1, 21):
            coming = asyncio.ensure_future(anext(stream))
            await rest(0.002)
            assert not coming.done()
            await asyncio.to_thread(write, storage, attempt, custom(b"%d" % number))
            assert await coming == Frame(number, "custom", b"%d" % number)
        coming = asyncio.ensure_future(anext(stream))
        await rest(0.002)
        await asyncio.to_thread(end, storage, attempt, RunStatus.ERROR, output=None)
        assert await coming == Ended(RunStatus.ERROR, 20)


async def test_readers_whom_nobody_tells_look_for_themselves(
    storage: Storage, events: Watched, offload: Offload
) -> None:
    events.deaf = True
    followers = Followers(events, offload, poll=0.02)
    attempt = claimed(storage, "r")
    reading = [asyncio.create_task(seen(followers)) for _ in range(3)]
    waiting = asyncio.create_task(followers.output("r"))
    await until(lambda: len(events.reads) > 3)
    write(storage, attempt, payloads(3))
    await until(lambda: any(after == 3 for after, _ in events.reads))
    end(storage, attempt, output=b"7")
    for each in reading:
        assert [one[0] for one in await each][:-1] == [1, 2, 3, 4]
    assert await waiting == (RunStatus.SUCCESS, b"7")


@pytest.mark.parametrize("status", [s for s in RunStatus if s not in (RunStatus.PENDING, RunStatus.RUNNING)])
async def test_the_end_is_what_the_run_is(storage: Storage, followers: Followers, status: RunStatus) -> None:
    attempt = claimed(storage, "r")
    reading = asyncio.create_task(seen(followers))
    end(storage, attempt, status)
    run = storage.runs.get("r")
    assert run is not None
    assert (await reading)[-1] == (await seen(followers))[-1] == Ended(run.status, 1)
    assert run.status is status


async def test_a_run_that_is_cancelled_before_it_was_executed_ends(
    storage: Storage, followers: Followers
) -> None:
    new_run(storage, "r")
    reading, waiting = asyncio.create_task(seen(followers)), asyncio.create_task(followers.output("r"))
    await until(lambda: followers.following)
    storage.runs.cancel(RunQuery(run_ids=["r"]), CancelAction.INTERRUPT)
    assert await reading == [Ended(RunStatus.INTERRUPTED, 0)]
    assert await waiting == (RunStatus.INTERRUPTED, None)


async def test_a_run_that_is_rolled_back_ends_without_a_status(
    storage: Storage, followers: Followers
) -> None:
    attempt = claimed(storage, "r")
    write(storage, attempt, custom(b"1"))
    reading, waiting = asyncio.create_task(seen(followers)), asyncio.create_task(followers.output("r"))
    await until(lambda: followers.following)
    await rest(0.02)
    end(storage, attempt, RunStatus.INTERRUPTED, roll_back=True, output=None)
    assert await reading == [Frame(1, "custom", b"1"), Ended(None, 1)]
    assert await waiting == (None, None)
    assert await seen(followers, "never made") == [Ended(None, 0)]


async def test_who_waits_gets_what_the_run_answers(storage: Storage, followers: Followers) -> None:
    attempt = claimed(storage, "r")
    waiting = [asyncio.create_task(followers.output("r")) for _ in range(3)]
    write(storage, attempt, payloads(20))
    end(storage, attempt, output=b'{"a": 1}')
    for each in waiting:
        assert await each == (RunStatus.SUCCESS, b'{"a": 1}')
    assert await followers.output("r") == (RunStatus.SUCCESS, b'{"a": 1}')
    assert await followers.ended("r") is RunStatus.SUCCESS


async def test_what_a_run_answers_may_be_kept_no_more(storage: Storage, offload: Offload) -> None:
    with opened(limits=EventLimits(retained_runs=0)) as storage:
        followers = Followers(storage.events, offload, poll=NEVER)
        end(storage, claimed(storage, "r"))
        storage.events.sweep()
        assert await followers.output("r") == (RunStatus.SUCCESS, None)
        assert await seen(followers) == [Gap(2), Ended(RunStatus.SUCCESS, 1)]


async def test_a_reader_that_leaves_takes_nothing_with_him(
    storage: Storage, events: Watched, followers: Followers
) -> None:
    attempt = claimed(storage, "r")
    leaving = [asyncio.create_task(seen(followers)) for _ in range(5)]
    leaving += [asyncio.create_task(followers.output("r")) for _ in range(5)]  # type: ignore[arg-type]
    staying = asyncio.create_task(seen(followers))
    await until(lambda: events.reads)
    for each in leaving:
        each.cancel()
    await asyncio.wait(leaving)
    assert all(each.cancelled() for each in leaving)
    assert followers.following == 1
    end(storage, attempt)
    assert (await staying)[-1] == Ended(RunStatus.SUCCESS, 1)


async def test_a_reader_that_leaves_while_he_shares_a_read_leaves_it_to_the_others(
    storage: Storage, events: Watched, followers: Followers
) -> None:
    end(storage, claimed(storage, "r"))
    events.gate.clear()
    leaving, staying = (asyncio.create_task(seen(followers)) for _ in range(2))
    await until(lambda: events.reads)
    await rest()
    leaving.cancel()
    await asyncio.wait((leaving,))
    events.gate.set()
    assert (await staying)[-1] == Ended(RunStatus.SUCCESS, 1)
    assert events.reads[0] == (0, PAGE_FRAMES)


async def test_pages_hold_what_may_be_in_hand(
    storage: Storage, events: Watched, followers: Followers
) -> None:
    attempt = claimed(storage, "r")
    write(storage, attempt, custom(*[b"1" * 10] * 2_000))
    write(storage, attempt, custom(*[b"2" * 20_000] * 400))
    end(storage, attempt)
    parts = [part async for part in followers.parts("r")]
    assert [frame.seq for part in parts for frame in part.frames] == [*range(1, 2_402)]
    assert max(len(part.frames) for part in parts) == PAGE_FRAMES
    assert events.most_bytes < PAGE_BYTES + 20_000


async def test_a_frame_larger_than_a_page_comes_by_itself(storage: Storage, followers: Followers) -> None:
    attempt = claimed(storage, "r")
    write(storage, attempt, custom(*[b"3" * (PAGE_BYTES + 1)] * 20))
    end(storage, attempt)
    parts = [part async for part in followers.parts("r")]
    assert [len(part.frames) for part in parts] == [1] * 21


async def test_two_hundred_readers_half_of_them_slow(
    storage: Storage, events: Watched, followers: Followers
) -> None:
    attempt = claimed(storage, "r")

    def run() -> None:
        for frame in payloads(200):
            write(storage, attempt, [frame])
        end(storage, attempt)

    reading = [asyncio.create_task(seen(followers, pause=0.0005 * (n % 2))) for n in range(200)]
    await until(lambda: events.reads)
    writer = threading.Thread(target=run)
    writer.start()
    for each in reading:
        assert [one[0] for one in await each] == [*range(1, 202), RunStatus.SUCCESS]
    writer.join()
    # By itself each reader would ask as often as frames come: 200 times 200.
    assert len(events.reads) < 10_000
    assert events.subscribed == 0


async def test_a_hundred_who_wait_ask_together(
    storage: Storage, events: Watched, followers: Followers
) -> None:
    attempt = claimed(storage, "r")
    waiting = [asyncio.create_task(followers.output("r")) for _ in range(100)]
    await until(lambda: followers.following)
    for frame in payloads(300):
        await asyncio.to_thread(write, storage, attempt, [frame])
    end(storage, attempt, output=b"1")
    assert set(await asyncio.gather(*waiting)) == {(RunStatus.SUCCESS, b"1")}
    assert len(events.reads) < 1_000


async def test_a_storage_that_is_away_for_a_while_loses_nobody(
    storage: Storage, events: Watched, offload: Offload
) -> None:
    followers = Followers(events, offload, poll=0.01)
    attempt = claimed(storage, "r")
    write(storage, attempt, payloads(3))
    events.fails = 5
    reading = asyncio.create_task(seen(followers))
    await until(lambda: not events.fails)
    events.fails = 5
    end(storage, attempt)
    assert [each[0] for each in await reading] == [1, 2, 3, 4, RunStatus.SUCCESS]

    def broken(*_: object, **__: object) -> FramePage:
        raise ZeroDivisionError

    events.read = broken  # type: ignore[method-assign]
    with pytest.raises(ZeroDivisionError):
        await seen(followers)
    assert followers.following == 0


async def test_a_server_that_stops_lets_its_readers_go(storage: Storage, followers: Followers) -> None:
    claimed(storage, "r")
    waiting: list[asyncio.Task[Any]] = [
        asyncio.create_task(seen(followers)),
        asyncio.create_task(followers.output("r")),
    ]
    await until(lambda: followers.following)
    await asyncio.to_thread(followers.close)
    for each in waiting:
        with pytest.raises(Stopped):
            await each
    with pytest.raises(Stopped):
        await seen(followers)
