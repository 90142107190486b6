"""LangGraph checkpointers: graphs' state kept in LangGraph's own tables and format."""

from stateroom.savers.base import Saver
from stateroom.savers.measuring import ThreadBytes
from stateroom.savers.postgres import PostgresSaver
from stateroom.savers.sqlite import SqliteSaver

__all__ = ["PostgresSaver", "Saver", "SqliteSaver", "ThreadBytes"]
