"""What a repeated request finds: the record of the first."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.errors import InvalidInput, LimitExceeded
from stateroom.model.idempotency import IdempotencyRecord
from stateroom.testing.storage_harness import (
    SECOND,
    StorageHarness,
    check_id,
    check_refused,
    make_run,
    make_thread,
    together,
)

__all__ = ["IdempotencySuite"]

CALLERS = 20
LIFETIME = 60 * SECOND


def claim(storage: Storage, claim_id: str = "first", **other: Any) -> IdempotencyRecord:
    """Claim the key ``k`` of the scope ``s``, or others."""
    fields = {"scope": "s", "key": "k", "fingerprint": "print", "lifetime": LIFETIME, **other}
    return storage.idempotency.claim(fields.pop("scope"), fields.pop("key"), claim_id=claim_id, **fields)


def record(storage: Storage, claim_id: str = "first", **other: Any) -> bool:
    """Note the answer ``done`` under the key ``k`` of the scope ``s``, or others."""
    fields = {"response": b"done", "thread_id": None, "run_id": None, "lifetime": LIFETIME, **other}
    scope, key = fields.pop("scope", "s"), fields.pop("key", "k")
    return storage.idempotency.record(scope, key, claim_id=claim_id, **fields)


class IdempotencySuite(StorageHarness):
    """``claim`` gives a key to one; ``record`` and ``release`` are his, until the record expires."""

    def test_a_claim_of_a_free_key_answers_itself(self, storage: Storage, clock: ManualClock) -> None:
        now = clock()
        held = claim(storage, lifetime=5)
        assert held == IdempotencyRecord("s", "k", "print", "first", None, None, None, now, now + 5)
        assert storage.idempotency.get("s", "k") == held

    def test_a_claim_of_a_held_key_answers_who_has_it(self, storage: Storage, clock: ManualClock) -> None:
        held = claim(storage)
        clock.advance(seconds=1)
        assert claim(storage, "second", fingerprint="other") == held
        assert claim(storage, fingerprint="other") == held
        assert storage.idempotency.get("s", "k") == held

    def test_scopes_and_keys_are_apart(self, storage: Storage) -> None:
        for place in (("s", "k"), ("s", "K"), ("s ", "k"), ("k", "s"), ("sk", "k")):
            assert claim(storage, "/".join(place), scope=place[0], key=place[1]).claim_id == "/".join(place)
        assert storage.idempotency.get("s", "kk") is None

    def test_of_all_who_claim_one_key_exactly_one_has_it(self, storage: Storage) -> None:
        answers = together(CALLERS, lambda number: claim(storage, str(number)))
        holders = {answer.claim_id for answer in answers if isinstance(answer, IdempotencyRecord)}
        assert len(answers) == CALLERS
        assert len(holders) == 1
        assert answers == [storage.idempotency.get("s", "k")] * CALLERS

    def test_of_all_who_claim_an_expired_key_exactly_one_has_it(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        claim(storage, "gone", lifetime=SECOND)
        clock.advance(seconds=1)
        answers = together(CALLERS, lambda number: claim(storage, str(number)))
        held = storage.idempotency.get("s", "k")
        assert held is not None
        assert held.claim_id != "gone"
        assert answers == [held] * CALLERS

    def test_an_expired_record_is_absent(self, storage: Storage, clock: ManualClock) -> None:
        claim(storage, lifetime=SECOND)
        clock.microseconds += SECOND - 1
        assert storage.idempotency.get("s", "k") is not None
        assert claim(storage, "second").claim_id == "first"
        clock.microseconds += 1
        assert storage.idempotency.get("s", "k") is None
        assert not record(storage)
        assert not storage.idempotency.release("s", "k", claim_id="first")
        assert claim(storage, "second", fingerprint="other").claim_id == "second"

    def test_a_claim_after_an_answer_expired_has_nothing_of_it(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        claim(storage)
        assert record(storage, thread_id="t", run_id="r", lifetime=SECOND)
        clock.advance(seconds=1)
        now = clock()
        again = claim(storage, "second", fingerprint="other")
        assert again == IdempotencyRecord("s", "k", "other", "second", None, None, None, now, now + LIFETIME)

    def test_an_answer_is_noted_for_its_lifetime_from_now(self, storage: Storage, clock: ManualClock) -> None:
        begun = clock()
        claim(storage, lifetime=10 * SECOND)
        clock.advance(seconds=4)
        assert record(storage, response=b"\0\xff{}", lifetime=20 * SECOND)
        noted = IdempotencyRecord(
            "s", "k", "print", "first", b"\0\xff{}", None, None, begun, begun + 24 * SECOND
        )
        assert storage.idempotency.get("s", "k") == noted
        assert claim(storage, "second") == noted
        clock.advance(seconds=20)
        assert storage.idempotency.get("s", "k") is None

    def test_an_empty_answer_is_an_answer(self, storage: Storage) -> None:
        claim(storage)
        assert record(storage, response=b"")
        assert claim(storage, "second").response == b""
        assert not storage.idempotency.release("s", "k", claim_id="first")

    def test_only_the_holder_notes_an_answer(self, storage: Storage) -> None:
        assert not record(storage)
        assert storage.idempotency.get("s", "k") is None
        held = claim(storage)
        assert not record(storage, "second")
        assert not record(storage, key="other")
        assert not record(storage, scope="other")
        assert storage.idempotency.get("s", "k") == held

    def test_an_answer_may_name_what_the_request_made(self, storage: Storage) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        for key, made in (("both", ("t", "r")), ("thread", ("t", None)), ("run", (None, "r"))):
            claim(storage, key=key)
            assert record(storage, key=key, thread_id=made[0], run_id=made[1])
            noted = storage.idempotency.get("s", key)
            assert noted is not None
            assert (noted.thread_id, noted.run_id) == made

    @pytest.mark.parametrize("made", [("gone", None), (None, "gone"), ("t", "gone"), ("gone", "r")], ids=str)
    def test_no_answer_is_noted_when_what_it_names_is_gone(
        self, storage: Storage, made: tuple[str | None, str | None]
    ) -> None:
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        claim(storage)
        assert not record(storage, thread_id=made[0], run_id=made[1])
        # It went with what it names, so that the request may be made again.
        assert storage.idempotency.get("s", "k") is None
        assert claim(storage, "second").claim_id == "second"

    def test_only_the_holder_of_a_claim_is_hurt_when_what_it_names_is_gone(self, storage: Storage) -> None:
        held = claim(storage)
        assert not record(storage, "second", thread_id="gone")
        assert storage.idempotency.get("s", "k") == held

    def test_a_record_goes_with_its_thread(self, storage: Storage) -> None:
        for thread in ("t", "other"):
            make_thread(storage, thread)
            claim(storage, key=thread)
            record(storage, key=thread, thread_id=thread)
        storage.threads.delete("t")
        assert storage.idempotency.get("s", "t") is None
        assert storage.idempotency.get("s", "other") is not None

    def test_a_record_goes_with_its_run(self, storage: Storage) -> None:
        make_thread(storage, "t")
        for run in ("r", "other"):
            make_run(storage, run, "t")
            claim(storage, key=run)
            record(storage, key=run, run_id=run)
        storage.runs.delete("r")
        assert storage.idempotency.get("s", "r") is None
        assert storage.idempotency.get("s", "other") is not None

    def test_a_thread_that_goes_while_answers_name_it_leaves_none(self, storage: Storage) -> None:
        for number in range(10):
            make_thread(storage, f"t{number}")
            claim(storage, key=str(number))

        def act(number: int) -> object:
            thread = f"t{number // 2}"
            if number % 2:
                return storage.threads.delete(thread)
            return record(storage, key=str(number // 2), thread_id=thread)

        together(20, act)
        assert [storage.idempotency.get("s", str(number)) for number in range(10)] == [None] * 10

    def test_a_released_claim_may_be_had_by_another(self, storage: Storage) -> None:
        claim(storage)
        assert storage.idempotency.release("s", "k", claim_id="first")
        assert storage.idempotency.get("s", "k") is None
        assert not storage.idempotency.release("s", "k", claim_id="first")
        assert claim(storage, "second").claim_id == "second"

    def test_only_the_holder_releases_and_only_a_claim_without_an_answer(self, storage: Storage) -> None:
        assert not storage.idempotency.release("s", "k", claim_id="first")
        claim(storage)
        assert not storage.idempotency.release("s", "k", claim_id="second")
        assert not storage.idempotency.release("s", "other", claim_id="first")
        assert record(storage)
        assert not storage.idempotency.release("s", "k", claim_id="first")
        assert claim(storage, "second").response == b"done"

    def test_sweep_removes_expired_records_at_most_so_many(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        for number in range(5):
            # Those that expire at one moment are told apart by what they are.
            claim(storage, scope=str(number % 2), key=str(number), lifetime=1 + number // 2)
        claim(storage, key="lasts", lifetime=4)
        assert storage.idempotency.sweep() == 0
        clock.microseconds += 3
        assert storage.idempotency.sweep(0) == 0
        assert storage.idempotency.sweep(1) == 1
        assert storage.idempotency.sweep(2) == 2
        assert storage.idempotency.sweep(limit=1000) == 2
        assert storage.idempotency.sweep() == 0
        assert storage.idempotency.get("s", "lasts") is not None

    def test_sweep_leaves_what_was_claimed_anew(self, storage: Storage, clock: ManualClock) -> None:
        claim(storage, lifetime=SECOND)
        clock.advance(seconds=1)
        claim(storage, "second")
        assert storage.idempotency.sweep() == 0
        assert claim(storage, "third").claim_id == "second"

    def test_ids_of_records_that_cannot_be_kept_are_refused(self, storage: Storage) -> None:
        idempotency = storage.idempotency
        check_id("scope", lambda scope: claim(storage, scope=scope))
        check_id("key", lambda key: claim(storage, key=key))
        check_id("fingerprint", lambda text: claim(storage, key="f", fingerprint=text))
        check_id("claim_id", lambda text: claim(storage, text, key="c"))
        check_id("scope", lambda scope: record(storage, scope=scope))
        check_id("key", lambda key: record(storage, key=key))
        check_id("claim_id", lambda text: record(storage, text))
        check_id("thread_id", lambda text: record(storage, thread_id=text), optional=True)
        check_id("run_id", lambda text: record(storage, run_id=text), optional=True)
        check_id("scope", lambda scope: idempotency.release(scope, "k", claim_id="c"))
        check_id("key", lambda key: idempotency.release("s", key, claim_id="c"))
        check_id("claim_id", lambda text: idempotency.release("s", "k", claim_id=text))
        check_id("scope", lambda scope: idempotency.get(scope, "k"))
        check_id("key", lambda key: idempotency.get("s", key))

    @pytest.mark.parametrize("wrong", [-1, "1", True, 1.5])
    def test_limits_and_durations_of_records_that_are_none_are_refused(
        self, storage: Storage, wrong: Any
    ) -> None:
        check_refused(InvalidInput, "limit", partial(storage.idempotency.sweep, wrong))
        for call in (claim, record):
            check_refused(InvalidInput, "lifetime", partial(call, storage, lifetime=wrong))
            check_refused(LimitExceeded, "lifetime", partial(call, storage, lifetime=2**62))
