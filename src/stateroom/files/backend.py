"""What every file backend here offers: Deep Agents' protocol and more, sync and async."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable, Iterable, Sequence
from datetime import timedelta
from typing import Concatenate, Final, NamedTuple, ParamSpec, TypeVar

from typing_extensions import override

from stateroom.files.grepping import grep
from stateroom.files.listing import Usage, glob, ls, usage
from stateroom.files.locking import Locks
from stateroom.files.pairs import PairedBackend
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
from stateroom.files.pruning import PruneResult, Pruning, prune
from stateroom.files.reading import download, read
from stateroom.files.searching import SearchResult, search
from stateroom.files.steps import AsyncBatch, Batch, Steps, arun, run
from stateroom.files.volume import Volume
from stateroom.files.writing import EditSpec, delete, edit, upload, write
from stateroom.stores.operations import Mode

__all__ = ["Backend"]

P = ParamSpec("P")
R = TypeVar("R")

READ_LINES: Final = 2_000
"""Lines that ``read`` answers unless told otherwise."""

_LOCKS: Final = Locks()


class Place(NamedTuple):
    """Where one operation works: its volume, and how that is asked, sync and async.

    ``abatch`` is None where ``batch`` never waits. ``lock`` is what writers take in turn; None where the
    storage itself keeps them apart. ``has_threads`` says that ``batch`` works in any thread, whatever
    becomes of the loop that waits for it.
    """

    volume: Volume
    batch: Batch
    abatch: AsyncBatch | None
    lock: Hashable | None = None
    has_threads: bool = False


class Backend(PairedBackend):
    """A file system for agents.

    Paths begin with ``/`` and are spelled in one way: ``//`` and ``/./`` are ``/``, a leading ``/`` may be
    missing, ``..`` and NUL are refused. What an agent asks wrongly is answered by a result's ``error``;
    what is wrong with the set-up or the storage is raised. Every method has an async form that does
    the same on any event loop.
    """

    @abstractmethod
    def _place(self) -> Place:
        """Return where the files are just now."""

    @override
    def ls(self, path: str) -> LsResult:
        """List a directory: its files, and each directory in it once, as ``/notes/``; empty where none is.

        Nothing of the files is read: ``size`` and ``modified_at`` are kept beside them.
        """
        return self._do(ls, path)

    @override
    async def als(self, path: str) -> LsResult:
        """Do what ``ls`` does."""
        return await self._ado(ls, path)

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = READ_LINES) -> ReadResult:
        """Read at most ``limit`` lines behind the first ``offset``; a binary file comes whole, as base64.

        Lines end at a line feed. CRLF is shown as LF, and ``edit`` finds what is shown.
        """
        return self._do(read, file_path, offset, limit)

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = READ_LINES) -> ReadResult:
        """Do what ``read`` does."""
        return await self._ado(read, file_path, offset, limit)

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace what it holds, keeping its ``created_at`` and fields that are not ours.

        Nothing can be created below a file, nor a file where a directory is.
        """
        return self._change(write, file_path, content)

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Do what ``write`` does."""
        return await self._achange(write, file_path, content)

    @override
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text that occurs once, or with ``replace_all`` wherever it occurs.

        An edit that reports success is in the file: it replaces exactly what it was worked out from, and is
        worked out anew when somebody else was faster.
        """
        return self._change(edit, file_path, [(old_string, new_string, replace_all)])

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Do what ``edit`` does."""
        return await self._achange(edit, file_path, [(old_string, new_string, replace_all)])

    def multi_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Make several replacements in one file, one after the other, all or none.

        Each is an object with ``old_string``, ``new_string`` and perhaps ``replace_all``, or a tuple of
        these. ``occurrences`` counts what all of them replaced.
        """
        return self._change(edit, file_path, edits)

    async def amulti_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Do what ``multi_edit`` does."""
        return await self._achange(edit, file_path, edits)

    @override
    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with all that is in it; an error where there is neither."""
        return self._change(delete, file_path)

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        """Do what ``delete`` does."""
        return await self._achange(delete, file_path)

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by their paths, the last modified first.

        A pattern without ``/`` looks at names, at any depth; one with ``/`` at paths below ``path``, where
        ``**`` is any number of directories. A leading dot must be in the pattern too.
        """
        return self._do(glob, pattern, path)

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Do what ``glob`` does."""
        return await self._ado(glob, pattern, path)

    @override
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that hold a literal text, by path and number, in files that ``glob`` matches.

        At most ``max_count`` are answered, and ``truncated`` says whether there are more.
        """
        return self._do(grep, pattern, path, glob, max_count)

    @override
    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Do what ``grep`` does."""
        return await self._ado(grep, pattern, path, glob, max_count)

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Store files, UTF-8 as text and other bytes as base64; each succeeds or fails on its own."""
        return self._change(upload, files)

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Do what ``upload_files`` does."""
        return await self._achange(upload, files)

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files whole, as bytes; each succeeds or fails on its own."""
        return self._do(download, paths)

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Do what ``download_files`` does."""
        return await self._ado(download, paths)

    def search(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Rank the files at or below a path by words, meaning or both, as the store's ``search`` does."""
        return self._do(search, query, path, limit, mode)

    async def asearch(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Do what ``search`` does."""
        return await self._ado(search, query, path, limit, mode)

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
        return self._change(prune, path, Pruning(older_than, keep, protect), dry_run)

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
        return await self._achange(prune, path, Pruning(older_than, keep, protect), dry_run)

    def usage(self) -> Usage:
        """Count the files and add up their bytes."""
        return self._do(usage)

    async def ausage(self) -> Usage:
        """Do what ``usage`` does."""
        return await self._ado(usage)

    def _do(
        self, operation: Callable[Concatenate[Volume, P], Steps[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        place = self._place()
        return run(place.batch, operation(place.volume, *args, **kwargs))

    async def _ado(
        self, operation: Callable[Concatenate[Volume, P], Steps[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        place = self._place()
        steps = operation(place.volume, *args, **kwargs)
        return run(place.batch, steps) if place.abatch is None else await arun(place.abatch, steps)

    def _change(
        self, operation: Callable[Concatenate[Volume, P], Steps[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        """Do what reads and then writes; in turn, where the storage does not tell writers from each other."""
        place = self._place()
        steps = operation(place.volume, *args, **kwargs)
        return run(place.batch, steps) if place.lock is None else _run_in_turn(place, steps)

    async def _achange(
        self, operation: Callable[Concatenate[Volume, P], Steps[R]], *args: P.args, **kwargs: P.kwargs
    ) -> R:
        place = self._place()
        steps = operation(place.volume, *args, **kwargs)
        if place.abatch is None:
            return _run_in_turn(place, steps)
        if place.lock is None:
            return await arun(place.abatch, steps)
        if place.has_threads:
            # So that a sync caller on this loop may wait for a task of it.
            return await asyncio.to_thread(_run_in_turn, place, steps)
        async with _LOCKS.ahold(place.lock):
            return await arun(place.abatch, steps)


def _run_in_turn(place: Place, steps: Steps[R]) -> R:
    with _LOCKS.hold(place.lock):
        return run(place.batch, steps)
