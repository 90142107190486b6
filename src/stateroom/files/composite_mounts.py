"""Where backends are mounted: which one a path belongs to, and how paths change on the way to it and back."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from stateroom.errors import InvalidPath, Misconfigured
from stateroom.files.calls import check_backend
from stateroom.files.paths import ROOT, ancestors, directory_prefix, normal_path
from stateroom.model.text import show

__all__ = ["Mount", "Mounts", "is_missing"]

_MISSING: Final = re.compile(r"path_not_found|file_not_found|no such file|does not exist", re.IGNORECASE)


class Mount:
    """A backend and the directory that stands for its root; ``/`` is that of the default backend."""

    def __init__(self, directory: str, backend: Any) -> None:
        self.directory = directory
        self.backend = backend
        self.prefix = directory_prefix(directory)

    @property
    def is_default(self) -> bool:
        """Whether paths are the same on both sides."""
        return self.directory == ROOT

    def holds(self, path: str) -> bool:
        """Tell whether a path is the directory, or in it."""
        return path == self.directory or path.startswith(self.prefix)

    def inner(self, path: str) -> str:
        """Return what the backend calls a path."""
        return path if self.is_default else path[len(self.directory) :] or ROOT

    def outer(self, inner: str) -> str:
        """Return what callers call a path of the backend's."""
        return inner if self.is_default else self.prefix + inner.lstrip("/")

    def outer_text(self, text: str, inner: str) -> str:
        """Return a text of the backend's in which a path, and those of its directories, are the callers'."""
        if self.is_default:
            return text
        known = sorted({inner, *ancestors(inner)}, key=len, reverse=True)
        paths = re.compile(rf"(?<![\w./-])(?:{'|'.join(map(re.escape, known))})(?![\w-]|\.\w)")
        return paths.sub(lambda found: self.outer(found[0]).rstrip("/"), text)


class Mounts:
    """The default backend and those mounted over it, of which the one with the longest directory wins.

    ``routes`` are sorted by directory.
    """

    def __init__(self, default: Any, routes: Mapping[str, Any]) -> None:
        check_backend(default, "default")
        if not isinstance(routes, Mapping):
            raise Misconfigured(
                f"routes is {show(routes)}; pass backends by directory: {{'/memories/': backend}}",
                field="routes",
            )
        self.default = Mount(ROOT, default)
        self.routes: list[Mount] = []
        for directory, backend in routes.items():
            self._add(directory, backend)
        self.routes.sort(key=lambda mount: mount.directory)

    def _add(self, spelled: str, backend: Any) -> None:
        field = f"routes[{spelled!r}]"
        check_backend(backend, field)
        if not isinstance(spelled, str) or not spelled.startswith(ROOT):
            raise Misconfigured(f"{field}: a route begins with '/', as '/memories/'", field=field)
        try:
            directory = normal_path(spelled, field=field)
        except ValueError as error:
            raise Misconfigured(str(error), field=field) from None
        if directory == ROOT:
            raise Misconfigured(f"{field}: pass the backend for '/' as default", field=field)
        if any(mount.directory == directory for mount in self.routes):
            raise Misconfigured(f"{field}: there is another route for '{directory}/'", field=field)
        self.routes.append(Mount(directory, backend))

    def __iter__(self) -> Iterator[Mount]:
        yield self.default
        yield from self.routes

    def of(self, path: str) -> Mount:
        """Return the mount that a path belongs to."""
        holding = (mount for mount in self.routes if mount.holds(path))
        return max(holding, key=lambda mount: len(mount.directory), default=self.default)

    def below(self, path: str) -> list[Mount]:
        """Return the mounts in a directory, at any depth, by directory."""
        prefix = directory_prefix(path)
        return [mount for mount in self.routes if mount.directory.startswith(prefix)]

    def check_file(self, path: str) -> None:
        """Raise InvalidPath for a path at which no file can be: a mount is there, or in it."""
        if self.of(path).directory == path:
            raise InvalidPath(f"'{path}' is where a backend is mounted; name a file in it", field="file_path")
        if below := self.below(path):
            raise InvalidPath(
                f"'{path}' is a directory: a backend is mounted at '{below[0].directory}'", field="file_path"
            )

    def check_deletable(self, path: str) -> None:
        """Raise InvalidPath for what is, or has in it, a place where a backend is mounted."""
        if path == ROOT:
            raise InvalidPath(
                "'/' is everything there is; name a file or a directory in it", field="file_path"
            )
        if self.of(path).directory == path:
            raise InvalidPath(
                f"'{path}' cannot be deleted: a backend is mounted there; delete what is in it",
                field="file_path",
            )
        if below := self.below(path):
            raise InvalidPath(
                f"'{path}' cannot be deleted: a backend is mounted at '{below[0].directory}' in it",
                field="file_path",
            )


def is_missing(error: str, path: str) -> bool:
    """Tell whether a backend's error says that there is nothing at a path."""
    return _MISSING.search(error) is not None or f"'{path}' not found" in error
