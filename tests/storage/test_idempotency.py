"""Idempotency records of every storage."""

from __future__ import annotations

import pytest
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.drivers.sql.deletions import begin_deletion
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.testing.parts.storage_idempotency import IdempotencySuite, claim, record
from stateroom.testing.storage_harness import OpensStorage, make_run, make_thread, together


class TestIdempotency(IdempotencySuite):
    """The suite, on each kind of storage."""

    @pytest.fixture
    @override
    def new_storage(self, any_storage: OpensStorage) -> OpensStorage:
        return any_storage

    def test_no_answer_names_a_run_whose_thread_is_going(self, storage: Storage) -> None:
        assert isinstance(storage, SqlStorage)
        make_thread(storage, "t")
        make_run(storage, "r", "t")
        claim(storage)
        storage.dialect.write(lambda session: begin_deletion(session, "t"))
        assert not record(storage, run_id="r")
        assert storage.idempotency.get("s", "k") is None

    def test_a_thread_that_goes_while_answers_name_its_runs_leaves_none(self, storage: Storage) -> None:
        for number in range(10):
            make_thread(storage, f"t{number}")
            make_run(storage, f"r{number}", f"t{number}")
            claim(storage, key=str(number))

        def act(number: int) -> object:
            if number % 2:
                return storage.threads.delete(f"t{number // 2}")
            return record(storage, key=str(number // 2), run_id=f"r{number // 2}")

        assert all(isinstance(each, bool) for each in together(20, act))
        assert [storage.idempotency.get("s", str(number)) for number in range(10)] == [None] * 10

    def test_a_sweep_beside_claims_takes_none_of_them(self, storage: Storage, clock: ManualClock) -> None:
        for number in range(10):
            claim(storage, "gone", key=str(number), lifetime=1)
        clock.microseconds += 1

        def act(number: int) -> object:
            if number % 2:
                return storage.idempotency.sweep(3)
            return claim(storage, "new", key=str(number // 2)).claim_id

        outcomes = together(20, act)
        assert [outcome for outcome in outcomes if isinstance(outcome, str)] == ["new"] * 10
        assert all(claim(storage, "late", key=str(number)).claim_id == "new" for number in range(10))
