"""Stateroom: state and memory for LangGraph agents, on storage you own."""

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.contract.items import Capability
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

__version__ = "0.1.0"

__all__ = [
    "AegisStore",
    "Capability",
    "Clock",
    "CountItems",
    "DeleteItem",
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
    "from_base_store",
    "system_clock",
]
