"""Opens what a server keeps everything in: its storage, and the store and the checkpointer over it."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from langgraph.checkpoint.base import BaseCheckpointSaver

from stateroom.contract.events import EventLimits
from stateroom.contract.storage import Storage
from stateroom.errors import Misconfigured
from stateroom.model.ttl import parse_ttl_config
from stateroom.search.index_config import IndexSettings, check_index_keys, parse_index_config
from stateroom.settings import Settings
from stateroom.stores.base import Store
from stateroom.stores.preparing import embedder_of

__all__ = ["MEMORY", "Kept", "make_kept", "names_a_store"]

MEMORY: Final = ":memory:"

_SUPPORTS: Final = {
    "memory": frozenset({"vector_cache_mb"}),
    "sqlite": frozenset({"vector_cache_mb"}),
    "postgres": frozenset({"hnsw", "vector_type"}),
}
"""The settings of an index that mean something to one kind of storage and not to all."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Kept:
    """A storage with the store and the checkpointer that share its connections; nothing is open yet."""

    storage: Storage
    store: Store
    saver: BaseCheckpointSaver[Any]


def names_a_store(settings: Settings) -> bool:
    """Tell whether the settings name a store of the user's own."""
    return any(settings.store.get(key) is not None for key in ("path", "adapter"))


def make_kept(settings: Settings) -> Kept:
    """Make the storage that the settings ask for; raise Misconfigured for what cannot work."""
    section: Mapping[str, Any] = {} if names_a_store(settings) else settings.store
    try:
        index = parse_index_config(_placed(section.get("index"), settings.base), supports=_supports(settings))
        ttl, embedder = parse_ttl_config(section.get("ttl")), embedder_of(index)
    except Misconfigured as error:
        raise Misconfigured(f"store.{error}", field=f"store.{error.field}") from error
    storage, saver = _opened(settings, index, check_index_keys(settings.index_keys))
    store = Store(
        storage.items,
        index=index,
        ttl=ttl,
        index_config=section.get("index"),
        ttl_config=section.get("ttl"),
        embedder=embedder,
    )
    return Kept(storage, store, saver)


def _supports(settings: Settings) -> frozenset[str]:
    return _SUPPORTS[settings.storage]


def _placed(index: Any, base: Path) -> Any:
    """Return an index whose embedder, if it is named by a file, is named from the folder ``base``."""
    embed = index.get("embed") if isinstance(index, Mapping) else None
    if not isinstance(embed, str) or not embed.rpartition(":")[0].endswith(".py"):
        return index
    return {**index, "embed": str(base / Path(embed).expanduser())}


def _opened(
    settings: Settings, index: IndexSettings, keys: tuple[str, ...]
) -> tuple[Storage, BaseCheckpointSaver[Any]]:
    limits = EventLimits(
        frames_per_run=settings.limits.frames_per_run,
        bytes_per_run=settings.limits.bytes_per_run,
        retained_runs=settings.limits.retained_runs,
    )
    if settings.storage == "postgres":
        return _postgres(settings, index, keys, limits)
    return _sqlite(settings, index, keys, limits)


def _sqlite(
    settings: Settings, index: IndexSettings, keys: tuple[str, ...], limits: EventLimits
) -> tuple[Storage, BaseCheckpointSaver[Any]]:
    from stateroom.drivers.sqlite.storage import SqliteStorage
    from stateroom.savers.sqlite import SqliteSaver

    path = MEMORY
    if settings.storage == "sqlite":
        file = settings.base / Path(settings.sqlite_path).expanduser()
        file.parent.mkdir(parents=True, exist_ok=True)
        path = str(file)
    storage = SqliteStorage(path, index, index_keys=keys, synchronous=settings.synchronous, limits=limits)
    return storage, SqliteSaver.over(storage, serde=_serde(settings))


def _postgres(
    settings: Settings, index: IndexSettings, keys: tuple[str, ...], limits: EventLimits
) -> tuple[Storage, BaseCheckpointSaver[Any]]:
    if settings.postgres_uri is None:
        raise Misconfigured(
            "the storage is postgres and nothing says where that is: set STATEROOM_POSTGRES_URI to "
            "postgresql://user:password@host:5432/database",
            field="postgres_uri",
        )
    try:
        from stateroom.drivers.postgres.arguments import check_pool, check_schema
        from stateroom.drivers.postgres.storage import PostgresStorage
        from stateroom.savers.postgres import PostgresSaver
    except ModuleNotFoundError as error:
        if error.name not in ("psycopg", "psycopg_pool"):
            raise
        raise Misconfigured("Postgres needs psycopg: pip install 'stateroom[postgres]'") from None
    check_schema(settings.postgres_schema)
    pool = settings.postgres_pool or None
    check_pool(settings.postgres_uri, pool)
    storage = PostgresStorage(
        settings.postgres_uri,
        index,
        index_keys=keys,
        schema=settings.postgres_schema,
        pool=pool,
        prepares=settings.prepared_statements,
        limits=limits,
    )
    return storage, PostgresSaver.over(storage, serde=_serde(settings))


def _serde(settings: Settings) -> Any:
    """Return the serialiser that ``checkpointer.serde`` describes, None for the usual one."""
    if settings.serde is None:
        return None
    from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

    options = dict(settings.serde)
    for name in ("allowed_json_modules", "allowed_msgpack_modules"):
        if isinstance(options.get(name), list):
            options[name] = [tuple(entry) for entry in options[name]]
    return JsonPlusSerializer(**options)
