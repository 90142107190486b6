"""Files for agents, in a store or in a graph's state; with Deep Agents or without."""

from stateroom.files.backend import Backend
from stateroom.files.data import create_file_data, file_data_to_string, update_file_data
from stateroom.files.listing import Usage
from stateroom.files.pruning import PruneResult
from stateroom.files.searching import FileHit, SearchResult
from stateroom.files.state import FilesState, StateBackend, merge_files
from stateroom.files.store import StoreBackend
from stateroom.files.text import Edit

__all__ = [
    "Backend",
    "Edit",
    "FileHit",
    "FilesState",
    "PruneResult",
    "SearchResult",
    "StateBackend",
    "StoreBackend",
    "Usage",
    "create_file_data",
    "file_data_to_string",
    "merge_files",
    "update_file_data",
]
