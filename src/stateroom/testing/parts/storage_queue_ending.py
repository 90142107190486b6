"""How executing a run ends by the word of its worker."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.errors import InvalidInput
from stateroom.model.run import CancelAction, RunStatus
from stateroom.model.thread import ThreadStatus, ThreadTTL
from stateroom.testing.parts.storage_queue_steps import claimed, current, drained, end, thread
from stateroom.testing.storage_harness import (
    SECOND,
    StorageHarness,
    claim_one,
    make_run,
    make_thread,
)

__all__ = ["EndingSuite"]


class EndingSuite(StorageHarness):
    """Settling, marking, and what both mean for the thread."""

    def test_a_runs_end_changes_its_thread_with_it(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t", metadata={"a": 1, "b": 1}, config={"c": 1})
        make_run(storage, "1", "t", private={"token": "secret"})
        make_run(storage, "2", "t")
        run = claimed(storage)
        clock.advance(seconds=1)
        failure = {"error": "ValueError", "message": "no"}
        ended = end(
            storage,
            run,
            status=RunStatus.ERROR,
            thread_status=ThreadStatus.ERROR,
            values={"x": float("inf")},
            interrupts={"task": [{"value": "?"}]},
            error=failure,
            config={"d": 2},
            thread_metadata={"b": 2, "e": 3},
            run_error=failure,
        )
        assert (ended.status, ended.error, ended.private) == (RunStatus.ERROR, failure, None)
        assert (ended.lease_owner, ended.lease_until) == (None, None)
        assert (ended.ended_at, ended.updated_at, ended.attempt) == (clock(), clock(), 1)
        assert storage.runs.get("1") == ended
        changed = thread(storage)
        assert (changed.status, changed.error) == (ThreadStatus.ERROR, failure)
        assert (changed.values, changed.interrupts) == ({"x": float("inf")}, {"task": [{"value": "?"}]})
        assert (changed.metadata, changed.config) == ({"a": 1, "b": 2, "e": 3}, {"d": 2})
        assert (changed.updated_at, changed.state_updated_at) == (clock(), clock())
        # The thread's next run can be claimed at once.
        assert claimed(storage).run_id == "2"

    def test_what_an_end_does_not_mention_stays(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t", metadata={"a": 1})
        change = ThreadChange(values={"x": 1}, interrupts={"task": [1]}, error={"error": "e", "message": "m"})
        before = storage.threads.update("t", change)
        make_run(storage, "r", "t")
        clock.advance(seconds=1)
        ended = end(storage, claimed(storage), thread_status=ThreadStatus.INTERRUPTED)
        after = thread(storage)
        assert (after.values, after.interrupts, after.error) == (
            before.values,
            before.interrupts,
            before.error,
        )
        assert (after.metadata, after.config) == (before.metadata, before.config)
        assert after.state_updated_at == before.state_updated_at
        assert after.status is ThreadStatus.INTERRUPTED
        assert (ended.error, ended.cancel_reason) == (None, None)
        make_run(storage, "s", "t")
        end(storage, claimed(storage), values=None, interrupts={}, error=None)
        after = thread(storage)
        assert (after.values, after.interrupts, after.error) == (None, {}, None)

    @pytest.mark.parametrize("status", [RunStatus.SUCCESS, RunStatus.TIMEOUT, RunStatus.INTERRUPTED])
    def test_an_interrupted_run_keeps_why(self, storage: Storage, status: RunStatus) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        run = claimed(storage)
        storage.runs.cancel(RunQuery(run_ids=["r"]), CancelAction.INTERRUPT, reason="user")
        # The worker was not told the reason, but may know one of its own.
        ended = end(storage, run, status=status)
        assert ended.cancel_reason == ("user" if status is RunStatus.INTERRUPTED else None)
        make_run(storage, "s", "t")
        ended = end(storage, claimed(storage), status=status, cancel_reason="shut down")
        assert ended.cancel_reason == "shut down"

    def test_a_run_that_is_rolled_back_is_gone(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        run = claimed(storage)
        ended = end(storage, run, status=RunStatus.INTERRUPTED, roll_back=True)
        assert (ended.run_id, ended.status) == ("1", RunStatus.INTERRUPTED)
        assert storage.runs.get("1") is None
        assert storage.events.read("1").status is None
        assert thread(storage).status is ThreadStatus.IDLE
        assert drained(storage) == ["2"]

    def test_a_thread_can_go_with_its_run(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "1", "t")
        make_run(storage, "2", "t")
        run = claimed(storage)
        ended = end(storage, run, delete_thread=True)
        assert ended.status is RunStatus.SUCCESS
        assert storage.threads.get("t") is None
        assert [storage.runs.get(each) for each in "12"] == [None, None]
        assert storage.runs.next_available_at() is None
        assert claim_one(storage) is None
        assert not storage.runs.is_current(run.lease)

    def test_no_run_ends_as_what_is_no_end(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        run = claimed(storage)
        wrong: list[tuple[str, dict[str, Any]]] = [
            ("status", {"status": RunStatus.PENDING}),
            ("status", {"status": RunStatus.RUNNING}),
            ("thread_status", {"thread_status": ThreadStatus.BUSY}),
            ("run_error", {"run_error": {"error": {1}}}),
            ("cancel_reason", {"cancel_reason": "\0"}),
            ("values", {"values": {"x": {1}}}),
        ]
        for field, fields in wrong:
            with pytest.raises(InvalidInput) as raised:
                end(storage, run, **fields)
            assert raised.value.field == field
            assert storage.runs.is_current(run.lease)
            assert thread(storage).status is ThreadStatus.BUSY

    # ---- mark

    def test_a_mark_is_set_once(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        assert storage.runs.mark(claimed(storage).lease) is True
        storage.runs.release(current(storage))
        # What a former attempt marked is what the run began from.
        claimed(storage)
        assert storage.runs.mark(current(storage)) is False
        storage.runs.reap(everybody=True, max_attempts=9)
        run = claimed(storage)
        assert storage.runs.mark(run.lease) is False
        end(storage, run, status=RunStatus.INTERRUPTED, roll_back=True)
        make_run(storage, "r", "t")
        run = claimed(storage)
        assert storage.runs.mark(run.lease) is True
        with pytest.raises(InvalidInput):
            storage.runs.mark(run.lease, "")

    # ---- the thread

    def test_a_thread_lives_on_with_its_runs(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t", ttl=ThreadTTL(0.5))
        make_thread(storage, "pinned")
        make_run(storage, "of-pinned", "pinned")
        assert thread(storage, "pinned").expires_at is None
        steps: list[Callable[[], object]] = [
            lambda: make_run(storage, "r", "t"),
            lambda: claimed(storage, "t"),
            lambda: storage.runs.release(current(storage, "t")),
            lambda: claimed(storage, "t"),
            lambda: storage.runs.reap(everybody=True, max_attempts=9),
            lambda: end(storage, claimed(storage, "t")),
        ]
        for step in steps:
            clock.advance(seconds=7)
            step()
            assert thread(storage).expires_at == clock() + 30 * SECOND
