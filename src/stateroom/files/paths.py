"""The rules of paths: how each is spelled, and which cannot be."""

from __future__ import annotations

import re
from typing import Final

from stateroom.errors import InvalidPath
from stateroom.model.limits import KEY_BYTES_MAX, check_limit
from stateroom.model.text import flaw, show

__all__ = ["ROOT", "ancestors", "directory_prefix", "file_path", "is_path", "normal_path"]

ROOT: Final = "/"

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_PATH: Final = re.compile(r"(?:/(?!\.{1,2}(?:/|\Z))[^/]+)+")


def normal_path(path: str, *, field: str = "path") -> str:
    """Return the one spelling of a path: it begins with ``/``, and no part of it is empty or ``.``.

    A leading ``/`` may be missing, and a trailing one is dropped. Raises InvalidPath for ``..``, a drive
    as in ``C:\\``, NUL, a lone surrogate, and anything that is no string; LimitExceeded for a path that is
    longer than a key may be.
    """
    if not isinstance(path, str):
        raise InvalidPath(f"{field} is {show(path)}; pass a string such as '/notes/today.md'", field=field)
    if fault := flaw(path):
        raise InvalidPath(f"{field} {fault}; remove it", field=field)
    if _DRIVE.match(path):
        raise InvalidPath(
            f"{field} {show(path)} names a drive; paths here begin with '/', as in '/notes/today.md'",
            field=field,
        )
    parts = [part for part in path.split("/") if part not in ("", ".")]
    if ".." in parts:
        raise InvalidPath(
            f"{field} {show(path)} goes up with '..'; spell the path from the root", field=field
        )
    normal = ROOT + "/".join(parts)
    check_limit(len(normal.encode()), KEY_BYTES_MAX, "bytes", field=field)
    return normal


def file_path(path: str, *, field: str = "file_path") -> str:
    """Return the one spelling of a file's path; raise InvalidPath for what names a directory, too."""
    normal = normal_path(path, field=field)
    if normal == ROOT or path.rpartition("/")[2] in ("", "."):
        raise InvalidPath(f"{field} {show(path)} names a directory; name a file", field=field)
    return normal


def is_path(key: str) -> bool:
    """Tell whether a key is a file's path as it is spelled here, and so may be listed as one."""
    return _PATH.fullmatch(key) is not None


def directory_prefix(path: str) -> str:
    """Return what the paths in a directory begin with."""
    return ROOT if path == ROOT else path + "/"


def ancestors(path: str) -> list[str]:
    """Return the directories that a file lies in, but for the root."""
    parts = path.split("/")[1:-1]
    return [ROOT + "/".join(parts[: depth + 1]) for depth in range(len(parts))]
