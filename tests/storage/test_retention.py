"""Threads whose time has come go, or their past does, and nothing else; so do records that expire."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.events import EventLimits
from stateroom.contract.items import Put
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.engine import retention as retention_module
from stateroom.engine.retention import DELIVERIES_KEPT, Retention, Swept
from stateroom.errors import Unavailable
from stateroom.model.delivery import NewDelivery
from stateroom.model.frame import NewFrame
from stateroom.model.run import RunStatus
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings
from stateroom.savers.base import Saver
from stateroom.testing.storage_harness import SECOND, OpensStorage, claim_one, make_run, make_thread
from tests.storage.saving import checkpoint_ids, put_checkpoint, saver_over

HOUR = ThreadTTL(60.0)
KEEP = ThreadTTL(60.0, TTLStrategy.KEEP_LATEST)
MINUTE = 60 * SECOND
DONE = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, values={"done": True})


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def storage(any_storage: OpensStorage, clock: ManualClock) -> Iterator[Storage]:
    storage = any_storage(clock=clock, limits=EventLimits(retained_runs=0))
    storage.open()
    yield storage
    storage.close()


@pytest.fixture
def saver(storage: Storage) -> Saver:
    return saver_over(storage)


@pytest.fixture
def retention(storage: Storage, saver: Saver) -> Retention:
    return Retention(storage, saver)


def expires_at(storage: Storage, thread_id: str) -> int | None:
    return found(storage, thread_id).expires_at


def found(storage: Storage, thread_id: str) -> Thread:
    thread = storage.threads.get(thread_id)
    assert thread is not None
    return thread


# ---- deleting


def test_an_expired_thread_stays_readable_until_it_is_swept_with_its_checkpoints(
    storage: Storage, saver: Saver, retention: Retention, clock: ManualClock
) -> None:
    for thread_id in ("brief", "pinned"):
        make_thread(storage, thread_id, ttl=HOUR if thread_id == "brief" else None)
        put_checkpoint(saver, thread_id, 1)
    clock.advance(minutes=60, seconds=-1)
    assert retention.sweep() == Swept()
    clock.advance(seconds=1)
    assert found(storage, "brief").expires_at == clock()
    assert len(checkpoint_ids(saver, "brief")) == 1
    assert retention.sweep() == Swept(threads_deleted=1)
    assert storage.threads.get("brief") is None
    assert checkpoint_ids(saver, "brief") == []
    assert found(storage, "pinned").thread_id == "pinned"
    assert len(checkpoint_ids(saver, "pinned")) == 1
    assert retention.sweep() == Swept()


def test_a_thread_that_is_to_be_deleted_goes_with_its_executing_run(
    storage: Storage, retention: Retention, clock: ManualClock
) -> None:
    make_thread(storage, "t", ttl=HOUR)
    make_run(storage, "r", "t")
    run = claim_one(storage)
    assert run is not None
    clock.advance(minutes=61)
    assert retention.sweep().threads_deleted == 1
    assert not storage.runs.is_current(run.lease)
    assert storage.runs.get("r") is None


CHANGES: dict[str, ThreadChange] = {
    "metadata": ThreadChange(metadata={"a": 1}),
    "config": ThreadChange(config={"a": 1}),
    "values": ThreadChange(values={"a": 1}),
    "interrupts": ThreadChange(interrupts={"task": []}),
    "error": ThreadChange(error=None),
    "status": ThreadChange(status=ThreadStatus.IDLE),
    "the time to live": ThreadChange(ttl=HOUR),
    "nothing": ThreadChange(),
}


@pytest.mark.parametrize("what", CHANGES)
def test_every_change_restarts_the_clock(
    storage: Storage, retention: Retention, clock: ManualClock, what: str
) -> None:
    make_thread(storage, "t", ttl=HOUR)
    clock.advance(minutes=59)
    assert storage.threads.update("t", CHANGES[what]).expires_at == clock() + 60 * MINUTE
    clock.advance(minutes=59)
    assert retention.sweep() == Swept()
    clock.advance(minutes=1)
    assert retention.sweep() == Swept(threads_deleted=1)


@pytest.mark.parametrize("values", [True, False], ids=["with values", "without"])
def test_every_settled_run_restarts_the_clock(
    storage: Storage, retention: Retention, clock: ManualClock, values: bool
) -> None:
    make_thread(storage, "t", ttl=HOUR)
    make_run(storage, "r", "t")
    clock.advance(minutes=59)
    run = claim_one(storage)
    assert run is not None
    clock.advance(minutes=59)
    storage.runs.settle(run.lease, DONE if values else Settlement(RunStatus.ERROR, ThreadStatus.ERROR))
    assert expires_at(storage, "t") == clock() + 60 * MINUTE
    clock.advance(minutes=59)
    assert retention.sweep().threads_deleted == 0


def test_fractions_of_minutes_count(storage: Storage, retention: Retention, clock: ManualClock) -> None:
    make_thread(storage, "t", ttl=ThreadTTL(0.05))
    clock.advance(seconds=2.9)
    assert retention.sweep() == Swept()
    clock.advance(seconds=0.1)
    assert retention.sweep() == Swept(threads_deleted=1)


def test_a_pin_stops_the_clock_and_a_time_to_live_starts_it(
    storage: Storage, retention: Retention, clock: ManualClock
) -> None:
    make_thread(storage, "was brief", ttl=HOUR)
    make_thread(storage, "was pinned")
    pinned = storage.threads.update("was brief", ThreadChange(ttl=None))
    assert (pinned.ttl, pinned.expires_at) == (None, None)
    armed = storage.threads.update("was pinned", ThreadChange(ttl=KEEP))
    assert (armed.ttl, armed.expires_at) == (KEEP, clock() + 60 * MINUTE)
    clock.advance(minutes=60)
    assert retention.sweep() == Swept(threads_pruned=1)
    assert found(storage, "was brief").ttl is None


@pytest.mark.parametrize("any_storage", ["sqlite", "postgres"], indirect=True)
def test_pins_and_times_to_live_survive_reopening(any_storage: OpensStorage, clock: ManualClock) -> None:
    first = any_storage(clock=clock)
    first.open()
    first.threads.create(NewThread("pinned", ttl=HOUR))
    first.threads.update("pinned", ThreadChange(ttl=None))
    first.threads.create(NewThread("brief", ttl=KEEP))
    first.close()
    second = any_storage(clock=clock)
    second.open()
    try:
        pinned, brief = found(second, "pinned"), found(second, "brief")
        assert (pinned.ttl, pinned.expires_at) == (None, None)
        assert (brief.ttl, brief.expires_at) == (KEEP, clock() + 60 * MINUTE)
        clock.advance(minutes=60)
        assert Retention(second, saver_over(second)).sweep() == Swept(threads_pruned=1)
    finally:
        second.close()


def test_a_thread_that_is_used_between_listing_and_deleting_stays(
    storage: Storage, retention: Retention, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_thread(storage, "used", ttl=HOUR)
    make_thread(storage, "unused", ttl=HOUR)
    clock.advance(minutes=60)
    listed = storage.threads.expired

    def expired(limit: int = 100) -> list[Thread]:
        threads = listed(limit)
        clock.advance(seconds=1)
        storage.threads.update("used", ThreadChange(metadata={"used": True}))
        return threads

    monkeypatch.setattr(storage.threads, "expired", expired)
    assert retention.sweep().threads_deleted == 1
    assert storage.threads.get("unused") is None
    assert expires_at(storage, "used") == clock() + 60 * MINUTE


# ---- keeping the latest


def test_keep_latest_frees_the_past_and_restarts_the_clock(
    storage: Storage, saver: Saver, retention: Retention, clock: ManualClock
) -> None:
    make_thread(storage, "t", ttl=KEEP, metadata={"a": 1})
    for value in range(5):
        put_checkpoint(saver, "t", value)
    latest = checkpoint_ids(saver, "t")[0]
    before = found(storage, "t")
    clock.advance(minutes=60)
    assert retention.sweep() == Swept(threads_pruned=1)
    assert checkpoint_ids(saver, "t") == [latest]
    after = found(storage, "t")
    assert after.expires_at == clock() + 60 * MINUTE
    assert (after.updated_at, after.metadata, after.status) == (before.updated_at, {"a": 1}, before.status)
    assert retention.sweep() == Swept()
    clock.advance(minutes=60)
    assert retention.sweep() == Swept(threads_pruned=1)


@pytest.mark.parametrize("state", ["executing", "waiting", "delayed"])
def test_keep_latest_passes_over_an_active_thread_and_rearms_it(
    storage: Storage, saver: Saver, retention: Retention, clock: ManualClock, state: str
) -> None:
    make_thread(storage, "t", ttl=KEEP)
    for value in range(3):
        put_checkpoint(saver, "t", value)
    make_run(storage, "r", "t", delay=300 * MINUTE if state == "delayed" else 0)
    if state == "executing":
        assert claim_one(storage) is not None
    clock.advance(minutes=60)
    assert retention.sweep() == Swept()
    assert len(checkpoint_ids(saver, "t")) == 3
    assert expires_at(storage, "t") == clock() + 60 * MINUTE
    storage.runs.reap(everybody=True)
    clock.advance(minutes=300)
    while run := claim_one(storage):
        storage.runs.settle(run.lease, DONE)
    clock.advance(minutes=60)
    assert retention.sweep().threads_pruned == 1
    assert len(checkpoint_ids(saver, "t")) == 1


# ---- bounds, and failures


def test_a_sweep_takes_a_bounded_number_of_threads_at_a_time_until_none_is_left(
    storage: Storage, saver: Saver, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(7):
        make_thread(storage, f"t{number}", ttl=KEEP if number % 2 else HOUR)
    clock.advance(minutes=60)
    listed, taken = storage.threads.expired, []

    def expired(limit: int = 100) -> list[Thread]:
        threads = listed(limit)
        taken.append((limit, len(threads)))
        return threads

    monkeypatch.setattr(storage.threads, "expired", expired)
    swept = Retention(storage, saver, ThreadTTLSettings(sweep_limit=3)).sweep()
    assert swept == Swept(threads_deleted=4, threads_pruned=3)
    assert taken == [(3, 3), (3, 3), (3, 1), (3, 0)]


class Failing:
    """A saver that cannot prune one thread."""

    def __init__(self, saver: Saver, thread_id: str) -> None:
        self.saver, self.thread_id = saver, thread_id

    def prune(self, thread_ids: list[str], *, strategy: str = "keep_latest") -> None:
        if self.thread_id in thread_ids:
            raise Unavailable("the database is away")
        self.saver.prune(thread_ids, strategy=strategy)


@pytest.mark.parametrize("limit", [1, 2, 1000])
def test_a_thread_that_cannot_be_swept_stops_no_other(
    storage: Storage, saver: Saver, clock: ManualClock, caplog: pytest.LogCaptureFixture, limit: int
) -> None:
    for number in range(4):
        make_thread(storage, f"t{number}", ttl=KEEP)
        clock.advance(seconds=1)
    clock.advance(minutes=60)
    broken = Retention(storage, Failing(saver, "t1"), ThreadTTLSettings(sweep_limit=limit))
    assert broken.sweep() == Swept(threads_pruned=3)
    assert "t1 has expired and cannot be swept" in caplog.text
    assert [thread.thread_id for thread in storage.threads.expired()] == ["t1"]
    assert Retention(storage, saver).sweep() == Swept(threads_pruned=1)


def test_a_sweep_ends_although_what_it_has_pruned_expires_again_meanwhile(
    storage: Storage, saver: Saver, clock: ManualClock
) -> None:
    class Slow:
        def prune(self, thread_ids: list[str], *, strategy: str = "keep_latest") -> None:
            clock.advance(minutes=1)
            saver.prune(thread_ids, strategy=strategy)

    for number in range(3):
        make_thread(storage, f"t{number}", ttl=ThreadTTL(0.5, TTLStrategy.KEEP_LATEST))
    clock.advance(minutes=1)
    assert Retention(storage, Slow()).sweep() == Swept(threads_pruned=3)
    assert len(storage.threads.expired()) == 2


def test_deletions_that_were_cut_short_are_finished(
    storage: Storage, saver: Saver, monkeypatch: pytest.MonkeyPatch
) -> None:
    make_thread(storage, "t")
    put_checkpoint(saver, "t", 1)
    with monkeypatch.context() as patched:
        patched.setattr(storage.checkpoints, "erase", fail)  # type: ignore[attr-defined]  # of SQL
        with pytest.raises(Unavailable):
            storage.threads.delete("t")
    assert Retention(storage, saver).sweep() == Swept(deletions_finished=1)
    assert checkpoint_ids(saver, "t") == []


def fail(*_: Any) -> bool:
    raise Unavailable("the database is away")


def test_records_that_have_had_their_time_go_too(
    storage: Storage, retention: Retention, clock: ManualClock
) -> None:
    storage.items.apply_each([[Put(("notes",), "k", b'{"n":1}', ttl=1.0)]])
    storage.idempotency.claim("s", "k", fingerprint="f", claim_id="c", lifetime=MINUTE)
    make_thread(storage, "t")
    make_run(storage, "r", "t")
    run = claim_one(storage)
    assert run is not None
    storage.events.append(run.lease, [NewFrame("values", b"{}")])
    delivery = NewDelivery("d", "http://example.org", {"n": 1})
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, deliveries=[delivery]))
    (claimed,) = storage.deliveries.claim(lease=MINUTE)
    assert storage.deliveries.succeed("d", attempts=claimed.attempts)
    assert retention.sweep() == Swept(streams=1)
    clock.advance(minutes=1)
    assert retention.sweep() == Swept(items=1, idempotency_records=1)
    clock.advance(seconds=DELIVERIES_KEPT / SECOND - 59)
    assert retention.sweep() == Swept(deliveries=1)


# ---- by itself


def test_it_sweeps_at_once_and_again_until_it_is_stopped(
    storage: Storage, saver: Saver, clock: ManualClock
) -> None:
    # Servers of other tests sweep in this process too.
    others = sweepers()
    retention = Retention(storage, saver, ThreadTTLSettings(sweep_interval_minutes=1e-6))
    swept = Announcing(retention.sweep)
    retention.sweep = swept  # type: ignore[method-assign]
    make_thread(storage, "t", ttl=HOUR)
    clock.advance(minutes=60)
    retention.start()
    retention.start()
    swept.wait_for_another()
    assert storage.threads.get("t") is None
    swept.wait_for_another()
    assert len(sweepers() - others) == 1
    retention.stop()
    retention.stop()
    done = swept.done
    assert sweepers() <= others
    make_thread(storage, "later", ttl=HOUR)
    clock.advance(minutes=60)
    assert swept.done == done
    assert found(storage, "later").thread_id == "later"
    retention.start()
    swept.wait_for_another()
    retention.stop()
    assert storage.threads.get("later") is None


def sweepers() -> set[threading.Thread]:
    return {each for each in threading.enumerate() if each.name == "stateroom-retention"}


class Announcing:
    """A sweep that says when it is done."""

    def __init__(self, sweep: Callable[[], Swept]) -> None:
        self.sweep, self.done, self.said = sweep, 0, threading.Condition()

    def __call__(self) -> Swept:
        try:
            return self.sweep()
        finally:
            with self.said:
                self.done += 1
                self.said.notify_all()

    def wait_for_another(self) -> None:
        """Wait for the end of a sweep that begins from now on."""
        with self.said:
            wanted = self.done + 2
            self.said.wait_for(lambda: self.done >= wanted)


def test_a_sweep_that_fails_is_followed_by_others(
    storage: Storage, saver: Saver, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    retention = Retention(storage, saver, ThreadTTLSettings(sweep_interval_minutes=1e-6))
    swept = Announcing(retention.sweep)
    retention.sweep = swept  # type: ignore[method-assign]
    make_thread(storage, "t", ttl=HOUR)
    clock.advance(minutes=60)
    with monkeypatch.context() as patched:
        patched.setattr(storage.threads, "expired", fail)
        retention.start()
        swept.wait_for_another()
        assert found(storage, "t").thread_id == "t"
    swept.wait_for_another()
    retention.stop()
    assert storage.threads.get("t") is None


def test_records_are_freed_in_bounded_pieces(
    storage: Storage, retention: Retention, clock: ManualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(retention_module, "RECORDS_TOGETHER", 2)
    for number in range(5):
        storage.idempotency.claim("s", str(number), fingerprint="f", claim_id="c", lifetime=MINUTE)
    clock.advance(minutes=1)
    assert retention.sweep() == Swept(idempotency_records=5)
