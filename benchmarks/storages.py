"""The storages that are measured, and where another process finds the same one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks import contenders
from benchmarks.contenders import new_schema
from stateroom.contract.storage import Storage
from stateroom.search.index_config import parse_index_config

__all__ = ["Place", "backends", "opened", "place"]


class Place(NamedTuple):
    """Where a storage is: a file, or a schema of a server. It can be handed to another process."""

    backend: str
    address: str
    schema: str = ""

    def storage(self, **options: Any) -> Storage:
        """Return the storage that is there, not yet open."""
        settings = parse_index_config(None)
        if self.backend == "postgres":
            from stateroom.drivers.postgres.storage import PostgresStorage

            return PostgresStorage(self.address, settings, schema=self.schema, **options)
        from stateroom.drivers.sqlite.storage import SqliteStorage

        return SqliteStorage(self.address, settings, **options)


def backends() -> tuple[str, ...]:
    """Return what can be measured: Postgres only if STATEROOM_TEST_POSTGRES names a server."""
    return ("sqlite", "postgres") if contenders.POSTGRES else ("sqlite",)


@contextmanager
def place(backend: str, folder: Path, name: str) -> Iterator[Place]:
    """Lend a place for a storage, where nothing is yet."""
    if backend == "postgres":
        with new_schema(f"bench_{name}") as schema:
            yield Place(backend, contenders.POSTGRES, schema)
    else:
        yield Place(backend, str(folder / f"{name}.db"))


@contextmanager
def opened(where: Place, **options: Any) -> Iterator[Storage]:
    """Open the storage of a place."""
    storage = where.storage(**options)
    storage.open()
    try:
        yield storage
    finally:
        storage.close()
