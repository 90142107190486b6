"""Loops for users' code: one while it moves, others while it is blocked, and none after the end."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError
from contextvars import ContextVar
from typing import Any

import pytest

from stateroom.engine import threads
from stateroom.engine.loops import THREADS_PER_LOOP, Loops
from stateroom.engine.threads import DaemonThreads
from stateroom.errors import Unavailable
from tests.engine.engines import PATIENCE, until


@pytest.fixture
def gate() -> threading.Event:
    return threading.Event()


@pytest.fixture
def loops(gate: threading.Event) -> Iterator[Loops]:
    loops = Loops(most=3, patience=0.05)
    yield loops
    gate.set()
    loops.close()


async def where() -> str:
    """Return the name of the thread that this runs on."""
    return threading.current_thread().name


def blocking(gate: threading.Event) -> Callable[[], Any]:
    """Return what makes work that blocks its loop until the gate is opened."""

    async def block() -> str:
        gate.wait(PATIENCE)
        return await where()

    return block


def blocked(loops: Loops, gate: threading.Event) -> Any:
    """Block one more loop; return the future of what blocks it."""
    begun = threading.Event()

    async def block() -> str:
        begun.set()
        gate.wait(PATIENCE)
        return await where()

    future = loops.submit(block)
    assert begun.wait(PATIENCE)
    return future


def test_all_work_shares_a_loop(loops: Loops) -> None:
    assert {loops.submit(where).result(PATIENCE) for _ in range(5)} == {"stateroom-graphs-1"}


def test_what_a_blocked_loop_has_not_begun_goes_to_another(loops: Loops, gate: threading.Event) -> None:
    first = blocked(loops, gate)
    # The second is made for work that waited; what comes then goes there at once.
    assert loops.submit(where).result(PATIENCE) == "stateroom-graphs-2"
    assert loops.submit(where).result(PATIENCE) == "stateroom-graphs-2"
    second = blocked(loops, gate)
    assert loops.submit(where).result(PATIENCE) == "stateroom-graphs-3"
    gate.set()
    assert first.result(PATIENCE) == "stateroom-graphs-1"
    assert second.result(PATIENCE) == "stateroom-graphs-2"


def test_work_is_begun_once(loops: Loops, gate: threading.Event) -> None:
    blocked(loops, gate)
    begun: list[str] = []

    async def work() -> None:
        begun.append(await where())

    loops.submit(work).result(PATIENCE)
    gate.set()
    # The first loop comes to it too, and must leave it.
    until(lambda: not loops._loops[0].stalled)
    assert begun == ["stateroom-graphs-2"]


def test_a_loop_that_moves_again_is_the_first_again(loops: Loops, gate: threading.Event) -> None:
    blocked(loops, gate)
    assert loops.submit(where).result(PATIENCE) == "stateroom-graphs-2"
    gate.set()
    until(lambda: loops.submit(where).result(PATIENCE) == "stateroom-graphs-1")


def test_there_are_at_most_so_many_and_the_first_that_moves_has_the_work(
    loops: Loops, gate: threading.Event
) -> None:
    others = threading.Event()
    held = [blocked(loops, others), blocked(loops, others), blocked(loops, gate)]
    waiting = loops.submit(where)
    until(lambda: all(each.stalled for each in loops._loops))
    assert len(loops._loops) == 3
    assert not waiting.done()
    gate.set()
    assert waiting.result(PATIENCE) == "stateroom-graphs-3"
    others.set()
    assert len({each.result(PATIENCE) for each in held}) == 3


def test_what_work_raises_is_the_callers(loops: Loops) -> None:
    async def fail() -> None:
        raise ValueError("no")

    def not_even_work() -> Any:
        raise KeyError("none")

    with pytest.raises(ValueError, match="no"):
        loops.submit(fail).result(PATIENCE)
    with pytest.raises(KeyError, match="none"):
        loops.submit(not_even_work).result(PATIENCE)


async def test_work_is_cancelled_with_whoever_waits_for_it(loops: Loops) -> None:
    begun, cancelled = asyncio.Event(), threading.Event()
    here = asyncio.get_running_loop()

    async def work() -> None:
        here.call_soon_threadsafe(begun.set)
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    task = asyncio.create_task(loops.run(work))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await asyncio.to_thread(cancelled.wait, PATIENCE)


def test_work_that_cancels_itself_is_cancelled(loops: Loops) -> None:
    async def give_up() -> None:
        raise asyncio.CancelledError

    with pytest.raises(CancelledError):
        loops.submit(give_up).result(PATIENCE)


def test_work_that_was_cancelled_before_it_began_never_begins(gate: threading.Event) -> None:
    patient, begun = Loops(most=1, patience=60.0), threading.Event()
    blocked(patient, gate)

    async def work() -> None:
        begun.set()

    assert patient.submit(work).cancel()
    gate.set()
    patient.submit(where).result(PATIENCE)
    assert not begun.is_set()
    patient.close()


def test_context_variables_go_along(loops: Loops) -> None:
    variable = ContextVar("variable", default="unset")
    variable.set("set")

    async def look() -> str:
        return variable.get()

    assert loops.submit(look).result(PATIENCE) == "set"


def test_plain_functions_have_threads(loops: Loops, gate: threading.Event) -> None:
    inside = threading.Semaphore(0)

    def block() -> None:
        inside.release()
        gate.wait(PATIENCE)

    async def work() -> None:
        await asyncio.gather(*(asyncio.to_thread(block) for _ in range(THREADS_PER_LOOP)))

    future = loops.submit(work)
    for _ in range(THREADS_PER_LOOP):
        assert inside.acquire(timeout=PATIENCE)
    gate.set()
    future.result(PATIENCE)


def test_closing_cancels_what_is_under_way_and_takes_no_more(loops: Loops) -> None:
    begun = threading.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.Event().wait()

    future = loops.submit(wait)
    assert begun.wait(PATIENCE)
    loops.close()
    loops.close()
    with pytest.raises(CancelledError):
        future.result(PATIENCE)
    with pytest.raises(Unavailable):
        loops.submit(where)
    assert not loops._loops[0].thread.is_alive()


def test_closing_leaves_a_blocked_loop_to_itself(
    gate: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("stateroom.engine.loops.CLOSING_SECONDS", 0.1)
    loops = Loops(most=1)
    blocked(loops, gate)
    loops.close()
    thread = loops._loops[0].thread
    assert thread.is_alive()
    assert thread.daemon
    gate.set()
    thread.join(PATIENCE)
    assert not thread.is_alive()


# ---- threads


def test_threads_are_made_as_they_are_needed_and_keep_no_process(gate: threading.Event) -> None:
    pool = DaemonThreads(2, "few")
    assert pool.submit(threading.current_thread).result(PATIENCE).daemon
    # One that is free is used again.
    until(lambda: pool._idle == 1)
    first = {pool.submit(threading.get_ident).result(PATIENCE)}
    until(lambda: pool._idle == 1)
    first.add(pool.submit(threading.get_ident).result(PATIENCE))
    assert len(first) == 1
    held = [pool.submit(gate.wait, PATIENCE) for _ in range(2)]
    waiting = pool.submit(str, 1)
    assert not waiting.done()
    gate.set()
    assert [each.result(PATIENCE) for each in held] == [True, True]
    assert waiting.result(PATIENCE) == "1"
    pool.shutdown()
    until(lambda: pool._threads_now == 0)
    with pytest.raises(RuntimeError, match="stopped"):
        pool.submit(str, 1)


def test_idle_threads_go(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(threads, "IDLE_SECONDS", 0.01)
    pool = DaemonThreads(2, "few")
    for _ in range(3):
        assert pool.submit(str, 1).result(PATIENCE) == "1"
        until(lambda: pool._threads_now == 0)
    pool.shutdown()


def test_a_call_that_fails_or_was_cancelled_leaves_the_thread_alive(gate: threading.Event) -> None:
    pool = DaemonThreads(1, "one")
    held = pool.submit(gate.wait, PATIENCE)
    dropped = pool.submit(str, 1)
    assert dropped.cancel()
    failing = pool.submit(int, "x")
    gate.set()
    assert held.result(PATIENCE)
    with pytest.raises(ValueError, match="invalid literal"):
        failing.result(PATIENCE)
    assert pool.submit(str, 2).result(PATIENCE) == "2"
    pool.shutdown()
