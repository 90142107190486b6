"""One file system for agents out of several: each path belongs to the backend that is mounted there."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from typing import Any

from typing_extensions import override

from stateroom.errors import Misconfigured, NotSupported
from stateroom.files import composite_files as routed
from stateroom.files import composite_searches as searches
from stateroom.files.calls import acall, call, lacks, takes
from stateroom.files.composite_mounts import Mounts
from stateroom.files.listing import Usage
from stateroom.files.pairs import PairedBackend
from stateroom.files.paths import ROOT
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
from stateroom.model.text import show
from stateroom.stores.operations import Mode

__all__ = ["CompositeBackend"]


class CompositeBackend(PairedBackend):
    """A file system with others mounted in it, as ``/memories/`` over files of the thread.

    ``routes`` are backends by directory; any backend of the protocol will do, and a ``/`` at the end may be
    missing. The longest directory wins, and only whole names count. A backend does not see where it is
    mounted: ``/memories/a.md`` is ``/a.md`` to it. Listings and searches cover what is mounted below, and
    leave out what a mount hides.

    Raises Misconfigured, naming the field, for what is no backend or no directory.
    """

    def __init__(self, default: Any, routes: Mapping[str, Any], *, artifacts_root: str = ROOT) -> None:
        if not isinstance(artifacts_root, str) or not artifacts_root.startswith(ROOT):
            raise Misconfigured(
                f"artifacts_root is {show(artifacts_root)}; pass a path that begins with '/'",
                field="artifacts_root",
            )
        self._mounts = Mounts(default, routes)
        self.default = default
        self.routes = {mount.prefix: mount.backend for mount in self._mounts.routes}
        self.sorted_routes = sorted(self.routes.items(), key=lambda route: len(route[0]), reverse=True)
        self.artifacts_root = artifacts_root

    @property
    def id(self) -> str:
        """The identity of the default backend, where it has one."""
        return self.default.id  # type: ignore[no-any-return]

    @override
    def ls(self, path: str) -> LsResult:
        """List a directory, with the directories that lead to mounts, by path."""
        return call(routed.ls(self._mounts, path))

    @override
    async def als(self, path: str) -> LsResult:
        """Do what ``ls`` does."""
        return await acall(routed.ls(self._mounts, path))

    @override
    def read(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Read at most ``limit`` lines behind the first ``offset``."""
        return call(routed.read(self._mounts, file_path, offset, limit))

    @override
    async def aread(self, file_path: str, offset: int = 0, limit: int = 2000) -> ReadResult:
        """Do what ``read`` does."""
        return await acall(routed.read(self._mounts, file_path, offset, limit))

    @override
    def write(self, file_path: str, content: str) -> WriteResult:
        """Create a file, or replace what it holds."""
        return call(routed.write(self._mounts, file_path, content))

    @override
    async def awrite(self, file_path: str, content: str) -> WriteResult:
        """Do what ``write`` does."""
        return await acall(routed.write(self._mounts, file_path, content))

    @override
    def edit(self, file_path: str, old_string: str, new_string: str, replace_all: bool = False) -> EditResult:
        """Replace a text that occurs once, or with ``replace_all`` wherever it occurs."""
        return call(routed.edit(self._mounts, file_path, old_string, new_string, replace_all))

    @override
    async def aedit(
        self, file_path: str, old_string: str, new_string: str, replace_all: bool = False
    ) -> EditResult:
        """Do what ``edit`` does."""
        return await acall(routed.edit(self._mounts, file_path, old_string, new_string, replace_all))

    def multi_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Make several replacements in one file, all or none, where its backend can."""
        return call(routed.multi_edit(self._mounts, file_path, edits))

    async def amulti_edit(self, file_path: str, edits: Iterable[EditSpec]) -> EditResult:
        """Do what ``multi_edit`` does."""
        return await acall(routed.multi_edit(self._mounts, file_path, edits))

    @override
    def delete(self, file_path: str) -> DeleteResult:
        """Delete a file, or a directory with all that is in it; never one that has a mount in it."""
        return call(routed.delete(self._mounts, file_path))

    @override
    async def adelete(self, file_path: str) -> DeleteResult:
        """Do what ``delete`` does."""
        return await acall(routed.delete(self._mounts, file_path))

    @override
    def glob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Find files by their paths below ``path``, whatever backends they are in."""
        return call(searches.glob(self._mounts, pattern, path))

    @override
    async def aglob(self, pattern: str, path: str | None = None) -> GlobResult:
        """Do what ``glob`` does."""
        return await acall(searches.glob(self._mounts, pattern, path))

    @override
    def grep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Find lines that hold a literal text, by path, in files whose paths below ``path`` match ``glob``.

        At most ``max_count`` are answered of all backends together, those of the directory's own first;
        ``truncated`` says whether there are more.
        """
        return call(searches.grep(self._mounts, pattern, path, glob, max_count))

    @override
    async def agrep(
        self, pattern: str, path: str | None = None, glob: str | None = None, *, max_count: int | None = None
    ) -> GrepResult:
        """Do what ``grep`` does."""
        return await acall(searches.grep(self._mounts, pattern, path, glob, max_count))

    @override
    def upload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Store files, each in the backend of its path; each succeeds or fails on its own."""
        return call(routed.upload(self._mounts, files))

    @override
    async def aupload_files(self, files: list[tuple[str, bytes]]) -> list[FileUploadResponse]:
        """Do what ``upload_files`` does."""
        return await acall(routed.upload(self._mounts, files))

    @override
    def download_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Read files whole, as bytes; each succeeds or fails on its own."""
        return call(routed.download(self._mounts, paths))

    @override
    async def adownload_files(self, paths: list[str]) -> list[FileDownloadResponse]:
        """Do what ``download_files`` does."""
        return await acall(routed.download(self._mounts, paths))

    def search(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Rank the files at or below a path, by score, where all backends that have some of them can."""
        return call(searches.search(self._mounts, query, path, limit, mode))

    async def asearch(
        self, query: str, path: str | None = None, *, limit: int = 10, mode: Mode = "auto"
    ) -> SearchResult:
        """Do what ``search`` does."""
        return await acall(searches.search(self._mounts, query, path, limit, mode))

    def prune(
        self,
        *,
        older_than: timedelta | None = None,
        keep: int | None = None,
        path: str = ROOT,
        protect: Sequence[str] = (),
        dry_run: bool = False,
    ) -> PruneResult:
        """Delete files that were not modified for ``older_than``; ``keep`` needs a path in one backend."""
        return call(searches.prune(self._mounts, path, older_than, keep, protect, dry_run))

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
        return await acall(searches.prune(self._mounts, path, older_than, keep, protect, dry_run))

    def usage(self) -> Usage:
        """Count the files of all backends and add up their bytes; raises NotSupported where one cannot."""
        return call(searches.usage(self._mounts))

    async def ausage(self) -> Usage:
        """Do what ``usage`` does."""
        return await acall(searches.usage(self._mounts))

    def execute(self, command: str, *, timeout: int | None = None) -> Any:
        """Run a command in the default backend, where it runs commands; ``timeout`` is in seconds.

        Raises NotSupported where it does not.
        """
        return self._executing("execute")(command, **self._timeout(timeout))

    async def aexecute(self, command: str, *, timeout: int | None = None) -> Any:  # noqa: ASYNC109  # the protocol's
        """Do what ``execute`` does."""
        return await self._executing("aexecute")(command, **self._timeout(timeout))

    def _executing(self, method: str) -> Any:
        if lacks(self.default, method):
            raise NotSupported(
                "the default backend doesn't support command execution; pass a sandbox as default, whose "
                "backend derives from SandboxBackendProtocol"
            )
        return getattr(self.default, method)

    def _timeout(self, seconds: int | None) -> dict[str, int]:
        return (
            {"timeout": seconds} if seconds is not None and takes(self.default, "execute", "timeout") else {}
        )
