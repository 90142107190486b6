"""One writer at a time, whether threads or tasks, whoever gives up waiting."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from stateroom.errors import NotSupported
from stateroom.files.locking import Locks

CALLERS = 8
ROUNDS = 50
SECONDS = 30.0


class Counted:
    """Counts how many are inside at once."""

    def __init__(self) -> None:
        self.inside = 0
        self.most = 0
        self.total = 0

    def enter(self) -> None:
        self.inside += 1
        self.most = max(self.most, self.inside)
        self.total += 1

    def leave(self) -> None:
        self.inside -= 1


def test_threads_come_one_at_a_time() -> None:
    locks, counted = Locks(), Counted()
    start = threading.Barrier(CALLERS, timeout=SECONDS)

    def work(_: int) -> None:
        start.wait()
        for _ in range(ROUNDS):
            with locks.hold("k"):
                counted.enter()
                counted.leave()

    with ThreadPoolExecutor(CALLERS) as threads:
        list(threads.map(work, range(CALLERS)))
    assert (counted.most, counted.total) == (1, CALLERS * ROUNDS)
    assert not locks._lines


def test_tasks_of_several_loops_and_threads_come_one_at_a_time() -> None:
    locks, counted = Locks(), Counted()
    start = threading.Barrier(CALLERS, timeout=SECONDS)

    async def task() -> None:
        for _ in range(5):
            async with locks.ahold("k"):
                counted.enter()
                await asyncio.sleep(0)
                counted.leave()

    async def loop() -> None:
        await asyncio.gather(*(task() for _ in range(4)))

    def work(number: int) -> None:
        start.wait()
        if number % 2:
            asyncio.run(loop())
            return
        for _ in range(20):
            with locks.hold("k"):
                counted.enter()
                counted.leave()

    with ThreadPoolExecutor(CALLERS) as threads:
        list(threads.map(work, range(CALLERS)))
    assert (counted.most, counted.total) == (1, CALLERS * 20)
    assert not locks._lines


def test_keys_do_not_wait_for_each_other() -> None:
    locks = Locks()
    with locks.hold("a"), locks.hold("b"), locks.hold(("a", 1)):
        assert len(locks._lines) == 3
    assert not locks._lines


async def test_tasks_are_served_in_the_order_of_asking() -> None:
    locks, order = Locks(), []

    async def task(number: int) -> None:
        async with locks.ahold("k"):
            order.append(number)
            await asyncio.sleep(0)

    await asyncio.gather(*(task(number) for number in range(CALLERS)))
    assert order == list(range(CALLERS))


async def test_one_who_gives_up_waiting_is_passed_over() -> None:
    locks, order = Locks(), []
    entered, go = asyncio.Event(), asyncio.Event()

    async def task(number: int) -> None:
        async with locks.ahold("k"):
            order.append(number)
            entered.set()
            await go.wait()

    tasks = [asyncio.create_task(task(number)) for number in range(5)]
    await entered.wait()
    for number in (1, 2, 4):
        tasks[number].cancel()
    await asyncio.gather(*(tasks[number] for number in (1, 2, 4)), return_exceptions=True)
    assert not tasks[0].done()
    go.set()
    await asyncio.wait_for(asyncio.gather(tasks[0], tasks[3]), SECONDS)
    assert order == [0, 3]
    assert not locks._lines


async def test_the_lock_of_one_who_is_cancelled_inside_is_given_back() -> None:
    locks, order = Locks(), []
    entered = asyncio.Event()

    async def stuck() -> None:
        async with locks.ahold("k"):
            order.append("stuck")
            entered.set()
            await asyncio.Event().wait()

    async def patient() -> None:
        async with locks.ahold("k"):
            order.append("patient")

    first, second = asyncio.create_task(stuck()), asyncio.create_task(patient())
    await entered.wait()
    first.cancel()
    await asyncio.wait_for(second, SECONDS)
    assert order == ["stuck", "patient"]
    assert first.cancelled()
    assert not locks._lines


async def test_one_who_is_cancelled_just_when_the_turn_comes_passes_it_on() -> None:
    locks, entered = Locks(), []

    async def task(number: int) -> None:
        async with locks.ahold("k"):
            entered.append(number)

    async with locks.ahold("k"):
        tasks = [asyncio.create_task(task(number)) for number in range(3)]
        for _ in range(3):
            await asyncio.sleep(0)
    # The first in line has the turn by now, and has not run since.
    tasks[0].cancel()
    await asyncio.wait_for(asyncio.gather(*tasks, return_exceptions=True), SECONDS)
    assert entered == [1, 2]
    assert not locks._lines


def test_an_error_inside_gives_the_lock_back() -> None:
    locks = Locks()
    for _ in range(2):
        with pytest.raises(KeyError), locks.hold("k"):
            raise KeyError
    assert not locks._lines


async def test_a_thread_may_wait_for_a_task() -> None:
    locks, order = Locks(), []
    waits = asyncio.Event()
    loop = asyncio.get_running_loop()

    def thread() -> None:
        loop.call_soon_threadsafe(waits.set)
        with locks.hold("k"):
            order.append("thread")

    async with locks.ahold("k"):
        waiting = asyncio.create_task(asyncio.to_thread(thread))
        await waits.wait()
        order.append("task")
    await asyncio.wait_for(waiting, SECONDS)
    assert order == ["task", "thread"]


async def test_a_sync_caller_never_waits_for_a_task_of_its_own_loop() -> None:
    locks = Locks()
    async with locks.ahold("k"):
        with pytest.raises(NotSupported, match="await the async method"), locks.hold("k"):
            pass
        with locks.hold("other"):
            pass
    with locks.hold("k"):
        pass
    assert not locks._lines
