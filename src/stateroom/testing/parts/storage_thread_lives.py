"""How long threads live, and how they are copied into threads with a life of their own."""

from __future__ import annotations

import math
from functools import partial
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.storage import Storage
from stateroom.contract.threads import ThreadChange
from stateroom.errors import Conflict, InvalidPage, InvalidTTL, LimitExceeded, NotFound
from stateroom.model.limits import PAGE_NUMBER_MAX, TTL_MINUTES_MAX
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.testing.storage_harness import (
    SECOND,
    StorageHarness,
    check_refused,
    claim_one,
    make_run,
    make_thread,
    together,
)

__all__ = ["INTERRUPTS", "MINUTE", "ThreadLifeSuite", "change", "read"]

MINUTE = 60 * SECOND
INTERRUPTS = {"task": [{"id": "i", "value": "Shall I?"}]}


def change(storage: Storage, thread_id: str = "t", **fields: Any) -> Thread:
    """Change a thread."""
    return storage.threads.update(thread_id, ThreadChange(**fields))


def read(storage: Storage, thread_id: str = "t") -> Thread:
    """Return a thread that must be there."""
    thread = storage.threads.get(thread_id)
    assert thread is not None
    return thread


class ThreadLifeSuite(StorageHarness):
    """Threads are kept until their time has come, which every change puts off."""

    def test_a_thread_expires_so_long_after_its_last_change(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        ttl = ThreadTTL(1.5, TTLStrategy.KEEP_LATEST)
        made = make_thread(storage, "t", ttl=ttl)
        assert (made.ttl, made.expires_at) == (ttl, clock() + 90 * SECOND)
        fields: dict[str, Any]
        for fields in ({}, {"metadata": {"a": 1}}, {"values": {}}, {"status": ThreadStatus.ERROR}):
            clock.advance(seconds=7)
            changed = change(storage, **fields)
            assert (changed.ttl, changed.expires_at) == (ttl, clock() + 90 * SECOND)
        assert change(storage, ttl=ThreadTTL(2)).expires_at == clock() + 2 * MINUTE
        assert read(storage).ttl == ThreadTTL(2, TTLStrategy.DELETE)

    def test_none_pins_a_thread(self, storage: Storage, clock: ManualClock) -> None:
        make_thread(storage, "t", ttl=ThreadTTL(1))
        pinned = change(storage, ttl=None)
        assert (pinned.ttl, pinned.expires_at) == (None, None)
        clock.advance(minutes=100)
        assert change(storage, metadata={"a": 1}).expires_at is None
        assert storage.threads.expired() == []

    def test_an_expired_thread_can_be_read_until_it_is_swept(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        made = make_thread(storage, "t", ttl=ThreadTTL(1))
        clock.advance(minutes=60)
        assert read(storage) == made
        assert storage.threads.expired() == [made]
        assert change(storage).expires_at == clock() + MINUTE
        assert storage.threads.expired() == []

    def test_those_that_expired_first_are_in_front(self, storage: Storage, clock: ManualClock) -> None:
        for name, minutes in (("c", 3), ("a", 1), ("d", 4), ("b", 2)):
            make_thread(storage, name, ttl=ThreadTTL(minutes))
        make_thread(storage, "never")
        clock.advance(minutes=3)
        clock.microseconds -= 1

        def expired(**options: int) -> str:
            return "".join(thread.thread_id for thread in storage.threads.expired(**options))

        assert expired() == "ab"
        clock.microseconds += 1
        assert expired() == "abc"
        assert (expired(limit=2), expired(limit=0), expired(limit=PAGE_NUMBER_MAX)) == ("ab", "", "abc")
        assert storage.threads.expired() == [read(storage, name) for name in "abc"]

    @pytest.mark.parametrize("wrong", [-1, True, 1.0, None])
    def test_a_wrong_limit_is_refused(self, storage: Storage, wrong: Any) -> None:
        check_refused(InvalidPage, "limit", partial(storage.threads.expired, wrong))
        check_refused(InvalidPage, "limit", partial(storage.threads.resume_deletions, wrong))

    def test_rearming_restarts_the_clock_and_nothing_else(self, storage: Storage, clock: ManualClock) -> None:
        made = make_thread(storage, "t", metadata={"a": 1}, ttl=ThreadTTL(1))
        assert made.expires_at is not None
        clock.advance(minutes=5)
        assert storage.threads.rearm("t", made.expires_at)
        rearmed = read(storage)
        assert rearmed.expires_at == clock() + MINUTE
        assert (rearmed.updated_at, rearmed.metadata, rearmed.ttl) == (made.updated_at, {"a": 1}, made.ttl)
        clock.advance(seconds=1)
        # It expires at another time now, so that whoever looked before comes too late.
        assert not storage.threads.rearm("t", made.expires_at)
        assert read(storage) == rearmed
        assert not storage.threads.rearm("nobody", made.expires_at)

    def test_a_copy_has_what_the_other_has_and_a_life_of_its_own(
        self, storage: Storage, clock: ManualClock
    ) -> None:
        make_thread(storage, "t", metadata={"a": {"b": 1}}, config={"c": 1}, ttl=ThreadTTL(1))
        change(storage, values={"v": [1]}, error={"error": "E", "message": "m"}, status=ThreadStatus.ERROR)
        original = read(storage)
        clock.advance(seconds=5)
        copy = storage.threads.copy("t", "copy")
        assert copy == read(storage, "copy")
        assert copy == Thread(
            thread_id="copy",
            status=ThreadStatus.IDLE,
            created_at=clock(),
            updated_at=clock(),
            state_updated_at=clock(),
            metadata={"a": {"b": 1}},
            config={"c": 1},
            values={"v": [1]},
            interrupts={},
            error=None,
            ttl=None,
            expires_at=None,
        )
        change(storage, "copy", metadata={"a": 2}, values={"v": [2]})
        assert read(storage) == original
        assert storage.threads.copy("t", "other", ttl=ThreadTTL(2)).expires_at == clock() + 2 * MINUTE

    def test_a_copy_is_interrupted_if_it_has_interrupts_and_has_no_runs(self, storage: Storage) -> None:
        make_thread(storage, "t")
        change(storage, interrupts=INTERRUPTS)
        make_run(storage, "r1", "t")
        make_run(storage, "r2", "t")
        assert claim_one(storage)
        copy = storage.threads.copy("t", "copy")
        assert (copy.status, copy.interrupts) == (ThreadStatus.INTERRUPTED, INTERRUPTS)
        assert read(storage).status is ThreadStatus.BUSY
        # Nothing waits on the copy.
        assert claim_one(storage) is None

    def test_a_copy_needs_an_original_and_an_id_that_is_free(self, storage: Storage) -> None:
        check_refused(NotFound, "thread_id", partial(storage.threads.copy, "t", "copy"))
        assert storage.threads.get("copy") is None
        make_thread(storage, "t")
        kept = make_thread(storage, "copy", metadata={"kept": True})
        check_refused(Conflict, "new_id", partial(storage.threads.copy, "t", "copy"))
        check_refused(Conflict, "new_id", partial(storage.threads.copy, "t", "t"))
        assert read(storage, "copy") == kept

    def test_of_many_who_copy_to_one_id_one_makes_it(self, storage: Storage) -> None:
        make_thread(storage, "t", metadata={"a": 1})
        made = together(8, lambda _: storage.threads.copy("t", "copy"))
        assert [each for each in made if isinstance(each, Thread)] == [read(storage, "copy")]
        assert sum(isinstance(each, Conflict) for each in made) == 7

    @pytest.mark.parametrize(
        ("ttl", "kind", "field"),
        [
            (ThreadTTL(0), InvalidTTL, "ttl.minutes"),
            (ThreadTTL(-1), InvalidTTL, "ttl.minutes"),
            (ThreadTTL(math.inf), InvalidTTL, "ttl.minutes"),
            (ThreadTTL(True), InvalidTTL, "ttl.minutes"),
            (ThreadTTL(None), InvalidTTL, "ttl.minutes"),  # type: ignore[arg-type]
            (ThreadTTL(TTL_MINUTES_MAX + 1), LimitExceeded, "ttl.minutes"),
            (ThreadTTL(1, "forget"), InvalidTTL, "ttl.strategy"),  # type: ignore[arg-type]
            (5, InvalidTTL, "ttl"),
        ],
    )
    def test_a_wrong_time_to_live_is_refused_by_name(
        self, storage: Storage, ttl: Any, kind: Any, field: str
    ) -> None:
        make_thread(storage, "t")
        check_refused(kind, field, partial(make_thread, storage, "new", ttl=ttl))
        check_refused(kind, field, partial(change, storage, ttl=ttl))
        check_refused(kind, field, partial(storage.threads.copy, "t", "new", ttl=ttl))
        assert storage.threads.get("new") is None

    def test_the_longest_time_to_live_is_kept(self, storage: Storage, clock: ManualClock) -> None:
        made = make_thread(storage, "t", ttl=ThreadTTL(TTL_MINUTES_MAX))
        assert made.expires_at == clock() + TTL_MINUTES_MAX * MINUTE
