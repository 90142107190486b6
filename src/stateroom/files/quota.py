"""How many files, and how many bytes, one file system may hold."""

from __future__ import annotations

from stateroom.errors import InvalidInput, LimitExceeded, Misconfigured
from stateroom.files.listing import usage
from stateroom.files.steps import Steps
from stateroom.files.volume import Stored, Volume
from stateroom.model.file import Content, content_of, size_of
from stateroom.model.text import show

__all__ = ["check_quota", "has_quota", "quota"]


def quota(value: int | None, field: str) -> int | None:
    """Return a bound; raise Misconfigured unless it is a number from 0, or None."""
    if value is None or (isinstance(value, int) and not isinstance(value, bool) and value >= 0):
        return value
    raise Misconfigured(f"{field} is {show(value)}; pass a number from 0, or None", field=field)


def has_quota(volume: Volume) -> bool:
    """Tell whether anything bounds what all files are together."""
    return volume.max_files is not None or volume.max_bytes is not None


def check_quota(volume: Volume, path: str, seen: Stored | None, content: Content) -> Steps[None]:
    """Raise LimitExceeded if a file must not become this; what does not grow is always allowed.

    All files are counted, so such a write costs a listing of all.
    """
    if not has_quota(volume):
        return
    old = _size(seen)
    more_files, more_bytes = int(old is None), size_of(content) - (old or 0)
    if not more_files and more_bytes <= 0:
        return
    files, size = yield from usage(volume)
    if volume.max_files is not None and files + more_files > volume.max_files and more_files:
        raise LimitExceeded(
            f"there are {files:,} files, and no more than {volume.max_files:,} may be: '{path}' was not "
            "written; delete files that are of no use any more",
            field="max_files",
        )
    if volume.max_bytes is not None and size + more_bytes > volume.max_bytes and more_bytes > 0:
        raise LimitExceeded(
            f"with this '{path}' all files would hold {size + more_bytes:,} bytes, and no more than "
            f"{volume.max_bytes:,} may be: it was not written; delete what is of no use any more",
            field="max_bytes",
        )


def _size(seen: Stored | None) -> int | None:
    if seen is None:
        return None
    try:
        return size_of(content_of(seen.value))
    except InvalidInput:
        return None
