"""Items on an AegisDB server, in the layout of the public ``aegisdb-langgraph`` package."""

from stateroom.drivers.aegis.items import AegisItems
from stateroom.drivers.aegis.protocol import Server

__all__ = ["AegisItems", "Server"]
