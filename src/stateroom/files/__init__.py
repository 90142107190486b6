"""Files for agents, in a store or in a graph's state; with Deep Agents or without."""

from stateroom.files.backend import Backend
from stateroom.files.composite import CompositeBackend
from stateroom.files.data import create_file_data, file_data_to_string, update_file_data
from stateroom.files.deep_agents import create_deep_agent
from stateroom.files.factory import FactoryBackend
from stateroom.files.listing import Usage
from stateroom.files.permissions import FilePermission, PermittedBackend
from stateroom.files.pruning import PruneResult
from stateroom.files.searching import FileHit, SearchResult
from stateroom.files.state import FilesState, StateBackend, merge_files
from stateroom.files.store import StoreBackend
from stateroom.files.text import Edit
from stateroom.files.tools import file_tools

__all__ = [
    "Backend",
    "CompositeBackend",
    "Edit",
    "FactoryBackend",
    "FileHit",
    "FilePermission",
    "FilesState",
    "PermittedBackend",
    "PruneResult",
    "SearchResult",
    "StateBackend",
    "StoreBackend",
    "Usage",
    "create_deep_agent",
    "create_file_data",
    "file_data_to_string",
    "file_tools",
    "merge_files",
    "update_file_data",
]
