"""One file system for agents out of several: each path belongs to the backend that is mounted there."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeVar

from typing_extensions import override

from stateroom.errors import Misconfigured, NotSupported
from stateroom.files import composite_files as routed
from stateroom.files import composite_searches as searches
from stateroom.files.backend import Backend
from stateroom.files.calls import Calls, acall, call, lacks, takes
from stateroom.files.composite_mounts import Mounts
from stateroom.files.paths import ROOT
from stateroom.model.text import show

__all__ = ["CompositeBackend"]

R = TypeVar("R")


class CompositeBackend(Backend):
    """A file system with others mounted in it, as ``/memories/`` over files of the thread.

    ``routes`` are backends by directory; any backend of the protocol will do, and a ``/`` at the end may be
    missing. The longest directory wins, and only whole names count. A backend does not see where it is
    mounted: ``/memories/a.md`` is ``/a.md`` to it. Listings and searches cover what is mounted below, and
    leave out what a mount hides. ``glob`` shows the last modified first, whatever backends they are in;
    ``grep`` fills ``max_count`` from the directory's own backend first. ``search`` and ``usage`` need that
    every backend concerned can; ``prune`` counts what to ``keep`` in one backend alone. No directory that
    has a mount in it can be deleted.

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
    def _perform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        operation: Calls[R] = _OPERATIONS[name](self._mounts, *args, **options)
        return call(operation)

    @override
    async def _aperform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        operation: Calls[R] = _OPERATIONS[name](self._mounts, *args, **options)
        return await acall(operation)

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


_OPERATIONS: Final[Mapping[str, Callable[..., Calls[Any]]]] = {
    "ls": routed.ls,
    "read": routed.read,
    "write": routed.write,
    "edit": routed.edit,
    "multi_edit": routed.multi_edit,
    "delete": routed.delete,
    "upload_files": routed.upload,
    "download_files": routed.download,
    "glob": searches.glob,
    "grep": searches.grep,
    "search": searches.search,
    "prune": searches.prune,
    "usage": searches.usage,
}
