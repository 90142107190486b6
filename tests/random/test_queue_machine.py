"""Workers, clocks and crashes at random: what is true of the queue after each step, read from its tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from typing import ClassVar, NamedTuple

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.runs import NewRun, RunQuery, Settlement
from stateroom.contract.threads import NewThread
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.errors import Conflict, Fenced, ThreadBusy
from stateroom.model.run import ENDED, Attempt, CancelAction, Multitask, Run, RunStatus, may_become
from stateroom.model.thread import ThreadStatus
from tests.random.storages import histories, in_file, in_memory, in_postgres, machine_of

SECOND = 1_000_000
LEASE = 10 * SECOND
ATTEMPTS = 2
THREADS = ("a", "b", "c")
WORKERS = ("w", "x", "y")
SECRET = {"token": "secret"}

threads = st.sampled_from(THREADS)
workers = st.sampled_from(WORKERS)
actions = st.sampled_from(CancelAction)
delays = st.sampled_from((0, 0, SECOND, 5 * SECOND))
picks = st.integers(0, 9)

OPEN = (RunStatus.PENDING, RunStatus.RUNNING)


class Row(NamedTuple):
    """A run as its table has it."""

    run_id: str
    seq: int
    thread_id: str
    status: str
    available_at: int
    attempt: int
    fence: int
    has_lease: bool
    has_private: bool


@dataclass
class Made:
    """What is known of a run that was made: its status when it was last looked at, and its claims."""

    thread_id: str
    status: str = RunStatus.PENDING
    counted: int = 0
    fences: set[int] = field(default_factory=set)


class QueueMachine(RuleBasedStateMachine):
    """The queue of one storage, whose every row is checked after each step."""

    make: ClassVar[Callable[[ManualClock, ExitStack], SqlStorage]]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.stack = ExitStack()
        self.storage = type(self).make(self.clock, self.stack)
        self.numbers = count()
        self.made: dict[str, Made] = {}
        self.held: dict[str, list[Run]] = {worker: [] for worker in WORKERS}
        self.lost: list[Attempt] = []
        self.gone: set[str] = set()

    @override
    def teardown(self) -> None:
        self.stack.close()

    @initialize()
    def open(self) -> None:
        self.storage.open()
        for thread_id in THREADS:
            self.storage.threads.create(NewThread(thread_id))

    # ---- what is there

    def rows(self) -> list[Row]:
        """Return all runs in the order of their creation."""
        statement = (
            "select run_id, seq, thread_id, status, available_at, attempt, fence, lease_until is not null, "
            "private is not null from stateroom.run order by seq"
        )
        return [Row(*row) for row in self.storage.dialect.read(lambda session: session.fetch(statement))]

    def line(self, thread_id: str, *, due: bool = False) -> list[Row]:
        """Return the pending runs of a thread in the order in which they are to be executed."""
        pending = [row for row in self.rows() if row[2:4] == (thread_id, RunStatus.PENDING)]
        ordered = sorted(pending, key=lambda row: (row.available_at, row.seq))
        return [row for row in ordered if row.available_at <= self.clock()] if due else ordered

    def running(self) -> dict[str, Row]:
        """Return the runs that are executing by their threads."""
        return {row.thread_id: row for row in self.rows() if row.status == RunStatus.RUNNING}

    def forget(self, runs: Sequence[str]) -> None:
        """Expect that runs are gone."""
        self.gone.update(runs)

    # ---- what callers do

    @rule(
        thread_id=threads,
        multitasks=st.lists(st.tuples(st.sampled_from(Multitask), delays), min_size=1, max_size=3),
    )
    def create(self, thread_id: str, multitasks: list[tuple[Multitask, int]]) -> None:
        new = [
            NewRun(
                f"r{next(self.numbers)}",
                thread_id,
                "a",
                1,
                {},
                private=SECRET,
                multitask=multitask,
                delay=delay,
                new_thread=NewThread(thread_id),
            )
            for multitask, delay in multitasks
        ]
        active = [row.run_id for row in self.line(thread_id, due=True)]
        removed: list[str] = []
        is_busy = thread_id in self.running()
        refused = False
        for each in new:
            refused = refused or (each.multitask is Multitask.REJECT and bool(active or is_busy))
            if each.multitask is Multitask.ROLLBACK:
                removed += active
            if each.multitask in (Multitask.ROLLBACK, Multitask.INTERRUPT):
                active = []
            if not each.delay:
                active.append(each.run_id)
        try:
            runs = self.storage.runs.create(new)
        except ThreadBusy:
            assert refused
            return
        assert not refused
        assert [run.run_id for run in runs] == [each.run_id for each in new]
        self.made.update((run.run_id, Made(thread_id)) for run in runs)
        self.forget(removed)

    @rule(thread_id=threads, pick=picks, action=actions)
    def cancel(self, thread_id: str, pick: int, action: CancelAction) -> None:
        rows = [row for row in self.rows() if row.thread_id == thread_id][pick : pick + 2]
        statuses = {row.run_id: row.status for row in rows}
        query = RunQuery(thread_id, list(statuses))
        cancelled = self.storage.runs.cancel(query, action)
        assert [(run.run_id, run.ended) for run in cancelled] == [
            (run_id, status == RunStatus.PENDING) for run_id, status in statuses.items() if status in OPEN
        ]
        if action is CancelAction.ROLLBACK:
            self.forget([run.run_id for run in cancelled if run.ended])

    @rule(pick=st.integers(0, 30))
    def delete(self, pick: int) -> None:
        run_id = f"r{pick}"
        row = next((row for row in self.rows() if row.run_id == run_id), None)
        try:
            assert self.storage.runs.delete(run_id) == (row is not None)
        except Conflict:
            assert row is not None
            assert row.status == RunStatus.RUNNING
        else:
            self.forget([] if row is None else [run_id])

    @rule(thread_id=threads)
    def delete_thread(self, thread_id: str) -> None:
        self.forget([row.run_id for row in self.rows() if row.thread_id == thread_id])
        self.storage.threads.delete(thread_id)

    # ---- what workers do

    @rule(worker=workers, limit=st.integers(1, 3))
    def claim(self, worker: str, limit: int) -> None:
        busy = self.running()
        firsts = [line[0] for each in THREADS if each not in busy and (line := self.line(each, due=True))]
        there = self.storage.runs.next_available_at()
        runs = self.storage.runs.claim(worker, lease=LEASE, limit=limit)
        # Each is the first of its thread, and no thread that has waited longer was passed over.
        assert {run.run_id for run in runs} <= {row.run_id for row in firsts}
        assert len(runs) == min(limit, len(firsts))
        expected = sorted(row.available_at for row in firsts)[:limit]
        assert [run.available_at for run in runs] == expected
        assert not expected or there == expected[0]
        for run in runs:
            known = self.made[run.run_id]
            assert run.fence not in known.fences
            assert (run.private, run.cancel) == (SECRET, None)
            known.fences.add(run.fence)
            known.counted += 1
            assert run.attempt == known.counted <= ATTEMPTS
        self.held[worker] += runs

    @rule(worker=workers)
    def renew(self, worker: str) -> None:
        attempts = [run.lease for run in self.held[worker]] + self.lost
        running = {Attempt(row.run_id, row.thread_id, row.fence) for row in self.running().values()}
        renewals = self.storage.runs.renew(attempts, lease=LEASE)
        assert [renewal.attempt for renewal in renewals] == attempts
        assert [renewal.alive for renewal in renewals] == [attempt in running for attempt in attempts]
        assert all(self.storage.runs.is_current(attempt) == (attempt in running) for attempt in attempts)

    def word(self, run: Run | Attempt, say: Callable[[Attempt], object]) -> bool:
        """Let a worker say what became of its attempt; tell whether it still had the run."""
        attempt = run.lease if isinstance(run, Run) else run
        row = self.running().get(attempt.thread_id)
        has = row is not None and (row.run_id, row.fence) == (attempt.run_id, attempt.fence)
        before = self.rows()
        try:
            say(attempt)
        except Fenced:
            assert not has
            assert self.rows() == before
        else:
            assert has
        return has

    @precondition(lambda self: any(self.held.values()))
    @rule(
        worker=workers,
        status=st.sampled_from(sorted(ENDED)),
        ending=st.sampled_from(("", "", "", "roll_back", "delete_thread")),
        waits=st.booleans(),
    )
    def settle(self, worker: str, status: RunStatus, ending: str, waits: bool) -> None:
        if not self.held[worker]:
            return
        run = self.held[worker].pop(0)
        settlement = Settlement(
            status,
            ThreadStatus.INTERRUPTED if waits else ThreadStatus.IDLE,
            interrupts={"task": [1]} if waits else {},
            roll_back=ending == "roll_back",
            delete_thread=ending == "delete_thread",
        )
        of_thread = [row.run_id for row in self.rows() if row.thread_id == run.thread_id]
        if self.word(run, lambda attempt: self.storage.runs.settle(attempt, settlement)):
            self.forget([run.run_id] if ending == "roll_back" else of_thread if ending else [])
        self.lost.append(run.lease)

    @precondition(lambda self: any(self.held.values()))
    @rule(worker=workers)
    def release(self, worker: str) -> None:
        if not self.held[worker]:
            return
        run = self.held[worker].pop(0)
        line = [row.run_id for row in self.line(run.thread_id)]
        back: list[Run] = []
        if self.word(run, lambda attempt: back.append(self.storage.runs.release(attempt))):
            self.made[run.run_id].counted -= 1
            if back[0].status is RunStatus.PENDING:
                assert [row.run_id for row in self.line(run.thread_id)] == [run.run_id, *line]
        self.lost.append(run.lease)

    @precondition(lambda self: any(self.held.values()))
    @rule(worker=workers)
    def mark(self, worker: str) -> None:
        for run in self.held[worker]:
            self.word(run, self.storage.runs.mark)

    @rule(worker=workers)
    def crash(self, worker: str) -> None:
        """Have a worker forget what it does; it comes back late, when another has the run."""
        self.lost += [run.lease for run in self.held[worker]]
        self.held[worker].clear()

    @precondition(lambda self: self.lost)
    @rule(pick=picks, act=st.sampled_from(("settle", "release", "mark")))
    def come_late(self, pick: int, act: str) -> None:
        attempt = self.lost[pick % len(self.lost)]
        if self.storage.runs.is_current(attempt):
            return
        late = Settlement(RunStatus.SUCCESS, ThreadStatus.ERROR, roll_back=pick % 2 == 0)
        say = partial(self.storage.runs.settle, settlement=late) if act == "settle" else None
        assert not self.word(attempt, say or getattr(self.storage.runs, act))

    @rule(seconds=st.sampled_from((1, 3, 11)))
    def wait(self, seconds: int) -> None:
        self.clock.advance(seconds=seconds)

    @rule(attempts=st.sampled_from((0, ATTEMPTS)), everybody=st.sampled_from((False, False, True)))
    def reap(self, attempts: int, everybody: bool) -> None:
        statement = "select run_id, lease_until from stateroom.run where status = 'running'"
        leases = self.storage.dialect.read(lambda session: session.fetch(statement))
        freed = self.storage.runs.reap(max_attempts=attempts, everybody=everybody)
        assert {run.run_id for run in freed} == {
            run_id for run_id, until in leases if everybody or until <= self.clock()
        }
        for run in freed:
            assert run.private is None
            if run.status is RunStatus.PENDING:
                assert run.attempt < attempts

    # ---- what is true after each step

    @invariant()
    def no_thread_runs_two(self) -> None:
        running = [row.thread_id for row in self.rows() if row.status == RunStatus.RUNNING]
        assert len(running) == len(set(running))

    @invariant()
    def none_is_lost(self) -> None:
        assert {row.run_id for row in self.rows()} == self.made.keys() - self.gone

    @invariant()
    def runs_move_as_they_may(self) -> None:
        for row in self.rows():
            known = self.made[row.run_id]
            assert row.status == known.status or may_become(RunStatus(known.status), RunStatus(row.status))
            known.status = row.status
            assert row.attempt == known.counted
            assert row.has_private == (row.status in OPEN)
            assert row.has_lease == (row.status == RunStatus.RUNNING)

    @invariant()
    def threads_say_what_their_runs_do(self) -> None:
        statement = "select thread_id, status, next_at from stateroom.thread"
        running = self.running()
        seen = self.storage.dialect.read(lambda session: session.fetch(statement))
        for thread_id, status, next_at in seen:
            assert (status == ThreadStatus.BUSY) == (thread_id in running)
            line = [] if thread_id in running else self.line(thread_id)
            assert next_at == (line[0].available_at if line else None)
        waiting = [next_at for *_, next_at in seen if next_at is not None]
        assert self.storage.runs.next_available_at() == min(waiting, default=None)


@pytest.fixture(scope="module", autouse=True)
def _postgres(postgres: str) -> Iterator[None]:
    with histories(postgres, "queue"):
        yield


TestInMemory = machine_of(QueueMachine, in_memory)
TestInFile = machine_of(QueueMachine, in_file)
TestInPostgres = machine_of(QueueMachine, in_postgres)
