"""All parts of the conformance suite of file systems in one class."""

from __future__ import annotations

from stateroom.testing.files_harness import FileSystem, OpenedFiles
from stateroom.testing.files_opening import InState, OverStore
from stateroom.testing.parts.files_concurrency import FilesConcurrencySuite
from stateroom.testing.parts.files_deleting import FilesDeletingSuite
from stateroom.testing.parts.files_editing import FilesEditingSuite
from stateroom.testing.parts.files_formats import FilesFormatsSuite
from stateroom.testing.parts.files_grep import FilesGrepSuite
from stateroom.testing.parts.files_lifetimes import FilesLifetimesSuite
from stateroom.testing.parts.files_limits import FilesLimitsSuite
from stateroom.testing.parts.files_listing import FilesListingSuite
from stateroom.testing.parts.files_namespaces import FilesNamespacesSuite
from stateroom.testing.parts.files_paths import FilesPathsSuite
from stateroom.testing.parts.files_pruning import FilesPruningSuite
from stateroom.testing.parts.files_reading import FilesReadingSuite
from stateroom.testing.parts.files_search import FilesSearchSuite
from stateroom.testing.parts.files_transfer import FilesTransferSuite
from stateroom.testing.parts.files_writing import FilesWritingSuite

__all__ = ["FileSystem", "FilesSuite", "InState", "OpenedFiles", "OverStore"]


class FilesSuite(
    FilesReadingSuite,
    FilesWritingSuite,
    FilesEditingSuite,
    FilesDeletingSuite,
    FilesListingSuite,
    FilesGrepSuite,
    FilesTransferSuite,
    FilesFormatsSuite,
    FilesPathsSuite,
    FilesPruningSuite,
    FilesLimitsSuite,
    FilesSearchSuite,
    FilesLifetimesSuite,
    FilesNamespacesSuite,
    FilesConcurrencySuite,
):
    """Tests that a backend does what ``stateroom.files.backend.Backend`` says.

    A subclass gives the one fixture ``open_files``, which returns an ``OpenedFiles``; ``OverStore`` makes one
    of any store. Every test runs through the sync methods and through the async ones. Where the backend
    refuses an option, the test of it is that the refusal names it.
    """
