"""Watching a project's files, so that a server under development serves what was saved last."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from typing_extensions import override
from watchfiles import BaseFilter, Change, watch

from stateroom.errors import StateroomError

__all__ = ["watching"]

IGNORED: Final = frozenset(
    {
        *("__pycache__", "node_modules", "site-packages", "venv", "build", "dist"),
        *(".git", ".hg", ".svn", ".venv", ".tox", ".nox", ".idea", ".vscode"),
        *(".stateroom", ".langgraph_api", ".mypy_cache", ".pytest_cache", ".ruff_cache", ".hypothesis"),
    }
)
"""Folders in which nothing is a project's own code."""

SETTINGS: Final = frozenset({"langgraph.json", ".env"})
"""Names of the files that a server's settings come from."""

_DEBOUNCE_MILLISECONDS: Final = 100
_STEP_MILLISECONDS: Final = 25
_STOP_MILLISECONDS: Final = 500
_SHOWN: Final = 5

_log = logging.getLogger(__name__)


@contextmanager
def watching(base: Path, changed: Callable[[], object], *, folders: Iterable[Path] = ()) -> Iterator[None]:
    """Call ``changed``, on a thread of its own, whenever code of a project was saved; log what came of it.

    ``base`` is the folder of the ``langgraph.json``, ``folders`` is where else the project's code lies. What
    is saved at once, or while ``changed`` is at work, counts once. A change of settings is only logged, since
    they are read when the server starts.
    """
    watcher = _Watcher(frozenset(folder.resolve() for folder in (base, *folders)), changed)
    watcher.start()
    try:
        yield
    finally:
        watcher.stop()


class _Watcher:
    """The thread that watches folders."""

    def __init__(self, folders: frozenset[Path], changed: Callable[[], object]) -> None:
        self._folders, self._changed = folders, changed
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stateroom-watching", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Watch no more, when what is under way is done."""
        self._stop.set()
        self._thread.join()

    def _run(self) -> None:
        try:
            for changes in watch(
                *self._folders,
                watch_filter=_Ours(self._folders),
                stop_event=self._stop,
                debounce=_DEBOUNCE_MILLISECONDS,
                step=_STEP_MILLISECONDS,
                rust_timeout=_STOP_MILLISECONDS,
                raise_interrupt=False,
            ):
                paths = {Path(path) for _, path in changes}
                settings = {path for path in paths if path.name in SETTINGS}
                if settings:
                    _log.warning("changed: %s; restart the server to have it read", self._names(settings))
                if paths > settings:
                    self._tell(self._names(paths - settings))
        except Exception:
            _log.exception("files are not watched any more; restart the server after a change")

    def _tell(self, names: str) -> None:
        try:
            self._changed()
        except StateroomError as error:
            _log.error("changed: %s; what was loaded before stays in use: %s", names, error)
        except Exception:
            _log.exception("changed: %s; what was loaded before stays in use", names)
        else:
            _log.info("changed: %s; the graphs were loaded anew", names)

    def _names(self, paths: set[Path]) -> str:
        """Return the names of some files, from the folder that they are in."""
        names = []
        for path in sorted(paths):
            folder = next((folder for folder in self._folders if folder in path.parents), None)
            names.append(str(path.relative_to(folder) if folder else path))
        more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
        return ", ".join(names[:_SHOWN]) + more


class _Ours(BaseFilter):
    """Tells the files that count."""

    def __init__(self, folders: frozenset[Path]) -> None:
        super().__init__()
        self._folders = folders

    @override
    def __call__(self, change: Change, path: str) -> bool:
        file = Path(path)
        if file.suffix != ".py" and file.name not in SETTINGS:
            return False
        # What the folders themselves are called does not count.
        inner = [file.relative_to(folder) for folder in self._folders if folder in file.parents]
        return any(not IGNORED.intersection(path.parts) for path in inner)
