"""Streams of runs in SQL."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Final

from typing_extensions import override

from stateroom.contract.events import FRAMES_READ, EventLimits, Events
from stateroom.contract.runs import Woken
from stateroom.drivers.sql.dialect import Dialect, Session
from stateroom.drivers.sql.documents import checked_id, checked_text
from stateroom.drivers.sql.event_writing import FrameWriter, drop_frames
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.signals import Signals
from stateroom.errors import InvalidInput, InvalidPage
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.page import ROWS_MAX, check_page
from stateroom.model.run import Attempt, RunStatus
from stateroom.model.text import show

__all__ = [
    "SqlEvents",
    "checked_bytes",
    "checked_frames",
    "checked_place",
    "erase_frames",
    "erase_thread_frames",
    "frames_topic",
    "run_topic",
    "subscribed",
]

FREED_AT_ONCE: Final = 1000
"""Frames that one transaction of a sweep frees at most, since in SQLite others wait for it."""

_SQL: Final = queries("events")


class SqlEvents(Events):
    """Frames in one table, and in another which of them each run has."""

    def __init__(self, dialect: Dialect, signals: Signals, limits: EventLimits) -> None:
        self.limits = limits
        self._dialect = dialect
        self._signals = signals
        self._writer = FrameWriter(dialect, limits)

    @override
    def append(self, attempt: Attempt, frames: Sequence[NewFrame]) -> int:
        checked_id(attempt.run_id, "run_id")
        number = self._writer.append(attempt, checked_frames(frames))
        self._signals.send(frames_topic(attempt.run_id))
        return number

    @override
    def read(
        self, run_id: str, *, after: int = 0, limit: int = FRAMES_READ, enough_bytes: int | None = None
    ) -> FramePage:
        after, limit = checked_place(after, limit)
        asked = {"run_id": checked_id(run_id, "run_id"), "after": after, "limit": limit}
        statement = "read"
        if enough_bytes is not None:
            statement, asked["enough_bytes"] = "read_enough", checked_bytes(enough_bytes)
        # One statement sees one snapshot, and is one round trip.
        rows = self._dialect.read(lambda session: session.fetch(_SQL[statement], asked))
        status, first, last, *_ = rows[0]
        if status is None:
            return FramePage([], 1, None)
        frames = [Frame(*row[3:]) for row in rows if row[3] is not None]
        return FramePage(frames, first or 1, RunStatus(status), last or 0)

    @override
    def last(self, run_id: str) -> Frame | None:
        asked = {"run_id": checked_id(run_id, "run_id")}
        rows = self._dialect.read(lambda session: session.fetch(_SQL["last"], asked))
        return Frame(*rows[0]) if rows else None

    @override
    def subscribe(self, run_id: str, woken: Woken, *, frames: bool = True) -> Callable[[], None]:
        return subscribed(self._signals, run_id, woken, frames=frames)

    @override
    def sweep(self, *, limit: int = 100) -> int:
        limit, _ = check_page(limit, 0)
        return sum(map(self._free, self._dialect.read(lambda session: self._to_free(session, limit))))

    def _to_free(self, session: Session, limit: int) -> list[str]:
        """Return runs whose frames may go: those beyond the latest, then those that are no longer there."""
        latest = {"retained": self.limits.retained_runs}
        boundary = session.fetch(_SQL["boundary"], latest, planned=True)
        updated_at, run_id = boundary[0] if boundary else (-1, "")
        place = {"updated_at": updated_at, "run_id": run_id, "limit": limit}
        rows = session.fetch(_SQL["beyond"], place, planned=True)
        rows += session.fetch(_SQL["orphans"], place, planned=True)
        return [run_id for (run_id,) in rows[:limit]]

    def _free(self, run_id: str) -> bool:
        """Free the frames of a run that never gets more; tell whether the last of them went here."""
        while (left := self._dialect.write(lambda session: _free_some(session, run_id))) is not None:
            if not left:
                return True
        return False


def _free_some(session: Session, run_id: str) -> int | None:
    """Free some frames of a run; return how many are left, None when there is nothing to be done here."""
    kept = session.fetch(_SQL["kept"], {"run_id": run_id})
    if not kept:
        # Swept, or being swept, by another process.
        return None
    ((first, last),) = kept
    freed = min(FREED_AT_ONCE, last - first + 1)
    left: int = last - first + 1 - freed
    drop_frames(session, run_id, first + freed)
    if not left:
        session.execute(_SQL["forget_orphan"], {"run_id": run_id})
    return left


def erase_frames(session: Session, run_ids: Collection[str]) -> None:
    """Remove the streams of runs that are removed in the same transaction."""
    runs = {"run_ids": list(run_ids)}
    session.execute(_SQL["erase_frames"], runs)
    session.execute(_SQL["erase_streams"], runs)


def erase_thread_frames(session: Session, thread_id: str, limit: int) -> bool:
    """Remove at most about ``limit`` rows of the streams of a thread; tell whether none is left."""
    streams = session.fetch(_SQL["streams_of_thread"], {"thread_id": thread_id, "limit": limit + 1})
    erased: list[str] = []
    left = limit
    for run_id, first, last in streams:
        # The row of the stream itself counts too.
        if (left := left - (last - first + 2)) < 0:
            if not erased:
                drop_frames(session, run_id, first + limit)
            break
        erased.append(run_id)
    erase_frames(session, erased)
    return len(erased) == len(streams)


def checked_frames(frames: Sequence[NewFrame]) -> list[NewFrame]:
    """Return frames as they can be kept; raise InvalidInput or LimitExceeded for others."""
    for frame in frames:
        checked_text(frame.event, "event")
        if not isinstance(frame.data, bytes):
            raise InvalidInput(f"data is {show(frame.data)}; pass bytes", field="data")
    return list(frames)


def checked_bytes(enough_bytes: int) -> int:
    """Return how much is enough; raise InvalidPage unless it is an integer from 1 that databases can hold."""
    if not isinstance(enough_bytes, int) or isinstance(enough_bytes, bool) or enough_bytes < 1:
        raise InvalidPage(
            f"enough_bytes is {show(enough_bytes)}; pass a number of bytes from 1, or None",
            field="enough_bytes",
        )
    return min(enough_bytes, ROWS_MAX)


def checked_place(after: int, limit: int) -> tuple[int, int]:
    """Return both as every database can count to them; raise InvalidPage unless they are integers from 0."""
    if not isinstance(after, int) or isinstance(after, bool) or after < 0:
        raise InvalidPage(f"after is {show(after)}; pass the number of a frame, or 0", field="after")
    limit, _ = check_page(limit, 0)
    return min(after, ROWS_MAX), limit


def subscribed(signals: Signals, run_id: str, woken: Woken, *, frames: bool) -> Callable[[], None]:
    """Do what ``Events.subscribe`` does."""
    checked_id(run_id, "run_id")
    topics = [run_topic(run_id), frames_topic(run_id)] if frames else [run_topic(run_id)]
    stops = [signals.subscribe(topic, woken) for topic in topics]

    def stop() -> None:
        for each in stops:
            each()

    return stop


def frames_topic(run_id: str) -> str:
    """Return what is sent when a run may have more frames."""
    return f"frames:{run_id}"


def run_topic(run_id: str) -> str:
    return f"run:{run_id}"
