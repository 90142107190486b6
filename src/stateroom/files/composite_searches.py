"""Operations on whole trees over mounted backends: each backend in the tree is asked for its share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any, TypeAlias, TypeVar

from stateroom.errors import InvalidInput, NotSupported
from stateroom.files.answers import answering
from stateroom.files.calls import Call, Calls, lacks, result_of, takes, unsupported
from stateroom.files.composite_mounts import Mount, Mounts, is_missing
from stateroom.files.composite_results import outer_result, seen
from stateroom.files.globs import Glob, compile_glob, spelled
from stateroom.files.grepping import check_grep
from stateroom.files.listing import LONG_AGO, Usage, time_of
from stateroom.files.paths import ROOT, directory_prefix, normal_path
from stateroom.files.protocol import GlobResult, GrepMatch, GrepResult
from stateroom.files.pruning import PruneResult, Pruning, check_pruning
from stateroom.files.searching import FileHit, SearchResult
from stateroom.model.page import check_page
from stateroom.stores.operations import Mode

__all__ = ["glob", "grep", "prune", "search", "usage"]

R = TypeVar("R", GlobResult, GrepResult)

_Share: TypeAlias = tuple[Mount, str | None, Sequence[str | None]]
"""A backend, the directory that it is asked about, and patterns of the files that it is asked about."""


class _Tree:
    """A directory: the backend that it is in, and those that are mounted below it."""

    def __init__(self, mounts: Mounts, path: str | None) -> None:
        self.directory = ROOT if path is None else normal_path(path)
        self.mount = mounts.of(self.directory)
        self.inner = self.mount.inner(self.directory)
        self.asked = None if path is None else self.inner
        self.below = mounts.below(self.directory)

    def __iter__(self) -> Iterator[tuple[Mount, str | None]]:
        """Yield each backend, and the directory that it is asked about."""
        yield self.mount, self.asked
        for mount in self.below:
            yield mount, ROOT

    def patterns(self, pattern: str, wanted: Glob, mount: Mount) -> list[str]:
        """Return the patterns that say to a backend what one says of the whole tree."""
        if mount is self.mount:
            return [pattern]
        return wanted.below(mount.directory[len(directory_prefix(self.directory)) :])

    def checked(self, mount: Mount, result: R) -> R:
        """Return a result with the callers' paths in its error, and no error that a directory is missing."""
        if mount is not self.mount:
            return outer_result(mount, result, ROOT)
        if result.error and self.below and is_missing(result.error, self.inner):
            return replace(result, error=None)
        return outer_result(mount, result, self.inner)


@answering(GlobResult)
def glob(mounts: Mounts, pattern: str, path: str | None) -> Calls[GlobResult]:
    """Find files by their full paths; the last modified first, if several backends are asked.

    The backend of the directory is asked first, and the others only if it has no error.
    """
    wanted, tree = compile_glob(pattern), _Tree(mounts, path)
    shares = [
        (mount, Call(mount.backend, "glob", (one, asked)))
        for mount, asked in tree
        for one in tree.patterns(pattern, wanted, mount)
    ]
    results: list[GlobResult] = []
    found: dict[str, Any] = {}
    for some in (shares[:1], shares[1:]):
        answers = yield [share for _, share in some]
        for (mount, _), answer in zip(some, answers, strict=True):
            result = tree.checked(mount, result_of(GlobResult, answer, "glob", mount.directory))
            if result.error:
                return result
            results.append(result)
            found |= {info["path"]: info for info in seen(mounts, mount, result.matches)}
    return _merged(list(found.values()), results)


def _merged(infos: list[Any], results: Sequence[GlobResult]) -> GlobResult:
    if len(results) > 1:
        infos.sort(key=lambda info: info["path"])
        infos.sort(key=_moment, reverse=True)
    reasons = {result.truncation_reason for result in results} - {None}
    # Of several, the one to name is that which no narrower search gets round.
    reason = "unreadable" if "unreadable" in reasons else next(iter(reasons), None)
    cut = any(result.truncated for result in results)
    return GlobResult(matches=infos, truncated=cut, truncation_reason=reason)


@answering(GrepResult)
def grep(
    mounts: Mounts, pattern: str, path: str | None, glob: str | None, max_count: int | None
) -> Calls[GrepResult]:
    """Find lines in files by their full paths; all backends together answer at most ``max_count``.

    With a limit they are asked in turn, until it is reached and it is known whether there is more.
    """
    check_grep(pattern, max_count)
    wanted, tree = compile_glob(glob) if glob else None, _Tree(mounts, path)
    shares: list[_Share] = [
        (mount, asked, [glob] if wanted is None else tree.patterns(glob or "", wanted, mount))
        for mount, asked in tree
    ]
    found: dict[tuple[str, int], GrepMatch] = {}
    cut = False
    for some in [[share] for share in shares] if max_count is not None else [shares[:1], shares[1:]]:
        left = None if max_count is None else max(max_count - len(found), 1)
        for result in (yield from _lines(mounts, tree, pattern, some, left)):
            if result.error:
                return result
            cut |= result.truncated
            for match in result.matches or ():
                found.setdefault((match["path"], match["line"]), match)
        if max_count is not None and len(found) >= max_count + (not cut):
            cut = True
            break
    matches = sorted(list(found.values())[:max_count], key=lambda match: match["path"])
    return GrepResult(matches=matches, truncated=cut)


def _lines(
    mounts: Mounts, tree: _Tree, pattern: str, shares: Sequence[_Share], limit: int | None
) -> Calls[list[GrepResult]]:
    """Ask backends for lines, at most so many each."""
    calls = [
        (mount, call) for mount, asked, globs in shares for call in _grep(mount, pattern, asked, globs, limit)
    ]
    results: list[GrepResult] = []
    for (mount, one), answer in zip(calls, (yield [one for _, one in calls]), strict=True):
        result = tree.checked(mount, result_of(GrepResult, answer, "grep", mount.directory))
        lines = list(seen(mounts, mount, result.matches))
        if result.truncated and one.options and len(lines) < len(result.matches or ()):
            # Lines that another backend hides have used up the limit.
            (answer,) = yield [one._replace(options={})]
            result = tree.checked(mount, result_of(GrepResult, answer, "grep", mount.directory))
            lines = list(seen(mounts, mount, result.matches))
        results.append(replace(result, matches=lines))
    return results


def _grep(
    mount: Mount, pattern: str, asked: str | None, globs: Sequence[str | None], limit: int | None
) -> list[Call]:
    backend = mount.backend
    limited = limit is not None and takes(backend, "grep", "max_count")
    options = {"max_count": limit} if limited else {}
    return [Call(backend, "grep", (pattern, asked, glob), options) for glob in globs]


@answering(SearchResult)
def search(mounts: Mounts, query: str, path: str | None, limit: int, mode: Mode) -> Calls[SearchResult]:
    """Rank files by words or meaning; the backends' lists are put together by score."""
    limit, _ = check_page(limit, 0)
    tree = _Tree(mounts, path)
    _check_offered(tree, "search")
    options = {"limit": limit, "mode": mode}
    answers = yield [Call(mount.backend, "search", (query, asked), options) for mount, asked in tree]
    found: list[FileHit] = []
    for (mount, asked), answer in zip(tree, answers, strict=True):
        result = result_of(SearchResult, answer, "search", mount.directory)
        if result.error:
            return outer_result(mount, result, asked or ROOT, query)
        found += seen(mounts, mount, result.matches)
    found.sort(key=lambda hit: (-hit["score"], hit["path"]))
    return SearchResult(matches=found[:limit])


@answering(PruneResult)
def prune(
    mounts: Mounts,
    path: str,
    older_than: timedelta | None,
    keep: int | None,
    protect: Sequence[str],
    dry_run: bool,
) -> Calls[PruneResult]:
    """Delete files that are too old, in each backend; how many to keep can be said to one backend alone.

    What another backend hides is not deleted, but for names that begin with a dot.
    """
    check_pruning(Pruning(older_than, keep, protect))
    tree = _Tree(mounts, path)
    _check_offered(tree, "prune")
    if keep is not None and tree.below:
        raise InvalidInput(
            f"keep counts the files of one backend, and '{tree.directory}' has another at "
            f"'{tree.below[0].directory}'; name a path in one backend, or leave keep out",
            field="keep",
        )
    patterns = [(pattern, compile_glob(pattern)) for pattern in protect]
    calls: list[Call] = []
    for mount, asked in tree:
        own = [one for pattern, wanted in patterns for one in tree.patterns(pattern, wanted, mount)]
        base = tree.directory if mount is tree.mount else mount.directory
        cut = len(directory_prefix(base))
        hidden = [f"/{spelled(other.directory[cut:])}/**" for other in mounts.below(base)]
        options: dict[str, Any] = {"older_than": older_than, "keep": keep, "path": asked or ROOT}
        options |= {"protect": [*own, *hidden], "dry_run": dry_run}
        calls.append(Call(mount.backend, "prune", (), options))
    total = PruneResult(dry_run=dry_run)
    for (mount, asked), answer in zip(tree, (yield calls), strict=True):
        result = outer_result(mount, result_of(PruneResult, answer, "prune", mount.directory), asked or ROOT)
        total.error = total.error or result.error
        total.files += [{**info, "path": mount.outer(info["path"])} for info in result.files]
        total.bytes += result.bytes
    total.files.sort(key=_moment)
    return total


def _moment(info: Any) -> datetime:
    return time_of(info.get("modified_at") or "") or LONG_AGO


def _check_offered(tree: _Tree, method: str) -> None:
    """Raise NotSupported, saying where the method is offered, unless all backends of a tree offer it."""
    without = [mount.directory for mount, _ in tree if lacks(mount.backend, method)]
    if not without:
        return
    offered = ", ".join(f"'{mount.directory}'" for mount, _ in tree if not lacks(mount.backend, method))
    hint = f"; it is for {offered}" if offered else ""
    raise NotSupported(f"{method} is not supported for '{without[0]}'{hint}")


def usage(mounts: Mounts) -> Calls[Usage]:
    """Add up the files of all backends, each backend once."""
    backends = {id(mount.backend): mount for mount in mounts}
    answers = yield [Call(mount.backend, "usage") for mount in backends.values()]
    for mount, answer in zip(backends.values(), answers, strict=True):
        if answer is NotImplemented:
            raise NotSupported(unsupported("usage", mount.directory).removeprefix("Error: "))
    return Usage(sum(answer.files for answer in answers), sum(answer.bytes for answer in answers))
