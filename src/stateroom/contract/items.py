"""The Items contract: what every driver of long-term memory must do.

The docstrings below are the specification; ``stateroom.testing`` tests each of their sentences on
every driver. Whoever calls a driver has checked the arguments (names, JSON, limits) and computed
embeddings already: a driver stores, finds and orders.
"""

from __future__ import annotations

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, Literal, NamedTuple, TypeAlias

from stateroom.errors import Conflict, StateroomError
from stateroom.model.file import Stat
from stateroom.model.filter import Filter
from stateroom.model.item import Hit, KeyEntry, Record
from stateroom.model.namespace import Match, Namespace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "Capability",
    "Count",
    "Delete",
    "Embedded",
    "Get",
    "Items",
    "ListKeys",
    "ListNamespaces",
    "Operation",
    "Outcome",
    "Put",
    "Query",
    "Result",
    "Search",
    "check_condition",
]


class Capability(StrEnum):
    """What a driver may lack; whoever needs a missing one is refused with ``NotSupported``.

    Five say how well something is done, and nobody asks for them by an argument. ``ANALYSIS``: text search
    goes by Stateroom's own analysis of the indexed fields, with BM25 statistics of the searched prefix
    alone; without it, by whatever the storage itself makes of words. ``EXACT_TIMES``: times are those of
    the driver's clock to the microsecond, strictly later on each put of one item, and order the items as
    they were put; without it, times are the storage's and as fine as it keeps them, and items put at the
    same moment come in an order that is stable but not that of their puts. ``KEY_ORDER``: the keys of a
    value come back in the order in which they were put; without it, sorted. ``FULL_LIMITS``: names and
    values may be as large as ``stateroom.model.limits`` allows; without it, what the storage cannot hold
    is refused by ``LimitExceeded``. ``KEY_INDEX``: keys are listed from an index, without reading what is
    not listed; without it, everything at or below the namespace is read.
    """

    ATOMIC_BATCH = "atomic_batch"
    CONDITIONAL = "conditional"
    TTL = "ttl"
    TEXT = "text"
    VECTOR = "vector"
    MULTI_PROCESS = "multi_process"
    DURABLE = "durable"
    ANALYSIS = "analysis"
    EXACT_TIMES = "exact_times"
    KEY_ORDER = "key_order"
    FULL_LIMITS = "full_limits"
    KEY_INDEX = "key_index"


class Embedded(NamedTuple):
    """One embedded text of an item: a digest of the text, and its float32 vector of ``dims`` numbers."""

    digest: bytes
    vector: NDArray[np.float32]


class Put(NamedTuple):
    """Store ``raw`` under ``namespace`` and ``key``, replacing what is there; answers the new ``Record``.

    A new item has ``created_at == updated_at``; a replaced one keeps its ``created_at``. ``updated_at``
    never runs behind an item put before, and is strictly later on each put of one item. The revision
    is greater than any that the store gave out before.

    ``paths`` are the parts of the value that text search looks at: None is the configured fields,
    ``()`` is nothing, so that no query finds the item. ``vectors`` replace the item's vectors.
    ``ttl`` is in minutes, None never expires; the clock starts now.

    ``if_absent`` requires that there is no live item, ``if_revision`` that there is one with exactly
    that revision; otherwise ``Conflict``, and the whole batch has no effect. ``stat`` is kept beside the
    item for ``ListKeys``.
    """

    namespace: Namespace
    key: str
    raw: bytes
    paths: tuple[str, ...] | None = None
    vectors: tuple[Embedded, ...] = ()
    ttl: float | None = None
    if_revision: int | None = None
    if_absent: bool = False
    stat: Stat | None = None


class Delete(NamedTuple):
    """Remove an item; answers None. An absent one is fine, unless ``if_revision`` names it: ``Conflict``."""

    namespace: Namespace
    key: str
    if_revision: int | None = None


class Get(NamedTuple):
    """Read one item; answers its ``Record``, or None when it is absent or expired.

    Reading creates nothing. With ``refresh`` an item that has a ``ttl`` expires that many minutes
    from now, and the answer already says so; its revision and ``updated_at`` stay as they are.
    """

    namespace: Namespace
    key: str
    refresh: bool = False


class Query(NamedTuple):
    """What a search is for: ``text`` as the caller wrote it, and its ``vector`` where ``mode`` needs one.

    ``min_score`` drops weaker hits of a vector search.
    """

    text: str
    mode: Literal["text", "vector", "hybrid"]
    vector: NDArray[np.float32] | None = None
    min_score: float | None = None


class Search(NamedTuple):
    """Find items under ``prefix`` (by whole labels; ``()`` is everything); answers a list of ``Hit``.

    Only live items that match ``filter`` count, and filtering comes before paging: at most ``limit``
    hits after skipping ``offset``. Without ``query`` the order is the latest put first and scores are
    None. With a query every hit has a score, the order is by score descending, ties by the latest put
    first, and items that do not match are not returned to fill a page.

    Text mode scores BM25 with the statistics of the items under ``prefix`` alone; an item matches when
    it holds one term of the query. Vector mode ranks every item that has a vector, by the best of its
    vectors. Hybrid mode fuses the best of both. ``refresh`` acts on the hits as in ``Get``.
    """

    prefix: Namespace
    filter: Filter | None = None
    limit: int = 10
    offset: int = 0
    refresh: bool = False
    query: Query | None = None


class Count(NamedTuple):
    """Count the live items under ``prefix`` that match ``filter``; answers an int."""

    prefix: Namespace
    filter: Filter | None = None


class ListKeys(NamedTuple):
    """List the keys of the live items in exactly ``namespace``; answers a list of ``KeyEntry``.

    Only keys that begin with ``prefix`` and end with ``suffix`` count, and with ``containing`` only items
    whose ``raw`` holds these bytes. The order is by key, code point by code point. With a ``delimiter``,
    one character, all keys that hold it behind the prefix are answered as one entry for each of their
    beginnings up to and with the first such delimiter, and of such an entry no more is known. Entries
    whose key is ``after`` or less are passed over; then at most ``limit`` are answered.

    ``size`` and ``modified_at`` are those of the put's ``stat``, and ``raw`` is there ``with_values`` alone.
    Nothing is refreshed.
    """

    namespace: Namespace
    prefix: str = ""
    suffix: str = ""
    delimiter: str | None = None
    after: str | None = None
    limit: int = 1000
    containing: bytes | None = None
    with_values: bool = False


class ListNamespaces(NamedTuple):
    """List the namespaces that hold a live item and satisfy every one of ``matches``.

    Each is cut to ``max_depth`` labels (None: not cut); duplicates are dropped; then they are sorted
    label by label in code-point order, shorter first; then ``offset`` are skipped and at most
    ``limit`` answered.
    """

    matches: tuple[Match, ...] = ()
    max_depth: int | None = None
    limit: int = 100
    offset: int = 0


Operation: TypeAlias = Put | Delete | Get | Search | Count | ListKeys | ListNamespaces
Result: TypeAlias = Record | list[Hit] | list[KeyEntry] | list[Namespace] | int | None
Outcome: TypeAlias = list[Result] | StateroomError


def check_condition(operation: Put | Delete, found: int | None) -> None:
    """Raise ``Conflict`` unless the live item's revision (None: there is none) is the one asked for."""
    if operation.if_revision is not None and operation.if_revision != found:
        raise Conflict(
            f"key {operation.key!r} in {operation.namespace!r} is at revision {found}, not "
            f"{operation.if_revision}: read it again and retry",
            field="if_revision",
        )
    if isinstance(operation, Put) and operation.if_absent and found is not None:
        raise Conflict(
            f"key {operation.key!r} in {operation.namespace!r} exists already, at revision {found}",
            field="if_absent",
        )


class Items(ABC):
    """Long-term memory: JSON objects under a namespace and a key.

    Every method may be called from any thread, and the async ones from any event loop. An item whose
    ``expires_at`` has come is absent at once for every operation, swept or not, and a later put of its
    key makes a new item. Drivers raise only ``Conflict``, ``NotSupported``, ``Unavailable``,
    ``LimitExceeded`` and ``Misconfigured``.
    """

    capabilities: frozenset[Capability] = frozenset()

    @abstractmethod
    def open(self) -> None:
        """Make the storage ready, creating or migrating its schema; doing so again changes nothing."""

    @abstractmethod
    def close(self) -> None:
        """Write out what is pending and let go of every resource; doing so again changes nothing."""

    @abstractmethod
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        """Apply batches of several callers, each on its own; answer the outcome of each, in order.

        A batch is one transaction: its operations take effect in order, later ones see earlier ones,
        and results line up with operations. A batch that fails leaves nothing behind, answers its
        error, and fails no other batch. When this returns, whatever succeeded is stored.
        """

    @abstractmethod
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        """Return an item's vectors by the digest of their text: unchanged text is not embedded again."""

    @abstractmethod
    def sweep(self, limit: int) -> int:
        """Free the space of at most ``limit`` expired items, and return how many have been freed.

        Items that a driver freed by itself since the last sweep are counted as well.
        """

    def apply(self, operations: Sequence[Operation]) -> list[Result]:
        """Apply one batch, raising its error."""
        (outcome,) = self.apply_each([operations])
        if isinstance(outcome, StateroomError):
            raise outcome
        return outcome

    def vectors_of(self, addresses: Sequence[tuple[Namespace, str]]) -> dict[bytes, NDArray[np.float32]]:
        """Return the ``vectors`` of many items together; drivers with a shorter way override this."""
        known: dict[bytes, NDArray[np.float32]] = {}
        for namespace, key in addresses:
            known |= self.vectors(namespace, key)
        return known

    def put(self, operation: Put) -> Record:
        """Apply one ``Put``; drivers with a shorter way override this."""
        (record,) = self.apply([operation])
        assert isinstance(record, Record)
        return record

    def get(self, operation: Get) -> Record | None:
        """Apply one ``Get``; drivers with a shorter way override this."""
        (result,) = self.apply([operation])
        assert result is None or isinstance(result, Record)
        return result

    def get_all(self, operations: Sequence[Get]) -> list[Record | None]:
        """Apply many ``Get`` to one snapshot; drivers with a shorter way override this."""
        return self.apply(operations)  # type: ignore[return-value]  # a Get answers a record or None

    def search(self, operation: Search) -> list[Hit]:
        """Apply one ``Search``; drivers with a shorter way override this."""
        (result,) = self.apply([operation])
        assert isinstance(result, list)
        return result  # type: ignore[return-value]  # a Search answers hits

    def trips(self, batches: Sequence[Sequence[Operation]]) -> list[list[int]]:
        """Return which of several callers' batches, by place, share a trip; each trip is an ``aapply_each``.

        Trips are made at the same time, so batches that write to the same item belong to one. All share
        one here; drivers that can do several things at once override this.
        """
        return [list(range(len(batches)))]

    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        """Do ``apply_each`` without blocking the event loop."""
        return await asyncio.to_thread(self.apply_each, batches)
