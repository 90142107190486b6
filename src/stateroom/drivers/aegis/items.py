"""Items on an AegisDB server, shared by any number of threads, event loops and processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from typing_extensions import override

from stateroom.contract.items import (
    Capability,
    Get,
    Items,
    Operation,
    Outcome,
    Put,
    Search,
)
from stateroom.drivers.aegis.batches import run
from stateroom.drivers.aegis.connecting import AsyncClient, SyncClient
from stateroom.drivers.aegis.operations import Operations
from stateroom.drivers.aegis.protocol import Server
from stateroom.model.item import Hit, Record
from stateroom.model.namespace import Namespace

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["AegisItems"]


class AegisItems(Items):
    """Items as records of AegisDB, in the layout that ``mapping`` describes.

    Each operation of a batch stands alone. Times are the server's, in milliseconds, and the revision
    of every item is 0. Text search is the server's own.
    """

    capabilities = frozenset({Capability.TEXT, Capability.MULTI_PROCESS, Capability.DURABLE})

    def __init__(self, server: Server, *, page: int) -> None:
        self._operations = Operations(server, page)
        self._sync = SyncClient(server)
        self._async = AsyncClient(server)

    @override
    def open(self) -> None:
        self._sync.drive(self._operations.ping())

    async def aopen(self) -> None:
        """Do ``open`` without blocking the event loop."""
        await self._async.drive(self._operations.ping())

    @override
    def close(self) -> None:
        self._sync.close()
        self._async.close()

    @override
    def apply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return self._sync.drive(run(batches, self._operations.steps))

    @override
    async def aapply_each(self, batches: Sequence[Sequence[Operation]]) -> list[Outcome]:
        return await self._async.drive(run(batches, self._operations.steps))

    @override
    def put(self, operation: Put) -> Record:
        return self._sync.drive(self._operations.put(operation))

    @override
    def get(self, operation: Get) -> Record | None:
        return self._sync.drive(self._operations.get(operation))

    @override
    def get_all(self, operations: Sequence[Get]) -> list[Record | None]:
        return self._sync.drive(self._operations.get_all(operations))

    @override
    def search(self, operation: Search) -> list[Hit]:
        return self._sync.drive(self._operations.search(operation))

    @override
    def vectors(self, namespace: Namespace, key: str) -> dict[bytes, NDArray[np.float32]]:
        return {}

    @override
    def sweep(self, limit: int) -> int:
        return 0
