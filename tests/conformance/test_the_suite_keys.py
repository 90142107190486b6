"""The suite's tests about listings of keys: each fails on a store that breaks its rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from typing_extensions import override

from stateroom.contract.items import Capability, ListKeys, Operation, Outcome, Put, Result, Search
from stateroom.contract.keys import list_keys
from stateroom.drivers.memory import MemoryItems
from stateroom.errors import StateroomError
from stateroom.model.item import KeyEntry, Record
from tests.conformance.test_the_suite import Immortal, run_one

Asked = Callable[[ListKeys], ListKeys]
Answered = Callable[[list[KeyEntry]], list[KeyEntry]]


def unchanged(anything: Any) -> Any:
    return anything


class Listing(MemoryItems):
    """Items whose listings of keys are not what they should be."""

    asked: Asked = staticmethod(unchanged)
    answered: Answered = staticmethod(unchanged)

    @override
    def _apply(self, operation: Operation, now: int) -> Result:
        if not isinstance(operation, ListKeys):
            return super()._apply(operation, now)
        node = self._tree.find(operation.namespace)
        return self.answered(list_keys(self.asked(operation), node.keys(), node.items) if node else [])


class Deep(Listing):
    """Items that are listed with those of the namespaces below."""

    @override
    def _apply(self, operation: Operation, now: int) -> Result:
        if not isinstance(operation, ListKeys):
            return super()._apply(operation, now)
        names = [
            name
            for name in self._tree.namespaces((), None)
            if name[: len(operation.namespace)] == operation.namespace
        ]
        return [
            entry
            for name in names
            if (node := self._tree.find(name))
            for entry in list_keys(operation, node.keys(), node.items)
        ]


class Refreshing(Listing):
    """Items that live on when they are listed."""

    @override
    def _apply(self, operation: Operation, now: int) -> Result:
        if isinstance(operation, ListKeys):
            super()._apply(Search(operation.namespace, None, operation.limit, 0, True), now)
        return super()._apply(operation, now)


class Making(Listing):
    """Items that are made where somebody looks."""

    @override
    def _apply(self, operation: Operation, now: int) -> Result:
        if isinstance(operation, ListKeys):
            super()._apply(Put(operation.namespace, "looked", b"{}"), now)
        return super()._apply(operation, now)


class Late(Listing):
    """Items that are listed as they were before the batch."""

    @override
    def _outcome(self, batch: Sequence[Operation], now: int) -> Outcome:
        early = {place: self._apply(one, now) for place, one in enumerate(batch) if isinstance(one, ListKeys)}
        outcome = super()._outcome(batch, now)
        assert not isinstance(outcome, StateroomError)
        return [early.get(place, result) for place, result in enumerate(outcome)]


class Positional(Listing):
    """Items whose pages go on behind a key that must be there."""

    @override
    def _apply(self, operation: Operation, now: int) -> Result:
        if not isinstance(operation, ListKeys) or operation.after is None:
            return super()._apply(operation, now)
        node = self._tree.find(operation.namespace)
        whole = operation._replace(after=None, limit=1_000_000)
        shown = list_keys(whole, node.keys(), node.items) if node else []
        places = [place for place, entry in enumerate(shown) if entry.key == operation.after]
        return shown[places[0] + 1 :][: operation.limit] if places else []


class Forgetful(Listing):
    """Items that are said to outlive closing."""

    capabilities = MemoryItems.capabilities | {Capability.DURABLE}


class Sticky(Listing):
    """Items that are known as files by what was put first."""

    @override
    def _put(self, operation: Put, now: int) -> Record:
        node = self._tree.find(operation.namespace)
        old = node.items.get(operation.key) if node else None
        return super()._put(operation._replace(stat=old.stat if old else operation.stat), now)


def listing(asked: Asked = unchanged, answered: Answered = unchanged) -> type[MemoryItems]:
    """Return items that are listed as another operation would, or with other entries."""
    members = {"asked": staticmethod(asked), "answered": staticmethod(answered)}
    return type("Altered", (Listing,), members)


def each(change: Callable[[KeyEntry], KeyEntry]) -> Answered:
    return lambda entries: [change(entry) for entry in entries]


CAUGHT: list[tuple[type[MemoryItems], str]] = [
    (Deep, "test_keys_of_exactly_one_namespace_are_listed"),
    (listing(answered=lambda entries: entries[::-1]), "test_the_order_is_by_code_point"),
    (
        listing(answered=lambda entries: sorted(entries, key=lambda entry: entry.key.encode("utf-16-be"))),
        "test_the_order_is_by_code_point",
    ),
    (listing(lambda asked: asked._replace(prefix="")), "test_only_keys_with_the_prefix_are_listed"),
    (
        listing(lambda asked: asked._replace(prefix=asked.prefix.rstrip("\U0010ffff"))),
        "test_only_keys_with_the_prefix_are_listed",
    ),
    (listing(lambda asked: asked._replace(suffix="")), "test_only_keys_with_the_suffix_are_listed"),
    (
        listing(lambda asked: asked._replace(suffix=asked.suffix.lower())),
        "test_only_keys_with_the_suffix_are_listed",
    ),
    (
        listing(lambda asked: asked._replace(delimiter=None)),
        "test_keys_are_rolled_up_at_the_first_delimiter_behind_the_prefix",
    ),
    (
        listing(lambda asked: asked._replace(delimiter=asked.delimiter and "/")),
        "test_every_choice_answers_what_looking_at_all_keys_would",
    ),
    (
        listing(answered=each(lambda entry: entry._replace(updated=entry.updated or 0))),
        "test_what_is_rolled_up_says_nothing_more",
    ),
    (
        listing(answered=each(lambda entry: entry._replace(revision=entry.revision and entry.revision + 1))),
        "test_an_entry_says_what_its_item_says",
    ),
    (listing(lambda asked: asked._replace(after=None)), "test_keys_up_to_after_are_passed_over"),
    (
        listing(lambda asked: asked._replace(after=asked.after and asked.after[:-1])),
        "test_keys_up_to_after_are_passed_over",
    ),
    (
        listing(lambda asked: asked._replace(after=asked.after and asked.after + "\x01")),
        "test_keys_up_to_after_are_passed_over",
    ),
    (listing(lambda asked: asked._replace(limit=asked.limit + 1)), "test_pages_join_to_the_whole"),
    (Positional, "test_pages_go_on_behind_a_key_that_is_gone"),
    (
        listing(lambda asked: asked._replace(limit=asked.limit or 1)),
        "test_a_limit_counts_entries_that_are_shown",
    ),
    (
        listing(lambda asked: asked._replace(limit=100)),
        "test_a_listing_answers_a_thousand_unless_told_otherwise",
    ),
    (
        listing(lambda asked: asked._replace(prefix=asked.prefix[:8_000])),
        "test_keys_of_any_length_are_told_apart_and_sorted",
    ),
    (
        listing(lambda asked: asked._replace(containing=None)),
        "test_an_item_is_found_by_a_text_in_one_of_its_strings",
    ),
    (
        listing(lambda asked: asked._replace(containing=asked.containing and asked.containing.lower())),
        "test_an_item_is_found_by_a_text_in_one_of_its_strings",
    ),
    (
        listing(lambda asked: asked._replace(containing=asked.containing and asked.containing + b'"')),
        "test_a_text_is_found_however_deep_it_is",
    ),
    (
        listing(lambda asked: asked._replace(suffix="" if asked.containing else asked.suffix)),
        "test_a_text_is_looked_for_beside_everything_else",
    ),
    (
        listing(lambda asked: asked._replace(with_values=False)),
        "test_values_come_where_they_are_asked_for",
    ),
    (listing(lambda asked: asked._replace(with_values=True)), "test_values_come_where_they_are_asked_for"),
    (
        listing(answered=each(lambda entry: entry._replace(size=None, modified_at=None))),
        "test_a_file_has_a_size_and_the_time_that_it_says",
    ),
    (Sticky, "test_the_size_is_that_of_the_last_put_however_it_came"),
    (Forgetful, "test_a_listing_is_the_same_after_closing_if_the_store_is_durable"),
    (Late, "test_a_batch_lists_what_it_has_put_before"),
    (Making, "test_listing_changes_nothing_and_creates_no_namespace"),
    (Immortal, "test_the_key_of_an_expired_item_is_not_listed"),
    (Refreshing, "test_listing_keys_refreshes_nothing"),
]


@pytest.mark.parametrize(
    ("kind", "name"), CAUGHT, ids=[f"{number}-{name}" for number, (_, name) in enumerate(CAUGHT)]
)
def test_a_store_that_lists_wrongly_fails_the_test_of_that_rule(kind: type[MemoryItems], name: str) -> None:
    run_one(MemoryItems, name)
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        run_one(kind, name)
