"""Loading what a setting names: an attribute of a Python file, or of a module."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from hashlib import blake2b
from pathlib import Path
from types import ModuleType

from stateroom.errors import Misconfigured

__all__ = ["find_module", "get_attribute", "load_file", "load_named"]


def load_named(reference: str, *, base: Path, field: str) -> object:
    """Return what ``"./file.py:name"`` (from the folder ``base``) or ``"package.module:name"`` names.

    Raises ``Misconfigured``, which names ``field``, the file or module and the attribute, if that fails.
    """
    place, _, name = reference.rpartition(":")
    if not place or not name:
        raise Misconfigured(
            f'{field} {reference!r} must be "./file.py:name" or "package.module:name"', field=field
        )
    if place.endswith(".py"):
        return get_attribute(
            load_file(base / Path(place).expanduser(), field=field), name, reference, field=field
        )
    module = find_module(place, field=field)
    if module is None:
        raise Misconfigured(
            f'{field} {reference!r}: there is no module {place}; write "./file.py:name" for a file',
            field=field,
        )
    return get_attribute(module, name, reference, field=field)


def load_file(path: Path, *, field: str) -> ModuleType:
    """Run a Python file, named from the working directory, as a module."""
    path = path.expanduser().resolve()
    name = f"stateroom_file_{blake2b(str(path).encode(), digest_size=16).hexdigest()}"
    spec = importlib.util.spec_from_file_location(name, path)
    if not path.is_file() or spec is None or spec.loader is None:
        raise Misconfigured(f"{field}: there is no file {path}", field=field)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    try:
        spec.loader.exec_module(module)
    except Exception as error:
        del sys.modules[name]
        raise Misconfigured(
            f"{field}: {path} failed to load: {type(error).__name__}: {error}", field=field
        ) from error
    return module


def find_module(name: str, *, field: str) -> ModuleType | None:
    """Import a module, or return None if there is none of that name."""
    try:
        found = importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        found = False
    try:
        return importlib.import_module(name) if found else None
    except Exception as error:
        raise Misconfigured(
            f"{field}: the module {name} failed to load: {type(error).__name__}: {error}", field=field
        ) from error


def get_attribute(module: ModuleType, name: str, reference: str, *, field: str) -> object:
    """Return an attribute that must be there."""
    if not hasattr(module, name):
        place = module.__file__ or module.__name__
        raise Misconfigured(f"{field} {reference!r}: {place} has no attribute {name!r}", field=field)
    return getattr(module, name)
