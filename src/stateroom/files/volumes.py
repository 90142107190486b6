"""Backends whose files are in one place, a volume: how their operations are run there."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Hashable, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from typing_extensions import override

from stateroom.files.backend import Backend
from stateroom.files.grepping import grep
from stateroom.files.listing import glob, ls, usage
from stateroom.files.locking import Locks
from stateroom.files.protocol import EditResult
from stateroom.files.pruning import PruneResult, Pruning, prune
from stateroom.files.reading import download, read
from stateroom.files.searching import search
from stateroom.files.steps import AsyncBatch, Batch, Steps
from stateroom.files.volume import Volume
from stateroom.files.writing import delete, edit, upload, write
from stateroom.stores.plans import acarry_out, carry_out

__all__ = ["Place", "VolumeBackend"]

R = TypeVar("R")

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


class VolumeBackend(Backend):
    """A backend that works on one volume, wherever that is at the moment."""

    @abstractmethod
    def _place(self) -> Place:
        """Return where the files are just now."""

    @override
    def _perform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        place, steps = self._begun(kind, name, args, options)
        return carry_out(place.batch, steps) if name not in _CHANGES else _run_in_turn(place, steps)

    @override
    async def _aperform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        place, steps = self._begun(kind, name, args, options)
        if place.abatch is None:
            return carry_out(place.batch, steps) if name not in _CHANGES else _run_in_turn(place, steps)
        if place.lock is None or name not in _CHANGES:
            return await acarry_out(place.abatch, steps)
        if place.has_threads:
            # So that a sync caller on this loop may wait for a task of it.
            return await asyncio.to_thread(_run_in_turn, place, steps)
        async with _LOCKS.ahold(place.lock):
            return await acarry_out(place.abatch, steps)

    def _begun(
        self, _: type[R], name: str, args: tuple[Any, ...], options: dict[str, Any]
    ) -> tuple[Place, Steps[R]]:
        place = self._place()
        return place, _OPERATIONS[name](place.volume, *args, **options)


def _run_in_turn(place: Place, steps: Steps[R]) -> R:
    """Take steps that read and then write: in turn, where the storage does not tell writers apart."""
    if place.lock is None:
        return carry_out(place.batch, steps)
    with _LOCKS.hold(place.lock):
        return carry_out(place.batch, steps)


def _edit_once(volume: Volume, path: str, old: str, new: str, replace_all: bool) -> Steps[EditResult]:
    return edit(volume, path, [(old, new, replace_all)])


def _prune(volume: Volume, *, path: str, dry_run: bool, **pruning: Any) -> Steps[PruneResult]:
    return prune(volume, path, Pruning(**pruning), dry_run)


_OPERATIONS: Final[Mapping[str, Callable[..., Steps[Any]]]] = {
    "ls": ls,
    "read": read,
    "write": write,
    "edit": _edit_once,
    "multi_edit": edit,
    "delete": delete,
    "glob": glob,
    "grep": grep,
    "upload_files": upload,
    "download_files": download,
    "search": search,
    "prune": _prune,
    "usage": usage,
}

_CHANGES: Final = frozenset({"write", "edit", "multi_edit", "delete", "upload_files", "prune"})
"""Operations that write what they have worked out from what they read."""
