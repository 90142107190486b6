"""How batches of several callers are put together, so that one statement serves many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from stateroom.contract.items import Delete, Get, Operation, Put, Search
from stateroom.drivers.postgres.finding import is_simple
from stateroom.model.namespace import Namespace

__all__ = ["Kind", "is_conditional", "kind_of", "trips"]

Kind = Literal["gets", "puts", "listings", "each alone"]
Batch = Sequence[Operation]


def trips(batches: Sequence[Batch]) -> list[list[int]]:
    """Return which batches, by place, go together: all gets, all plain puts, all plain listings.

    Others go alone, so that nobody waits for somebody else's long search; but those that write to one
    address go together, in their order.
    """
    if _all_get(batches):
        return [list(range(len(batches)))]
    together: dict[Kind, list[int]] = {}
    found: list[list[int]] = []
    writers: dict[tuple[Namespace, str], list[int]] = {}
    for place, batch in enumerate(batches):
        addresses = _written(batch)
        earlier = next((writers[address] for address in addresses if address in writers), None)
        trip = earlier if earlier is not None else together.get(_kind(batch))
        if trip is None:
            trip = []
            found.append(trip)
            if _kind(batch) != "each alone":
                together[_kind(batch)] = trip
        trip.append(place)
        writers.update(dict.fromkeys(addresses, trip))
    return found


def kind_of(batches: Sequence[Batch]) -> Kind:
    """Return as what a trip can be made in one statement."""
    if _all_get(batches):
        return "gets"
    kinds = {_kind(batch) for batch in batches}
    addresses = [address for batch in batches for address in _written(batch)]
    if len(kinds) > 1 or len(set(addresses)) < len(addresses):
        return "each alone"
    return kinds.pop()


def _all_get(batches: Sequence[Batch]) -> bool:
    """Tell whether all is gets, which is frequent, and quickly told."""
    return all(type(operation) is Get for batch in batches for operation in batch)


def is_conditional(operation: Operation) -> bool:
    """Tell whether an operation writes only if the item is as its caller thinks."""
    if isinstance(operation, Put):
        return operation.if_absent or operation.if_revision is not None
    return isinstance(operation, Delete) and operation.if_revision is not None


def _kind(batch: Batch) -> Kind:
    if all(type(operation) is Get for operation in batch):
        return "gets"
    if len(batch) != 1:
        return "each alone"
    (operation,) = batch
    if isinstance(operation, Put) and not is_conditional(operation):
        return "puts"
    return "listings" if isinstance(operation, Search) and is_simple(operation) else "each alone"


def _written(batch: Batch) -> list[tuple[Namespace, str]]:
    return [
        (operation.namespace, operation.key) for operation in batch if isinstance(operation, Put | Delete)
    ]
