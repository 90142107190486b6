"""What rules on files say: which of them is in force for a path, a directory, or all that is in one.

The first rule that matches is in force, and without one everything is allowed. Unlike in a search, wildcards
match names that begin with a dot: a rule on ``/secrets/**`` holds for ``/secrets/.env``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, get_args

from stateroom.errors import InvalidInput
from stateroom.files.globs import Glob, compile_glob
from stateroom.files.paths import ROOT, ancestors
from stateroom.model.text import show

__all__ = ["Access", "FilePermission", "Rule", "Rules"]

Access: TypeAlias = Literal["read", "write"]
Rule: TypeAlias = Literal["allow", "deny", "interrupt"]

_EVERYTHING: Final = "/**/*"
"""What is left of a pattern in a directory when it matches all that can be in there."""


@dataclass(frozen=True)
class FilePermission:
    """A rule: whether paths that match a pattern may be read or written, or a human is asked (``interrupt``).

    Patterns are those of ``glob``, from the root: ``/secrets/**`` is all that is in ``/secrets``. Raises
    InvalidInput, naming the field, for anything else.
    """

    operations: Sequence[Access]
    paths: Sequence[str]
    mode: Rule = "allow"

    def __post_init__(self) -> None:
        if not _is_list(self.operations) or any(one not in get_args(Access) for one in self.operations):
            raise InvalidInput(
                f'operations is {show(self.operations)}; pass a list of "read" and "write"',
                field="operations",
            )
        if self.mode not in get_args(Rule):
            raise InvalidInput(
                f'mode is {show(self.mode)}; pass "allow", "deny" or "interrupt"', field="mode"
            )
        if not _is_list(self.paths):
            raise InvalidInput(
                f"paths is {show(self.paths)}; pass a list of patterns, as ['/secrets/**']", field="paths"
            )
        _ = self._globs

    @cached_property
    def _globs(self) -> tuple[Glob, ...]:
        return tuple(map(_pattern, self.paths))

    def is_for(self, path: str) -> bool:
        """Tell whether the rule matches a path itself."""
        return any(glob.matches(path[1:]) for glob in self._globs)

    def is_for_all_in(self, directory: str) -> bool:
        """Tell whether the rule matches all that can be in a directory."""
        return any(_EVERYTHING in glob.below(directory) for glob in self._globs)

    def is_for_some_in(self, directory: str) -> bool:
        """Tell whether the rule matches something that can be in a directory, at any depth."""
        return any(glob.below(directory) for glob in self._globs)


class Rules:
    """Rules in order."""

    def __init__(self, permissions: Iterable[Any]) -> None:
        self.permissions = [_permission(one) for one in permissions]

    def of(self, access: Access, path: str) -> Rule:
        """Return what holds for a path."""
        return next((rule.mode for rule in self._for(access) if rule.is_for(path)), "allow")

    def of_directory(self, access: Access, directory: str) -> Rule:
        """Return ``deny`` for a directory that is denied itself, or in which nothing can be allowed."""
        for rule in self._for(access):
            if rule.is_for(directory) or rule.is_for_all_in(directory):
                return "deny" if rule.mode == "deny" else "allow"
            if rule.mode != "deny" and rule.is_for_some_in(directory):
                return "allow"
        return "allow"

    def of_all_in(self, access: Access, directory: str) -> Rule:
        """Return the strictest of what holds for a directory, what can be in it, and where it lies itself."""
        found: Rule = "allow"
        for rule in self._for(access):
            places = [directory, *ancestors(directory)]
            if rule.is_for_some_in(directory) or any(map(rule.is_for, places)):
                if rule.mode == "deny":
                    return "deny"
                found = "interrupt" if rule.mode == "interrupt" else found
            if rule.is_for_all_in(directory):
                break
        return found

    def _for(self, access: Access) -> Iterator[FilePermission]:
        return (rule for rule in self.permissions if access in rule.operations)


def _permission(one: Any) -> FilePermission:
    """Return a rule as one of ours; one of Deep Agents' says the same in the same words."""
    if isinstance(one, FilePermission):
        return one
    try:
        return FilePermission(list(one.operations), list(one.paths), one.mode)
    except AttributeError:
        raise InvalidInput(
            f"permissions has {show(one)}; pass FilePermission(operations=['write'], paths=['/secrets/**'], "
            "mode='deny')",
            field="permissions",
        ) from None


def _pattern(path: Any) -> Glob:
    if not isinstance(path, str) or not path.startswith(ROOT):
        raise InvalidInput(f"paths has {show(path)}; a pattern here begins with '/'", field="paths")
    if "~" in path.split("/"):
        raise InvalidInput(f"paths has {show(path)}; '~' is no directory here", field="paths")
    try:
        return compile_glob(path.rstrip("/") or ROOT, hidden=True)
    except InvalidInput as error:
        raise InvalidInput(f"paths: {error}", field="paths") from None


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str) and len(value) > 0
