"""Loading what a setting names: an attribute of a Python file, or of a module."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import sys
import sysconfig
import threading
from collections.abc import Callable, Iterator
from contextlib import AsyncExitStack
from hashlib import blake2b
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

from stateroom.errors import Misconfigured

__all__ = ["entered", "file_of", "find_module", "get_attribute", "load_file", "load_named"]

_lock = threading.RLock()


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
            f'{field} {reference!r}: there is no module {place}; write "./file.py:name" for a file'
            + _looked_in(),
            field=field,
        )
    return get_attribute(module, name, reference, field=field)


async def entered(
    found: Any, stack: AsyncExitStack, *, is_open: Callable[[object], bool], name: str, forms: str, field: str
) -> Any:
    """Call, await and enter what has been loaded, until ``is_open`` says that it is what is looked for.

    ``stack`` leaves what was entered. ``name`` says what is loaded, ``forms`` what it may be. What is
    returned may be something else all the same: the caller says what it is not.
    """
    if callable(found) and not is_open(found) and not _is_manager(found):
        try:
            inspect.signature(found).bind()
        except TypeError:
            raise Misconfigured(f"{name} needs arguments; make it {forms}", field=field) from None
        found = found()
    if inspect.isawaitable(found):
        found = await found
    if not is_open(found) and _is_manager(found):
        is_async = hasattr(type(found), "__aenter__")
        found = await stack.enter_async_context(found) if is_async else stack.enter_context(found)
    return found


def _is_manager(found: object) -> bool:
    return hasattr(type(found), "__aenter__") or hasattr(type(found), "__enter__")


def load_file(path: Path, *, field: str) -> ModuleType:
    """Import a Python file, named from the working directory, unless some module is this file already.

    It is imported under the name that it has in its package, or from an entry of ``sys.path``, so that its
    relative imports work and others who import it get the same module. Where another module has that name,
    it gets one of its own, and so does its package.
    """
    path = path.expanduser().resolve()
    if not path.is_file():
        raise Misconfigured(f"{field}: there is no file {path}", field=field)
    with _lock:
        if (module := _loaded(path)) is not None:
            return module
        importlib.invalidate_caches()
        try:
            return _imported(path) or _imported_privately(path)
        except (Exception, SystemExit) as error:
            raise _failure(field, str(path), error) from error


def find_module(name: str, *, field: str) -> ModuleType | None:
    """Import a module, or return None if there is none of that name."""
    if not all(name.split(".")):
        return None
    with _lock:
        importlib.invalidate_caches()
        try:
            spec = importlib.util.find_spec(name) if name not in sys.modules else None
            if spec is not None and spec.origin and (module := _loaded(Path(spec.origin).resolve())):
                return module
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name and f"{name}.".startswith(f"{error.name}."):
                return None
            raise _failure(field, f"the module {name}", error) from error
        except (Exception, SystemExit) as error:
            raise _failure(field, f"the module {name}", error) from error


def get_attribute(module: ModuleType, name: str, reference: str, *, field: str) -> object:
    """Return an attribute that must be there."""
    if not hasattr(module, name):
        place = module.__file__ or module.__name__
        raise Misconfigured(f"{field} {reference!r}: {place} has no attribute {name!r}", field=field)
    return getattr(module, name)


def file_of(module: ModuleType) -> Path | None:
    """Return the file of a module, the first folder of a package that has none, or None."""
    # Not by getattr, which makes some modules import themselves.
    file = module.__dict__.get("__file__")
    if not isinstance(file, str):
        file = next(iter(module.__dict__.get("__path__", ())), None)
    return Path(file).resolve() if isinstance(file, str) else None


# ---- names


def _loaded(path: Path) -> ModuleType | None:
    """Return the module that is a file, if there is one."""
    for name, module in list(sys.modules.items()):
        file = getattr(module, "__dict__", {}).get("__file__")
        # The names are compared first, since resolving asks the disk.
        if (
            isinstance(file, str)
            and file.endswith(path.name)
            and name not in ("__main__", "__mp_main__")
            and Path(file).resolve() == path
        ):
            return module
    return None


def _imported(path: Path) -> ModuleType | None:
    """Import a file under the first of its names that is not another module's."""
    for name, root in _names(path):
        if str(root) not in sys.path:
            sys.path.append(str(root))
        top = name.partition(".")[0]
        if (root / top if "." in name else path) not in _places(top):
            continue
        module = importlib.import_module(name)
        if file_of(module) == path:
            return module
    return None


def _names(path: Path) -> Iterator[tuple[str, Path]]:
    """Return the names that a file can be imported by, the best first, and the folders they start from."""
    target = path.parent if path.name == "__init__.py" else path.with_suffix("")
    if (path.parent / "__init__.py").is_file():
        roots = [_outside(path.parent)]
    else:
        entries = {Path(entry).resolve() for entry in sys.path}
        roots = [folder for folder in path.parents if folder in entries]
    for root in roots:
        parts = target.relative_to(root).parts
        if not any("." in part for part in parts):
            yield ".".join(parts), root


def _outside(folder: Path) -> Path:
    """Return the folder that a package is in."""
    while (folder / "__init__.py").is_file():
        folder = folder.parent
    return folder


def _places(top: str) -> list[Path]:
    """Return the file or the folders that a name without dots is imported from."""
    if (module := sys.modules.get(top)) is not None:
        known: Any = module.__dict__
        found = [*(known.get("__path__") or ()), known.get("__file__")]
    else:
        spec = importlib.util.find_spec(top)
        found = [] if spec is None else [*(spec.submodule_search_locations or ()), spec.origin]
    return [Path(place).resolve() for place in found if isinstance(place, str)]


def _imported_privately(path: Path) -> ModuleType:
    """Import a file, and the package that it is in, under names that nobody else has.

    A folder that is no package is treated as one, so that relative imports work there too.
    """
    folder = path.parent
    while (folder.parent / "__init__.py").is_file():
        folder = folder.parent
    package = _private_package(folder)
    parts = path.relative_to(folder).with_suffix("").parts
    return importlib.import_module(".".join([package, *(part for part in parts if part != "__init__")]))


def _private_package(folder: Path) -> str:
    """Import a folder as a package, unless that has been done, and return its name."""
    for label in _labels(folder):
        name = f"stateroom_file_{blake2b(label.encode(), digest_size=16).hexdigest()}"
        if name not in sys.modules:
            break
        if folder in _places(name):
            return name
    init = folder / "__init__.py"
    if init.is_file():
        spec = importlib.util.spec_from_file_location(name, init, submodule_search_locations=[str(folder)])
    else:
        spec = ModuleSpec(name, None, is_package=True)
        spec.submodule_search_locations = [str(folder)]
    assert spec is not None
    module = sys.modules[name] = importlib.util.module_from_spec(spec)
    if spec.loader is not None:
        try:
            spec.loader.exec_module(module)
        except BaseException:
            del sys.modules[name]
            raise
    return name


def _labels(folder: Path) -> Iterator[str]:
    """Return what to tell a folder from others by.

    Best is its place in the project, which is the same on every machine: what a checkpoint holds of a file's
    classes is found by the name of their module.
    """
    entries = {Path(entry).resolve() for entry in sys.path}
    roots = [parent for parent in folder.parents if parent in entries]
    if roots:
        yield folder.relative_to(roots[-1]).as_posix()
    yield str(folder)


# ---- what went wrong


def _failure(field: str, what: str, error: BaseException) -> Misconfigured:
    """Return the error that says what really happened, and where in the user's code."""
    place = _blamed(error)
    text = f"{field}: {what} failed to load: {type(error).__name__}: {error}"
    if place is not None:
        text += f" (at {place[0]}, line {place[1]})"
    if isinstance(error, ImportError):
        text += _beside(error, place) or _looked_in()
    return Misconfigured(text, field=field)


def _blamed(error: BaseException) -> tuple[str, int] | None:
    """Return the file and the line of the user's code that an error comes from."""
    if isinstance(error, SyntaxError) and error.filename:
        return error.filename, error.lineno or 1
    found = None
    trace = error.__traceback__
    while trace is not None:
        file = trace.tb_frame.f_code.co_filename
        if not file.startswith("<") and not _is_foreign(Path(file)):
            found = file, trace.tb_lineno
        trace = trace.tb_next
    return found


def _is_foreign(file: Path) -> bool:
    """Tell whether a file or a folder is Python's, a package's that is installed, or ours."""
    installed = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platlib", "purelib")]
    return any(file == folder or folder in file.parents for folder in [*installed, Path(__file__).parent])


def _beside(error: ImportError, place: tuple[str, int] | None) -> str:
    """Say how to import a module that lies beside the file that misses it."""
    if not isinstance(error, ModuleNotFoundError) or not error.name or place is None:
        return ""
    top, folder = error.name.partition(".")[0], Path(place[0]).parent
    if not (folder / f"{top}.py").is_file() and not (folder / top).is_dir():
        return ""
    return (
        f'; {top} lies beside that file: write "from .{error.name} import ...", or list the folder {folder}'
        " in dependencies"
    )


def _looked_in() -> str:
    """Say where modules of the project were looked for."""
    folders = [str(folder) for entry in sys.path if (folder := Path(entry).resolve()).is_dir()]
    own = [folder for folder in dict.fromkeys(folders) if not _is_foreign(Path(folder))]
    return f"; beside what is installed, these folders were searched: {', '.join(own) or 'none'}"
