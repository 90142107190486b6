"""Writes that happen only if the item is what the caller believes it to be."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from stateroom.clock import ManualClock
from stateroom.contract.items import Capability
from stateroom.errors import Conflict
from stateroom.stores.operations import DeleteItem, GetItem, PutItem, StoreOperation
from stateroom.testing.comparing import revision_of
from stateroom.testing.harness import Harness, Memory, Opens
from stateroom.testing.needs import needs
from stateroom.testing.snapshot import snapshot

__all__ = ["ConditionalSuite"]


def refused(memory: Memory, field: str, write: Callable[..., Any], *args: Any, **options: Any) -> None:
    """See a write end in a conflict about ``field`` that leaves the store as it was."""
    before = snapshot(memory, "word")
    with pytest.raises(Conflict) as caught:
        write(*args, **options)
    assert (caught.value.code, caught.value.field, caught.value.retryable) == ("conflict", field, False)
    assert snapshot(memory, "word") == before


class ConditionalSuite(Harness):
    """``put_item`` answers what it stored; ``if_absent`` and ``if_revision`` let one of many writers win."""

    def test_put_item_returns_the_item_that_it_stored(self, memory: Memory) -> None:
        put = memory.put_item(("a", "b"), "k", {"n": 1})
        item = memory.read(("a", "b"), "k")
        assert (put.namespace, put.key, put.value) == (("a", "b"), "k", {"n": 1})
        assert put == item
        if Capability.CONDITIONAL in memory.capabilities:
            assert put.revision == item.revision

    @needs(Capability.CONDITIONAL)
    def test_if_absent_puts_where_nothing_is(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"t": "word"}, if_absent=True)
        assert memory.put_item(("a",), "other", {}, if_absent=True).key == "other"
        refused(memory, "if_absent", memory.put, ("a",), "k", {"t": "new"}, if_absent=True)
        refused(memory, "if_absent", memory.put_item, ("a",), "k", {"t": "new"}, if_absent=True)
        assert memory.read(("a",), "k").value == {"t": "word"}

    @needs(Capability.CONDITIONAL)
    def test_if_absent_puts_where_an_item_was_deleted(self, memory: Memory) -> None:
        memory.put(("a",), "k", {})
        memory.delete(("a",), "k")
        memory.put(("a",), "k", {"n": 2}, if_absent=True)
        assert memory.read(("a",), "k").value == {"n": 2}

    @needs(Capability.CONDITIONAL)
    def test_if_absent_looks_at_one_address_only(self, memory: Memory) -> None:
        memory.put(("a",), "k", {})
        memory.put(("a", "b"), "k", {}, if_absent=True)
        memory.put(("a",), "K", {}, if_absent=True)
        assert memory.count(()) == 3

    @needs(Capability.CONDITIONAL)
    def test_if_revision_replaces_exactly_that_revision(self, memory: Memory) -> None:
        first = memory.put_item(("a",), "k", {"t": "word"})
        second = memory.put_item(("a",), "k", {"t": "word 2"}, if_revision=first.revision)
        assert memory.read(("a",), "k").value == {"t": "word 2"}
        for stale in (first.revision, revision_of(second) + 1, 0, -1, 2**63 - 1, 2**70):
            refused(memory, "if_revision", memory.put, ("a",), "k", {}, if_revision=stale)
        memory.put(("a",), "k", {"t": "word 3"}, if_revision=second.revision)
        assert memory.read(("a",), "k").value == {"t": "word 3"}

    @needs(Capability.CONDITIONAL)
    def test_if_revision_needs_an_item(self, memory: Memory) -> None:
        memory.put(("a",), "other", {"t": "word"})
        for revision in (0, 1, 2):
            refused(memory, "if_revision", memory.put, ("a",), "k", {}, if_revision=revision)
            refused(memory, "if_revision", memory.delete, ("a",), "k", if_revision=revision)

    @needs(Capability.CONDITIONAL)
    def test_a_revision_read_before_a_deletion_is_stale(self, memory: Memory) -> None:
        old = memory.put_item(("a",), "k", {"n": 1})
        memory.delete(("a",), "k")
        memory.put(("a",), "k", {"n": 1})
        refused(memory, "if_revision", memory.put, ("a",), "k", {}, if_revision=old.revision)
        refused(memory, "if_revision", memory.delete, ("a",), "k", if_revision=old.revision)

    @needs(Capability.CONDITIONAL)
    def test_a_revision_is_good_for_one_write(self, memory: Memory) -> None:
        (hit,) = [memory.put_item(("a",), "k", {"n": 0})]
        memory.put(("a",), "k", {"n": 1}, if_revision=hit.revision)
        refused(memory, "if_revision", memory.put, ("a",), "k", {"n": 1}, if_revision=hit.revision)

    @needs(Capability.CONDITIONAL)
    def test_a_revision_may_come_from_any_read(self, memory: Memory) -> None:
        memory.put(("a",), "k", {"n": 0})
        reads: Sequence[Callable[[], Any]] = [
            lambda: memory.read(("a",), "k"),
            lambda: memory.search(("a",))[0],
            lambda: memory.batch([GetItem(("a",), "k")])[0],
            lambda: memory.batch([PutItem(("a",), "k", {})])[0],
        ]
        for read in reads:
            memory.put(("a",), "k", {"n": 1}, if_revision=read().revision)

    @needs(Capability.CONDITIONAL)
    def test_delete_removes_exactly_that_revision(self, memory: Memory) -> None:
        first = memory.put_item(("a",), "k", {"t": "word"})
        second = memory.put_item(("a",), "k", {"t": "word"})
        refused(memory, "if_revision", memory.delete, ("a",), "k", if_revision=first.revision)
        memory.delete(("a",), "k", if_revision=second.revision)
        assert memory.get(("a",), "k") is None
        refused(memory, "if_revision", memory.delete, ("a",), "k", if_revision=second.revision)

    @needs(Capability.CONDITIONAL)
    def test_a_put_of_none_deletes_under_the_same_condition(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {"t": "word"})
        refused(memory, "if_revision", memory.put, ("a",), "k", None, if_revision=revision_of(item) + 1)
        memory.put(("a",), "k", None, if_revision=item.revision)
        assert memory.get(("a",), "k") is None

    @needs(Capability.CONDITIONAL)
    def test_both_conditions_at_once_never_hold(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {"t": "word"})
        refused(memory, "if_absent", memory.put, ("a",), "k", {}, if_revision=item.revision, if_absent=True)
        refused(memory, "if_revision", memory.put, ("a",), "new", {}, if_revision=1, if_absent=True)

    @needs(Capability.CONDITIONAL)
    def test_conditions_in_a_batch_see_what_the_batch_did(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {"n": 1})
        memory.batch(
            [
                PutItem(("a",), "new", {}, if_absent=True),
                DeleteItem(("a",), "k", item.revision),
                PutItem(("a",), "k", {"n": 2}, if_absent=True),
            ]
        )
        assert memory.read(("a",), "k").value == {"n": 2}
        assert memory.count(("a",)) == 2

    @needs(Capability.CONDITIONAL)
    def test_a_condition_may_be_broken_by_an_earlier_operation(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "k", {"t": "word"})
        batches: list[tuple[str, list[StoreOperation]]] = [
            ("if_revision", [PutItem(("a",), "k", {}), PutItem(("a",), "k", {}, if_revision=item.revision)]),
            ("if_absent", [PutItem(("a",), "new", {}, if_absent=True)] * 2),
            ("if_revision", [DeleteItem(("a",), "k"), DeleteItem(("a",), "k", item.revision)]),
        ]
        for field, operations in batches:
            if Capability.ATOMIC_BATCH in memory.capabilities:
                refused(memory, field, memory.batch, operations)
            else:
                with pytest.raises(Conflict) as caught:
                    memory.batch(operations)
                assert caught.value.field == field

    @needs(Capability.CONDITIONAL, Capability.TTL)
    def test_an_expired_item_is_absent_for_conditions(self, memory: Memory, clock: ManualClock) -> None:
        old = memory.put_item(("a",), "k", {"n": 1}, ttl=1)
        clock.advance(minutes=1)
        refused(memory, "if_revision", memory.put, ("a",), "k", {}, if_revision=old.revision)
        refused(memory, "if_revision", memory.delete, ("a",), "k", if_revision=old.revision)
        memory.put(("a",), "k", {"n": 2}, if_absent=True)
        assert memory.read(("a",), "k").value == {"n": 2}

    @needs(Capability.CONDITIONAL, Capability.TTL)
    def test_a_refreshing_read_keeps_the_revision_good(self, memory: Memory, clock: ManualClock) -> None:
        item = memory.put_item(("a",), "k", {"n": 1}, ttl=10)
        clock.advance(minutes=9)
        memory.get(("a",), "k", refresh_ttl=True)
        clock.advance(minutes=9)
        memory.put(("a",), "k", {"n": 2}, if_revision=item.revision)
        assert memory.read(("a",), "k").value == {"n": 2}

    @needs(Capability.CONDITIONAL)
    def test_a_conflict_says_which_key_and_which_revision(self, memory: Memory) -> None:
        item = memory.put_item(("a",), "the-key", {"n": 1})
        with pytest.raises(Conflict, match=rf"the-key.*{item.revision}"):
            memory.put(("a",), "the-key", {}, if_revision=revision_of(item) + 5)

    @needs(Capability.CONDITIONAL)
    def test_a_revision_outlives_closing_if_the_store_is_durable(self, opens: Opens) -> None:
        memory = opens()
        old = memory.put_item(("a",), "k", {"n": 1})
        item = memory.put_item(("a",), "k", {"t": "word"})
        memory.put(("a",), "last", {})
        memory.delete(("a",), "last")
        memory.close()
        again = opens()
        if Capability.DURABLE in opens.capabilities:
            refused(again, "if_revision", again.put, ("a",), "k", {}, if_revision=old.revision)
            new = again.put_item(("a",), "k", {"n": 2}, if_revision=item.revision)
            # The deleted item had a greater revision than the one that stayed.
            assert revision_of(new) > revision_of(item) + 1
        else:
            refused(again, "if_revision", again.put, ("a",), "k", {}, if_revision=item.revision)
