"""Real graphs whose runs come from a storage's queue: asked, resumed, copied, cancelled and taken over."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import orjson
import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadQuery
from stateroom.errors import ThreadBusy
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.storage_harness import LEASE, SECOND, OpensStorage, make_run, make_thread
from tests.storage.saving import at
from tests.storage.working import State, Worker, asking, two_steps


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(any_storage: OpensStorage, clock: ManualClock) -> Iterator[Storage]:
    storage = any_storage(clock=clock)
    storage.open()
    yield storage
    storage.close()


def say(storage: Storage, run_id: str, said: str, thread_id: str = "t", **fields: Any) -> Run:
    return make_run(storage, run_id, thread_id, kwargs={"input": {"said": said}}, **fields)


def answer(storage: Storage, run_id: str, resume: str, thread_id: str = "t") -> Run:
    return make_run(storage, run_id, thread_id, kwargs={"input": {"resume": resume}})


def log(worker: Worker, thread_id: str = "t") -> list[str]:
    """Return what the graph's state says, once the thread is known to say the same."""
    values = worker.values(thread_id)
    thread = worker.storage.threads.get(thread_id)
    assert thread is not None
    assert (thread.values or {}) == values
    found: list[str] = values.get("log", [])
    return found


def everything(worker: Worker, thread_id: str = "t") -> list[Any]:
    """Return all checkpoints of a thread with everything that they have, those of subgraphs too."""
    config: Any = {"configurable": {"thread_id": thread_id}}
    return sorted(
        (repr((found.config, found.checkpoint, found.metadata, found.parent_config, found.pending_writes)))
        for found in worker.saver.list(config)
    )


def status(storage: Storage, thread_id: str = "t") -> ThreadStatus:
    thread = storage.threads.get(thread_id)
    assert thread is not None
    return thread.status


def test_runs_go_on_where_the_former_left_the_thread_and_stream_what_they_do(storage: Storage) -> None:
    worker = Worker(storage, two_steps())
    make_thread(storage, "t")
    say(storage, "a", "hello")
    say(storage, "b", "bye")
    done = worker.work()
    assert [(run.run_id, run.status, run.attempt) for run in done] == [
        ("a", RunStatus.SUCCESS, 1),
        ("b", RunStatus.SUCCESS, 1),
    ]
    assert log(worker) == ["hello 1", "hello 2", "bye 1", "bye 2"]
    page = storage.events.read("b")
    assert [frame.seq for frame in page.frames] == [1, 2, 3]
    assert [len(orjson.loads(frame.data)["log"]) for frame in page.frames] == [2, 3, 4]
    assert status(storage) is ThreadStatus.IDLE


def test_a_graph_asks_and_is_resumed_by_another_run(storage: Storage) -> None:
    worker = Worker(storage, asking())
    make_thread(storage, "t")
    say(storage, "a", "may I")
    (run,) = worker.work()
    thread = storage.threads.get("t")
    assert thread is not None
    assert (run.status, thread.status) == (RunStatus.SUCCESS, ThreadStatus.INTERRUPTED)
    assert [*thread.interrupts.values()] == [[{"question": "may I"}]]
    answer(storage, "b", "yes")
    assert [run.status for run in worker.work()] == [RunStatus.SUCCESS]
    assert log(worker) == ["may I before", "answered yes", "may I last"]
    thread = storage.threads.get("t")
    assert thread is not None
    assert (thread.status, thread.interrupts) == (ThreadStatus.IDLE, {})


@pytest.mark.parametrize("earlier", [0, 2], ids=["the first run", "a later run"])
def test_a_run_that_is_rolled_back_leaves_the_thread_exactly_as_it_was(
    storage: Storage, earlier: int
) -> None:
    make_thread(storage, "t")
    worker = Worker(storage, two_steps())
    for number in range(earlier):
        say(storage, f"earlier {number}", f"earlier {number}")
    worker.work()
    before, values = everything(worker), worker.values("t")
    asked = Worker(storage, two_steps(lambda _: cancel(storage, "bad", CancelAction.ROLLBACK)))
    say(storage, "bad", "bad")
    asked.work()
    assert everything(worker) == before
    assert worker.values("t") == values
    assert storage.runs.get("bad") is None
    assert storage.events.read("bad").status is None
    say(storage, "good", "good")
    worker.work()
    assert log(worker)[-2:] == ["good 1", "good 2"]
    assert len(log(worker)) == 2 * earlier + 2


def cancel(storage: Storage, run_id: str, action: CancelAction) -> None:
    assert not storage.runs.cancel(RunQuery(run_ids=[run_id]), action)[0].ended


def test_an_answer_that_is_rolled_back_leaves_the_question(storage: Storage) -> None:
    make_thread(storage, "t")
    worker = Worker(storage, asking())
    say(storage, "a", "may I")
    worker.work()
    before = everything(worker)
    answer(storage, "b", "no")
    run = worker.take()
    assert run is not None
    cancel(storage, "b", CancelAction.ROLLBACK)
    worker.execute(run)
    assert everything(worker) == before
    answer(storage, "c", "yes")
    assert [run.status for run in worker.work()] == [RunStatus.SUCCESS]
    assert log(worker) == ["may I before", "answered yes", "may I last"]


def test_a_run_that_is_interrupted_keeps_its_finished_steps(storage: Storage) -> None:
    make_thread(storage, "t")
    worker = Worker(storage, two_steps(lambda _: cancel(storage, "a", CancelAction.INTERRUPT)))
    say(storage, "a", "a")
    (run,) = worker.work()
    assert (run.status, run.cancel_reason) == (RunStatus.INTERRUPTED, "cancelled")
    assert log(worker) == ["a 1"]


def test_a_copy_of_a_thread_goes_on_by_itself(storage: Storage) -> None:
    make_thread(storage, "t", metadata={"of": "ana"})
    worker = Worker(storage, asking())
    say(storage, "a", "may I")
    worker.work()
    before = everything(worker)
    copy = storage.threads.copy("t", "copy")
    assert (copy.status, copy.metadata) == (ThreadStatus.INTERRUPTED, {"of": "ana"})
    assert storage.runs.count(RunQuery(thread_id="copy")) == 0
    answer(storage, "b", "yes", "copy")
    worker.work()
    assert log(worker, "copy") == ["may I before", "answered yes", "may I last"]
    assert (everything(worker), status(storage)) == (before, ThreadStatus.INTERRUPTED)
    answer(storage, "c", "no")
    worker.work()
    assert log(worker) == ["may I before", "answered no", "may I last"]
    assert log(worker, "copy")[1] == "answered yes"
    assert storage.threads.delete("t")
    assert log(worker, "copy")[1] == "answered yes"


def test_a_question_is_still_asked_after_the_past_was_pruned(storage: Storage) -> None:
    make_thread(storage, "t")
    Worker(storage, two_steps()).work()
    worker = Worker(storage, asking())
    for number in range(3):
        say(storage, f"a{number}", f"may I {number}")
        worker.work()
        if number < 2:
            answer(storage, f"b{number}", "yes")
            worker.work()
    count = len(everything(worker))
    worker.saver.prune(["t"], strategy="keep_latest")
    assert len(everything(worker)) < count
    assert worker.graph.get_state(at("t")).tasks[0].interrupts[0].value == {"question": "may I 2"}
    answer(storage, "last", "finally")
    worker.work()
    assert log(worker)[-3:] == ["may I 2 before", "answered finally", "may I 2 last"]
    assert len(log(worker)) == 9


# ---- A15


@pytest.mark.parametrize("strategy", Multitask)
def test_A15_what_is_said_while_a_run_executes_is_done_as_its_strategy_says(
    storage: Storage, strategy: Multitask
) -> None:
    make_thread(storage, "t")
    entered, released = threading.Event(), threading.Event()
    executing: list[str] = []

    def between(state: State) -> None:
        executing.append(f"enter {state['said']}")
        if state["said"] == "A":
            entered.set()
            released.wait()
        executing.append(f"exit {state['said']}")

    worker, other = Worker(storage, two_steps(between), "one"), Worker(storage, two_steps(between), "two")
    say(storage, "a", "A")
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(worker.work)
        entered.wait()
        try:
            if strategy is Multitask.REJECT:
                with pytest.raises(ThreadBusy):
                    say(storage, "b", "B", multitask=strategy)
                assert storage.runs.count(RunQuery()) == 1
            else:
                say(storage, "b", "B", multitask=strategy)
            assert other.take() is None
        finally:
            released.set()
        running.result()
    other.work()
    first, second = ["A 1", "A 2"], ["B 1", "B 2"]
    assert (
        log(worker)
        == {
            Multitask.REJECT: first,
            Multitask.ENQUEUE: first + second,
            Multitask.INTERRUPT: ["A 1", *second],
            Multitask.ROLLBACK: second,
        }[strategy]
    )
    a = storage.runs.get("a")
    assert (None if a is None else a.status) == {
        Multitask.REJECT: RunStatus.SUCCESS,
        Multitask.ENQUEUE: RunStatus.SUCCESS,
        Multitask.INTERRUPT: RunStatus.INTERRUPTED,
        Multitask.ROLLBACK: None,
    }[strategy]
    expected = ["enter A", "exit A"]
    assert executing == expected + ([] if strategy is Multitask.REJECT else ["enter B", "exit B"])
    assert status(storage) is ThreadStatus.IDLE


# ---- A12


def test_A12_a_node_that_blocks_longer_than_the_lease_is_not_executed_twice(
    storage: Storage, clock: ManualClock, tmp_path: Path
) -> None:
    make_thread(storage, "t")
    lines, tick, renewed = tmp_path / "lines", threading.Semaphore(0), threading.Semaphore(0)

    def between(_: State) -> None:
        with lines.open("a") as file:
            file.write("executed\n")
        for _tick in range(20):
            # Twenty leases long, without a word of this thread's own.
            clock.advance(seconds=0.9 * LEASE / SECOND)
            tick.release()
            renewed.acquire()

    worker, other = Worker(storage, two_steps(between), "one"), Worker(storage, two_steps(between), "two")
    say(storage, "a", "A")
    say(storage, "b", "B", delay=100 * LEASE)
    run = worker.take()
    assert run is not None

    def renew() -> None:
        try:
            for _ in range(20):
                tick.acquire()
                assert storage.runs.renew([run.lease], lease=LEASE)[0].alive
                assert storage.runs.reap(max_attempts=3) == []
                assert other.take() is None
                renewed.release()
        finally:
            renewed.release(20)

    with ThreadPoolExecutor(1) as thread:
        renewing = thread.submit(renew)
        ended = worker.execute(run)
        renewing.result()
    assert ended is not None
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 1)
    assert lines.read_text() == "executed\n"
    assert log(worker) == ["A 1", "A 2"]


def test_a_worker_that_lost_its_run_leaves_nothing_of_what_it_does_afterwards(
    storage: Storage, clock: ManualClock
) -> None:
    """The other takes over and finishes while the first is still in its node."""
    make_thread(storage, "t")

    def taken_over(_: State) -> None:
        clock.advance(seconds=LEASE / SECOND)
        (freed,) = storage.runs.reap(max_attempts=3)
        assert freed.status is RunStatus.PENDING
        assert [run.attempt for run in other.work()] == [2]

    other = Worker(storage, two_steps(), "two")
    worker = Worker(storage, two_steps(taken_over), "one")
    say(storage, "a", "A")
    run = worker.take()
    assert run is not None
    assert worker.execute(run) is None
    assert log(worker) == ["A 1", "A 2"]
    ended = storage.runs.get("a")
    assert ended is not None
    assert (ended.status, ended.attempt) == (RunStatus.SUCCESS, 2)
    assert storage.threads.count(ThreadQuery(status=ThreadStatus.IDLE)) == 1
