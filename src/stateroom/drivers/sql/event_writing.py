"""Adding frames: threads that do so at the same time share commits."""

from __future__ import annotations

import os
import threading
from collections import Counter, deque
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from stateroom.contract.events import EventLimits
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.queries import queries
from stateroom.errors import Fenced, Unavailable
from stateroom.model.frame import NewFrame
from stateroom.model.run import Attempt

__all__ = ["FrameWriter", "drop_frames"]

TOGETHER_BYTES: Final = 1024 * 1024
"""What is larger is written by itself, so that nobody else waits for it."""

ROWS_AT_ONCE: Final = 64
"""Rows that one statement inserts at most."""

LENGTHS_FIRST: Final = 8
"""Lengths of old frames that are looked up first; each further look takes twice as many."""

_SQL: Final = queries("events")

_COUNT_IN: Final = (
    "insert into stateroom.stream as s (run_id, thread_id, first, last, bytes, updated_at) values ",
    # In whole seconds, so that its index seldom changes.
    "(:run_id{n}, :thread_id{n}, 1, :frames{n}, :bytes{n}, :now / 1000000 * 1000000)",
    " on conflict (run_id) do update set last = s.last + excluded.last, bytes = s.bytes + excluded.bytes,"
    " updated_at = excluded.updated_at returning run_id, first, last, bytes",
)
_INSERT: Final = (
    "insert into stateroom.frame (run_id, seq, event, data) values ",
    "(:run_id{n}, :seq{n}, :event{n}, :data{n})",
    "",
)


class _Ticket:
    """What one thread wants written, and, once ``done``, what came of it.

    ``outcome`` is the last frame's number or an error; None when the ticket has to be written alone.
    """

    __slots__ = ("attempt", "bytes", "done", "frames", "outcome", "woken")

    def __init__(self, attempt: Attempt, frames: Sequence[NewFrame]) -> None:
        self.attempt = attempt
        self.frames = frames
        self.bytes = sum(len(frame.data) for frame in frames)
        self.woken = threading.Event()
        self.done = False
        self.outcome: int | Unavailable | None = None

    @property
    def lease(self) -> tuple[str, int]:
        """The run and the fence under which it is written."""
        return self.attempt.run_id, self.attempt.fence

    def rows(self, last: int) -> Iterator[dict[str, Any]]:
        """Return the rows of the frames, given the number of the last one."""
        for seq, frame in enumerate(self.frames, last - len(self.frames) + 1):
            yield {"run_id": self.attempt.run_id, "seq": seq, "event": frame.event, "data": frame.data}


class _Stream(NamedTuple):
    """Which frames of a run are kept, and how many bytes they have."""

    run_id: str
    first: int
    last: int
    bytes: int


class FrameWriter:
    """Adds frames: at once when nobody else does, and otherwise those of all who wait in one transaction.

    One thread at a time leads. As soon as its transaction has begun, it takes along all that has come by
    then. It waits for no run that another transaction has locked: whose run that is waits by himself, and
    learns so too whether he still has it.
    """

    def __init__(self, dialect: Dialect, limits: EventLimits) -> None:
        self._dialect = dialect
        self._limits = limits
        self._begin()

    def _begin(self) -> None:
        """Forget the threads of a parent process, one of which may have led as it forked."""
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._waiting: deque[_Ticket] = deque()
        self._led = False

    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        """Add frames, all or none; return the number of the last. ``Fenced`` when the attempt is over."""
        if self._process != os.getpid():
            self._begin()
        ticket = _Ticket(attempt, frames)
        if ticket.bytes <= TOGETHER_BYTES:
            self._write_together(ticket)
        if ticket.outcome is None:
            return self._write_alone(ticket)
        if isinstance(ticket.outcome, Unavailable):
            # Others raise it too, each from a place of their own.
            raise Unavailable(str(ticket.outcome)) from ticket.outcome
        return ticket.outcome

    def _write_alone(self, ticket: _Ticket) -> int:
        def work(session: Session) -> int:
            (number,) = _written(session, [ticket], self._limits, "current")
            if number is None:
                raise Fenced(f"run {ticket.attempt.run_id!r} is no longer this attempt's: stop executing it")
            return number

        return self._dialect.write(work)

    def _write_together(self, ticket: _Ticket) -> None:
        """Queue up, and lead as soon as nobody does, unless somebody has written the ticket by then."""
        with self._lock:
            self._waiting.append(ticket)
            leads = self._leads()
        while not leads:
            self._wait(ticket)
            with self._lock:
                if ticket.done:
                    return
                ticket.woken.clear()
                leads = self._leads()
        self._lead()

    def _leads(self) -> bool:
        """Begin to lead and return True, unless another thread does; to be called with the lock."""
        leads = not self._led
        self._led = True
        return leads

    def _wait(self, ticket: _Ticket) -> None:
        try:
            ticket.woken.wait()
        except BaseException:
            with self._lock:
                if ticket in self._waiting:
                    self._waiting.remove(ticket)
                self._wake_next()
            raise

    def _wake_next(self) -> None:
        """Have one who waits lead, unless one who just comes is faster; to be called with the lock."""
        if self._waiting and not self._led:
            self._waiting[0].woken.set()

    def _lead(self) -> None:
        taken: list[_Ticket] = []
        outcomes: Sequence[int | Unavailable | None] = ()

        def work(session: Session) -> list[int | None]:
            self._take(taken)
            return _written(session, taken, self._limits, "current_at_once")

        try:
            outcomes = self._dialect.write(work)
        except Unavailable as error:
            self._take(taken)
            outcomes = [error] * len(taken)
        except Exception:  # whose it is shows when each stands alone
            self._take(taken)
            outcomes = [None] * len(taken)
        except BaseException:
            self._take(taken)
            outcomes = [Unavailable("the thread that wrote was interrupted: see what is there")] * len(taken)
            raise
        finally:
            with self._lock:
                for ticket, outcome in zip(taken, outcomes, strict=True):
                    ticket.outcome = outcome
                    ticket.done = True
                    ticket.woken.set()
                self._led = False
                self._wake_next()

    def _take(self, taken: list[_Ticket]) -> None:
        with self._lock:
            taken.extend(self._waiting)
            self._waiting.clear()


def _written(
    session: Session, tickets: Sequence[_Ticket], limits: EventLimits, current: str
) -> list[int | None]:
    """Write what several want; return the last number of each, None for those that are not ``current``."""
    run_ids = list({ticket.attempt.run_id for ticket in tickets})
    threads = {
        (run_id, fence): thread_id
        for run_id, fence, thread_id in session.fetch(_SQL[current], {"run_ids": run_ids})
    }
    kept = [ticket for ticket in tickets if ticket.lease in threads]
    streams = _counted(session, kept, {run_id: thread_id for (run_id, _), thread_id in threads.items()})
    ends = {stream.run_id: stream.last for stream in streams}
    lasts: dict[_Ticket, int] = {}
    for ticket in reversed(kept):
        lasts[ticket] = ends[ticket.attempt.run_id]
        ends[ticket.attempt.run_id] -= len(ticket.frames)
    for sql, parameters in _statements(_INSERT, [row for t in kept for row in t.rows(lasts[t])]):
        session.execute(sql, parameters)
    for stream in streams:
        _trim(session, stream, limits)
    return [lasts.get(ticket) for ticket in tickets]


def _counted(session: Session, tickets: Sequence[_Ticket], threads: Mapping[str, str]) -> list[_Stream]:
    """Count frames in that are about to be written; return what the streams are then.

    Whoever adds frames to the same run waits here until the transaction is over.
    """
    frames: Counter[str] = Counter()
    size: Counter[str] = Counter()
    for ticket in tickets:
        frames[ticket.attempt.run_id] += len(ticket.frames)
        size[ticket.attempt.run_id] += ticket.bytes
    rows = [
        {"run_id": run_id, "thread_id": threads[run_id], "frames": frames[run_id], "bytes": size[run_id]}
        # In one order, so that no two transactions wait for each other.
        for run_id in sorted(frames)
    ]
    return [
        _Stream(*row)
        for sql, parameters in _statements(_COUNT_IN, rows)
        for row in session.fetch(sql, parameters)
    ]


def _statements(
    parts: tuple[str, str, str], rows: Sequence[Mapping[str, Any]]
) -> Iterator[tuple[str, dict[str, Any]]]:
    """Return statements that insert rows, and their parameters: few different ones, to be planned once."""
    start = 0
    while start < len(rows):
        count = min(ROWS_AT_ONCE, 1 << ((len(rows) - start).bit_length() - 1))
        chunk = rows[start : start + count]
        yield _statement(parts, count), {f"{k}{n}": v for n, row in enumerate(chunk) for k, v in row.items()}
        start += count


@cache
def _statement(parts: tuple[str, str, str], count: int) -> str:
    head, row, tail = parts
    return head + ", ".join(row.format(n=n) for n in range(count)) + tail


def _trim(session: Session, stream: _Stream, limits: EventLimits) -> None:
    """Drop the oldest frames beyond the limits, never the last."""
    first = max(stream.first, stream.last - limits.frames_per_run + 1)
    if stream.bytes > limits.bytes_per_run:
        first = max(first, _first_within(session, stream, limits.bytes_per_run))
    first = min(first, stream.last)
    if first > stream.first:
        drop_frames(session, stream.run_id, first)


def _first_within(session: Session, stream: _Stream, most: int) -> int:
    """Return the frame from which on a stream has at most so many bytes."""
    first, size, looked = stream.first, stream.bytes, LENGTHS_FIRST
    while size > most and first <= stream.last:
        place = {"run_id": stream.run_id, "first": first, "most": looked}
        for (length,) in session.fetch(_SQL["lengths"], place):
            if size <= most:
                break
            size -= length
            first += 1
        looked *= 2
    return first


def drop_frames(session: Session, run_id: str, first: int) -> None:
    """Remove the frames of a run before number ``first``."""
    dropped = session.fetch(_SQL["drop_frames"], {"run_id": run_id, "first": first})
    counted = {"run_id": run_id, "first": first, "dropped": sum(length for (length,) in dropped)}
    session.execute(_SQL["drop_counted"], counted)
