"""All parts of the conformance suite in one class."""

from __future__ import annotations

from stateroom.testing.parts.addressing import AddressingSuite
from stateroom.testing.parts.batch import BatchSuite
from stateroom.testing.parts.concurrency import ConcurrencySuite
from stateroom.testing.parts.conditional import ConditionalSuite
from stateroom.testing.parts.filters import FilterSuite
from stateroom.testing.parts.indexing import IndexingSuite
from stateroom.testing.parts.key_entries import KeyEntriesSuite
from stateroom.testing.parts.keys import KeysSuite
from stateroom.testing.parts.namespaces import NamespacesSuite
from stateroom.testing.parts.order import OrderSuite
from stateroom.testing.parts.refusals import RefusalSuite
from stateroom.testing.parts.search import SearchSuite
from stateroom.testing.parts.ttl import TTLSuite
from stateroom.testing.parts.values import ValuesSuite
from stateroom.testing.parts.vectors import VectorsSuite

__all__ = ["StoreSuite"]


class StoreSuite(
    AddressingSuite,
    ValuesSuite,
    BatchSuite,
    OrderSuite,
    ConditionalSuite,
    FilterSuite,
    TTLSuite,
    IndexingSuite,
    SearchSuite,
    VectorsSuite,
    KeysSuite,
    KeyEntriesSuite,
    NamespacesSuite,
    ConcurrencySuite,
    RefusalSuite,
):
    """Tests that a store does what ``stateroom.contract.items`` and ``stateroom.stores.base`` say.

    A subclass gives the one fixture ``open_store``, which returns an ``Opened``. Every test runs through
    the sync methods and through the async ones. What a store's ``capabilities`` lack is not passed
    over: then the test is that asking for it is refused.
    """
