"""Finding files by their paths: directories, patterns, and what all files amount to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, NamedTuple

from stateroom.files.answers import answering
from stateroom.files.globs import Glob, compile_glob
from stateroom.files.paths import ROOT, directory_prefix, is_path, normal_path
from stateroom.files.protocol import FileInfo, GlobResult, LsResult
from stateroom.files.steps import Steps
from stateroom.files.volume import Volume
from stateroom.model.item import KeyEntry

__all__ = [
    "LONG_AGO",
    "Usage",
    "every_file",
    "glob",
    "info_of",
    "ls",
    "modified_at",
    "moment",
    "time_of",
    "usage",
    "walk",
]

LONG_AGO: Final = datetime(1, 1, 1, tzinfo=UTC)
"""When files were modified of which nothing is known."""

PAGE: Final = 10_000
"""Entries that a store is asked for at once."""


class Usage(NamedTuple):
    """How many files there are, and how many bytes they hold together."""

    files: int
    bytes: int


@answering(LsResult)
def ls(volume: Volume, path: str) -> Steps[LsResult]:
    """List a directory: its files, and below it each directory once; nothing where there is none."""
    entries: list[KeyEntry] = []
    prefix, after, size = directory_prefix(normal_path(path)), None, volume.page(PAGE)
    while True:
        (page,) = yield [volume.list(prefix, delimiter="/", after=after, limit=size)]
        entries += page
        if len(page) < size:
            break
        after = page[-1].key
    return LsResult(entries=[info_of(entry) for entry in entries if _is_file(entry) or _is_directory(entry)])


@answering(GlobResult)
def glob(volume: Volume, pattern: str, path: str | None) -> Steps[GlobResult]:
    """Find files by a pattern, the last modified first."""
    wanted = compile_glob(pattern)
    found = yield from every_file(volume, ROOT if path is None else path, wanted)
    found.sort(key=moment, reverse=True)
    return GlobResult(matches=[info_of(entry) for entry in found])


def usage(volume: Volume) -> Steps[Usage]:
    """Add up all files."""
    sizes = [entry.size or 0 for entry in (yield from every_file(volume, ROOT))]
    return Usage(len(sizes), sum(sizes))


def every_file(volume: Volume, path: str, wanted: Glob | None = None) -> Steps[list[KeyEntry]]:
    """Return the files at or below a path, by path; only those that a pattern matches."""
    found: list[KeyEntry] = []

    def take(entry: KeyEntry) -> bool:
        found.append(entry)
        return True

    yield from walk(volume, path, wanted, take, volume.page(PAGE))
    return found


def walk(
    volume: Volume,
    path: str,
    wanted: Glob | None,
    take: Callable[[KeyEntry], bool],
    size: int,
    **options: Any,
) -> Steps[None]:
    """Give ``take`` the files at or below a path, by path, as long as it answers true.

    A path is a directory, or the one file that it names. ``wanted`` looks at a file's path below the
    directory, or at the name of the one file. A store is asked for so many entries at once.
    """
    root = normal_path(path)
    if wanted is not None and not wanted.alternatives:
        return
    if root != ROOT:
        own = yield from _own(volume, root, options)
        if own and own[0].key == root and _is_file(own[0]):
            if wanted is None or wanted.matches(root.rpartition("/")[2]):
                take(own[0])
            return
    base, after = directory_prefix(root), None
    prefix, suffix = ("", "") if wanted is None else (wanted.prefix, wanted.suffix)
    while True:
        (page,) = yield [volume.list(base + prefix, suffix=suffix, after=after, limit=size, **options)]
        for entry in page:
            fits = wanted is None or wanted.matches(entry.key[len(base) :])
            if fits and _is_file(entry) and not take(entry):
                return
        if len(page) < size:
            return
        after, size = page[-1].key, volume.page(size)


def _own(volume: Volume, path: str, options: Mapping[str, Any]) -> Steps[list[KeyEntry]]:
    """Return the first entry at a path or behind it, if there is one."""
    if not volume.lists_cheaply:
        # Where a listing reads everything, there is mostly no file of that name, and a get says so.
        (stored,) = yield [volume.get(path)]
        if stored is None:
            return []
    (own,) = yield [volume.list(path, limit=1, **{**options, "containing": None})]
    return own  # type: ignore[no-any-return]  # what a listing answers


def info_of(entry: KeyEntry) -> FileInfo:
    """Return an entry as the protocol has it."""
    if entry.is_prefix:
        return FileInfo(path=entry.key, is_dir=True, size=0, modified_at="")
    # A literal takes half the time, and there may be ten thousand.
    return {"path": entry.key, "is_dir": False, "size": entry.size or 0, "modified_at": modified_at(entry)}


def modified_at(entry: KeyEntry) -> str:
    """Return the time that a file says it was modified at, or else when it was put."""
    if entry.modified_at is not None:
        return entry.modified_at
    return "" if entry.updated_at is None else entry.updated_at.isoformat()


def moment(entry: KeyEntry) -> datetime:
    """Return when a file was modified; when it was put, if what it says of that is no time."""
    said = None if entry.modified_at is None else time_of(entry.modified_at)
    return said or entry.updated_at or LONG_AGO


def time_of(text: str) -> datetime | None:
    """Return the time that a text is in ISO 8601, as UTC where it does not say; None for other texts."""
    try:
        said = datetime.fromisoformat(text)
    except ValueError:
        return None
    return said if said.tzinfo else said.replace(tzinfo=UTC)


def _is_directory(entry: KeyEntry) -> bool:
    return entry.is_prefix and is_path(entry.key[:-1])


def _is_file(entry: KeyEntry) -> bool:
    """Tell whether an entry is a file, and not some other item under a key that begins with ``/``."""
    return entry.size is not None and is_path(entry.key)
