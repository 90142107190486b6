"""The suite of events: when readers see the frames of many runs beside checkpoints, and what they cost."""

from __future__ import annotations

import threading
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from benchmarks.checkpoint_data import BIG, Talk
from benchmarks.measure import WRONG, Line, Options, settle
from benchmarks.promises import Stopwatch, each_second, promised
from benchmarks.storage_queue import LEASE
from benchmarks.storages import backends, opened, place
from stateroom.contract.events import FRAMES_READ
from stateroom.contract.runs import NewRun
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.model.frame import FramePage, NewFrame
from stateroom.model.run import Attempt

__all__ = ["measure"]

RUNS, QUICK_RUNS = 20, 3
RATE = 100
"""Runs that stream at once, and the frames of each in a second."""

SECONDS, QUICK_SECONDS = 10.0, 0.3
WRITERS, QUICK_WRITERS = 4, 1
"""Threads that write checkpoints of 100 kB meanwhile, one after the other."""

FRAME_BYTES = 300
TOGETHER = 20
"""Frames of one append, where several are appended together."""

TURNS, QUICK_TURNS = 1_000, 20
FRAMES, QUICK_FRAMES = 10_000, 600
"""Frames of the run that is read in pages."""

SUBSCRIBED, QUICK_SUBSCRIBED = 1_000, 50
WAIT: Final = 20.0
"""Seconds after which a reader gives up."""


def measure(options: Options, folder: Path) -> Iterator[Line]:
    """Run the suite."""
    for backend in backends():
        if not options.wants_backend(backend):
            continue
        common: dict[str, Any] = {"suite": "events", "backend": backend}
        with place(backend, folder, "events") as where, opened(where) as storage:
            runs = QUICK_RUNS if options.quick else RUNS
            attempts = _executing(storage, runs + 2)
            settle()
            lines = [
                *_measure_streams(options, storage, attempts[:runs], common),
                *_measure_flat_out(options, storage, attempts[:runs], common),
                *_measure_pages(options, storage, attempts[runs], common),
                *_measure_readers(options, storage, attempts[runs + 1], common),
            ]
            yield from (line for line in lines if options.wants(line.operation))


def _executing(storage: Storage, number: int) -> list[Attempt]:
    """Return attempts of as many runs, each on a thread of its own."""
    storage.runs.create(
        [
            NewRun(f"r{each}", f"t{each}", "agent", 1, {}, new_thread=NewThread(f"t{each}"))
            for each in range(number)
        ]
    )
    claimed = storage.runs.claim("worker", lease=60 * LEASE, limit=number)
    return sorted((run.lease for run in claimed), key=lambda attempt: int(attempt.run_id[1:]))


def frame(stamp: int) -> NewFrame:
    """Return a frame that says when it was made, padded to its size."""
    head = b'{"at":%d,"text":"' % stamp
    return NewFrame("messages", head + b"x" * (FRAME_BYTES - len(head) - 2) + b'"}')


def stamp_of(data: bytes) -> int:
    """Return when a frame was made."""
    return int(data[6 : data.index(b",")])


@dataclass
class Reader:
    """Follows the stream of one run as a client's connection does: told of news, it reads what is new."""

    storage: Storage
    run_id: str
    expected: int
    latencies: list[float] = field(default_factory=list)
    seq: int = 0
    problem: str = ""
    _news: threading.Event = field(default_factory=threading.Event)

    def follow(self) -> None:
        """Read until every frame is there, noting the microseconds from the making of each."""
        events = self.storage.events
        end = events.subscribe(self.run_id, self._news.set)
        try:
            while self.seq < self.expected:
                self._news.clear()
                if not self._read(events.read(self.run_id, after=self.seq)) and not self._news.wait(WAIT):
                    self.problem = f"{WRONG}: {self.seq} of {self.expected} frames came"
                    return
        finally:
            end()

    def _read(self, page: FramePage) -> bool:
        now = time.perf_counter_ns()
        for seen in page.frames:
            if seen.seq != self.seq + 1:
                self.problem = f"{WRONG}: frame {seen.seq} after {self.seq}"
            self.seq = seen.seq
            self.latencies.append((now - stamp_of(seen.data)) / 1e3)
        return bool(page.frames)


def _stream(storage: Storage, attempt: Attempt, frames: int) -> float:
    """Append frames at their rate; those that fell due during an append go together with the next one.

    Returns the seconds from the first to the end of the last append.
    """
    began = time.perf_counter_ns()
    due = [began + number * 1_000_000_000 // RATE for number in range(frames)]
    sent = 0
    while sent < frames:
        now = time.perf_counter_ns()
        if now < due[sent]:
            time.sleep((due[sent] - now) / 1e9)
            continue
        ready = [stamp for stamp in due[sent:] if stamp <= now]
        storage.events.append(attempt, [frame(stamp) for stamp in ready])
        sent += len(ready)
    return (time.perf_counter_ns() - began) / 1e9


def _measure_streams(
    options: Options, storage: Storage, attempts: Sequence[Attempt], common: dict[str, Any]
) -> Iterator[Line]:
    """Stream alone, then beside threads that write checkpoints."""
    seconds, writers = (QUICK_SECONDS, QUICK_WRITERS) if options.quick else (SECONDS, WRITERS)
    before = 0
    for many in (0, writers):
        beside = f"{many} writers of 100 kB" if many else "nothing else"
        title = f"{len(attempts)} runs, {RATE} frames/s, beside {beside}"
        if not options.wants(title):
            continue
        frames = int(seconds * RATE)
        readers = [Reader(storage, attempt.run_id, before + frames, seq=before) for attempt in attempts]
        before += frames
        with _Writers(storage, many) as beside_it, ThreadPoolExecutor(2 * len(attempts)) as pool:
            following = [pool.submit(reader.follow) for reader in readers]
            streaming = [pool.submit(_stream, storage, attempt, frames) for attempt in attempts]
            lasted = max(each.result() for each in streaming)
            for each in following:
                each.result()
        watch = Stopwatch()
        watch.spent[f"{title}: made to seen"] = [one for reader in readers for one in reader.latencies]
        problem = next((reader.problem for reader in readers if reader.problem), "")
        n = len(attempts) * frames
        yield from watch.lines({}, **common, n=n)
        # To keep up with all is to append what is made in the time in which it is made.
        asked = None if options.quick else 0.95 * RATE * len(attempts)
        yield each_second(f"{title}: a frame", n / lasted, at_least=asked, verdict=problem, **common, n=n)
        if many:
            yield each_second(f"{title}: a checkpoint", beside_it.rate, **common, n=n)


class _Writers:
    """Threads that write checkpoints one after the other, as long as the block lasts."""

    def __init__(self, storage: Storage, many: int) -> None:
        from stateroom.savers import PostgresSaver, SqliteSaver

        kind: Any = SqliteSaver if "sqlite" in type(storage).__module__ else PostgresSaver
        self.rate = 0.0
        self._done = threading.Event()
        self._written = 0
        self._began = 0.0
        self._pool = ThreadPoolExecutor(max(1, many))
        self._talks = [Talk(kind.over(storage), f"writer-{number}", BIG) for number in range(many)]
        for number in range(many):
            storage.threads.create(NewThread(f"writer-{number}"), if_exists="do_nothing")

    def __enter__(self) -> _Writers:
        self._began = time.perf_counter()
        self._writing = [self._pool.submit(self._write, talk) for talk in self._talks]
        return self

    def __exit__(self, *_error: object) -> None:
        self._done.set()
        written = sum(each.result() for each in self._writing)
        self.rate = max(written, 1) / (time.perf_counter() - self._began)
        self._pool.shutdown()

    def _write(self, talk: Talk) -> int:
        written = 0
        while not self._done.is_set():
            talk.prepare()
            talk.put()
            written += 1
        return written


def _measure_flat_out(
    options: Options, storage: Storage, attempts: Sequence[Attempt], common: dict[str, Any]
) -> Iterator[Line]:
    """Append as fast as can be: one frame at a time, some together, and by all runs at once."""
    turns = QUICK_TURNS if options.quick else TURNS
    events = storage.events
    for together in (1, TOGETHER):
        frames = [frame(0)] * together
        watch = Stopwatch()
        name = f"append {together}"
        for _ in range(turns):
            watch.call(name, partial(events.append, attempts[0], frames))
        yield from watch.lines({}, **common, n=turns)

    def work(attempt: Attempt) -> None:
        for _ in range(max(1, turns // len(attempts))):
            events.append(attempt, [frame(0)] * TOGETHER)

    with ThreadPoolExecutor(len(attempts)) as pool:
        began = time.perf_counter()
        list(pool.map(work, attempts))
        lasted = time.perf_counter() - began
    number = max(1, turns // len(attempts)) * len(attempts) * TOGETHER
    title = f"append {TOGETHER}, {len(attempts)} runs at once: a frame"
    yield each_second(title, number / lasted, **common, n=turns)


def _measure_pages(
    options: Options, storage: Storage, attempt: Attempt, common: dict[str, Any]
) -> Iterator[Line]:
    """Read pages of a long stream, and its end as a reader does who has seen everything."""
    total = QUICK_FRAMES if options.quick else FRAMES
    events = storage.events
    for start in range(0, total, FRAMES_READ):
        events.append(attempt, [frame(0)] * min(FRAMES_READ, total - start))
    watch = Stopwatch()
    verdict = ""
    for turn in range(QUICK_TURNS if options.quick else TURNS // 2):
        after = turn * 37 % (total - FRAMES_READ + 1)
        page = watch.call(f"read {FRAMES_READ}", partial(events.read, attempt.run_id, after=after))
        if [seen.seq for seen in page.frames] != list(range(after + 1, after + 1 + FRAMES_READ)):
            verdict = f"{WRONG}: {len(page.frames)} after {after}"
        watch.call("read, nothing new", partial(events.read, attempt.run_id, after=total))
    yield from watch.lines({}, verdict=verdict, **common, n=total)


def _measure_readers(
    options: Options, storage: Storage, attempt: Attempt, common: dict[str, Any]
) -> Iterator[Line]:
    """Tell what a subscribed reader holds here, and what an append costs when so many are told of it."""
    many = QUICK_SUBSCRIBED if options.quick else SUBSCRIBED
    events = storage.events
    told = [0] * many
    listeners = [_listener(told, number) for number in range(many)]
    events.subscribe(attempt.run_id, listeners[0])()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    ends = [events.subscribe(attempt.run_id, listener) for listener in listeners]
    held = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    yield promised(f"memory of {many:,} subscribed readers", held / 1e3, unit="kB", **common, n=many)
    watch = Stopwatch()
    for _ in range(QUICK_TURNS):
        watch.call(f"append 1, {many:,} readers subscribed", partial(events.append, attempt, [frame(0)]))
    verdict = "" if min(told) >= 1 else f"{WRONG}: {told.count(0)} readers were not told"
    for end in ends:
        end()
    yield from watch.lines({}, verdict=verdict, **common, n=many)


def _listener(told: list[int], number: int) -> Callable[[], None]:
    def woken() -> None:
        told[number] += 1

    return woken
