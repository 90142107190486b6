"""Stores over LangGraph's in-memory store and over a hostile one pass the conformance suite."""

from __future__ import annotations

from functools import partial

import pytest
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom.testing import Opened, StoreSuite
from stateroom.testing.parts.indexing import IndexingSuite
from stateroom.testing.parts.vectors import VectorsSuite
from tests.conformance.foreign import NOT_TOLD, UNINDEXED, differs, opened, opened_with_vectors
from tests.conformance.hostile import CappedStore, HostileStore, RefusingStore

# What LangGraph's in-memory store does by itself, and cannot be mended from outside.
RESET = "it resets created_at with every put, to another moment than updated_at"
COSINE = "it knows no other metric than cosine"
ALONE = "it miscounts equal texts that are put together, so items are put one by one"
MEMORY = UNINDEXED | dict.fromkeys(
    [
        "test_a_put_keeps_the_creation_and_is_strictly_later_though_the_clock_stands",
        "test_a_put_is_not_earlier_though_the_clock_runs_back",
        "test_an_equal_value_put_again_is_a_put",
        "test_the_latest_put_comes_first_though_the_clock_stands",
        "test_puts_of_one_batch_are_strictly_later_each",
    ],
    RESET,
)
# Two looks at the clock may see one microsecond.
MEMORY_SOMETIMES = dict.fromkeys(
    ["test_a_new_item_was_updated_when_it_was_created", "test_an_item_that_was_deleted_is_created_anew"],
    RESET,
)
MEMORY_VECTORS = UNINDEXED | {
    "test_a_zero_vector_is_like_nothing": "it divides by zero",
    "test_hybrid_search_fuses_words_and_vectors": NOT_TOLD,
    "test_the_texts_of_a_batch_are_embedded_in_one_call": ALONE,
    "test_text_that_stayed_the_same_is_not_embedded_again": "it embeds every put",
    "test_an_update_that_is_not_indexed_removes_the_old_vectors": "it keeps them",
    "test_vectors_that_cannot_be_used_are_refused_and_nothing_is_put": "it does not look at them",
}


@differs(MEMORY, MEMORY_SOMETIMES)
class TestOverLangGraphInMemoryStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(opened, LangGraphInMemoryStore)


@differs(MEMORY_VECTORS, sometimes={"test_scores_are_the_metric_and_order_the_result": COSINE})
class TestOverLangGraphInMemoryStoreWithVectors(VectorsSuite, IndexingSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(opened_with_vectors, lambda index: LangGraphInMemoryStore(index=index))


@differs(UNINDEXED)
class TestOverHostileStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(opened, HostileStore)


@differs(UNINDEXED)
class TestOverRefusingStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(opened, RefusingStore)


@differs(UNINDEXED)
class TestOverCappedStore(StoreSuite):
    @pytest.fixture
    @override
    def open_store(self) -> Opened:
        return partial(opened, CappedStore)
