"""A storage and a saver whose connections to Postgres are cut: what callers see, and that it passes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from typing import Any

import pytest
from psycopg.conninfo import conninfo_to_dict, make_conninfo

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery, Settlement
from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.drivers.postgres import session
from stateroom.drivers.postgres.storage import PostgresStorage
from stateroom.errors import Unavailable
from stateroom.model.frame import NewFrame
from stateroom.model.run import CancelAction, Run, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.savers.base import Saver
from stateroom.search.index_config import parse_index_config
from stateroom.testing.storage_harness import LEASE, SECOND, make_run, make_thread
from tests.conftest import NewSchema
from tests.faults.programs.queue_ledger import assert_whole
from tests.faults.programs.storage_writers import Writer, assert_kept
from tests.faults.relay import Relay, to_socket
from tests.faults.watching import Watch, named, until
from tests.storage.saving import at, checkpoint_ids, put_checkpoint, saver_over

DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"done": True})
WRITERS, CUTS = 4, 5


@pytest.fixture
def watch(postgres: str, new_schema: NewSchema) -> Watch:
    return Watch(postgres, new_schema())


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture(params=[1, 4], ids=["pool of one", "pool"])
def storage(request: pytest.FixtureRequest, watch: Watch, clock: ManualClock) -> Iterator[PostgresStorage]:
    """Return a storage all of whose connections are made."""
    size: int = request.param
    storage = PostgresStorage(
        named(watch.uri, watch.name),
        parse_index_config(None),
        schema=watch.name,
        clock=clock,
        pool={"min_size": size, "max_size": size},
    )
    storage.open()
    until(lambda: len(watch.sessions()) == size)
    yield storage
    storage.close()


@pytest.fixture
def saver(storage: PostgresStorage) -> Saver:
    return saver_over(storage)


def claimed(storage: PostgresStorage, run_id: str) -> Run:
    make_run(storage, run_id, "t")
    (run,) = storage.runs.claim("w", lease=LEASE)
    return run


def test_A03_after_a_cut_of_all_idle_connections_every_call_succeeds(
    storage: PostgresStorage, saver: Saver, watch: Watch
) -> None:
    steps: list[Callable[[], Any]] = [
        lambda: storage.threads.create(NewThread("t")),
        lambda: storage.threads.update("t", ThreadChange(metadata={"a": 1})),
        lambda: make_run(storage, "r", "t"),
        lambda: run.append(storage.runs.claim("w", lease=LEASE)[0]),
        lambda: storage.runs.mark(run[0].lease),
        lambda: storage.runs.renew([run[0].lease], lease=LEASE),
        lambda: storage.events.append(run[0].lease, [NewFrame("values", b"{}")]),
        lambda: put_checkpoint(saver, "t", 1, attempt=run[0].lease),
        lambda: storage.runs.release(run[0].lease),
        lambda: run.append(storage.runs.claim("w", lease=LEASE)[0]),
        lambda: storage.runs.settle(run[1].lease, DONE),
        lambda: make_run(storage, "s", "t"),
        lambda: storage.runs.cancel(RunQuery(thread_id="t"), CancelAction.INTERRUPT),
        lambda: storage.events.read("r"),
        lambda: saver.get_tuple(at("t")),
        lambda: storage.threads.copy("t", "copy"),
        lambda: storage.threads.delete("t"),
    ]
    run: list[Run] = []
    for step in steps:
        assert watch.cut() > 0
        step()
    assert len(checkpoint_ids(saver, "copy")) == 1
    assert_whole(storage)


Call = Callable[[PostgresStorage, Saver, Run], Any]

CALLS: dict[str, tuple[str, Call]] = {
    "create": ("thread", lambda storage, _, __: make_run(storage, "new", "t")),
    "claim": ("run", lambda storage, _, __: storage.runs.claim("v", lease=LEASE)),
    "renew": ("run", lambda storage, _, run: storage.runs.renew([run.lease], lease=LEASE)),
    "mark": ("run", lambda storage, _, run: storage.runs.mark(run.lease)),
    "settle": ("thread", lambda storage, _, run: storage.runs.settle(run.lease, DONE)),
    "release": ("thread", lambda storage, _, run: storage.runs.release(run.lease)),
    "cancel": (
        "thread",
        lambda storage, _, __: storage.runs.cancel(RunQuery(thread_id="t"), CancelAction.INTERRUPT),
    ),
    "append": (
        "stream",
        lambda storage, _, run: storage.events.append(run.lease, [NewFrame("values", b"{}")]),
    ),
    "put": ("checkpoints", lambda _, saver, run: put_checkpoint(saver, "t", 1, attempt=run.lease)),
    "update": ("thread", lambda storage, _, __: storage.threads.update("t", ThreadChange(values={"a": 1}))),
    "delete": ("thread", lambda storage, _, __: storage.threads.delete("t")),
    "read": ("frame", lambda storage, _, __: storage.events.read("r")),
}


@pytest.mark.parametrize("call", CALLS)
def test_A03_a_call_that_is_cut_while_it_runs_is_done_or_not_and_works_afterwards(
    storage: PostgresStorage, saver: Saver, watch: Watch, clock: ManualClock, call: str
) -> None:
    for name in ("t", "other"):
        make_thread(storage, name)
    run = claimed(storage, "r")
    storage.events.append(run.lease, [NewFrame("values", b"{}")])
    make_run(storage, "free", "other")
    table, act = CALLS[call]
    with ThreadPoolExecutor(1) as thread:
        with watch.holding(f"lock table {{}}.{table} in access exclusive mode"):
            running = thread.submit(act, storage, saver, run)
            until(watch.waiting)
            assert watch.cut_waiting() == 1
            until(lambda: watch.waiting() or running.done())
        error = running.exception()
    assert error is None or (isinstance(error, Unavailable) and error.retryable)
    assert_whole(storage)
    if error is not None:
        # It was cut before it could commit, so that it can be done now.
        act(storage, saver, run)
    else:
        # What had no effect, or what may be done twice, was repeated: it has been done once.
        assert len(storage.events.read("r").frames) == (0 if call == "delete" else 1)
    clock.advance(seconds=LEASE / SECOND)
    storage.runs.reap(max_attempts=9)
    while runs := storage.runs.claim("w", lease=LEASE):
        storage.runs.settle(runs[0].lease, DONE)
    assert_whole(storage)
    assert storage.runs.next_available_at() is None


def test_A03_runs_in_flight_in_many_threads_survive_cuts(
    storage: PostgresStorage, saver: Saver, watch: Watch, clock: ManualClock
) -> None:
    writers = [Writer(storage, saver, clock, f"w{number}") for number in range(WRITERS)]
    with ThreadPoolExecutor(WRITERS) as threads:
        running = [threads.submit(writer.run) for writer in writers]
        try:
            for _ in range(CUTS):
                before = [len(writer.settled) for writer in writers]
                watch.cut()
                wait_for_more(writers, before, running)
        finally:
            for writer in writers:
                writer.stopped.set()
        for each in running:
            each.result()
    assert all(writer.settled for writer in writers)
    assert_kept(storage, saver, clock, writers)


def wait_for_more(writers: list[Writer], before: list[int], running: list[Future[None]]) -> None:
    """Wait until all writers have ended more runs than before, or one has failed."""
    until(
        lambda: (
            any(each.done() for each in running)
            or all(len(writer.settled) > count for writer, count in zip(writers, before, strict=True))
        )
    )


def test_a12_a_worker_that_hangs_while_it_claims_leaves_the_run_to_others(
    watch: Watch, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(session, "IDLE_SECONDS", 1)
    folder = conninfo_to_dict(watch.uri)["host"]
    with ThreadPoolExecutor(1) as threads, Relay(to_socket(f"{folder}/.s.PGSQL.5432")) as relay:
        through = make_conninfo(watch.uri, host="127.0.0.1", port=relay.port, sslmode="disable")
        hung, other = (
            PostgresStorage(uri, parse_index_config(None), schema=watch.name) for uri in (through, watch.uri)
        )
        with closing(hung), closing(other):
            make_thread(other, "t")
            run = make_run(other, "r", "t")
            assert hung.runs.get(run.run_id) is not None
            relay.freeze_before(b"commit\0")
            claiming = threads.submit(hung.runs.claim, "hung", lease=LEASE)
            until(lambda: watch.execute("select 1 from pg_stat_activity where state = 'idle in transaction'"))
            assert other.runs.claim("other", lease=LEASE) == []
            (claimed,) = until_claimed(other)
            assert (claimed.run_id, claimed.attempt) == (run.run_id, 1)
            assert not claiming.done()
            relay.thaw()
            # Its work was undone; it looks again, and finds nothing.
            assert claiming.result() == []


def until_claimed(storage: PostgresStorage) -> list[Run]:
    """Claim again and again until there is a run."""
    while not (claimed := storage.runs.claim("other", lease=LEASE)):
        pass
    return claimed
