"""Deleting files that are old or too many, and nothing that somebody is still changing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import timedelta

from stateroom.clock import microseconds_to_datetime
from stateroom.errors import Conflict, InvalidInput
from stateroom.files.answers import answering
from stateroom.files.globs import compile_glob
from stateroom.files.listing import every_file, info_of, moment
from stateroom.files.paths import directory_prefix, normal_path
from stateroom.files.protocol import FileInfo
from stateroom.files.steps import Steps
from stateroom.files.volume import Volume
from stateroom.model.item import KeyEntry
from stateroom.model.limits import BATCH_OPERATIONS_MAX
from stateroom.model.text import show

__all__ = ["PruneResult", "Pruning", "check_pruning", "prune"]


@dataclass
class PruneResult:
    """The files that were deleted, or would be in a dry run, the longest unmodified first; or an error."""

    error: str | None = None
    files: list[FileInfo] = field(default_factory=list)
    bytes: int = 0
    dry_run: bool = False


@dataclass(frozen=True)
class Pruning:
    """Which files go: those not modified for ``older_than``, but for the ``keep`` last modified.

    Either may be None: then nothing is too old, or all that is old goes. Paths that match a pattern in
    ``protect``, relative to the directory, stay whatever their age; they are not among those to keep.
    """

    older_than: timedelta | None = None
    keep: int | None = None
    protect: Sequence[str] = ()


@answering(PruneResult)
def prune(volume: Volume, path: str, pruning: Pruning, dry_run: bool) -> Steps[PruneResult]:
    """Delete what ``pruning`` says at or below a path; a file that is written meanwhile stays."""
    check_pruning(pruning)
    found = yield from every_file(volume, path)
    doomed = _doomed(found, len(directory_prefix(normal_path(path))), pruning, volume.clock())
    gone = doomed if dry_run else []
    for start in range(0, 0 if dry_run else len(doomed), BATCH_OPERATIONS_MAX):
        gone += yield from _deleted(volume, doomed[start : start + BATCH_OPERATIONS_MAX])
    size = sum(entry.size or 0 for entry in gone)
    return PruneResult(files=[info_of(entry) for entry in gone], bytes=size, dry_run=dry_run)


def check_pruning(pruning: Pruning) -> None:
    """Raise InvalidInput, naming the field, for what says nothing or nothing that can be done."""
    age, keep = pruning.older_than, pruning.keep
    if age is None and keep is None:
        raise InvalidInput("older_than and keep are both missing; pass at least one", field="older_than")
    if age is not None and (not isinstance(age, timedelta) or age < timedelta()):
        raise InvalidInput(
            f"older_than is {show(age)}; pass a timedelta, as timedelta(days=30)", field="older_than"
        )
    if keep is not None and (not isinstance(keep, int) or isinstance(keep, bool) or keep < 0):
        raise InvalidInput(f"keep is {show(keep)}; pass a number of files from 0", field="keep")
    if isinstance(pruning.protect, str) or not isinstance(pruning.protect, Sequence):
        raise InvalidInput(
            f"protect is {show(pruning.protect)}; pass a list of patterns, as ['*.md']", field="protect"
        )


def _doomed(found: Sequence[KeyEntry], cut: int, pruning: Pruning, now: int) -> list[KeyEntry]:
    protected = [compile_glob(pattern) for pattern in pruning.protect]
    loose = [entry for entry in found if not any(glob.matches(entry.key[cut:]) for glob in protected)]
    loose.sort(key=lambda entry: (moment(entry), entry.key))
    oldest = loose[: max(len(loose) - (pruning.keep or 0), 0)]
    if pruning.older_than is None:
        return oldest
    try:
        latest = microseconds_to_datetime(now) - pruning.older_than
    except OverflowError:
        return []
    return [entry for entry in oldest if moment(entry) < latest]


def _deleted(volume: Volume, doomed: Sequence[KeyEntry]) -> Steps[list[KeyEntry]]:
    """Delete files as they were listed, all at once, or those of them that nobody has written since."""
    try:
        yield [volume.delete(entry.key, entry.revision) for entry in doomed]
    except Conflict:
        if len(doomed) == 1:
            return []
        middle = len(doomed) // 2
        first = yield from _deleted(volume, doomed[:middle])
        return first + (yield from _deleted(volume, doomed[middle:]))
    return list(doomed)
