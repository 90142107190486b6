"""Stateroom: state and memory for LangGraph agents, on storage you own."""

from typing import TYPE_CHECKING, Any, Final

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.contract.items import Capability
from stateroom.errors import Misconfigured
from stateroom.model.item import KeyEntry
from stateroom.savers import PostgresSaver, SqliteSaver
from stateroom.stores.aegis import AegisStore
from stateroom.stores.base import Store
from stateroom.stores.foreign import from_base_store
from stateroom.stores.items import Item, SearchItem
from stateroom.stores.memory import InMemoryStore
from stateroom.stores.operations import CountItems, DeleteItem, GetItem, ListItemKeys, PutItem, SearchItems
from stateroom.stores.postgres import PostgresStore
from stateroom.stores.sqlite import SqliteStore

if TYPE_CHECKING:
    from stateroom.boot.embedding import (
        EmbeddedGraphs,
        embed_in_memory_graphs,
        embed_postgres_graphs,
        embed_sqlite_graphs,
    )

__version__ = "0.1.0"

__all__ = [
    "AegisStore",
    "Capability",
    "Clock",
    "CountItems",
    "DeleteItem",
    "EmbeddedGraphs",
    "GetItem",
    "InMemoryStore",
    "Item",
    "KeyEntry",
    "ListItemKeys",
    "ManualClock",
    "PostgresSaver",
    "PostgresStore",
    "PutItem",
    "SearchItem",
    "SearchItems",
    "SqliteSaver",
    "SqliteStore",
    "Store",
    "__version__",
    "embed_in_memory_graphs",
    "embed_postgres_graphs",
    "embed_sqlite_graphs",
    "from_base_store",
    "system_clock",
]

_EMBEDDING: Final = frozenset(
    {"EmbeddedGraphs", "embed_in_memory_graphs", "embed_postgres_graphs", "embed_sqlite_graphs"}
)
"""What needs the packages of the server, and is imported when somebody asks for it."""


def __getattr__(name: str) -> Any:
    if name not in _EMBEDDING:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        from stateroom.boot import embedding
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] == "stateroom":
            raise
        raise Misconfigured(
            f"{name} needs the packages of the server, of which {error.name} is missing: "
            "pip install 'stateroom[server]'"
        ) from error
    return getattr(embedding, name)
