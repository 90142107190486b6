"""How runs that are there are looked up, cancelled and removed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import Cancelled, RunQuery
from stateroom.contract.storage import Storage
from stateroom.errors import (
    Conflict,
    InvalidInput,
    InvalidPage,
    StateroomError,
)
from stateroom.model.delivery import NewDelivery
from stateroom.model.frame import FramePage, NewFrame
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.parts.storage_queue_steps import EVERY, claimed, end, found, got, ids_of
from stateroom.testing.storage_harness import (
    SECOND,
    StorageHarness,
    check_id,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["FindingSuite"]


class FindingSuite(StorageHarness):
    """Looking runs up, cancelling and deleting them."""

    def test_an_unknown_run_is_none(self, storage: Storage) -> None:
        assert storage.runs.get("unknown") is None
        check_id("run_id", storage.runs.get)

    @pytest.fixture
    def several(self, storage: Storage) -> Storage:
        """Return a storage with runs of two threads: t has 5 ended, 4 running, 3 to 1 pending, u has 6."""
        make_thread(storage, "t")
        make_thread(storage, "u")
        for run_id in ("5", "4", "3", "2", "1"):
            make_run(storage, run_id, "t")
        end(storage, claimed(storage))
        assert claimed(storage).run_id == "4"
        make_run(storage, "6", "u")
        return storage

    @pytest.mark.parametrize(
        ("query", "fitting"),
        [
            (EVERY, "612345"),
            (RunQuery(thread_id="t"), "12345"),
            (RunQuery(thread_id="unknown"), ""),
            (RunQuery(statuses=[RunStatus.PENDING]), "6123"),
            (RunQuery(statuses=[RunStatus.RUNNING, RunStatus.SUCCESS]), "45"),
            (RunQuery(statuses=list(RunStatus)), "612345"),
            (RunQuery(statuses=[]), ""),
            (RunQuery(run_ids=["4", "6", "unknown", "4"]), "64"),
            (RunQuery(run_ids=[]), ""),
            (RunQuery("t", ["4", "6", "2"]), "24"),
            (RunQuery("t", ["4", "6", "2"], [RunStatus.PENDING]), "2"),
            (RunQuery("t", None, [RunStatus.PENDING, RunStatus.SUCCESS]), "1235"),
            (RunQuery("t", None, [RunStatus.ERROR]), ""),
        ],
    )
    def test_what_fits_each_condition(self, several: Storage, query: RunQuery, fitting: str) -> None:
        assert found(several, query) == list(fitting)
        assert several.runs.count(query) == len(fitting)
        # Cut at each place.
        for limit in range(1, len(fitting) + 2):
            page = several.runs.search(query, limit=limit)
            assert ids_of(page.rows) == list(fitting[:limit])
            assert (page.next is None) == (limit >= len(fitting))
            rest = several.runs.search(query, after=page.next).rows if page.next else []
            assert ids_of(rest) == list(fitting[limit:])
            assert found(several, query, limit=2, offset=limit) == list(fitting[limit : limit + 2])
            assert several.runs.count(query, at_most=limit) == min(limit, len(fitting))

    def test_pages_miss_no_run_and_repeat_none(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        # Many made at one moment, which only their order tells apart.
        for number in range(9):
            make_run(storage, f"r{number}", "t")
            clock.advance(seconds=number // 4)
        seen: list[str] = []
        after: str | None = None
        for number in range(20):
            page = storage.runs.search(RunQuery(thread_id="t"), limit=2, after=after)
            seen += ids_of(page.rows)
            if page.next is None:
                break
            after = page.next
            # What comes and goes meanwhile moves nothing else.
            make_run(storage, f"new{number}", "t")
            storage.runs.delete(seen[-1])
        assert seen == [f"r{number}" for number in reversed(range(9))]

    def test_wrong_pages_are_refused(self, storage: Storage) -> None:
        assert storage.runs.search(EVERY, limit=0) == ([], None)
        assert storage.runs.count(EVERY, at_most=0) == 0
        for wrong in ({"limit": -1}, {"offset": -1}, {"limit": 1.0}, {"after": "nonsense"}):
            with pytest.raises(InvalidPage) as raised:
                storage.runs.search(EVERY, **wrong)
            assert raised.value.field in wrong
        with pytest.raises(InvalidPage):
            storage.runs.count(EVERY, at_most=-1)
        for query in (RunQuery(thread_id=""), RunQuery(run_ids=["\0"])):
            for look in (storage.runs.search, storage.runs.count):
                with pytest.raises(InvalidInput):
                    look(query)

    def test_a_deleted_threads_runs_are_gone_with_it(self, storage: Storage) -> None:
        for thread_id in ("t", "u"):
            make_thread(storage, thread_id)
        make_run(storage, "1", "t")
        attempt = claimed(storage).lease
        make_run(storage, "2", "t")
        make_run(storage, "3", "u")
        storage.threads.delete("t")
        assert [storage.runs.get(each) for each in "12"] == [None, None]
        assert found(storage) == ["3"]
        assert storage.runs.count(RunQuery(thread_id="t")) == 0
        assert storage.runs.cancel(RunQuery(run_ids=["1", "2"]), CancelAction.INTERRUPT) == []
        assert not storage.runs.is_current(attempt)
        assert [run.run_id for run in storage.runs.claim("w", lease=SECOND, limit=10)] == ["3"]

    # ---- delete

    def test_deleting_removes_a_run_with_what_is_its_own(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        run = claimed(storage)
        storage.events.append(run.lease, [NewFrame("values", b"{}")])
        end(storage, run, deliveries=[NewDelivery("d", "http://x", {"run": "1"})])
        storage.idempotency.claim("s", "k", fingerprint="f", claim_id="c", lifetime=SECOND)
        storage.idempotency.record(
            "s", "k", claim_id="c", response=b"{}", thread_id="t", run_id="1", lifetime=SECOND
        )
        assert storage.runs.delete("1") is True
        assert storage.runs.get("1") is None
        assert storage.events.read("1") == FramePage([], 1, None)
        assert storage.idempotency.get("s", "k") is None
        assert [delivery.delivery_id for delivery in storage.deliveries.of_run("1")] == ["d"]
        assert storage.runs.delete("1") is False
        check_id("run_id", storage.runs.delete)

    def test_a_deleted_run_is_not_executed(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        assert storage.runs.delete("1") is True
        assert storage.runs.next_available_at() is None
        assert claim_one(storage) is None
        make_run(storage, "2", "t")
        make_run(storage, "3", "t", delay=SECOND)
        assert storage.runs.delete("3") is True
        assert claimed(storage).run_id == "2"

    def test_an_executing_run_is_not_deleted(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        run = claimed(storage)
        with pytest.raises(Conflict) as raised:
            storage.runs.delete("1")
        assert raised.value.field == "run_id"
        assert storage.runs.is_current(run.lease)
        end(storage, run)
        assert storage.runs.delete("1") is True

    # ---- cancel

    def test_a_pending_run_is_interrupted_at_once(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t")
        before = make_run(storage, "1", "t")
        clock.advance(seconds=1)
        cancelled = storage.runs.cancel(
            RunQuery(run_ids=["1"]), CancelAction.INTERRUPT, reason="no longer wanted"
        )
        assert cancelled == [Cancelled("1", "t", ended=True)]
        run = got(storage, "1")
        assert (run.status, run.cancel_reason) == (RunStatus.INTERRUPTED, "no longer wanted")
        assert (run.ended_at, run.updated_at, run.created_at) == (clock(), clock(), before.created_at)
        assert claim_one(storage) is None
        assert storage.runs.next_available_at() is None
        thread = storage.threads.get("t")
        assert thread is not None
        assert thread.status is ThreadStatus.IDLE

    def test_a_pending_run_that_is_rolled_back_is_gone(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        cancelled = storage.runs.cancel(RunQuery(run_ids=["1"]), CancelAction.ROLLBACK)
        assert cancelled == [Cancelled("1", "t", ended=True)]
        assert storage.runs.get("1") is None
        assert claimed(storage).run_id == "2"

    def test_the_worker_of_an_executing_run_is_asked(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        attempt = claimed(storage).lease
        query = RunQuery(run_ids=["1"])
        wanted: list[tuple[CancelAction, str | None, CancelAction, str | None]] = [
            (CancelAction.INTERRUPT, "first", CancelAction.INTERRUPT, "first"),
            (CancelAction.ROLLBACK, "second", CancelAction.ROLLBACK, "second"),
            (CancelAction.INTERRUPT, "third", CancelAction.ROLLBACK, "second"),
        ]
        for action, reason, then, why in wanted:
            assert storage.runs.cancel(query, action, reason=reason) == [Cancelled("1", "t", ended=False)]
            run = got(storage, "1")
            assert (run.status, run.cancel, run.cancel_reason) == (RunStatus.RUNNING, then, why)
            (renewal,) = storage.runs.renew([attempt], lease=SECOND)
            assert (renewal.alive, renewal.cancel) == (True, then)
        assert storage.runs.is_current(attempt)

    def test_cancelling_takes_those_first_made(self, storage: Storage, clock: ManualClock) -> None:
        for thread_id in ("b", "a"):
            make_thread(storage, thread_id)
        for run_id, thread_id in (("5", "b"), ("4", "a"), ("3", "b"), ("2", "a"), ("1", "b")):
            make_run(storage, run_id, thread_id)
            clock.advance(seconds=1)
        assert claimed(storage).run_id == "5"
        cancelled = storage.runs.cancel(EVERY, CancelAction.INTERRUPT, limit=3)
        assert cancelled == [("5", "b", False), ("4", "a", True), ("3", "b", True)]
        # Its worker has been asked, but it has not stopped yet.
        cancelled = storage.runs.cancel(RunQuery(thread_id="b"), CancelAction.INTERRUPT)
        assert cancelled == [("5", "b", False), ("1", "b", True)]
        pending = RunQuery(statuses=[RunStatus.PENDING, RunStatus.SUCCESS])
        assert storage.runs.cancel(pending, CancelAction.INTERRUPT, limit=0) == []
        assert storage.runs.cancel(pending, CancelAction.INTERRUPT) == [("2", "a", True)]
        assert storage.runs.cancel(pending, CancelAction.INTERRUPT) == []

    @pytest.mark.parametrize("action", CancelAction)
    def test_ended_runs_are_passed_over(self, storage: Storage, action: CancelAction) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        end(storage, claimed(storage))
        before = got(storage, "1")
        for query in (EVERY, RunQuery(run_ids=["1", "unknown"]), RunQuery(statuses=[RunStatus.SUCCESS])):
            assert storage.runs.cancel(query, action) == []
        assert got(storage, "1") == before

    def test_wrong_cancellations_are_refused(self, storage: Storage) -> None:
        cancel: Callable[..., object] = storage.runs.cancel
        for field, wrong in (("limit", -1), ("reason", "a\0b")):
            with pytest.raises(StateroomError) as raised:
                cancel(EVERY, CancelAction.INTERRUPT, **{field: wrong})
            assert raised.value.field == field
