"""All parts of the suite of storages in one class."""

from __future__ import annotations

from stateroom.testing.parts.storage_assistants import AssistantSuite
from stateroom.testing.parts.storage_crons import CronSuite
from stateroom.testing.parts.storage_deliveries import DeliveriesSuite
from stateroom.testing.parts.storage_events import EventSuite
from stateroom.testing.parts.storage_events_followed import EventFollowersSuite
from stateroom.testing.parts.storage_events_kept import EventsKeptSuite
from stateroom.testing.parts.storage_idempotency import IdempotencySuite
from stateroom.testing.parts.storage_queue import QueueSuite
from stateroom.testing.parts.storage_runs import RunSuite
from stateroom.testing.parts.storage_search import SearchSuite
from stateroom.testing.parts.storage_threads import ThreadSuite

__all__ = ["StorageSuite"]


class StorageSuite(
    AssistantSuite,
    ThreadSuite,
    SearchSuite,
    RunSuite,
    QueueSuite,
    CronSuite,
    IdempotencySuite,
    DeliveriesSuite,
    EventSuite,
    EventFollowersSuite,
    EventsKeptSuite,
):
    """Tests that a storage does what the docstrings in ``stateroom.contract`` say.

    A subclass gives the one fixture ``new_storage``, which returns an ``OpensStorage``. What a storage lacks
    by its ``capabilities`` is not asked of it.
    """
