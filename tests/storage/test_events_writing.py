"""How frames are written: commits that are shared, runs that wait for none, and what is freed in steps."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, TypeVar

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.events import EventLimits
from stateroom.drivers.sql import event_writing, events
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.events import SqlEvents, erase_frames, erase_thread_frames
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import Fenced, Unavailable
from stateroom.model.frame import FramePage, NewFrame
from stateroom.model.run import Attempt
from stateroom.testing.parts.storage_events import data, new, numbers, settle, stream
from stateroom.testing.storage_harness import MEETING_SECONDS, OpensStorage

T = TypeVar("T")

APPENDERS = 12


class Watched(Dialect):
    """A dialect whose writes are counted, and done as ``doing`` says."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self.writes = 0
        self.doing: Callable[[Callable[[], Any]], Any] = lambda write: write()

    @override
    def read(self, work: Callable[[Session], T]) -> T:
        return self._dialect.read(work)

    @override
    def read_together(self, work: Callable[[Session], T]) -> T:
        return self._dialect.read_together(work)

    @override
    def write(self, work: Callable[[Session], T], *, repeats: bool = False) -> T:
        # Adding frames twice would add them twice.
        assert not repeats
        self.writes += 1
        return self.doing(lambda: self._dialect.write(work))  # type: ignore[no-any-return]


class Undone(Exception):
    """What undoes a transaction."""


@pytest.fixture
def storage(any_storage: OpensStorage, clock: ManualClock) -> Iterator[SqlStorage]:
    storage = any_storage(clock=clock)
    assert isinstance(storage, SqlStorage)
    storage.open()
    yield storage
    storage.close()


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def watched(storage: SqlStorage) -> Watched:
    return Watched(storage.dialect)


@pytest.fixture
def streams(storage: SqlStorage, watched: Watched) -> SqlEvents:
    """Return streams that are written through the watched dialect."""
    return SqlEvents(watched, storage.signals, EventLimits())


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(APPENDERS + 1) as threads:
        yield threads


class Held:
    """A first write that goes on only when it is told to."""

    def __init__(self, watched: Watched) -> None:
        self._begun, self._goes_on = threading.Event(), threading.Event()
        self._watched = watched
        watched.doing = self._hold

    def _hold(self, write: Callable[[], Any]) -> Any:
        self._watched.doing = lambda write: write()
        self._begun.set()
        assert self._goes_on.wait(MEETING_SECONDS)
        return write()

    def wait(self) -> None:
        """Wait until it has begun."""
        assert self._begun.wait(MEETING_SECONDS)

    def go_on(self) -> None:
        self._goes_on.set()


def queued(streams: SqlEvents, number: int) -> None:
    """Wait until so many have queued up."""
    pause = threading.Event()
    while len(streams._writer._waiting) < number:
        pause.wait(0.001)


def begin(
    threads: ThreadPoolExecutor, streams: SqlEvents, held: Held, attempts: list[Attempt]
) -> list[Future[int]]:
    """Have each attempt add a frame, the first of them before the others; return when all wait."""
    first = threads.submit(streams.append, attempts[0], new(0))
    held.wait()
    others = [threads.submit(streams.append, each, new(n)) for n, each in enumerate(attempts[1:], 1)]
    queued(streams, len(attempts))
    return [first, *others]


def outcomes(appending: list[Future[int]]) -> list[Any]:
    """Return what came of each: a number or an error's kind."""
    errors = [each.exception() for each in appending]
    return [
        each.result() if error is None else type(error) for each, error in zip(appending, errors, strict=True)
    ]


def test_who_is_alone_commits_at_once_and_once(
    storage: SqlStorage, streams: SqlEvents, watched: Watched
) -> None:
    attempt = stream(storage)
    for number in range(1, 4):
        assert streams.append(attempt, new("a", "b")) == 2 * number
        assert watched.writes == number


def test_who_gets_the_writer_writes_for_everybody_who_waits(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    held = Held(watched)
    appending = begin(threads, streams, held, attempts)
    held.go_on()
    assert outcomes(appending) == [1] * APPENDERS
    assert watched.writes == 1
    for number in range(APPENDERS):
        assert data(streams.read(f"r{number}")) == [str(number)]


def test_who_comes_while_others_commit_goes_with_the_next(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    committed, goes_on = threading.Event(), threading.Event()

    def hold_after(write: Callable[[], Any]) -> Any:
        watched.doing = lambda write: write()
        result = write()
        committed.set()
        assert goes_on.wait(MEETING_SECONDS)
        return result

    watched.doing = hold_after
    first = threads.submit(streams.append, attempts[0], new(0))
    assert committed.wait(MEETING_SECONDS)
    others = [threads.submit(streams.append, each, new("a")) for each in attempts[1:]]
    queued(streams, APPENDERS - 1)
    goes_on.set()
    assert outcomes([first, *others]) == [1] * APPENDERS
    assert watched.writes == 2


def test_one_attempt_that_is_over_fails_alone(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    for number in (0, 5):
        settle(storage, attempts[number])
    held = Held(watched)
    appending = begin(threads, streams, held, attempts)
    held.go_on()
    assert outcomes(appending) == [Fenced if number in (0, 5) else 1 for number in range(APPENDERS)]


def test_several_writers_of_one_run_keep_their_order_in_one_commit(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempt = stream(storage)
    stale = attempt._replace(fence=attempt.fence + 1)
    held = Held(watched)
    appending = begin(threads, streams, held, [attempt, stale, attempt, attempt])
    held.go_on()
    first, refused, *others = outcomes(appending)
    assert (first, refused, sorted(map(str, others))) == (1, Fenced, ["2", "3"])
    assert [data(streams.read("r"))[number - 1] for number in (1, *others)] == ["0", "2", "3"]


@pytest.mark.parametrize("failure", [Unavailable("gone"), KeyboardInterrupt()], ids=["gone", "interrupted"])
def test_a_commit_that_fails_fails_for_all_who_share_it(
    storage: SqlStorage,
    streams: SqlEvents,
    watched: Watched,
    threads: ThreadPoolExecutor,
    failure: BaseException,
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    held = Held(watched)
    hold = watched.doing

    def fail(_: Callable[[], Any]) -> Any:
        hold(lambda: None)
        raise failure

    watched.doing = fail
    appending = begin(threads, streams, held, attempts)
    held.go_on()
    assert outcomes(appending) == [type(failure)] + [Unavailable] * (APPENDERS - 1)
    assert [streams.append(attempt, new("a")) for attempt in attempts] == [1] * APPENDERS


def test_after_any_other_failure_each_stands_alone(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    held = Held(watched)
    hold = watched.doing

    def fail(_: Callable[[], Any]) -> Any:
        hold(lambda: None)
        raise ValueError("too much")

    watched.doing = fail
    appending = begin(threads, streams, held, attempts)
    held.go_on()
    assert outcomes(appending) == [1] * APPENDERS
    assert watched.writes == 1 + APPENDERS


def test_a_failure_before_the_transaction_is_the_callers(streams: SqlEvents, watched: Watched) -> None:
    def fail(_: Callable[[], Any]) -> Any:
        raise ValueError("no such file")

    watched.doing = fail
    for _ in range(2):
        with pytest.raises(ValueError, match="no such file"):
            streams.append(Attempt("r", "t", 1), new("a"))


def test_a_transaction_that_was_undone_is_done_again(
    storage: SqlStorage, streams: SqlEvents, watched: Watched
) -> None:
    attempt = stream(storage)

    def twice(work: Callable[[Session], Any]) -> Any:
        def undone(session: Session) -> None:
            work(session)
            raise Undone

        with pytest.raises(Undone):
            storage.dialect.write(undone)
        return storage.dialect.write(work)

    watched.write = lambda work, **_: twice(work)  # type: ignore[method-assign]
    assert streams.append(attempt, new("a", "b")) == 2
    assert streams.append(attempt, new("c")) == 3
    assert data(streams.read("r")) == ["a", "b", "c"]


@pytest.mark.parametrize("leads", [False, True])
def test_a_waiting_thread_that_is_interrupted_leaves_the_queue(
    storage: SqlStorage,
    streams: SqlEvents,
    watched: Watched,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
    leads: bool,
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(3)]
    committed, goes_on = threading.Event(), threading.Event()

    class Interrupted(threading.Event):
        """Interrupts who waits, before or after it is set."""

        @override
        def wait(self, timeout: float | None = None) -> bool:
            if leads:
                super().wait(timeout)
            raise KeyboardInterrupt

    def hold_after(write: Callable[[], Any]) -> Any:
        watched.doing = lambda write: write()
        result = write()
        committed.set()
        assert goes_on.wait(MEETING_SECONDS)
        return result

    watched.doing = hold_after
    first = threads.submit(streams.append, attempts[0], new(0))
    assert committed.wait(MEETING_SECONDS)
    with monkeypatch.context() as patch:
        patch.setattr(threading, "Event", Interrupted)
        second_ticket = event_writing._Ticket(attempts[1], new(1))
    second = threads.submit(streams._writer._write_together, second_ticket)
    if leads:
        queued(streams, 1)
    else:
        assert isinstance(second.exception(), KeyboardInterrupt)
    third = threads.submit(streams.append, attempts[2], new(2))
    queued(streams, 1 + leads)
    goes_on.set()
    assert outcomes([first, third]) == [1, 1]
    assert isinstance(second.exception(), KeyboardInterrupt)
    assert streams.read("r1").frames == []
    assert streams.append(attempts[1], new("a")) == 1


def test_what_is_large_is_written_by_itself(
    storage: SqlStorage,
    streams: SqlEvents,
    watched: Watched,
    threads: ThreadPoolExecutor,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(event_writing, "TOGETHER_BYTES", 10)
    attempts = [stream(storage, f"r{number}") for number in range(3)]
    held = Held(watched)
    appending = begin(threads, streams, held, attempts[:2])
    # The two that wait do not hold it up.
    assert streams.append(attempts[2], new(b"x" * 11)) == 1
    assert watched.writes == 2
    held.go_on()
    assert outcomes(appending) == [1, 1]
    assert watched.writes == 2


@pytest.mark.parametrize("any_storage", ["postgres"], indirect=True)
def test_a_run_that_another_transaction_has_locked_holds_up_no_other(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, threads: ThreadPoolExecutor
) -> None:
    attempts = [stream(storage, f"r{number}") for number in range(APPENDERS)]
    held = Held(watched)
    locked, goes_on = threading.Event(), threading.Event()

    def lock(session: Session) -> None:
        session.fetch("select 1 from stateroom.run where run_id in ('r2', 'r5') {lock}")
        locked.set()
        assert goes_on.wait(MEETING_SECONDS)

    locking = threads.submit(storage.dialect.write, lock)
    assert locked.wait(MEETING_SECONDS)
    appending = begin(threads, streams, held, attempts)
    held.go_on()
    free = [each for number, each in enumerate(appending) if number not in (2, 5)]
    assert outcomes(free) == [1] * (APPENDERS - 2)
    assert not appending[2].done()
    assert not appending[5].done()
    goes_on.set()
    locking.result()
    assert outcomes(appending) == [1] * APPENDERS


def rows(storage: SqlStorage) -> tuple[list[Any], list[Any]]:
    """Return the streams, and of each run the frames that there are."""
    return storage.dialect.read(
        lambda session: (
            session.fetch("select run_id, first, last, bytes from stateroom.stream order by run_id"),
            session.fetch(
                "select run_id, min(seq), max(seq), sum(length(data)) from stateroom.frame"
                " group by run_id order by run_id"
            ),
        )
    )


def test_a_sweep_frees_long_streams_in_steps(
    storage: SqlStorage, streams: SqlEvents, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FREED_AT_ONCE", 4)
    streams.limits = EventLimits(retained_runs=0)
    attempt = stream(storage)
    streams.append(attempt, new(*range(10, 20)))
    settle(storage, attempt)
    seen = []

    def look(write: Callable[[], Any]) -> Any:
        result = write()
        seen.append((streams.read("r").first, numbers(streams.read("r"))))
        assert rows(storage)[0][0][1:] == (seen[-1][0], 10, 2 * len(seen[-1][1]))
        return result

    watched.doing = look
    assert streams.sweep() == 1
    assert seen == [(5, [*range(5, 11)]), (9, [9, 10]), (11, [])]
    assert rows(storage) == ([("r", 11, 10, 0)], [])


def test_a_sweep_takes_streams_along_whose_runs_are_gone(
    storage: SqlStorage, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(events, "FREED_AT_ONCE", 1)
    for run_id in ("a", "b", "c", "d"):
        clock.advance(seconds=1)
        attempt = stream(storage, run_id)
        storage.events.append(attempt, new("a", "b"))
        if run_id != "d":
            settle(storage, attempt)
    # The database lost them in ways that are not ours; d was running.
    storage.dialect.write(
        lambda session: session.execute("delete from stateroom.run where run_id in ('a', 'c', 'd')")
    )
    for run_id in ("a", "c", "d"):
        assert storage.events.read(run_id) == FramePage([], 1, None)
    assert storage.events.sweep(limit=1) == 1
    assert storage.events.sweep() == 2
    assert rows(storage) == ([("b", 1, 2, 2)], [("b", 1, 2, 2)])


def test_a_sweep_keeps_to_its_limit_whatever_it_frees(storage: SqlStorage, streams: SqlEvents) -> None:
    streams.limits = EventLimits(retained_runs=0)
    for run_id in ("a", "b"):
        attempt = stream(storage, run_id)
        streams.append(attempt, new("a"))
        settle(storage, attempt)
    storage.dialect.write(lambda session: session.execute("delete from stateroom.run where run_id = 'b'"))
    assert [streams.sweep(limit=1) for _ in range(3)] == [1, 1, 0]


def test_a_thread_that_is_being_deleted_has_no_streams(storage: SqlStorage) -> None:
    attempt = stream(storage)
    storage.events.append(attempt, new("a"))
    # Its runs go later, in steps.
    storage.dialect.write(lambda session: session.execute("delete from stateroom.thread"))
    assert storage.events.read("r") == FramePage([], 1, None)
    for frames in (new("b"), [NewFrame("values", b"x" * (event_writing.TOGETHER_BYTES + 1))]):
        with pytest.raises(Fenced):
            storage.events.append(attempt, frames)
    assert rows(storage) == ([("r", 1, 1, 1)], [("r", 1, 1, 1)])


def test_what_the_limits_drop_is_counted(any_storage: OpensStorage, clock: ManualClock) -> None:
    storage = any_storage(clock=clock, limits=EventLimits(frames_per_run=6, bytes_per_run=50))
    assert isinstance(storage, SqlStorage)
    storage.open()
    attempt = stream(storage)
    for size in (3, 1, 4, 1, 5, 9, 2, 6, 50, 3, 5, 8, 51, 9, 7, 9):
        storage.events.append(attempt, [NewFrame("values", b"x" * size)] * (size % 4))
        assert rows(storage)[0] == rows(storage)[1]
        ((_, first, last, size),) = rows(storage)[0]
        assert last - first < 6
        assert size <= 50 or first == last
    storage.close()


def test_streams_are_erased_by_their_runs(storage: SqlStorage) -> None:
    for run_id in ("a", "b", "c"):
        storage.events.append(stream(storage, run_id), new("x", "y"))
    storage.dialect.write(lambda session: erase_frames(session, {"a", "c", "nowhere"}))
    storage.dialect.write(lambda session: erase_frames(session, []))
    assert rows(storage) == ([("b", 1, 2, 2)], [("b", 1, 2, 2)])


@pytest.mark.parametrize("limit", [1, 2, 5, 100])
def test_streams_are_erased_by_their_thread_in_steps(storage: SqlStorage, limit: int) -> None:
    for run_id in ("a", "b", "c", "other"):
        storage.events.append(stream(storage, run_id), new(*range(6)))
    stream(storage, "empty")

    def number(session: Session) -> int:
        session.execute("update stateroom.stream set thread_id = 't' where run_id <> 'other'")
        ((frames,),) = session.fetch("select count(*) from stateroom.frame")
        ((streams,),) = session.fetch("select count(*) from stateroom.stream")
        return int(frames + streams)

    left = [storage.dialect.write(number)]
    done = False
    while not done:
        done = storage.dialect.write(lambda session: erase_thread_frames(session, "t", limit))
        left.append(storage.dialect.write(number))
        assert left[-1] >= left[-2] - limit
        assert done or left[-1] < left[-2]
        assert rows(storage)[1] == [row for row in rows(storage)[0] if row[1] <= row[2]]
    assert rows(storage)[0] == [("other", 1, 6, 6)]
    assert storage.dialect.write(lambda session: erase_thread_frames(session, "t", limit))


def test_a_child_that_was_forked_while_a_thread_led_adds_frames(
    any_storage: OpensStorage, monkeypatch: pytest.MonkeyPatch
) -> None:
    storage = any_storage(clock=ManualClock())
    storage.open()
    attempt = stream(storage, "r")
    # What the child finds of its parent: somebody leads, who is not there.
    writer = vars(storage.events)["_writer"]
    monkeypatch.setattr(writer, "_led", True)
    monkeypatch.setattr(writer, "_process", -1)
    assert storage.events.append(attempt, new("a")) == 1
    storage.close()
