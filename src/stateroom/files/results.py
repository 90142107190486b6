"""What the operations of a file backend answer, in the shapes of Deep Agents' backend protocol.

These stand in where ``deepagents`` is not installed; ``stateroom.files.protocol`` has whichever is in force.
"""

from __future__ import annotations

import asyncio
from abc import ABC
from dataclasses import dataclass
from typing import Literal, NotRequired

from typing_extensions import TypedDict

__all__ = [
    "BackendProtocol",
    "DeleteResult",
    "EditResult",
    "FileData",
    "FileDownloadResponse",
    "FileInfo",
    "FileUploadResponse",
    "GlobResult",
    "GrepMatch",
    "GrepResult",
    "LsResult",
    "ReadResult",
    "WriteResult",
]


class FileInfo(TypedDict):
    """One file or directory of a listing; a directory's path ends with ``/``.

    ``size`` is in bytes, ``modified_at`` an ISO 8601 time, "" for a directory.
    """

    path: str
    is_dir: NotRequired[bool]
    size: NotRequired[int]
    modified_at: NotRequired[str]


class GrepMatch(TypedDict):
    """One line that holds the text searched for; ``line`` counts from 1."""

    path: str
    line: int
    text: str


class FileData(TypedDict):
    """A file's content: text, or base64 where ``encoding`` says so, and its ISO 8601 times if known."""

    content: str
    encoding: str
    created_at: NotRequired[str]
    modified_at: NotRequired[str]


@dataclass
class LsResult:
    """What a directory holds, or an error."""

    error: str | None = None
    entries: list[FileInfo] | None = None


@dataclass
class ReadResult:
    """A window of lines of a file, or an error.

    ``start_line`` and ``end_line`` count from 1; ``next_offset`` counts from 0 and is None at the end.
    """

    error: str | None = None
    file_data: FileData | None = None
    total_lines: int | None = None
    start_line: int | None = None
    end_line: int | None = None
    next_offset: int | None = None
    no_lines_requested: bool = False


@dataclass
class WriteResult:
    """The path that was written, or an error."""

    error: str | None = None
    path: str | None = None


@dataclass
class EditResult:
    """The path that was edited and how many replacements were made, or an error."""

    error: str | None = None
    path: str | None = None
    occurrences: int | None = None


@dataclass
class DeleteResult:
    """The path that was deleted, or an error."""

    error: str | None = None
    path: str | None = None


@dataclass
class GrepResult:
    """Matching lines; ``truncated`` when there may be more."""

    error: str | None = None
    matches: list[GrepMatch] | None = None
    truncated: bool = False


@dataclass
class GlobResult:
    """Matching files; ``truncated`` when there may be more."""

    error: str | None = None
    matches: list[FileInfo] | None = None
    truncated: bool = False
    truncation_reason: Literal["budget", "unreadable", "transport"] | None = None


@dataclass
class FileUploadResponse:
    """Whether one file was uploaded; ``error`` is a code such as ``invalid_path``, or a text."""

    path: str
    error: str | None = None


@dataclass
class FileDownloadResponse:
    """One file's bytes; ``error`` is a code such as ``file_not_found``, or a text."""

    path: str
    content: bytes | None = None
    error: str | None = None


class BackendProtocol(ABC):  # noqa: B024  # as in the protocol, a backend may offer a part of it
    """A file system for agents. Every method has an async twin, which by default runs it in a thread."""

    def ls(self, path: str) -> LsResult:
        """List a directory, not recursively."""
        raise NotImplementedError

    async def als(self, path: str) -> LsResult:
        """List a directory as ``ls`` does."""
        return await asyncio.to_thread(self.ls, path)

    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read at most ``limit`` lines of a file behind the first ``offset``."""
        raise NotImplementedError

    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read as ``read`` does."""
        return await asyncio.to_thread(self.read, file_path, offset, limit)

    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace what it holds."""
        raise NotImplementedError

    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Write as ``write`` does."""
        return await asyncio.to_thread(self.write, file_path, content)

    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text that occurs once, or wherever it occurs."""
        raise NotImplementedError

    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Edit as ``edit`` does."""
        return await asyncio.to_thread(self.edit, file_path, old_string, new_string, replace_all)

    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with all in it."""
        raise NotImplementedError

    async def adelete(self, file_path: str) -> DeleteResult:
        """Delete as ``delete`` does."""
        return await asyncio.to_thread(self.delete, file_path)

    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by their paths."""
        raise NotImplementedError

    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files as ``glob`` does."""
        return await asyncio.to_thread(self.glob, pattern, path)

    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that hold a literal text."""
        raise NotImplementedError

    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines as ``grep`` does."""
        return await asyncio.to_thread(lambda: self.grep(pattern, path, glob, max_count=max_count))

    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Store files; each succeeds or fails on its own."""
        raise NotImplementedError

    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Upload as ``upload_files`` does."""
        return await asyncio.to_thread(self.upload_files, files)

    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files whole; each succeeds or fails on its own."""
        raise NotImplementedError

    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Download as ``download_files`` does."""
        return await asyncio.to_thread(self.download_files, paths)
