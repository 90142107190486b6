"""What webhooks are told, until they have been told."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.errors import Conflict, InvalidInput, LimitExceeded
from stateroom.model.delivery import Delivery, DeliveryStatus, NewDelivery
from stateroom.model.run import RunStatus
from stateroom.model.thread import ThreadStatus
from stateroom.testing.storage_harness import (
    LEASE,
    SECOND,
    StorageHarness,
    check_id,
    check_refused,
    check_text,
    claim_one,
    make_run,
    make_thread,
    together,
)

__all__ = ["DeliveriesSuite"]

CLAIMERS = 8
URL = "https://example.org/hook"
PAYLOAD = {"status": "success", "text": "NUL \0 and half a \ud83d", "n": [1, 2.5, None]}


def deliver(storage: Storage, *new: NewDelivery, run_id: str = "r", thread_id: str = "t") -> None:
    """Make deliveries, by the end of a run of a thread of its own."""
    make_thread(storage, thread_id)
    make_run(storage, run_id, thread_id)
    run = claim_one(storage)
    assert run is not None
    assert run.run_id == run_id
    storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, deliveries=new))


def hook(delivery_id: str = "d", *, url: str = URL, payload: Any = None) -> NewDelivery:
    """Return a delivery to be made."""
    return NewDelivery(delivery_id, url, PAYLOAD if payload is None else payload)


def read(storage: Storage, delivery_id: str = "d") -> Delivery:
    """Return a delivery that must be there."""
    found = storage.deliveries.get(delivery_id)
    assert found is not None
    return found


def claimed(storage: Storage, **options: Any) -> list[str]:
    """Claim deliveries; return their ids."""
    return [each.delivery_id for each in storage.deliveries.claim(**{"lease": LEASE, **options})]


class DeliveriesSuite(StorageHarness):
    """A delivery is claimed, tried, and then done, to be tried again later, or dead."""

    def test_a_delivery_is_due_as_soon_as_it_is_made(self, storage: Storage, clock: ManualClock) -> None:
        now = clock()
        deliver(storage, hook())
        assert read(storage) == Delivery(
            "d", "r", "t", URL, PAYLOAD, DeliveryStatus.PENDING, 0, now, None, now, now
        )
        assert storage.deliveries.next_due_at() == now
        assert storage.deliveries.get("other") is None

    def test_of_run_answers_a_runs_deliveries_the_newest_first(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        deliver(storage, hook("a"), hook("c"), hook("b"))
        clock.advance(seconds=1)
        deliver(storage, hook("other"), run_id="r2", thread_id="t2")
        assert [each.delivery_id for each in storage.deliveries.of_run("r")] == ["c", "b", "a"]
        assert storage.deliveries.of_run("r2") == [read(storage, "other")]
        assert storage.deliveries.of_run("r3") == []

    def test_deliveries_with_an_id_that_is_taken_are_not_made(self, storage: Storage) -> None:
        deliver(storage, hook())
        again = partial(deliver, storage, hook("new"), hook("d"), run_id="r2", thread_id="t2")
        check_refused(Conflict, "delivery_id", again)
        assert storage.deliveries.get("new") is None
        assert read(storage).run_id == "r"

    def test_a_claim_of_deliveries_takes_what_is_due_for_its_lease(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        made = clock()
        deliver(storage, hook())
        clock.advance(seconds=1)
        (taken,) = storage.deliveries.claim(lease=LEASE)
        assert taken == Delivery(
            *("d", "r", "t", URL, PAYLOAD, DeliveryStatus.DELIVERING),
            *(1, clock() + LEASE, None, made, clock()),
        )
        assert read(storage) == taken
        assert storage.deliveries.next_due_at() == clock() + LEASE

    def test_a_claim_of_deliveries_takes_at_most_so_many_the_longest_due_first(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        for name in "cab":
            deliver(storage, hook(name), run_id=name, thread_id=name)
            clock.advance(seconds=1)
        deliver(storage, hook("e"), hook("d"))
        assert claimed(storage, limit=0) == []
        assert claimed(storage, limit=2) == ["c", "a"]
        assert claimed(storage) == ["b", "d", "e"]
        assert claimed(storage) == []

    def test_a_claim_of_deliveries_takes_twenty_unless_told_otherwise(self, storage: Storage) -> None:
        deliver(storage, *(hook(f"{number:02}") for number in range(23)))
        assert claimed(storage) == [f"{number:02}" for number in range(20)]
        assert claimed(storage) == ["20", "21", "22"]

    def test_nobody_gets_one_while_its_lease_lasts(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        assert claimed(storage) == ["d"]
        clock.microseconds += LEASE - 1
        assert claimed(storage) == []

    def test_one_whose_claimer_said_nothing_is_due_again(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        claimed(storage)
        clock.microseconds += LEASE
        (again,) = storage.deliveries.claim(lease=SECOND)
        assert (again.status, again.attempts) == (DeliveryStatus.DELIVERING, 2)
        assert again.due_at == clock() + SECOND

    def test_of_claimers_at_one_moment_none_get_the_same(self, storage: Storage) -> None:
        deliver(storage, *(hook(f"{number:02}") for number in range(40)))

        def drain(_: int) -> list[str]:
            taken = []
            while some := claimed(storage, limit=3):
                taken += some
            return taken

        taken = [each for some in together(CLAIMERS, drain) if isinstance(some, list) for each in some]
        assert sorted(taken) == [f"{number:02}" for number in range(40)]
        assert {each.attempts for each in storage.deliveries.of_run("r")} == {1}

    def test_a_success_is_kept_without_the_payload(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        (taken,) = storage.deliveries.claim(lease=LEASE)
        clock.advance(seconds=1)
        assert storage.deliveries.succeed("d", attempts=1)
        done = read(storage)
        assert (done.status, done.payload, done.attempts) == (DeliveryStatus.DELIVERED, None, 1)
        assert (done.created_at, done.updated_at) == (taken.created_at, clock())
        assert storage.deliveries.next_due_at() is None
        clock.microseconds += LEASE
        assert claimed(storage) == []

    def test_a_failure_is_due_again_when_it_says(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        claimed(storage)
        clock.advance(seconds=1)
        assert storage.deliveries.fail("d", attempts=1, error="503", retry_in=5 * SECOND)
        failed = read(storage)
        assert (failed.status, failed.payload) == (DeliveryStatus.PENDING, PAYLOAD)
        assert (failed.attempts, failed.error) == (1, "503")
        assert (failed.due_at, failed.updated_at) == (clock() + 5 * SECOND, clock())
        assert storage.deliveries.next_due_at() == clock() + 5 * SECOND
        clock.microseconds += 5 * SECOND - 1
        assert claimed(storage) == []
        clock.microseconds += 1
        assert claimed(storage) == ["d"]
        assert read(storage).attempts == 2

    def test_a_failure_that_is_never_tried_again_is_dead(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        claimed(storage)
        assert storage.deliveries.fail("d", attempts=1, error="gone", retry_in=None)
        dead = read(storage)
        assert (dead.status, dead.payload, dead.error) == (DeliveryStatus.DEAD, PAYLOAD, "gone")
        assert storage.deliveries.next_due_at() is None
        clock.advance(minutes=10_000)
        assert claimed(storage) == []

    def test_a_late_answer_changes_nothing(self, storage: Storage, clock: ManualClock) -> None:
        deliver(storage, hook())
        claimed(storage)
        clock.microseconds += LEASE
        claimed(storage)
        before = read(storage)
        for attempts in (0, 1, 3):
            assert not storage.deliveries.succeed("d", attempts=attempts)
            assert not storage.deliveries.fail("d", attempts=attempts, error="late", retry_in=None)
        assert read(storage) == before
        # It is late, but nobody else has begun meanwhile.
        clock.microseconds += LEASE
        assert storage.deliveries.succeed("d", attempts=2)

    @pytest.mark.parametrize("retry_in", [SECOND, None])
    def test_only_what_is_delivering_is_answered(self, storage: Storage, retry_in: int | None) -> None:
        def answered() -> list[bool]:
            return [
                storage.deliveries.succeed("d", attempts=attempts)
                or storage.deliveries.fail("d", attempts=attempts, error="", retry_in=retry_in)
                for attempts in (0, 1)
            ]

        assert answered() == [False, False]
        deliver(storage, hook())
        assert answered() == [False, False]
        claimed(storage)
        assert storage.deliveries.fail("d", attempts=1, error="", retry_in=retry_in)
        before = read(storage)
        assert answered() == [False, False]
        assert read(storage) == before

    def test_a_delivered_one_is_not_answered_again(self, storage: Storage) -> None:
        deliver(storage, hook())
        claimed(storage)
        assert storage.deliveries.succeed("d", attempts=1)
        assert not storage.deliveries.succeed("d", attempts=1)
        assert not storage.deliveries.fail("d", attempts=1, error="late", retry_in=SECOND)
        assert read(storage).status is DeliveryStatus.DELIVERED

    @pytest.mark.parametrize("retry_in", [None, 1000 * SECOND], ids=["dead", "waiting"])
    def test_retry_makes_one_due_now_as_if_it_were_new(
        self, storage: Storage, clock: ManualClock, retry_in: int | None
    ) -> None:
        deliver(storage, hook())
        claimed(storage)
        storage.deliveries.fail("d", attempts=1, error="gone", retry_in=retry_in)
        clock.advance(seconds=1)
        retried = storage.deliveries.retry("d")
        assert retried == read(storage)
        assert (retried.status, retried.attempts) == (DeliveryStatus.PENDING, 0)
        assert (retried.due_at, retried.updated_at) == (clock(), clock())
        (taken,) = storage.deliveries.claim(lease=LEASE)
        assert (taken.attempts, taken.payload) == (1, PAYLOAD)

    def test_retry_of_one_that_is_gone_or_delivered_answers_none(self, storage: Storage) -> None:
        assert storage.deliveries.retry("d") is None
        deliver(storage, hook())
        claimed(storage)
        storage.deliveries.succeed("d", attempts=1)
        before = read(storage)
        assert storage.deliveries.retry("d") is None
        assert read(storage) == before

    def test_next_due_at_is_when_the_soonest_is_due_or_its_lease_ends(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        assert storage.deliveries.next_due_at() is None
        now = clock()
        deliver(storage, hook("a"), hook("b"))
        claimed(storage, limit=1, lease=5 * SECOND)
        assert storage.deliveries.next_due_at() == now
        claimed(storage, limit=1, lease=9 * SECOND)
        assert storage.deliveries.next_due_at() == now + 5 * SECOND
        storage.deliveries.fail("a", attempts=1, error="", retry_in=7 * SECOND)
        assert storage.deliveries.next_due_at() == now + 7 * SECOND
        storage.deliveries.succeed("b", attempts=1)
        assert storage.deliveries.next_due_at() == now + 7 * SECOND

    def test_sweep_removes_deliveries_that_are_done_and_was_last_changed_before(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        deliver(storage, *map(hook, ("delivered", "dead", "waiting", "z-delivering", "z-pending")))
        assert claimed(storage, limit=4) == ["dead", "delivered", "waiting", "z-delivering"]
        storage.deliveries.succeed("delivered", attempts=1)
        storage.deliveries.fail("dead", attempts=1, error="", retry_in=None)
        storage.deliveries.fail("waiting", attempts=1, error="", retry_in=1)
        assert storage.deliveries.sweep(before=clock()) == 0
        assert storage.deliveries.sweep(before=clock() + 1) == 2
        assert {each.delivery_id for each in storage.deliveries.of_run("r")} == {
            *("waiting", "z-delivering", "z-pending")
        }

    def test_sweep_removes_at_most_so_many_deliveries_the_oldest_first(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        deliver(storage, *(hook(name) for name in "abcde"))
        claimed(storage)
        for name in "badce":
            storage.deliveries.succeed(name, attempts=1)
            clock.advance(seconds=1)
        assert storage.deliveries.sweep(before=clock(), limit=0) == 0
        assert storage.deliveries.sweep(before=clock(), limit=2) == 2
        assert [each.delivery_id for each in storage.deliveries.of_run("r")] == ["e", "d", "c"]
        assert storage.deliveries.sweep(before=clock()) == 3

    def test_ids_and_texts_of_deliveries_that_cannot_be_kept_are_refused(self, storage: Storage) -> None:
        deliveries = storage.deliveries
        check_id("delivery_id", deliveries.get)
        check_id("run_id", deliveries.of_run)
        check_id("delivery_id", lambda text: deliveries.succeed(text, attempts=1))
        check_id("delivery_id", lambda text: deliveries.fail(text, attempts=1, error="", retry_in=1))
        check_id("delivery_id", deliveries.retry)
        check_text("error", lambda text: deliveries.fail("d", attempts=1, error=text, retry_in=1))

    def test_new_deliveries_that_cannot_be_kept_are_refused(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        run = claim_one(storage)
        assert run is not None

        def settle(new: NewDelivery) -> None:
            end = Settlement(RunStatus.SUCCESS, ThreadStatus.IDLE, deliveries=[new])
            assert run is not None
            storage.runs.settle(run.lease, end)

        for field, new in (
            ("delivery_id", hook("")),
            ("url", hook(url="a\0b")),
            ("payload", hook(payload={"x": object()})),
        ):
            check_refused(InvalidInput, field, partial(settle, new))
        assert storage.deliveries.of_run("r") == []
        settle(hook("i" * 255, url="u" * 64 * 1024))
        assert [each.url for each in storage.deliveries.of_run("r")] == ["u" * 64 * 1024]

    @pytest.mark.parametrize("wrong", [-1, "1", True, 1.5])
    def test_limits_and_durations_of_deliveries_that_are_none_are_refused(
        self, storage: Storage, wrong: Any
    ) -> None:
        deliveries = storage.deliveries
        check_refused(InvalidInput, "limit", partial(deliveries.claim, lease=LEASE, limit=wrong))
        check_refused(InvalidInput, "limit", partial(deliveries.sweep, before=0, limit=wrong))
        check_refused(InvalidInput, "lease", partial(deliveries.claim, lease=wrong))
        fail = partial(deliveries.fail, "d", attempts=1, error="")
        check_refused(InvalidInput, "retry_in", partial(fail, retry_in=wrong))
        for field, call in (("lease", deliveries.claim), ("retry_in", fail)):
            long: dict[str, Any] = {field: 2**62}
            check_refused(LimitExceeded, field, partial(call, **long))
        check_refused(InvalidInput, "lease", partial(deliveries.claim, lease=0))
