"""How a batch is taken apart: what can be done in a few statements, and what it needs made ready."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from stateroom.contract.items import Delete, Operation, Put, Search
from stateroom.model.namespace import Namespace

__all__ = ["kinds_of_search", "runs"]


def runs(batch: Sequence[Operation]) -> Iterator[list[Operation]]:
    """Cut a batch into runs of plain puts or plain deletes at different addresses, and single operations."""
    run: list[Operation] = []
    addresses: set[tuple[Namespace, str]] = set()
    for operation in batch:
        address = _plain_address(operation)
        if run and (address is None or type(operation) is not type(run[0]) or address in addresses):
            yield run
            run, addresses = [], set()
        if address is None:
            yield [operation]
        else:
            run.append(operation)
            addresses.add(address)
    if run:
        yield run


def _plain_address(operation: Operation) -> tuple[Namespace, str] | None:
    """Return the address of a put or delete without conditions, or None for any other operation."""
    if isinstance(operation, Put) and not operation.if_absent and operation.if_revision is None:
        return operation.namespace, operation.key
    if isinstance(operation, Delete) and operation.if_revision is None:
        return operation.namespace, operation.key
    return None


def kinds_of_search(batch: Sequence[Operation]) -> tuple[bool, bool]:
    """Tell whether a batch searches by text, and whether by vector."""
    modes = {operation.query.mode for operation in batch if isinstance(operation, Search) and operation.query}
    return bool(modes & {"text", "hybrid"}), bool(modes & {"vector", "hybrid"})
