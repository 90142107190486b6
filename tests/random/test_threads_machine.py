"""Threads made, changed, copied, found and deleted at random, against a dictionary that does the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from typing import Any, ClassVar

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from typing_extensions import override

from stateroom.clock import ManualClock
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery
from stateroom.drivers.sql import search_reading, search_sql
from stateroom.drivers.sql.storage import SqlStorage
from stateroom.drivers.sql.terms import metadata_terms, values_terms
from stateroom.errors import Conflict, NotFound
from stateroom.model.change import UNSET
from stateroom.model.metadata import contains
from stateroom.model.paging import Sort
from stateroom.model.thread import THREAD_SORTS, Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.model.ttl import expiry
from tests.random.storages import histories, in_file, in_memory, in_postgres, machine_of

IDS = ("a", "b", "c", "d", "e", "f", "ä", "z z")
LOW: Mapping[str, int] = {"FEW": 1, "GROWTH": 2, "AT_ONCE": 1, "CHUNK": 1, "AHEAD": 2}
"""For how few threads a search takes the ways that it takes for many."""

thread_ids = st.sampled_from(IDS)
statuses = st.sampled_from((ThreadStatus.IDLE, ThreadStatus.INTERRUPTED, ThreadStatus.ERROR))
ttls = st.sampled_from((None, ThreadTTL(1), ThreadTTL(2.5), ThreadTTL(3, TTLStrategy.KEEP_LATEST)))
scalars: st.SearchStrategy[Any] = st.sampled_from((None, True, False, 0, 1, 1.0, 1.5, "", "1", "é"))
parts: st.SearchStrategy[Any] = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=2), st.dictionaries(st.sampled_from("xy"), inner, max_size=2)
    ),
    max_leaves=4,
)
objects = st.dictionaries(st.sampled_from("xyz"), parts, max_size=3)
values = st.one_of(objects, st.none(), st.just(["x"]), st.just({"\0": "\ud800", "x": 10**30}))


def maybe(strategy: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(st.just(UNSET), strategy)


changes = st.builds(
    ThreadChange,
    metadata=maybe(objects),
    config=maybe(objects),
    values=maybe(values),
    interrupts=maybe(objects),
    error=maybe(st.sampled_from((None, {"error": "E", "message": "m"}))),
    status=maybe(statuses),
    ttl=maybe(ttls),
)
queries = st.builds(
    ThreadQuery,
    metadata=st.one_of(st.none(), objects),
    enforced_metadata=st.one_of(st.none(), st.just({}), st.dictionaries(st.just("x"), parts, min_size=1)),
    values=st.one_of(st.none(), st.none(), objects),
    status=st.one_of(st.none(), st.none(), statuses, st.just(ThreadStatus.BUSY)),
    ids=st.one_of(st.none(), st.none(), st.lists(thread_ids, max_size=5)),
)
sorts = st.builds(Sort, st.sampled_from(THREAD_SORTS), st.booleans())


def fits(thread: Thread, query: ThreadQuery) -> bool:
    """Tell whether a thread is what a query asks for."""
    held = thread.values if isinstance(thread.values, dict) else None
    return (
        all(
            wanted is None or contains(thread.metadata, wanted)
            for wanted in (query.metadata, query.enforced_metadata)
        )
        and (query.values is None or (held is not None and contains(held, query.values)))
        and query.status in (None, thread.status)
        and (query.ids is None or thread.thread_id in query.ids)
    )


def expires_at(now: int, ttl: ThreadTTL | None) -> int | None:
    return None if ttl is None else expiry(now, ttl.minutes)


class ThreadsMachine(RuleBasedStateMachine):
    """The threads of one storage beside those that must be there."""

    make: ClassVar[Callable[[ManualClock, ExitStack], SqlStorage]]
    in_steps: ClassVar[bool]

    def __init__(self) -> None:
        super().__init__()
        self.clock = ManualClock()
        self.stack = ExitStack()
        self.known: dict[str, Thread] = {}

    @initialize()
    def open(self) -> None:
        if self.in_steps:
            patch = self.stack.enter_context(pytest.MonkeyPatch.context())
            for name, value in LOW.items():
                patch.setattr(search_reading, name, value)
            patch.setattr(search_sql, "TERMS_MAX", 1)
        self.storage = type(self).make(self.clock, self.stack)
        self.storage.open()
        self.threads = self.storage.threads

    @override
    def teardown(self) -> None:
        self.stack.close()

    def new(self, thread_id: str, metadata: Any, config: Any, ttl: ThreadTTL | None) -> Thread:
        now = self.clock()
        return Thread(
            thread_id=thread_id,
            status=ThreadStatus.IDLE,
            created_at=now,
            updated_at=now,
            state_updated_at=now,
            metadata=metadata,
            config=config,
            values=None,
            interrupts={},
            error=None,
            ttl=ttl,
            expires_at=expires_at(now, ttl),
        )

    @rule(thread_id=thread_ids, metadata=objects, config=objects, ttl=ttls, lenient=st.booleans())
    def create(
        self, thread_id: str, metadata: Any, config: Any, ttl: ThreadTTL | None, lenient: bool
    ) -> None:
        new = NewThread(thread_id, metadata, config, ttl)
        held = self.known.get(thread_id)
        if held is not None and not lenient:
            with pytest.raises(Conflict):
                self.threads.create(new)
            return
        if held is None:
            held = self.known[thread_id] = self.new(thread_id, metadata, config, ttl)
        assert self.threads.create(new, if_exists="do_nothing" if lenient else "raise") == held

    @rule(thread_id=thread_ids, change=changes)
    def update(self, thread_id: str, change: ThreadChange) -> None:
        held = self.known.get(thread_id)
        if held is None:
            with pytest.raises(NotFound):
                self.threads.update(thread_id, change)
            return
        now = self.clock()
        given = {name: value for name, value in change._asdict().items() if value is not UNSET}
        if "metadata" in given:
            given["metadata"] = {**held.metadata, **given["metadata"]}
        if "values" in given:
            given["state_updated_at"] = now
        ttl = given.get("ttl", held.ttl)
        known = replace(held, **{**given, "updated_at": now, "expires_at": expires_at(now, ttl)})
        self.known[thread_id] = known
        assert self.threads.update(thread_id, change) == known

    @rule(thread_id=thread_ids, new_id=thread_ids, ttl=ttls)
    def copy(self, thread_id: str, new_id: str, ttl: ThreadTTL | None) -> None:
        held = self.known.get(thread_id)
        if held is None or new_id in self.known:
            with pytest.raises(NotFound if held is None else Conflict):
                self.threads.copy(thread_id, new_id, ttl=ttl)
            return
        known = replace(
            self.new(new_id, held.metadata, held.config, ttl),
            values=held.values,
            interrupts=held.interrupts,
            status=ThreadStatus.INTERRUPTED if held.interrupts else ThreadStatus.IDLE,
        )
        self.known[new_id] = known
        assert self.threads.copy(thread_id, new_id, ttl=ttl) == known

    @rule(thread_id=thread_ids)
    def delete(self, thread_id: str) -> None:
        assert self.threads.delete(thread_id) == (self.known.pop(thread_id, None) is not None)

    @rule(thread_id=thread_ids, later=st.sampled_from((0, 0, 1)))
    def delete_or_rearm_one_that_expired(self, thread_id: str, later: int) -> None:
        held = self.known.get(thread_id)
        if held is None or held.expires_at is None:
            assert not self.threads.rearm(thread_id, self.clock())
            return
        seen = held.expires_at + later
        if held.expires_at <= self.clock() and thread_id < "d":
            assert self.threads.delete(thread_id, if_expires_at=seen) == (not later)
            if not later:
                del self.known[thread_id]
            return
        assert self.threads.rearm(thread_id, seen) == (not later)
        if not later:
            self.known[thread_id] = replace(held, expires_at=expires_at(self.clock(), held.ttl))

    @rule(seconds=st.sampled_from((0.000_001, 1, 60, 150)))
    def wait(self, seconds: float) -> None:
        self.clock.advance(seconds=seconds)

    @rule(query=queries, sort=sorts, size=st.integers(1, 5), offset=st.sampled_from((0, 0, 1, 3)))
    def search(self, query: ThreadQuery, sort: Sort, size: int, offset: int) -> None:
        expected = [thread for thread in self.known.values() if fits(thread, query)]
        expected.sort(key=lambda each: (getattr(each, sort.field), each.thread_id), reverse=sort.descending)
        assert self.threads.count(query) == len(expected)
        assert self.threads.count(query, at_most=size) == min(size, len(expected))
        after, start = None, offset
        while True:
            page = self.threads.search(query, sort=sort, limit=size, offset=offset, after=after)
            assert page.rows == expected[start : start + size]
            assert (page.next is None) == (start + size >= len(expected))
            after, offset, start = page.next, 0, start + size
            if after is None:
                break

    @rule(limit=st.integers(0, 4))
    def expired(self, limit: int) -> None:
        due = [
            (thread.expires_at, thread_id)
            for thread_id, thread in self.known.items()
            if thread.expires_at is not None and thread.expires_at <= self.clock()
        ]
        expected = [self.known[thread_id] for _, thread_id in sorted(due)[:limit]]
        assert self.threads.expired(limit) == expected

    @invariant()
    def every_thread_is_as_it_must_be(self) -> None:
        if hasattr(self, "threads"):
            assert {each: self.threads.get(each) for each in IDS} == {
                each: self.known.get(each) for each in IDS
            }

    @invariant()
    def every_thread_has_its_terms(self) -> None:
        if not hasattr(self, "threads"):
            return
        kept = self.storage.dialect.read(
            lambda session: session.fetch("select id, created_at, term from stateroom.thread_term")
        )
        assert set(kept) == {
            (thread_id, thread.created_at, term)
            for thread_id, thread in self.known.items()
            for term in metadata_terms(thread.metadata) | values_terms(thread.values)
        }


@pytest.fixture(scope="module", autouse=True)
def _postgres(postgres: str) -> Iterator[None]:
    with histories(postgres, "threads"):
        yield


TestInMemory = machine_of(ThreadsMachine, in_memory, in_steps=False)
TestInFileInSteps = machine_of(ThreadsMachine, in_file, in_steps=True)
TestInPostgres = machine_of(ThreadsMachine, in_postgres, in_steps=False)
TestInPostgresInSteps = machine_of(ThreadsMachine, in_postgres, in_steps=True)
