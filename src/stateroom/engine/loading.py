"""A project's own code: where it lies, how it is imported, and how it is imported anew."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import sysconfig
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from stateroom.errors import Misconfigured
from stateroom.importing import file_of, load_named

__all__ = ["Project"]


class Project:
    """The code in the folder ``base`` of a ``langgraph.json``, and in the folders of its ``dependencies``.

    Of those only the ones that begin with a dot are folders; the others are packages that are installed.
    """

    def __init__(self, base: Path, dependencies: Sequence[str] = ()) -> None:
        self._base = base.expanduser().resolve()
        self._dependencies = [
            (self._base / named).resolve() for named in dependencies if named.startswith(".")
        ]

    @property
    def folders(self) -> tuple[Path, ...]:
        """The folders that code is imported from, each once, none of them inside another."""
        folders = [self._base, *self._dependencies]
        return tuple(
            folder
            for number, folder in enumerate(folders)
            if folder not in folders[:number] and not any(other in folder.parents for other in folders)
        )

    def prepare(self) -> None:
        """Make the project's packages and modules importable, before those that are installed.

        Raises ``Misconfigured`` for a folder of ``dependencies`` that is not there.
        """
        for folder in self._dependencies:
            if not folder.is_dir():
                raise Misconfigured(
                    f"dependencies: there is no folder {folder}; correct it or leave it out",
                    field="dependencies",
                )
        wanted = [place for folder in (self._base, *self._dependencies) for place in _places(folder)]
        present = {str(Path(entry).resolve()) for entry in sys.path}
        new = [place for place in dict.fromkeys(map(str, wanted)) if place not in present]
        sys.path[:0] = new

    def load(self, reference: str, *, field: str) -> object:
        """Return what ``"./file.py:name"`` or ``"package.module:name"`` names; see ``load_named``."""
        self.prepare()
        return load_named(reference, base=self._base, field=field)

    @contextmanager
    def afresh(self) -> Iterator[None]:
        """Have the project's modules imported anew meanwhile; if that fails, the old ones are back."""
        old = self._modules()
        for name, module in old.items():
            del sys.modules[name]
            _forget_bytecode(module)
        importlib.invalidate_caches()
        try:
            yield
        except BaseException:
            for name in self._modules():
                del sys.modules[name]
            sys.modules.update(old)
            raise

    def _modules(self) -> dict[str, ModuleType]:
        """Return the modules that are the project's own."""
        return {
            name: module
            for name, module in list(sys.modules.items())
            if name not in ("__main__", "__mp_main__") and name.partition(".")[0] != "stateroom"
            if (file := file_of(module)) is not None and self._owns(file)
        }

    def _owns(self, file: Path) -> bool:
        parents = set(file.parents)
        return any(folder in parents for folder in self.folders) and not parents & _installed()


def _places(folder: Path) -> list[Path]:
    """Return where to look for the modules and packages of a folder.

    A folder that is a package is looked for from outside of it; its own files are found as well, for those
    who run it as a script.
    """
    root = folder
    while (root / "__init__.py").is_file():
        root = root.parent
    places = [root, folder, folder / "src"]
    return [place for place in dict.fromkeys(places) if place.is_dir()]


def _installed() -> set[Path]:
    """Return the folders of what is installed, which may lie inside a project."""
    return {Path(sysconfig.get_path(name)).resolve() for name in ("purelib", "platlib", "stdlib")}


def _forget_bytecode(module: ModuleType) -> None:
    """Remove what Python has kept of a module: it tells versions apart by whole seconds and sizes only."""
    file = module.__dict__.get("__file__")
    if isinstance(file, str) and file.endswith(".py"):
        Path(importlib.util.cache_from_source(file)).unlink(missing_ok=True)
