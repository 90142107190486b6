"""The suite of the queue: what a claim costs while 100,000 runs wait, and how many runs eight workers do."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.contenders import analyze
from benchmarks.measure import WRONG, Line, Options, settle
from benchmarks.progress import bar
from benchmarks.promises import Stopwatch, each_second
from benchmarks.storages import Place, backends, opened, place
from stateroom.contract.runs import NewRun, Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.model.limits import RUN_BATCH_MAX
from stateroom.model.run import Run, RunStatus
from stateroom.model.thread import ThreadStatus

__all__ = ["CLAIM_MOST", "DEPTHS", "RATES", "measure"]

DEPTHS = (100_000,)
QUICK_DEPTH = 300
"""Runs that wait."""

TURNS, QUICK_TURNS = 1_000, 20
"""Runs that one worker does while each call is timed."""

WORKERS, QUICK_WORKERS = 8, 2
EACH, QUICK_EACH = 250, 10
"""Workers at once, and the runs that each does."""

CLAIM_MOST = 2_000
"""Microseconds that a claim may take."""

RATES = {"sqlite": 300, "postgres": 500}
"""Runs that the workers are to claim and settle each second."""

LEASE = 60_000_000
DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE)

ONE_THREAD, THREAD_EACH = "one thread", "a thread each"


class Told(NamedTuple):
    """What a worker says: the seconds that it took, the runs that it did, and how often it got none."""

    seconds: float
    done: list[str]
    empty: int


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite: each storage with all runs on one thread, then with each on a thread of its own."""
    for depth in [QUICK_DEPTH] if options.quick else options.sizes or DEPTHS:
        for backend in backends():
            if not options.wants_backend(backend):
                continue
            for shape in (ONE_THREAD, THREAD_EACH):
                with place(backend, folder, f"queue_{depth}_{shape.split()[-1]}") as where:
                    yield from _measure(options, where, depth, shape)


def _measure(options: Options, where: Place, depth: int, shape: str) -> Iterator[Line]:
    common: dict[str, Any] = {"suite": "queue", "backend": where.backend, "n": depth}
    turns = QUICK_TURNS if options.quick else TURNS
    with opened(where) as storage:
        fill(storage, depth, shape)
        analyze(where.backend)
        settle()
        watch = Stopwatch()
        verdict = _time_calls(storage, watch, depth, shape, turns)
        limits = {} if options.quick else {f"claim, {shape}": CLAIM_MOST}
        for line in watch.lines(limits, **common):
            if options.wants(line.operation):
                yield replace(line, verdict=verdict)
        if shape == THREAD_EACH:
            yield from _measure_workers(options, where, storage, common)


def new_run(number: int, shape: str) -> NewRun:
    """Return a run to be made, and its thread with it."""
    thread_id = "t" if shape == ONE_THREAD else f"t{number:07d}"
    kwargs = {"input": {"messages": [{"role": "user", "content": f"Question {number}"}]}}
    return NewRun(f"r{number:07d}", thread_id, "agent", 1, kwargs, new_thread=NewThread(thread_id))


def fill(storage: Storage, depth: int, shape: str) -> None:
    """Make so many runs, as callers would who make as many at once as they may."""
    with bar(depth) as progress:
        task = progress.add_task(f"queueing: {shape}", total=depth)
        for start in range(0, depth, RUN_BATCH_MAX):
            numbers = range(start, min(start + RUN_BATCH_MAX, depth))
            storage.runs.create([new_run(number, shape) for number in numbers])
            progress.advance(task, len(numbers))


def _time_calls(storage: Storage, watch: Stopwatch, depth: int, shape: str, turns: int) -> str:
    """Do runs one after the other, each replaced by a new one; say whether they came in their order."""
    runs = storage.runs
    # Runs that were made in one call are due at one moment: on threads of their own, they come in any order.
    together = 1 if shape == ONE_THREAD else RUN_BATCH_MAX
    verdict = ""
    for turn in range(turns):
        new = [new_run(depth + turn, shape)]
        watch.call(f"create, {shape}", partial(runs.create, new))
        claimed = watch.call(f"claim, {shape}", partial(runs.claim, "worker", lease=LEASE))
        if [_number(run) // together for run in claimed] != [turn // together]:
            verdict = verdict or f"{WRONG}: turn {turn} got {[run.run_id for run in claimed]}"
        for run in claimed:
            attempt = run.lease
            (renewal,) = watch.call(f"renew, {shape}", partial(runs.renew, [attempt], lease=LEASE))
            verdict = verdict or ("" if renewal.alive else f"{WRONG}: turn {turn} lost its lease")
            watch.call(f"settle, {shape}", partial(runs.settle, attempt, DONE))
    return verdict


def _number(run: Run) -> int:
    return int(run.run_id[1:])


def _measure_workers(
    options: Options, where: Place, storage: Storage, common: dict[str, Any]
) -> Iterator[Line]:
    workers, each = (QUICK_WORKERS, QUICK_EACH) if options.quick else (WORKERS, EACH)
    kind = "processes" if where.backend == "postgres" else "threads"
    operation = f"claim and settle, {workers} {kind}"
    if not options.wants(operation):
        return
    told = (
        _in_processes(where, workers, each)
        if where.backend == "postgres"
        else _in_threads(storage, workers, each)
    )
    done = [run_id for one in told for run_id in one.done]
    statuses = {run.status for run in map(storage.runs.get, done) if run}
    problem = ""
    if len(set(done)) != workers * each or statuses != {RunStatus.SUCCESS}:
        problem = f"{WRONG}: {len(set(done))} of {workers * each} done, {len(done)} times, {statuses}"
    rate = len(done) / max(one.seconds for one in told)
    line = each_second(
        operation, rate, at_least=None if options.quick else RATES[where.backend], verdict=problem, **common
    )
    empty = sum(one.empty for one in told)
    yield replace(line, verdict=f"{line.verdict}; {empty} claims got nothing" if empty else line.verdict)


def work(storage: Storage, name: str, each: int, start: Callable[[], Any]) -> Told:
    """Claim and settle so many runs, together with all other workers."""
    done: list[str] = []
    empty = 0
    start()
    began = time.perf_counter()
    # Whoever finds nothing so often while thousands wait has met a fault.
    while len(done) < each and empty < 100 * each:
        claimed = storage.runs.claim(name, lease=LEASE)
        empty += not claimed
        for run in claimed:
            storage.runs.settle(run.lease, DONE)
            done.append(run.run_id)
    return Told(time.perf_counter() - began, done, empty)


def _in_threads(storage: Storage, workers: int, each: int) -> Sequence[Told]:
    barrier = threading.Barrier(workers)
    with ThreadPoolExecutor(workers) as pool:
        told = [pool.submit(work, storage, f"worker-{one}", each, barrier.wait) for one in range(workers)]
        return [one.result() for one in told]


def _in_processes(where: Place, workers: int, each: int) -> Sequence[Told]:
    context = multiprocessing.get_context("forkserver")
    start, reports = context.Barrier(workers), context.SimpleQueue()
    children = [
        context.Process(target=_process, args=(where, f"worker-{one}", each, start, reports))
        for one in range(workers)
    ]
    for child in children:
        child.start()
    told = [reports.get() for _ in children]
    for child in children:
        child.join()
    return [one for one in told if isinstance(one, Told)] or [Told(1e9, [], 0)]


def _process(where: Place, name: str, each: int, start: Any, reports: Any) -> None:
    told: Told | None = None
    try:
        with opened(where) as storage:
            told = work(storage, name, each, start.wait)
    except BaseException:
        # Nobody is to wait for who will not come.
        start.abort()
        raise
    finally:
        reports.put(told)
