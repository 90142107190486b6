"""Glob patterns: which paths they match, what those begin and end with, and what is left below a mount.

A pattern without ``/`` matches names at any depth. One with ``/`` matches whole paths below the directory
that is searched, where ``**`` stands for any number of directories. ``*``, ``?`` and ``[...]`` match within
one name, ``{a,b}`` either. A name that begins with a dot is matched only where the pattern spells the dot.
"""

from __future__ import annotations

import os.path
import re
import reprlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from typing import Final, TypeAlias

import bracex

from stateroom.errors import InvalidPattern
from stateroom.model.limits import KEY_BYTES_MAX
from stateroom.model.text import flaw, show

__all__ = ["ALTERNATIVES_MAX", "CHARACTERS_MAX", "Glob", "compile_glob", "residuals", "spelled"]

ALTERNATIVES_MAX: Final = 1000
"""Patterns that the braces of one pattern may stand for."""

CHARACTERS_MAX: Final = 64 * 1024
"""Characters that those patterns may have together."""

_GLOBSTAR: Final = "**"
_ANY_DIRECTORY: Final = "(?>(?:.*/)?)"
_VISIBLE: Final = "(?=[^/.])"
_ANY_START: Final = "(?=[^/])"
_ANYTHING: Final = "[^/]*"
_NOTHING: Final = "(?!)"

_NAMED: Final = {
    "alnum": "0-9A-Za-z",
    "alpha": "A-Za-z",
    "ascii": r"\x00-\x7f",
    "blank": r" \t",
    "cntrl": r"\x00-\x1f\x7f",
    "digit": "0-9",
    "graph": r"\x21-\x7e",
    "lower": "a-z",
    "print": r"\x20-\x7e",
    "punct": r"\x21-\x2f\x3a-\x40\x5b-\x60\x7b-\x7e",
    "space": r" \t\n\r\f\v",
    "upper": "A-Z",
    "word": "0-9A-Z_a-z",
    "xdigit": "0-9A-Fa-f",
}
_NAME: Final = rf"\[:(?:{'|'.join(_NAMED)}):\]"

_TOKENS: Final = re.compile(
    rf"""\\(?P<escaped>.) | (?P<star>\*+) | (?P<any>\?)
       | \[ (?P<negated>[!^]?) (?P<members> \]? (?: {_NAME} | \\. | [^]\\] )* ) \]
       | (?P<literal>[^\\])""",
    re.VERBOSE | re.DOTALL,
)
_MEMBERS: Final = re.compile(
    rf"(?P<named>{_NAME}) | (?P<first>\\.|.) (?: - (?P<last>\\.|[^\\]) )?", re.VERBOSE | re.DOTALL
)

_SPECIAL: Final = re.compile(r"[\\*?\[\]{},!^]")

_REPR = reprlib.Repr()
_REPR.maxstring = 200


@dataclass(frozen=True, slots=True)
class _Segment:
    """What a pattern says of one name: texts to find, None for ``*``, patterns for single characters."""

    source: str
    tokens: tuple[str | re.Pattern[str] | None, ...]

    @property
    def is_literal(self) -> bool:
        return all(isinstance(token, str) for token in self.tokens)

    @property
    def prefix(self) -> str:
        return "".join(_literals(self.tokens))

    @property
    def suffix(self) -> str:
        return "".join(reversed(list(_literals(self.tokens[::-1]))))

    def regex(self, hidden: bool) -> str:
        """Return the regular expression; what lies between two stars is looked for once, and never again."""
        first, *others = _chunks(self.tokens)
        start = "" if self.tokens and isinstance(self.tokens[0], str) else _start(hidden)
        between = [f"(?>[^/]*?{chunk})" for chunk in others[:-1] if chunk]
        return start + first + "".join(between) + "".join(_ANYTHING + chunk for chunk in others[-1:])

    def matches(self, name: str, hidden: bool) -> bool:
        return re.fullmatch(self.regex(hidden), name, re.DOTALL) is not None


_ANY_NAME: Final = _Segment("*", (None,))


class Glob:
    """One pattern, ready to be matched against paths relative to the directory that is searched.

    ``prefix`` and ``suffix`` are what every path that matches begins and ends with, as far as it is known.
    ``hidden`` says that wildcards match names that begin with a dot, too.
    """

    __slots__ = ("_match", "alternatives", "anchored", "hidden", "pattern", "prefix", "suffix")

    def __init__(self, pattern: str, *, hidden: bool = False) -> None:
        self.pattern = pattern
        self.hidden = hidden
        self.anchored = "/" in pattern
        self.alternatives = tuple(filter(None, map(_parse, _expand(pattern))))
        self.prefix = _common(map(_prefix, self.alternatives)) if self.anchored else ""
        self.suffix = _common(_suffix(alternative)[::-1] for alternative in self.alternatives)[::-1]
        either = "|".join(_regex(alternative, hidden) for alternative in self.alternatives) or _NOTHING
        place = "" if self.anchored else _ANY_DIRECTORY
        self._match = re.compile(f"{place}(?:{either})", re.DOTALL).fullmatch

    def matches(self, relative_path: str) -> bool:
        """Tell whether the pattern matches a path, which is relative and so begins with no ``/``."""
        return self._match(relative_path) is not None

    def below(self, mount: str) -> list[str]:
        """Return the patterns that match, relative to a directory, what this one matches there.

        The directory is relative, too; "" is the one searched. No patterns: nothing in it can match.
        """
        if not self.anchored:
            return [self.pattern] if self.alternatives else []
        names = [name for name in mount.split("/") if name]
        rests = (rest for parts in self.alternatives for rest in _rests(parts, names, self.hidden))
        return list(dict.fromkeys("/" + "/".join(map(_source, rest)) for rest in rests if rest))


def compile_glob(pattern: str, *, hidden: bool = False) -> Glob:
    """Return a pattern, ready to be matched. Raises InvalidPattern for one that cannot be used."""
    if not isinstance(pattern, str):
        raise InvalidPattern(
            f"Invalid glob pattern {show(pattern)}: pass a string such as '**/*.md'", field="pattern"
        )
    return _compile(pattern, hidden)


def spelled(path: str) -> str:
    """Return the pattern that matches just one path."""
    return _SPECIAL.sub(r"\\\g<0>", path)


def residuals(pattern: str, mount: str) -> list[str]:
    """Return what is left of a pattern for what is mounted at a relative path: see ``Glob.below``."""
    return compile_glob(pattern).below(mount)


@lru_cache(maxsize=256)
def _compile(pattern: str, hidden: bool) -> Glob:
    return Glob(pattern, hidden=hidden)


# ---- from text to segments

_Part: TypeAlias = _Segment | str
"""A segment, or ``**``."""


def _expand(pattern: str) -> list[str]:
    """Return the patterns without braces that one stands for."""
    if fault := flaw(pattern):
        raise _refused(pattern, fault)
    if len(pattern) > KEY_BYTES_MAX:
        raise _refused(pattern, f"is longer than {KEY_BYTES_MAX:,} characters")
    try:
        expanded = bracex.expand(pattern, keep_escapes=True, limit=ALTERNATIVES_MAX)
    except bracex.ExpansionLimitException:
        raise _refused(pattern, f"stands for more than {ALTERNATIVES_MAX:,} patterns by its braces") from None
    except RecursionError:
        raise _refused(pattern, "has braces that are nested too deeply") from None
    if sum(map(len, expanded)) > CHARACTERS_MAX:
        raise _refused(pattern, f"stands for more than {CHARACTERS_MAX:,} characters by its braces")
    if any(".." in one.replace("\\", "/").split("/") for one in [pattern, *expanded]):
        raise InvalidPattern(f"Path traversal not allowed in glob pattern {_shown(pattern)}", field="pattern")
    return list(dict.fromkeys(expanded))


def _shown(pattern: str) -> str:
    return _REPR.repr(pattern)


def _refused(pattern: str, why: str) -> InvalidPattern:
    return InvalidPattern(f"Invalid glob pattern {_shown(pattern)}: it {why}", field="pattern")


def _parse(pattern: str) -> tuple[_Part, ...]:
    """Return the parts of a pattern without braces; none where no file's path can match.

    ``**`` at the end is what it means there, something visible below: ``**/*``.
    """
    *directories, name = (part.removesuffix("\\") if _is_cut(part) else part for part in pattern.split("/"))
    if not name:
        return ()
    parts: list[_Part] = []
    for text in directories:
        if text == _GLOBSTAR:
            parts += [_GLOBSTAR] if parts[-1:] != [_GLOBSTAR] else []
        elif text not in ("", "."):
            parts.append(_segment(text))
    if name == _GLOBSTAR:
        return (*parts, *([_GLOBSTAR] if parts[-1:] != [_GLOBSTAR] else []), _ANY_NAME)
    return (*parts, _segment(name))


def _is_cut(text: str) -> bool:
    """Tell whether the text ends with a backslash that had the ``/`` behind it to escape."""
    return (len(text) - len(text.rstrip("\\"))) % 2 == 1


@lru_cache(maxsize=1024)
def _segment(text: str) -> _Segment:
    return _Segment(text, tuple(map(_token, _TOKENS.finditer(text))))


def _token(found: re.Match[str]) -> str | re.Pattern[str] | None:
    if found["star"]:
        return None
    if found["any"]:
        return re.compile("[^/]")
    if found["members"] is not None:
        return _character_class(found["negated"], found["members"])
    return found["escaped"] or found["literal"]


def _character_class(negated: str, members: str) -> re.Pattern[str]:
    known = "".join(map(_member, _MEMBERS.finditer(members)))
    if negated:
        return re.compile(f"[^/{known}]")
    return re.compile(f"(?!/)[{known}]" if known else _NOTHING)


def _member(found: re.Match[str]) -> str:
    if found["named"] is not None:
        return _NAMED[found["named"][2:-2]]
    first, last = found["first"][-1], (found["last"] or found["first"])[-1]
    return f"{re.escape(first)}-{re.escape(last)}" if first <= last else ""


# ---- from segments to what they say


def _common(texts: Iterable[str]) -> str:
    return os.path.commonprefix(list(texts))  # noqa: RUF071  # by characters, as is meant


def _literals(tokens: Sequence[str | re.Pattern[str] | None]) -> Iterator[str]:
    for token in tokens:
        if not isinstance(token, str):
            return
        yield token


def _chunks(tokens: Sequence[str | re.Pattern[str] | None]) -> list[str]:
    """Return the regular expressions of what lies before, between and behind the stars."""
    chunks = [""]
    for token in tokens:
        if token is None:
            chunks.append("")
        else:
            chunks[-1] += re.escape(token) if isinstance(token, str) else token.pattern
    return chunks


def _start(hidden: bool) -> str:
    return _ANY_START if hidden else _VISIBLE


def _regex(parts: Sequence[_Part], hidden: bool) -> str:
    """Return the regular expression of an alternative.

    What lies between two ``**`` is looked for once, where it comes first: going on from there loses nothing.
    """
    first, *others = _runs(parts, hidden)
    if not others:
        return first.removesuffix("/")
    directory = "(?:[^/]+/)" if hidden else "(?:[^/.][^/]*/)"
    between = "".join(f"(?>{directory}*?{run})" for run in others[:-1])
    return f"{first}{between}{directory}*{others[-1].removesuffix('/')}"


def _runs(parts: Sequence[_Part], hidden: bool) -> list[str]:
    """Return the regular expressions of what lies before, between and behind the ``**``."""
    runs = [""]
    for part in parts:
        if isinstance(part, str):
            runs.append("")
        else:
            runs[-1] += part.regex(hidden) + "/"
    return runs


def _prefix(parts: Sequence[_Part]) -> str:
    """Return what the paths begin with: the names that are spelled out, and the start of the next."""
    spelled = list(takewhile(_is_spelled, parts))
    start = "".join(f"{_ends(part)[0]}/" for part in spelled)
    if len(spelled) == len(parts):
        return start.removesuffix("/")
    return start + _ends(parts[len(spelled)])[0]


def _suffix(parts: Sequence[_Part]) -> str:
    """Return what the paths end with."""
    spelled = list(takewhile(_is_spelled, reversed(parts)))
    end = "/".join(_ends(part)[1] for part in reversed(spelled))
    if len(spelled) == len(parts):
        return end
    before = parts[len(parts) - len(spelled) - 1]
    return f"{_ends(before)[1]}/{end}" if spelled and not isinstance(before, str) else end or _ends(before)[1]


def _is_spelled(part: _Part) -> bool:
    return not isinstance(part, str) and part.is_literal


def _ends(part: _Part) -> tuple[str, str]:
    return ("", "") if isinstance(part, str) else (part.prefix, part.suffix)


def _source(part: _Part) -> str:
    return part if isinstance(part, str) else part.source


def _rests(parts: tuple[_Part, ...], names: Sequence[str], hidden: bool) -> list[tuple[_Part, ...]]:
    """Return what may be left of an alternative behind the names of directories."""
    places = {0}
    for name in names:
        places = set(_behind(parts, places, name, hidden))
    return [parts[place:] for place in sorted(places)]


def _behind(parts: tuple[_Part, ...], places: set[int], name: str, hidden: bool) -> Iterator[int]:
    """Yield the places in an alternative at which one may be behind one more name."""
    for place in places:
        part = parts[place] if place < len(parts) else None
        if isinstance(part, str):
            if hidden or not name.startswith("."):
                yield place
            place, part = place + 1, parts[place + 1]
        if isinstance(part, _Segment) and part.matches(name, hidden):
            yield place + 1
