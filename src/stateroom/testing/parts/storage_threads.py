"""How threads are made and changed."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.runs import Settlement
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange
from stateroom.errors import (
    Conflict,
    InvalidInput,
    InvalidValue,
    LimitExceeded,
    NotFound,
)
from stateroom.model.limits import METADATA_BYTES_MAX
from stateroom.model.run import RunStatus
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL
from stateroom.testing.parts.storage_thread_deletion import ThreadDeletionSuite
from stateroom.testing.parts.storage_thread_lives import (
    INTERRUPTS,
    MINUTE,
    ThreadLifeSuite,
    change,
    read,
)
from stateroom.testing.storage_harness import (
    check_id,
    check_refused,
    claim_one,
    make_run,
    make_thread,
    together,
)

__all__ = ["ThreadSuite"]

CALLERS = 20
NOTHING = ThreadChange()


def metadata_of(size: int) -> dict[str, Any]:
    """Return metadata of so many bytes as JSON."""
    return {"x": "i" * (size - len('{"x":""}'))}


class ThreadSuite(ThreadLifeSuite, ThreadDeletionSuite):
    """Threads, each with the state that its last run left."""

    def test_create_makes_an_idle_thread_and_answers_it(self, storage: Storage, clock: ManualClock) -> None:
        now = clock()
        made = make_thread(storage, "t", metadata={"a": {"b": [1, None]}}, config={"tags": ["x"]})
        assert made == Thread(
            thread_id="t",
            status=ThreadStatus.IDLE,
            created_at=now,
            updated_at=now,
            state_updated_at=now,
            metadata={"a": {"b": [1, None]}},
            config={"tags": ["x"]},
            values=None,
            interrupts={},
            error=None,
            ttl=None,
            expires_at=None,
        )
        assert read(storage) == made

    def test_what_is_answered_belongs_to_the_caller(self, storage: Storage) -> None:
        given: dict[str, Any] = {"list": [1]}
        make_thread(storage, "t", metadata=given).metadata["list"].append(2)
        given["list"].append(3)
        answered: Any = change(storage, values=given).values
        answered["list"].append(4)
        assert read(storage).metadata == {"list": [1]}
        assert read(storage).values == {"list": [1, 3]}

    def test_A36_a_taken_id_is_a_conflict_and_the_thread_stays(self, storage: Storage) -> None:
        make_thread(storage, "x", metadata={"a": 1})
        kept = change(storage, "x", status=ThreadStatus.INTERRUPTED, interrupts=INTERRUPTS, values={"v": 1})
        new = NewThread("x", metadata={"a": 2}, config={"c": 1}, ttl=ThreadTTL(5))
        with pytest.raises(Conflict) as caught:
            storage.threads.create(new)
        assert (caught.value.code, caught.value.field) == ("conflict", "thread_id")
        assert read(storage, "x") == kept
        assert storage.threads.create(new, if_exists="do_nothing") == kept
        assert read(storage, "x") == kept

    def test_do_nothing_makes_a_thread_that_is_not_there(self, storage: Storage) -> None:
        made = storage.threads.create(NewThread("t", metadata={"a": 1}), if_exists="do_nothing")
        assert made.metadata == {"a": 1}
        assert read(storage) == made

    def test_another_if_exists_is_refused(self, storage: Storage) -> None:
        wrong: Any
        for wrong in ("overwrite", None, True):
            check_refused(
                InvalidInput, "if_exists", partial(storage.threads.create, NewThread("t"), if_exists=wrong)
            )
        assert storage.threads.get("t") is None

    def test_A36_of_many_who_create_one_id_at_once_one_makes_it(self, storage: Storage) -> None:
        made = together(CALLERS, lambda number: make_thread(storage, "t", metadata={"n": number}))
        (thread,) = (each for each in made if isinstance(each, Thread))
        assert sum(isinstance(each, Conflict) for each in made) == CALLERS - 1
        assert read(storage) == thread

    def test_A36_of_many_who_create_one_id_unless_it_is_there_all_get_the_same(
        self, storage: Storage
    ) -> None:
        made = together(
            CALLERS,
            lambda number: storage.threads.create(NewThread("t", {"n": number}), if_exists="do_nothing"),
        )
        assert made == [read(storage)] * CALLERS

    def test_an_unknown_thread_is_none(self, storage: Storage) -> None:
        assert storage.threads.get("t") is None

    def test_metadata_are_merged_key_by_key(self, storage: Storage) -> None:
        make_thread(storage, "t", metadata={"kept": 1, "deep": {"a": 1}, "null": 1}, config={"c": 1})
        changed = change(storage, metadata={"deep": {"b": 2}, "null": None, "new": [1]})
        assert changed.metadata == {"kept": 1, "deep": {"b": 2}, "null": None, "new": [1]}
        assert changed.config == {"c": 1}
        assert read(storage) == changed

    def test_the_rest_replaces_what_is_there_and_what_is_not_mentioned_stays(self, storage: Storage) -> None:
        made = make_thread(storage, "t", metadata={"m": 1}, config={"a": 1, "b": 2})
        fields: dict[str, Any] = {
            "config": {"b": 3},
            "values": {"messages": ["hello"]},
            "interrupts": INTERRUPTS,
            "error": {"error": "ValueError", "message": "no"},
            "status": ThreadStatus.ERROR,
        }
        expected = {name: getattr(made, name) for name in fields}
        for name, value in fields.items():
            expected[name] = value
            changed = change(storage, **{name: value})
            assert {field: getattr(changed, field) for field in fields} == expected
            assert read(storage) == changed
        assert changed.metadata == {"m": 1}
        emptied = change(storage, config={}, values={"other": 1}, interrupts={}, error=None, status="idle")
        assert (emptied.config, emptied.values, emptied.interrupts, emptied.error) == (
            {},
            {"other": 1},
            {},
            None,
        )
        assert emptied.status is ThreadStatus.IDLE
        assert read(storage) == emptied

    @pytest.mark.parametrize(
        "values",
        [None, [], [1, "a"], "text", 7, {}, {"a": None}, {"": {"": []}}, {"a\0b": "\0", "\ud800": "\udfff"}],
    )
    def test_values_are_any_json_and_come_back_as_they_were(self, storage: Storage, values: Any) -> None:
        make_thread(storage, "t")
        assert change(storage, values=values).values == values
        assert read(storage).values == values
        assert storage.threads.copy("t", "copy").values == values

    def test_numbers_in_values_come_back_as_they_were(self, storage: Storage) -> None:
        make_thread(storage, "t")
        change(storage, values={"huge": 10**300, "nan": math.nan, "inf": -math.inf, "zero": -0.0, "one": 1.0})
        values: Any = read(storage).values
        assert values["huge"] == 10**300
        assert math.isnan(values["nan"])
        assert values["inf"] == -math.inf
        assert math.copysign(1, values["zero"]) == -1
        assert isinstance(values["one"], float)

    def test_a_change_says_when_it_was(self, storage: Storage, clock: ManualClock) -> None:
        made = make_thread(storage, "t")
        clock.advance(seconds=1)
        for fields in (
            {},
            {"metadata": {"a": 1}},
            {"interrupts": INTERRUPTS},
            {"error": None},
            {"ttl": None},
        ):
            changed = change(storage, **fields)
            assert changed.updated_at == clock()
            clock.advance(seconds=1)
        assert (changed.created_at, changed.state_updated_at) == (made.created_at, made.state_updated_at)
        changed = change(storage, values=None)
        assert changed.updated_at == changed.state_updated_at == clock()

    def test_a_thread_that_does_not_exist_cannot_be_changed(self, storage: Storage) -> None:
        fields: dict[str, Any]
        for fields in ({}, {"metadata": {"a": 1}}, {"values": {}}):
            check_refused(NotFound, "thread_id", partial(change, storage, **fields))
        assert storage.threads.get("t") is None

    def test_changes_at_once_are_all_kept(self, storage: Storage) -> None:
        make_thread(storage, "t")
        together(CALLERS, lambda number: change(storage, metadata={f"n{number}": number}))
        assert read(storage).metadata == {f"n{number}": number for number in range(CALLERS)}

    def test_busy_is_what_only_a_run_makes_a_thread(self, storage: Storage) -> None:
        make_thread(storage, "t")
        check_refused(InvalidInput, "status", partial(change, storage, status=ThreadStatus.BUSY))
        check_refused(InvalidInput, "status", partial(change, storage, status="asleep"))
        make_run(storage, "r", "t")
        run = claim_one(storage)
        assert run is not None
        changed = change(storage, status=ThreadStatus.IDLE, metadata={"a": 1})
        assert (changed.status, changed.metadata) == (ThreadStatus.BUSY, {"a": 1})
        storage.runs.settle(run.lease, Settlement(RunStatus.SUCCESS, ThreadStatus.INTERRUPTED))
        assert change(storage, status=ThreadStatus.IDLE).status is ThreadStatus.IDLE

    def test_a_settlement_changes_a_thread_as_an_update_does(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        make_thread(storage, "t", metadata={"a": 1, "b": 1}, ttl=ThreadTTL(1))
        make_run(storage, "r", "t")
        run = claim_one(storage)
        assert run is not None
        clock.advance(seconds=9)
        settlement = Settlement(
            RunStatus.SUCCESS,
            ThreadStatus.INTERRUPTED,
            values={"v": 1},
            interrupts=INTERRUPTS,
            config={"c": 1},
            thread_metadata={"b": 2},
        )
        storage.runs.settle(run.lease, settlement)
        thread = read(storage)
        assert (thread.metadata, thread.values, thread.config) == ({"a": 1, "b": 2}, {"v": 1}, {"c": 1})
        assert (thread.status, thread.interrupts) == (ThreadStatus.INTERRUPTED, INTERRUPTS)
        assert thread.updated_at == thread.state_updated_at == clock()
        assert thread.expires_at == clock() + MINUTE

    def test_metadata_and_config_have_a_limit_that_is_kept_after_merging(self, storage: Storage) -> None:
        largest, larger = metadata_of(METADATA_BYTES_MAX), metadata_of(METADATA_BYTES_MAX + 1)
        for field in ("metadata", "config"):
            assert getattr(make_thread(storage, field, **{field: largest}), field) == largest
            check_refused(LimitExceeded, field, partial(make_thread, storage, "t", **{field: larger}))
        check_refused(LimitExceeded, "metadata", partial(change, storage, "metadata", metadata={"y": 1}))
        assert read(storage, "metadata").metadata == largest

    @pytest.mark.parametrize("field", ["metadata", "config", "interrupts", "error"])
    def test_what_is_no_object_is_refused_by_name(self, storage: Storage, field: str) -> None:
        make_thread(storage, "t")
        for wrong in ([], "text", 1, *(() if field == "error" else (None,))):
            check_refused(InvalidValue, field, partial(change, storage, **{field: wrong}))
        unfit: dict[str, Any] = {field: {"x": object()}}
        with pytest.raises(InvalidValue) as caught:
            change(storage, **unfit)
        assert str(caught.value.field).startswith(field)

    def test_what_is_no_json_is_refused_by_name(self, storage: Storage) -> None:
        kept = make_thread(storage, "t")
        with pytest.raises(InvalidValue) as caught:
            change(storage, values={"a": object()}, metadata={"a": 1})
        assert str(caught.value.field).startswith("values")
        assert read(storage) == kept

    def test_ids_are_texts_of_a_limited_length(self, storage: Storage) -> None:
        make_thread(storage, "t")
        check_id("thread_id", lambda each: storage.threads.create(NewThread(each), if_exists="do_nothing"))
        check_id("thread_id", storage.threads.get)
        check_id("thread_id", lambda each: storage.threads.update(each, NOTHING))
        check_id("thread_id", lambda each: storage.threads.rearm(each, 0))
        check_id("thread_id", lambda each: storage.threads.copy(each, "copy"))
        check_id("thread_id", storage.threads.delete)
        check_id("new_id", lambda each: storage.threads.copy("t", each))
