"""Which parts of an item's value a query can find, named by paths in LangGraph's notation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from json import JSONEncoder
from typing import Any, Final

from stateroom.errors import InvalidIndex
from stateroom.model.text import flaw

__all__ = ["MAX_PATH_CHARS", "WHOLE_VALUE", "Path", "check_paths", "leaves", "parse_path", "texts"]

WHOLE_VALUE: Final = "$"
MAX_PATH_CHARS: Final = 1_024
"""A longer path is refused: it would nest deeper than Python's stack allows."""

PATHS_CACHED: Final = 1_024

_Visit = Callable[[Any, list[str]], None]
"""Appends the texts of one JSON value to a list."""


@dataclass(frozen=True, slots=True)
class Path:
    """A parsed path; paths with the same ``steps`` select the same parts of every value.

    ``steps`` is empty for the whole value. ``texts`` and ``leaves`` append what the path selects
    of a JSON object to a list, as the functions of those names say.
    """

    steps: tuple[str, ...]
    texts: _Visit = field(compare=False, repr=False)
    leaves: _Visit = field(compare=False, repr=False)


@lru_cache(maxsize=PATHS_CACHED)
def parse_path(path: str) -> Path:
    """Parse a path; every string is one, and what it does not find it skips.

    ``$`` (or an empty path) is the whole value. ``a.b`` steps into objects, ``a[0]`` and ``a[-1]``
    into an array, ``a[*]`` into each element, ``*`` into each member of an object or array;
    ``{x,y.z}`` takes several members of an object and ends the path.
    """
    steps = () if path == WHOLE_VALUE else tuple(_split(path))
    return Path(steps, _follow(steps, _text), _follow(steps, _leaves))


def check_paths(index: object, field: str = "index") -> tuple[str, ...] | None:
    """Return the ``index`` argument of a put as paths: None means the configured fields, () nothing.

    Raises ``InvalidIndex``, which names ``field``, unless it is None, False or a list of paths.
    """
    if index is None:
        return None
    if index is False:
        return ()
    if not isinstance(index, (list, tuple)):
        raise InvalidIndex(
            f'{field} must be None, False or a list of paths such as ["text"], not {_named(index)}',
            field=field,
        )
    for position, path in enumerate(index):
        _check_path(path, f"{field}[{position}]")
    return tuple(index)


def texts(value: Mapping[str, Any], paths: Sequence[str]) -> list[str]:
    """Return the texts to embed of a JSON object, in the order of ``paths``.

    A string, number or boolean is its ``str()``; null is skipped; an array or object is its JSON with
    sorted keys. Equal paths count once. Unlike in LangGraph's stores a path ``$`` of a single put
    means the whole value, as it does in the configuration.
    """
    found: list[str] = []
    plain = value if isinstance(value, dict) else dict(value)
    for visit in _programs(tuple(paths))[0]:
        visit(plain, found)
    return found


def leaves(value: Mapping[str, Any], paths: Sequence[str]) -> Iterator[str]:
    """Return the strings and numbers (as ``str()``) under ``paths`` of a JSON object, for text search.

    They come path by path, depth first; keys, booleans and nulls are left out. A leaf that several
    distinct paths select counts once for each of them.
    """
    found: list[str] = []
    plain = value if isinstance(value, dict) else dict(value)
    for visit in _programs(tuple(paths))[1]:
        visit(plain, found)
    return iter(found)


@lru_cache(maxsize=PATHS_CACHED)
def _programs(paths: tuple[str, ...]) -> tuple[tuple[_Visit, ...], tuple[_Visit, ...]]:
    parsed = {path.steps: path for path in map(parse_path, paths)}.values()
    return tuple(path.texts for path in parsed), tuple(path.leaves for path in parsed)


def _check_path(path: object, field: str) -> None:
    if not isinstance(path, str):
        raise InvalidIndex(f"{field} must be a string, not {_named(path)}", field=field)
    if len(path) > MAX_PATH_CHARS:
        raise InvalidIndex(
            f"{field} has {len(path)} characters; a path may have at most {MAX_PATH_CHARS}", field=field
        )
    if problem := flaw(path):
        raise InvalidIndex(f"{field} {problem}, which no stored key can hold; remove it", field=field)


def _named(index: object) -> str:
    return repr(index) if isinstance(index, (bool, str)) else type(index).__name__


def _split(path: str) -> Iterator[str]:
    """Yield a path's steps: names between dots, ``[...]`` and ``{...}`` with their brackets."""
    start = position = 0
    while position < len(path):
        char = path[position]
        if char in "[{.":
            if start < position:
                yield path[start:position]
            if char == ".":
                position += 1
            else:
                opened, position = position, _closing(path, position)
                yield path[opened:position]
            start = position
        else:
            position += 1
    if start < position:
        yield path[start:]


def _closing(path: str, opened: int) -> int:
    """Return the position after the bracket that closes the one at ``opened``, or the path's end."""
    opening, closing = path[opened], {"[": "]", "{": "}"}[path[opened]]
    depth = 0
    for position in range(opened, len(path)):
        depth += (path[position] == opening) - (path[position] == closing)
        if depth == 0:
            return position + 1
    return len(path)


def _follow(steps: Sequence[str], leaf: _Visit) -> _Visit:
    """Return the function that takes ``steps`` from a value and calls ``leaf`` where they end."""
    visit = leaf
    for step in reversed(steps):
        if step[0] == "[" and step[-1] == "]":
            visit = _each_element(visit) if step == "[*]" else _element(step[1:-1], visit)
        elif step[0] == "{" and step[-1] == "}":
            # The braces end a path in LangGraph, whatever follows them.
            visit = _several(step[1:-1], leaf)
        elif step == "*":
            visit = _each_member(visit)
        else:
            visit = _member(step, visit)
    return visit


def _member(key: str, then: _Visit) -> _Visit:
    def visit(value: Any, found: list[str]) -> None:
        if isinstance(value, dict) and key in value:
            then(value[key], found)

    return visit


def _each_member(then: _Visit) -> _Visit:
    def visit(value: Any, found: list[str]) -> None:
        if isinstance(value, dict):
            for member in value.values():
                then(member, found)
        elif isinstance(value, list):
            for member in value:
                then(member, found)

    return visit


def _each_element(then: _Visit) -> _Visit:
    def visit(value: Any, found: list[str]) -> None:
        if isinstance(value, list):
            for element in value:
                then(element, found)

    return visit


def _element(index: str, then: _Visit) -> _Visit:
    try:
        position = int(index)
    except ValueError:
        return _nothing

    def visit(value: Any, found: list[str]) -> None:
        if isinstance(value, list) and -len(value) <= position < len(value):
            then(value[position], found)

    return visit


def _several(names: str, leaf: _Visit) -> _Visit:
    visits = []
    for name in names.split(","):
        visit = leaf
        keys = list(_split(name.strip()))
        for key in reversed(keys):
            # Inside braces every step is the name of a member, even `*` and `[0]`.
            visit = _member(key, visit)
        if keys:
            visits.append(visit)

    def visit_all(value: Any, found: list[str]) -> None:
        for visit in visits:
            visit(value, found)

    return visit_all


def _nothing(_value: Any, _found: list[str]) -> None:
    """Select nothing."""


_to_json = JSONEncoder(sort_keys=True, ensure_ascii=False).encode


def _text(value: Any, found: list[str]) -> None:
    """Append the text to embed of one selected part of a value."""
    if isinstance(value, str):
        found.append(value)
    elif isinstance(value, (int, float)):
        found.append(str(value))
    elif isinstance(value, (dict, list)):
        found.append(_to_json(value))


def _leaves(value: Any, found: list[str]) -> None:
    """Append the strings and numbers under one selected part of a value, depth first."""
    if type(value) is str:
        found.append(value)
        return
    # A stack of iterators instead of recursion: a stored value may nest deeper than Python's stack.
    waiting = [iter((value,))]
    while waiting:
        for part in waiting[-1]:
            kind = type(part)
            if kind is str:
                found.append(part)
            elif kind is int or kind is float:
                found.append(str(part))
            elif kind is dict:
                waiting.append(iter(part.values()))
                break
            elif kind is list:
                waiting.append(iter(part))
                break
        else:
            waiting.pop()
