"""Backends' answers in the words of whoever asked: full paths, and only what other mounts do not hide."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, TypeVar

from stateroom.files.composite_mounts import Mount, Mounts
from stateroom.files.paths import ROOT

__all__ = ["outer_result", "seen"]

R = TypeVar("R")


def outer_result(mount: Mount, result: R, inner: str, *echoed: str) -> R:
    """Return a result about one path with the path, and those in its error, as callers spell them.

    An error may repeat a text of the caller's, which stays as it is: ``echoed``.
    """
    if error := getattr(result, "error", None):
        if any(isinstance(text, str) and inner in text for text in echoed):
            return result
        return replace(result, error=mount.outer_text(error, inner))  # type: ignore[type-var]
    if getattr(result, "path", None) is not None:
        return replace(result, path=mount.outer(inner))  # type: ignore[type-var]
    return result


def seen(mounts: Mounts, mount: Mount, found: Iterable[Any] | None) -> Iterator[Any]:
    """Yield what a backend found under full paths, but for what lies where another backend is mounted."""
    hiding = mounts.below(mount.directory)
    for one in found or ():
        path = mount.outer(one["path"])
        if not any(other.holds(path.rstrip("/") or ROOT) for other in hiding):
            yield {**one, "path": path}
