"""Streams held at random against lists: in SQLite, in Postgres, and in this process."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import ClassVar, TypeVar

import psycopg
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from psycopg import sql
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.events import EventLimits
from stateroom.contract.runs import Settlement
from stateroom.drivers.memory.events import MemoryEvents
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.drivers.sql.storage import MakesEvents, SqlStorage
from stateroom.drivers.sqlite.storage import SqliteStorage
from stateroom.errors import Fenced
from stateroom.model.frame import Frame, FramePage, NewFrame
from stateroom.model.run import ENDED, Attempt, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import LEASE, claim_one, make_run, make_thread

LIMITS = EventLimits(frames_per_run=5, bytes_per_run=30, retained_runs=2)
NONE = parse_index_config(None)

T = TypeVar("T")

frames = st.lists(
    st.builds(NewFrame, st.sampled_from(["values", "messages", ""]), st.binary(max_size=14)), max_size=8
)
large = st.builds(lambda size: [NewFrame("values", b"x" * size)], st.integers(25, 40))
some = st.integers(0, 1_000)


@dataclass
class Stream:
    """What a run should be, and have: all that it ever had, and the first that is kept."""

    run_id: str
    status: RunStatus = RunStatus.PENDING
    attempts: list[Attempt] = field(default_factory=list)
    frames: list[Frame] = field(default_factory=list)
    first: int = 1

    @property
    def kept(self) -> list[Frame]:
        return self.frames[self.first - 1 :]

    def add(self, new: list[NewFrame]) -> None:
        for frame in new:
            self.frames.append(Frame(len(self.frames) + 1, frame.event, frame.data))
        while len(self.kept) > 1 and (
            len(self.kept) > LIMITS.frames_per_run
            or sum(len(frame.data) for frame in self.kept) > LIMITS.bytes_per_run
        ):
            self.first += 1


class EventsMachine(RuleBasedStateMachine):
    """Runs come, are claimed, stream, are taken over, end and go; sweeps come in between."""

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.storage: SqlStorage
        # In the order of their last additions.
        self.streams: dict[str, Stream] = {}
        self.gone: list[Stream] = []

    def open(self) -> SqlStorage:
        """Return an empty storage that goes by the machine's clock."""
        raise NotImplementedError

    @initialize()
    def _open(self) -> None:
        self.storage = self.open()
        self.events = self.storage.events

    @override
    def teardown(self) -> None:
        self.storage.close()

    @precondition(lambda self: len(self.streams) < 6)
    @rule()
    def a_run_is_made(self) -> None:
        name = f"{len(self.streams) + len(self.gone)}"
        make_thread(self.storage, f"t{name}")
        make_run(self.storage, f"r{name}", f"t{name}")
        self.streams[f"r{name}"] = Stream(f"r{name}")

    @rule()
    def a_run_is_claimed(self) -> None:
        run = claim_one(self.storage)
        waiting = [each for each in self.streams.values() if each.status is RunStatus.PENDING]
        assert (run is None) == (not waiting)
        if run is not None:
            assert self.streams[run.run_id] in waiting
            self.streams[run.run_id].status = RunStatus.RUNNING
            self.streams[run.run_id].attempts.append(run.lease)

    @precondition(lambda self: self.running())
    @rule(which=some, new=frames | large)
    def frames_are_added(self, which: int, new: list[NewFrame]) -> None:
        stream = pick(self.running(), which)
        self.clock.advance(seconds=1)
        stream.add(new)
        assert self.events.append(stream.attempts[-1], new) == len(stream.frames)
        self.streams[stream.run_id] = self.streams.pop(stream.run_id)

    @rule(which=some, attempt=some, new=frames)
    def somebody_comes_too_late(self, which: int, attempt: int, new: list[NewFrame]) -> None:
        late = [
            each
            for stream in [*self.streams.values(), *self.gone]
            for each in (stream.attempts[:-1] if stream.status is RunStatus.RUNNING else stream.attempts)
        ]
        if late:
            with pytest.raises(Fenced):
                self.events.append(pick(late, which + attempt), new)

    @precondition(lambda self: self.running())
    @rule(which=some, status=st.sampled_from(sorted(ENDED)))
    def a_run_ends(self, which: int, status: RunStatus) -> None:
        stream = pick(self.running(), which)
        self.storage.runs.settle(stream.attempts[-1], Settlement(status, ThreadStatus.IDLE))
        stream.status = status

    @precondition(lambda self: self.running())
    @rule(which=some)
    def a_run_is_handed_back(self, which: int) -> None:
        stream = pick(self.running(), which)
        self.storage.runs.release(stream.attempts[-1])
        stream.status = RunStatus.PENDING

    @precondition(lambda self: self.running())
    @rule()
    def the_workers_die(self) -> None:
        self.clock.microseconds += LEASE + 1
        freed = self.storage.runs.reap(max_attempts=1_000)
        assert {run.run_id for run in freed} == {stream.run_id for stream in self.running()}
        for stream in self.running():
            stream.status = RunStatus.PENDING

    @precondition(lambda self: self.others())
    @rule(which=some)
    def a_run_is_deleted(self, which: int) -> None:
        stream = pick(self.others(), which)
        self.storage.runs.delete(stream.run_id)
        self._has_gone(stream)

    @precondition(lambda self: self.running())
    @rule(which=some)
    def a_run_is_rolled_back(self, which: int) -> None:
        stream = pick(self.running(), which)
        settlement = Settlement(RunStatus.INTERRUPTED, ThreadStatus.IDLE, roll_back=True)
        self.storage.runs.settle(stream.attempts[-1], settlement)
        self._has_gone(stream)

    def _has_gone(self, stream: Stream) -> None:
        self.gone.append(self.streams.pop(stream.run_id))
        assert self.events.read(stream.run_id) == FramePage([], 1, None)

    @rule(limit=st.integers(0, 4))
    def streams_are_swept(self, limit: int) -> None:
        ended = [each for each in self.streams.values() if each.status in ENDED and each.kept]
        swept = ended[: max(len(ended) - LIMITS.retained_runs, 0)][:limit]
        assert self.events.sweep(limit=limit) == len(swept)
        for stream in swept:
            stream.first = len(stream.frames) + 1

    @precondition(lambda self: self.streams)
    @rule(
        which=some,
        after=st.integers(0, 12),
        limit=st.integers(0, 6),
        enough=st.none() | st.integers(1, 30),
    )
    def a_stream_is_read(self, which: int, after: int, limit: int, enough: int | None) -> None:
        stream = pick(list(self.streams.values()), which)
        expected: list[Frame] = []
        for frame in [frame for frame in stream.kept if frame.seq > after][:limit]:
            if enough is not None and sum(len(each.data) for each in expected) >= enough:
                break
            expected.append(frame)
        page = self.events.read(stream.run_id, after=after, limit=limit, enough_bytes=enough)
        assert page == FramePage(expected, stream.first, stream.status, len(stream.frames))

    @invariant()
    def every_stream_is_as_it_should_be(self) -> None:
        for stream in self.streams.values():
            expected = FramePage(stream.kept, stream.first, stream.status, len(stream.frames))
            assert self.events.read(stream.run_id) == expected

    def running(self) -> list[Stream]:
        return [stream for stream in self.streams.values() if stream.status is RunStatus.RUNNING]

    def others(self) -> list[Stream]:
        return [stream for stream in self.streams.values() if stream.status is not RunStatus.RUNNING]


def pick(choices: list[T], which: int) -> T:
    """Return one of them."""
    return choices[which % len(choices)]


class SqlMachine(EventsMachine):
    """Also looks whether what is counted is what is there."""

    @invariant()
    def what_is_counted_is_there(self) -> None:
        streams, frames = self.storage.dialect.read(
            lambda session: (
                session.fetch("select run_id, first, last, bytes from stateroom.stream order by run_id"),
                session.fetch(
                    "select run_id, min(seq), max(seq), sum(length(data)) from stateroom.frame"
                    " group by run_id order by run_id"
                ),
            )
        )
        assert [stream for stream in streams if stream[1] <= stream[2]] == [tuple(row) for row in frames]
        assert {stream[0] for stream in streams} <= self.streams.keys()


class SqliteMachine(SqlMachine):
    """Streams in SQLite, in memory: the file has the same code."""

    makes_events: ClassVar[MakesEvents | None] = None

    @override
    def open(self) -> SqlStorage:
        storage = SqliteStorage(
            ":memory:", NONE, clock=self.clock, limits=LIMITS, events=type(self).makes_events
        )
        storage.open()
        return storage


class MemoryMachine(SqliteMachine):
    """Streams in this process."""

    makes_events: ClassVar[MakesEvents | None] = MemoryEvents


class PostgresMachine(SqlMachine):
    """Streams in one schema of Postgres, which every history finds empty."""

    uri = ""
    schema = f"history_of_events_{os.getpid()}"

    @override
    def open(self) -> SqlStorage:
        storage = PostgresStorage(
            self.uri, NONE, clock=self.clock, schema=self.schema, limits=LIMITS, pool={"max_size": 1}
        )
        storage.open()
        storage.dialect.write(
            lambda session: session.execute(
                "truncate stateroom.thread, stateroom.run, stateroom.stream, stateroom.frame"
            )
        )
        return storage


@pytest.fixture(scope="module", autouse=True)
def _schema(postgres: str) -> Iterator[None]:
    PostgresMachine.uri = postgres
    yield
    with psycopg.connect(postgres, autocommit=True) as connection:
        connection.execute("set client_min_messages = 'warning'")
        drop = sql.SQL("drop schema if exists {} cascade")
        connection.execute(drop.format(sql.Identifier(PostgresMachine.schema)))


TestSqliteEvents = SqliteMachine.TestCase
TestMemoryEvents = MemoryMachine.TestCase
TestPostgresEvents = PostgresMachine.TestCase
TestPostgresEvents.settings = settings(max_examples=30)
