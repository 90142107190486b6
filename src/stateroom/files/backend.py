"""What every file backend here offers: Deep Agents' protocol and more, sync and async."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from datetime import timedelta
from functools import wraps
from typing import Any, Final, TypeVar

from typing_extensions import override

from stateroom.files.listing import Usage
from stateroom.files.protocol import (
    BackendProtocol,
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

__all__ = ["Backend"]

R = TypeVar("R")

READ_LINES: Final = 2_000
"""Lines that ``read`` answers unless told otherwise."""

OPERATIONS: Final = (
    "ls",
    "read",
    "write",
    "edit",
    "multi_edit",
    "delete",
    "glob",
    "grep",
    "upload_files",
    "download_files",
    "search",
    "prune",
    "usage",
)
"""What a backend does; each has an async form, whose name begins with an ``a``."""


class Backend(BackendProtocol):
    """A file system for agents.

    Paths begin with ``/`` and are spelled in one way: ``//`` and ``/./`` are ``/``, a leading ``/`` may be
    missing, ``..`` and NUL are refused. What an agent asks wrongly is answered by a result's ``error``;
    what is wrong with the set-up or the storage is raised. Every method has an async form that does
    the same on any event loop.

    Who derives from a backend and replaces a sync method alone, as one may with Deep Agents' own, has
    replaced the async form too: it runs the sync one in a thread.
    """

    @override
    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        for name in OPERATIONS:
            if name in vars(cls) and f"a{name}" not in vars(cls):
                setattr(cls, f"a{name}", _in_thread(name, vars(cls)[name]))

    @abstractmethod
    def _perform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        """Do one of ``OPERATIONS`` with the arguments of its method; ``kind`` is what it answers."""

    @abstractmethod
    async def _aperform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        """Do one of ``OPERATIONS`` as ``_perform`` does."""

    @override
    def ls(self, path: str) -> LsResult:
        """List a directory: its files, and each directory in it once, as ``/notes/``; empty where none is.

        Nothing of the files is read: ``size`` and ``modified_at`` are kept beside them.
        """
        return self._perform(LsResult, "ls", path)

    @override
    async def als(self, path: str) -> LsResult:
        """Do what ``ls`` does."""
        return await self._aperform(LsResult, "ls", path)

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = READ_LINES) -> ReadResult:
        """Read at most ``limit`` lines behind the first ``offset``; a binary file comes whole, as base64.

        Lines end at a line feed. CRLF is shown as LF, and ``edit`` finds what is shown.
        """
        return self._perform(ReadResult, "read", file_path, offset, limit)

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = READ_LINES) -> ReadResult:
        """Do what ``read`` does."""
        return await self._aperform(ReadResult, "read", file_path, offset, limit)

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace what it holds, keeping its ``created_at`` and fields that are not ours.

        Nothing can be created below a file, nor a file where a directory is.
        """
        return self._perform(WriteResult, "write", file_path, content)

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Do what ``write`` does."""
        return await self._aperform(WriteResult, "write", file_path, content)

    @override
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text that occurs once, or with ``replace_all`` wherever it occurs.

        An edit that reports success is in the file: it replaces exactly what it was worked out from, and is
        worked out anew when somebody else was faster.
        """
        return self._perform(EditResult, "edit", file_path, old_string, new_string, replace_all)

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Do what ``edit`` does."""
        return await self._aperform(EditResult, "edit", file_path, old_string, new_string, replace_all)

    def multi_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Make several replacements in one file, one after the other, all or none.

        Each is an object with ``old_string``, ``new_string`` and perhaps ``replace_all``, or a tuple of
        these. ``occurrences`` counts what all of them replaced.
        """
        return self._perform(EditResult, "multi_edit", file_path, edits)

    async def amulti_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Do what ``multi_edit`` does."""
        return await self._aperform(EditResult, "multi_edit", file_path, edits)

    @override
    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with all that is in it; an error where there is neither."""
        return self._perform(DeleteResult, "delete", file_path)

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        """Do what ``delete`` does."""
        return await self._aperform(DeleteResult, "delete", file_path)

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by their paths, the last modified first.

        A pattern without ``/`` looks at names, at any depth; one with ``/`` at paths below ``path``, where
        ``**`` is any number of directories. A leading dot must be in the pattern too.
        """
        return self._perform(GlobResult, "glob", pattern, path)

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Do what ``glob`` does."""
        return await self._aperform(GlobResult, "glob", pattern, path)

    @override
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that hold a literal text, by path and number, in files that ``glob`` matches.

        At most ``max_count`` are answered, and ``truncated`` says whether there are more.
        """
        return self._perform(GrepResult, "grep", pattern, path, glob, max_count=max_count)

    @override
    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Do what ``grep`` does."""
        return await self._aperform(GrepResult, "grep", pattern, path, glob, max_count=max_count)

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Store files, UTF-8 as text and other bytes as base64; each succeeds or fails on its own."""
        return self._perform(list[FileUploadResponse], "upload_files", files)

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Do what ``upload_files`` does."""
        return await self._aperform(list[FileUploadResponse], "upload_files", files)

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files whole, as bytes; each succeeds or fails on its own."""
        return self._perform(list[FileDownloadResponse], "download_files", paths)

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Do what ``download_files`` does."""
        return await self._aperform(list[FileDownloadResponse], "download_files", paths)

    def search(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Rank the files at or below a path by words, meaning or both, as the store's ``search`` does."""
        return self._perform(SearchResult, "search", query, path, limit=limit, mode=mode)

    async def asearch(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Do what ``search`` does."""
        return await self._aperform(SearchResult, "search", query, path, limit=limit, mode=mode)

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep: int | None = None,
        path: str = "/",
        protect: Sequence[str] = (),
        dry_run: bool = False,
    ) -> PruneResult:
        """Delete files that were not modified for ``older_than``, but for the ``keep`` last modified.

        At least one of the two is needed. ``protect`` holds patterns of files that stay and are not
        counted. A file that is written meanwhile stays. With ``dry_run`` nothing is deleted, and the
        answer is the same.
        """
        return self._perform(
            PruneResult,
            "prune",
            path=path,
            older_than=older_than,
            keep=keep,
            protect=protect,
            dry_run=dry_run,
        )

    async def aprune(
        self,
        *,
        older_than: timedelta | None = None,
        keep: int | None = None,
        path: str = "/",
        protect: Sequence[str] = (),
        dry_run: bool = False,
    ) -> PruneResult:
        """Do what ``prune`` does."""
        return await self._aperform(
            PruneResult,
            "prune",
            path=path,
            older_than=older_than,
            keep=keep,
            protect=protect,
            dry_run=dry_run,
        )

    def usage(self) -> Usage:
        """Count the files and add up their bytes."""
        return self._perform(Usage, "usage")

    async def ausage(self) -> Usage:
        """Do what ``usage`` does."""
        return await self._aperform(Usage, "usage")


def _in_thread(name: str, method: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(method)
    async def twin(self: Backend, *args: Any, **options: Any) -> Any:
        return await asyncio.to_thread(getattr(self, name), *args, **options)

    return twin
