"""Stores over somebody else's held against the reference at random."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from hypothesis import settings
from langgraph.store.base import BaseStore, PutOp
from langgraph.store.memory import InMemoryStore as LangGraphInMemoryStore
from typing_extensions import override

from stateroom.stores.foreign import ForeignStore
from stateroom.stores.operations import PutItem
from stateroom.testing.machine import Asked, Setup, StoreMachine, machine
from stateroom.testing.machine import embed as some_zeros
from tests.conformance.foreign import opened, opened_with_vectors
from tests.conformance.hostile import CappedStore, HostileStore, RefusingStore


def embed(texts: Sequence[str]) -> list[list[float]]:
    """Return vectors none of which is zero, since LangGraph's store divides by their length."""
    return [[*vector, 1.0] for vector in some_zeros(texts)]


Options = Sequence[Mapping[str, Any]]

PLAIN: Options = (
    {},
    {"index": {"fields": ["text", "meta.title", "tags[*]"], "language": "german"}},
    {"index": {"text": False}},
)
# LangGraph's store keeps the vectors of fields that are no longer there, so the whole value is embedded.
VECTORS: Options = (
    {"index": {"embed": embed, "dims": 5}},
    {"index": {"embed": embed, "dims": 5, "mode": "hybrid"}},
    {"index": {"embed": embed, "dims": 5, "min_score": 0.9}},
)


class ForeignMachine(StoreMachine):
    """Asks for nothing by ``index``: a foreign store does not tell how an item was indexed.

    Callers who are gathered are kept in order for each item, not for what a search sees of them.
    """

    batches_of_concurrent_callers = None  # type: ignore[assignment]  # so it is no rule here

    @override
    def _possible(self, operation: Asked) -> Asked:
        possible: Any = super()._possible(operation)
        if isinstance(possible, PutItem | PutOp):
            possible = possible._replace(index=None)
        return possible  # type: ignore[no-any-return]  # what it was, without its index


def over(kind: Callable[[], BaseStore]) -> Callable[[Setup], ForeignStore]:
    return lambda setup: opened(kind, **setup.options)


def with_vectors(setup: Setup) -> ForeignStore:
    return opened_with_vectors(lambda index: LangGraphInMemoryStore(index=index), **setup.options)


def held(open_store: Callable[[Setup], ForeignStore], name: str, options: Options, share: int = 1) -> Any:
    """Return the test of a store, with a share of the usual number of histories."""
    case: Any = machine(open_store, name=name, options=options, base=ForeignMachine).TestCase
    case.settings = settings(case.settings, max_examples=case.settings.max_examples // share)
    return case


TestOverLangGraph = held(over(LangGraphInMemoryStore), "OverLangGraph", PLAIN)
TestOverLangGraphWithVectors = held(with_vectors, "OverLangGraphWithVectors", VECTORS)
TestOverHostile = held(over(HostileStore), "OverHostile", PLAIN, 2)
TestOverRefusing = held(over(RefusingStore), "OverRefusing", PLAIN, 4)
TestOverCapped = held(over(CappedStore), "OverCapped", PLAIN, 4)
