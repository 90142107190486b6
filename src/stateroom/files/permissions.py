"""A file system for agents in which rules say what may be read and written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeVar

from typing_extensions import override

from stateroom.files import permission_operations as guarding
from stateroom.files.backend import Backend
from stateroom.files.calls import Calls, acall, call, check_backend
from stateroom.files.permission_rules import FilePermission, Rules

__all__ = ["FilePermission", "PermittedBackend"]

R = TypeVar("R")


class PermittedBackend(Backend):
    """Any backend, on whose files rules are enforced; of several that match, the first.

    What is denied answers ``permission denied``, and is left out of listings and searches. What is to be
    approved interrupts the graph that is running, until it is resumed with True, ``"approve"`` or what
    LangChain's human-in-the-loop middleware is sent; the node then runs again from its start. A listing
    or a search asks if it has found what is to be approved. Reading needs ``read``, all that changes files
    ``write``. Paths are judged as they are named: a file system with symbolic links has other names
    for a file. ``usage`` counts all files. Commands are not offered, since no rule can hold for them.
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
    def _perform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        operation: Calls[R] = _OPERATIONS[name](self._guarded, *args, **options)
        return call(operation)

    @override
    async def _aperform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        operation: Calls[R] = _OPERATIONS[name](self._guarded, *args, **options)
        return await acall(operation)


_OPERATIONS: Final[Mapping[str, Callable[..., Calls[Any]]]] = {
    "ls": guarding.ls,
    "read": guarding.read,
    "write": guarding.write,
    "edit": guarding.edit,
    "multi_edit": guarding.multi_edit,
    "delete": guarding.delete,
    "glob": guarding.glob,
    "grep": guarding.grep,
    "upload_files": guarding.upload,
    "download_files": guarding.download,
    "search": guarding.search,
    "prune": guarding.prune,
    "usage": guarding.usage,
}
