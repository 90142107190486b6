"""A file system for agents in which rules say what may be read and written."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from typing import Any

from typing_extensions import override

from stateroom.files import permission_operations as guarding
from stateroom.files.calls import acall, call, check_backend
from stateroom.files.listing import Usage
from stateroom.files.pairs import PairedBackend
from stateroom.files.paths import ROOT
from stateroom.files.permission_rules import FilePermission, Rules
from stateroom.files.protocol import (
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from stateroom.files.pruning import PruneResult
from stateroom.files.searching import SearchResult
from stateroom.files.writing import EditSpec
from stateroom.stores.operations import Mode

__all__ = ["FilePermission", "PermittedBackend"]


class PermittedBackend(PairedBackend):
    """Any backend, on whose files rules are enforced; of several that match, the first.

    What is denied answers ``permission denied``, and is left out of listings and searches. What is to be
    approved interrupts the graph that is running, until it is resumed with True, ``"approve"`` or what
    LangChain's human-in-the-loop middleware is sent; the node then runs again from its start. A listing
    or a search asks if it has found what is to be approved. Reading needs ``read``, all that changes files
    ``write``. Paths are judged as they are named: a file system with symbolic links has other names
    for a file. Commands are not offered, since no rule can hold for them.
    """

    def __init__(self, backend: Any, permissions: Iterable[Any]) -> None:
        check_backend(backend, "backend")
        self._guarded = guarding.Guarded(backend, Rules(permissions))

    @property
    def backend(self) -> Any:
        """What the rules are on."""
        return self._guarded.backend

    @property
    def permissions(self) -> list[FilePermission]:
        """The rules, in order."""
        return list(self._guarded.rules.permissions)

    @override
    def ls(self, path: str) -> LsResult:
        """List what may be seen of a directory; an error if nothing in it may."""
        return call(guarding.ls(self._guarded, path))

    @override
    async def als(self, path: str) -> LsResult:
        """Do what ``ls`` does."""
        return await acall(guarding.ls(self._guarded, path))

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read at most ``limit`` lines behind the first ``offset``."""
        return call(guarding.read(self._guarded, file_path, offset, limit))

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Do what ``read`` does."""
        return await acall(guarding.read(self._guarded, file_path, offset, limit))

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace what it holds."""
        return call(guarding.write(self._guarded, file_path, content))

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Do what ``write`` does."""
        return await acall(guarding.write(self._guarded, file_path, content))

    @override
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text that occurs once, or with ``replace_all`` wherever it occurs."""
        return call(guarding.edit(self._guarded, file_path, old_string, new_string, replace_all))

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Do what ``edit`` does."""
        return await acall(guarding.edit(self._guarded, file_path, old_string, new_string, replace_all))

    def multi_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Make several replacements in one file, all or none, where the backend can."""
        return call(guarding.multi_edit(self._guarded, file_path, edits))

    async def amulti_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Do what ``multi_edit`` does."""
        return await acall(guarding.multi_edit(self._guarded, file_path, edits))

    @override
    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory; not one that can hold what may not be written."""
        return call(guarding.delete(self._guarded, file_path))

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        """Do what ``delete`` does."""
        return await acall(guarding.delete(self._guarded, file_path))

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files that may be read by their paths."""
        return call(guarding.glob(self._guarded, pattern, path))

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Do what ``glob`` does."""
        return await acall(guarding.glob(self._guarded, pattern, path))

    @override
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that hold a literal text, in files that may be read."""
        return call(guarding.grep(self._guarded, pattern, path, glob, max_count))

    @override
    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Do what ``grep`` does."""
        return await acall(guarding.grep(self._guarded, pattern, path, glob, max_count))

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Store files, or answer ``permission_denied`` for those that may not be written."""
        return call(guarding.upload(self._guarded, files))

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Do what ``upload_files`` does."""
        return await acall(guarding.upload(self._guarded, files))

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files whole, or answer ``permission_denied`` for those that may not be read."""
        return call(guarding.download(self._guarded, paths))

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Do what ``download_files`` does."""
        return await acall(guarding.download(self._guarded, paths))

    def search(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Rank the files at or below a path that may be read, where the backend can."""
        return call(guarding.search(self._guarded, query, path, limit, mode))

    async def asearch(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Do what ``search`` does."""
        return await acall(guarding.search(self._guarded, query, path, limit, mode))

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep: int | None = None,
        path: str = ROOT,
        protect: Sequence[str] = (),
        dry_run: bool = False,
    ) -> PruneResult:
        """Delete files that were not modified for ``older_than``, of those that may be written."""
        return call(guarding.prune(self._guarded, path, older_than, keep, protect, dry_run))

    async def aprune(
        self,
        *,
        older_than: timedelta | None = None,
        keep: int | None = None,
        path: str = ROOT,
        protect: Sequence[str] = (),
        dry_run: bool = False,
    ) -> PruneResult:
        """Do what ``prune`` does."""
        return await acall(guarding.prune(self._guarded, path, older_than, keep, protect, dry_run))

    def usage(self) -> Usage:
        """Count all files and add up their bytes; raises NotSupported where the backend cannot."""
        return call(guarding.usage(self._guarded))

    async def ausage(self) -> Usage:
        """Do what ``usage`` does."""
        return await acall(guarding.usage(self._guarded))
