"""What every part of the suite of file systems stands on: opening one, and asking it both ways."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, fields
from functools import partial, wraps
from typing import Any, Final, ParamSpec, Protocol

import pytest

from stateroom.clock import Clock, ManualClock, system_clock
from stateroom.errors import NotSupported
from stateroom.model.text import show
from stateroom.testing.harness import Async, Memory, Script, Sync

__all__ = ["HOME", "FileSystem", "Files", "FilesHarness", "OpenedFiles", "OpensFiles", "optional"]

P = ParamSpec("P")

HOME: Final = ("tenant", "acme")
"""The namespace of the file system under test, where it has one."""

ALL_LINES: Final = 10**9


@dataclass(frozen=True)
class FileSystem:
    """A backend under test, and the ways past it to what it keeps.

    ``plant(path, value, **options)`` puts a file's JSON object as somebody else would; the options are those
    of a store's ``put``. ``everything()`` returns all objects by path, and is no use of any.
    ``is_conditional`` says that a write can name the revision that it replaces, ``lists_cheaply`` that
    names are listed without reading files, ``has_full_limits`` that files may be as large as
    ``stateroom.model.limits`` allows.
    """

    backend: Any
    plant: Callable[..., None]
    everything: Callable[[], dict[str, Any]]
    is_conditional: bool = True
    lists_cheaply: bool = True
    has_full_limits: bool = True


class OpenedFiles(Protocol):
    """What the fixture ``open_files`` returns: a function that opens a file system of the running test.

    It is empty when it is opened first. Opened again with the same ``namespace`` it is the same; with another
    one it is a neighbour on the same storage. ``options`` are a backend's: ``file_format``,
    ``max_files``, ``max_bytes``. What the backend lacks is refused with NotSupported or Misconfigured.
    """

    def __call__(
        self,
        *,
        namespace: tuple[str, ...] = HOME,
        ttl: Mapping[str, Any] | None = None,
        clock: Clock = system_clock,
        **options: Any,
    ) -> FileSystem:
        """Open the file system."""


class Files:
    """A file system with one set of methods: its backend's sync methods, or its async ones."""

    def __init__(self, system: FileSystem, caller: Memory) -> None:
        self.system = system
        self._caller = caller

    def call(self, method: str, /, *args: Any, **options: Any) -> Any:
        """Call a method and return its result, whatever it is."""
        return self._caller.call(method, *args, **options)

    def together(self, scripts: Sequence[Script]) -> list[Any]:
        """Run callers at the same time; return what each returned."""
        return self._caller.together(scripts)

    def ok(self, method: str, /, *args: Any, **options: Any) -> Any:
        """Call a method that must succeed."""
        result = self.call(method, *args, **options)
        assert result.error is None, f"{method} {show(args)}: {show(result.error)}"
        return result

    def refused(self, method: str, /, *args: Any, **options: Any) -> str:
        """Call a method that must answer an error, with nothing beside it, and change nothing."""
        before = self.everything()
        result = self.call(method, *args, **options)
        assert result.error is not None, f"{method} {show(args)} succeeded"
        beside = [field.name for field in fields(result) if field.name != "error"]
        empty = type(result)(error=result.error)
        assert [getattr(result, name) for name in beside] == [getattr(empty, name) for name in beside]
        assert self.everything() == before
        error: str = result.error
        return error

    def everything(self) -> dict[str, Any]:
        """Return all objects that are stored, by path."""
        return self.system.everything()

    def plant(self, path: str, value: Mapping[str, Any], **options: Any) -> None:
        """Put a file's object past the backend."""
        self.system.plant(path, value, **options)

    def write(self, path: str, content: str = "") -> str:
        """Write a file; return the path that is answered."""
        written: str = self.ok("write", path, content).path
        return written

    def edit(self, path: str, old: str, new: str, replace_all: bool = False) -> int:
        """Edit a file; return how many replacements were made."""
        occurrences: int = self.ok("edit", path, old, new, replace_all).occurrences
        return occurrences

    def text(self, path: str, offset: int = 0, limit: int = ALL_LINES) -> str:
        """Return what a file shows."""
        content: str = self.ok("read", path, offset, limit).file_data["content"]
        return content

    def data(self, path: str) -> bytes:
        """Return what a file holds."""
        (response,) = self.call("download_files", [path])
        assert response.error is None, f"{show(path)}: {response.error}"
        content: bytes = response.content
        return content

    def upload(self, path: str, data: bytes) -> None:
        """Upload one file."""
        (response,) = self.call("upload_files", [(path, data)])
        assert (response.path, response.error) == (path, None)

    def names(self, path: str = "/") -> list[str]:
        """Return the paths in a directory."""
        return [entry["path"] for entry in self.ok("ls", path).entries]

    def found(self, pattern: str, path: str | None = None) -> list[str]:
        """Return the paths that a pattern matches, as they are ordered."""
        return [info["path"] for info in self.ok("glob", pattern, path).matches]

    def lines(self, pattern: str, *args: Any, **options: Any) -> list[tuple[str, int, str]]:
        """Return the lines that hold a text."""
        matches = self.ok("grep", pattern, *args, **options).matches
        return [(match["path"], match["line"], match["text"]) for match in matches]

    def hits(self, query: str, *args: Any, **options: Any) -> list[str]:
        """Return the paths that a search finds, the best first."""
        return [hit["path"] for hit in self.ok("search", query, *args, **options).matches]

    def usage(self) -> tuple[int, int]:
        """Return how many files there are, and their bytes."""
        files, size = self.call("usage")
        return files, size


class _OptionRefused(Exception):
    """The backend refuses an option, in these words; the option is one of those."""


def optional(test: Callable[P, None]) -> Callable[P, None]:
    """Have a test of an option that not every backend has show, where it is refused, that this is by name."""

    @wraps(test)
    def either(*args: P.args, **kwargs: P.kwargs) -> None:
        try:
            test(*args, **kwargs)
        except _OptionRefused as refusal:
            words, options = refusal.args
            assert any(option in words for option in options)

    return either


class OpensFiles:
    """Opens file systems with options, in one of the two ways."""

    def __init__(
        self, opened: OpenedFiles, make: Callable[[Any], Memory], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        self._opened = opened
        self._make = make
        self._monkeypatch = monkeypatch

    def __call__(self, **options: Any) -> Files:
        """Open a file system."""
        system = self._opened(**options)
        return Files(system, self._make(system.backend))

    def able(self, **options: Any) -> Files:
        """Open a file system with options that not all have, in a test that is ``optional``."""
        try:
            return self(**options)
        except NotSupported as error:
            raise _OptionRefused(str(error), [*options]) from error

    def few(self, module: Any, name: str, value: int = 2) -> None:
        """Set how much a module of the backend takes at once, so that little is more than that."""
        assert isinstance(getattr(module, name), int)
        self._monkeypatch.setattr(module, name, value)


class FilesHarness:
    """The fixtures of the suite of file systems."""

    @pytest.fixture
    def open_files(self) -> OpenedFiles:
        """Return a function that opens the file system under test; every subclass has one of its own."""
        raise NotImplementedError(
            f"{type(self).__name__} needs a fixture open_files, which returns a function from options "
            "(namespace, ttl, clock, and a backend's) to a FileSystem"
        )

    @pytest.fixture
    def clock(self) -> ManualClock:
        """Return the clock that the file system under test reads."""
        return ManualClock()

    @pytest.fixture(params=["sync", "async"])
    def opens(
        self,
        request: pytest.FixtureRequest,
        open_files: OpenedFiles,
        clock: ManualClock,
        monkeypatch: pytest.MonkeyPatch,
    ) -> Iterator[OpensFiles]:
        """Return what opens file systems with options."""

        def opened(**options: Any) -> FileSystem:
            return open_files(**({"clock": clock} | options))

        with ExitStack() as closing:
            make: Callable[[Any], Memory] = Sync
            if request.param == "async":
                make = partial(Async, loop=closing.enter_context(asyncio.Runner()).get_loop())
            yield OpensFiles(opened, make, monkeypatch)

    @pytest.fixture
    def files(self, opens: OpensFiles) -> Files:
        """Return the file system under test without any option."""
        return opens()
