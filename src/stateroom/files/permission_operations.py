"""Operations on a backend as rules allow them: refused, asked for, or done without what may not be seen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple, TypeVar, cast

from stateroom.errors import NotSupported
from stateroom.files.answers import Refused, answering
from stateroom.files.calls import Call, Calls, result_of, takes, unsupported
from stateroom.files.globs import spelled
from stateroom.files.listing import Usage
from stateroom.files.paths import ROOT, directory_prefix, file_path, normal_path
from stateroom.files.permission_asking import ask
from stateroom.files.permission_rules import Access, Rule, Rules
from stateroom.files.protocol import (
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileUploadResponse,
    GlobResult,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from stateroom.files.pruning import PruneResult
from stateroom.files.reading import INVALID_PATH
from stateroom.files.searching import SearchResult
from stateroom.files.writing import edits_of
from stateroom.stores.operations import Mode

__all__ = [
    "Guarded",
    "delete",
    "download",
    "edit",
    "glob",
    "grep",
    "ls",
    "multi_edit",
    "prune",
    "read",
    "search",
    "upload",
    "usage",
    "write",
]

R = TypeVar("R")
Response = TypeVar("Response", FileUploadResponse, FileDownloadResponse)

PERMISSION_DENIED: Final = "permission_denied"
"""The code of the protocol for uploads and downloads."""


class Guarded(NamedTuple):
    """A backend, and the rules on its files."""

    backend: Any
    rules: Rules

    def enter(self, access: Access, path: str, method: str, args: Mapping[str, Any]) -> None:
        """Raise Refused for a path that is denied, or that a human is asked about and does not approve."""
        rule = self.rules.of(access, path)
        if rule == "deny":
            raise denied(access, path)
        if rule == "interrupt":
            ask(access, path, method, args)

    def enter_directory(self, path: str | None) -> str:
        """Return the directory to look into; raise Refused if nothing in it may be seen."""
        directory = ROOT if path is None else normal_path(path)
        if self.rules.of_directory("read", directory) == "deny":
            raise denied("read", directory)
        return directory

    def seen(self, found: Sequence[Any] | None) -> list[Any]:
        """Return what may be seen of what was found, files and directories, with approval or without."""
        known: dict[str, Rule] = {}
        for one in found or ():
            known.setdefault(one["path"], self._rule(one))
        return [one for one in found or () if known[one["path"]] != "deny"]

    def show(self, seen: Sequence[Any], directory: str, method: str, args: Mapping[str, Any]) -> None:
        """Ask a human if there is something in what was found that needs approval; raise Refused for a no."""
        asking = {one["path"] for one in seen if self._rule(one) == "interrupt"}
        if asking:
            ask("read", directory, method, args, sorted(asking))

    def _rule(self, one: Any) -> Rule:
        rule = self.rules.of_directory if one.get("is_dir") else self.rules.of
        return rule("read", normal_path(one["path"]))


def denied(access: Access, path: str) -> Refused:
    """Return the error for a path that a rule denies."""
    return Refused(f"permission denied for {access} on {path}")


@answering(LsResult)
def ls(guarded: Guarded, path: str) -> Calls[LsResult]:
    """List what may be seen of a directory."""
    directory = guarded.enter_directory(normal_path(path))
    asked = directory_prefix(directory) if path.endswith("/") else directory
    (answer,) = yield [Call(guarded.backend, "ls", (asked,))]
    result = result_of(LsResult, answer, "ls", directory)
    entries = guarded.seen(result.entries)
    guarded.show(entries, directory, "ls", {"path": directory})
    return result if result.error else replace(result, entries=entries)


@answering(ReadResult)
def read(guarded: Guarded, path: str, offset: int, limit: int) -> Calls[ReadResult]:
    """Read a window of a file's lines."""
    own, options = file_path(path), {"offset": offset, "limit": limit}
    guarded.enter("read", own, "read", {"file_path": own, **options})
    return (yield from _ask(guarded, ReadResult, "read", own, (), options))


@answering(WriteResult)
def write(guarded: Guarded, path: str, content: str) -> Calls[WriteResult]:
    """Create a file, or replace what it holds."""
    own = file_path(path)
    guarded.enter("write", own, "write", {"file_path": own, "content": content})
    return (yield from _ask(guarded, WriteResult, "write", own, (content,)))


@answering(EditResult)
def edit(guarded: Guarded, path: str, old: str, new: str, replace_all: bool) -> Calls[EditResult]:
    """Replace a text in a file."""
    own = file_path(path)
    args = {"file_path": own, "old_string": old, "new_string": new, "replace_all": replace_all}
    guarded.enter("write", own, "edit", args)
    return (yield from _ask(guarded, EditResult, "edit", own, (old, new), {"replace_all": replace_all}))


@answering(EditResult)
def multi_edit(guarded: Guarded, path: str, edits: Iterable[Any]) -> Calls[EditResult]:
    """Make several replacements in one file."""
    own, made = file_path(path), edits_of(edits)
    guarded.enter("write", own, "multi_edit", {"file_path": own, "edits": [one._asdict() for one in made]})
    return (yield from _ask(guarded, EditResult, "multi_edit", own, (made,)))


@answering(DeleteResult)
def delete(guarded: Guarded, path: str) -> Calls[DeleteResult]:
    """Delete a file, or a directory if nothing that can be in it is denied."""
    own = normal_path(path, field="file_path")
    rules = guarded.rules
    rule, of_all = rules.of("write", own), rules.of_all_in("write", own)
    if rule not in ("deny", of_all) and not (yield from _is_file(guarded.backend, own)):
        rule = of_all
    if rule == "deny":
        raise denied("write", own)
    if rule == "interrupt":
        ask("write", own, "delete", {"file_path": own})
    return (yield from _ask(guarded, DeleteResult, "delete", own))


def _is_file(backend: Any, path: str) -> Calls[bool]:
    """Tell whether a path surely names a file, and no directory."""
    (answer,) = yield [Call(backend, "ls", (path,))]
    inside = result_of(LsResult, answer, "ls", path)
    if inside.error or inside.entries:
        return "not_a_directory" in (inside.error or "")
    (answer,) = yield [Call(backend, "ls", (path.rpartition("/")[0] or ROOT,))]
    beside = result_of(LsResult, answer, "ls", path)
    own = [entry for entry in beside.entries or () if entry["path"].rstrip("/") == path]
    return bool(own) and not any(entry.get("is_dir") for entry in own)


@answering(GlobResult)
def glob(guarded: Guarded, pattern: str, path: str | None) -> Calls[GlobResult]:
    """Find files that may be seen, by their paths."""
    directory = guarded.enter_directory(path)
    (answer,) = yield [Call(guarded.backend, "glob", (pattern, path and directory))]
    result = result_of(GlobResult, answer, "glob", directory)
    matches = guarded.seen(result.matches)
    guarded.show(matches, directory, "glob", {"pattern": pattern, "path": directory})
    return result if result.error else replace(result, matches=matches)


@answering(GrepResult)
def grep(
    guarded: Guarded, pattern: str, path: str | None, glob: str | None, max_count: int | None
) -> Calls[GrepResult]:
    """Find lines in files that may be seen: at most ``max_count``."""
    directory = guarded.enter_directory(path)
    one = Call(guarded.backend, "grep", (pattern, path and directory, glob))
    limited = max_count is not None and takes(guarded.backend, "grep", "max_count")
    for options in [{"max_count": max_count}, {}] if limited else [{}]:
        (answer,) = yield [one._replace(options=options)]
        result = result_of(GrepResult, answer, "grep", directory)
        if result.error:
            return result
        matches = guarded.seen(result.matches)
        if not result.truncated or len(matches) == len(result.matches or ()):
            break
        # Lines that may not be seen have used up the limit.
    cut = result.truncated or (max_count is not None and len(matches) > max_count)
    args = {"pattern": pattern, "path": directory, "glob": glob, "max_count": max_count}
    guarded.show(matches[:max_count], directory, "grep", args)
    return replace(result, matches=matches[:max_count], truncated=cut)


@answering(SearchResult)
def search(guarded: Guarded, query: str, path: str | None, limit: int, mode: Mode) -> Calls[SearchResult]:
    """Rank the files that may be seen; more are asked for, as long as others use up the limit."""
    directory = guarded.enter_directory(path)
    asked = limit
    while True:
        options = {"limit": asked, "mode": mode}
        (answer,) = yield [Call(guarded.backend, "search", (query, path and directory), options)]
        result = result_of(SearchResult, answer, "search", directory)
        if result.error:
            return result
        matches = guarded.seen(result.matches)
        if len(matches) >= limit or len(result.matches or ()) < asked:
            break
        asked *= 4
    args = {"query": query, "path": directory, "limit": limit, "mode": mode}
    guarded.show(matches[:limit], directory, "search", args)
    return replace(result, matches=matches[:limit])


@answering(PruneResult)
def prune(
    guarded: Guarded,
    path: str,
    older_than: timedelta | None,
    keep: int | None,
    protect: Sequence[str],
    dry_run: bool,
) -> Calls[PruneResult]:
    """Delete old files that may be written; what is denied is left out, what needs approval is asked for."""
    directory = normal_path(path)
    options = {"older_than": older_than, "keep": keep, "path": directory}
    one = Call(guarded.backend, "prune", (), {**options, "protect": protect, "dry_run": True})
    (answer,) = yield [one]
    planned = result_of(PruneResult, answer, "prune", directory)
    if planned.error:
        return planned
    rules = {info["path"]: guarded.rules.of("write", info["path"]) for info in planned.files}
    doomed = [info for info in planned.files if rules[info["path"]] != "deny"]
    if dry_run:
        return replace(planned, files=doomed, bytes=sum(info.get("size") or 0 for info in doomed))
    if asking := [info["path"] for info in doomed if rules[info["path"]] == "interrupt"]:
        ask("write", directory, "prune", {"path": directory}, asking)
    cut = len(directory_prefix(directory)) - 1
    kept = [spelled(own[cut:]) for own, rule in rules.items() if rule == "deny"]
    (answer,) = yield [one._replace(options={**options, "protect": [*protect, *kept], "dry_run": False})]
    return result_of(PruneResult, answer, "prune", directory)


def usage(guarded: Guarded) -> Calls[Usage]:
    """Add up all files."""
    (answer,) = yield [Call(guarded.backend, "usage")]
    if answer is NotImplemented:
        raise NotSupported("the backend does not say how much it holds")
    return cast(Usage, answer)


def upload(guarded: Guarded, files: Sequence[tuple[str, bytes]]) -> Calls[list[FileUploadResponse]]:
    """Store the files that may be written."""

    def enter(number: int, path: str) -> None:
        data = files[number][1]
        size = len(data) if isinstance(data, bytes) else None
        guarded.enter("write", path, "upload_files", {"file_path": path, "bytes": size})

    paths = [path for path, _ in files]
    return (
        yield from _each(
            guarded,
            FileUploadResponse,
            "upload_files",
            paths,
            enter,
            lambda number, path: (path, files[number][1]),
        )
    )


def download(guarded: Guarded, paths: Sequence[str]) -> Calls[list[FileDownloadResponse]]:
    """Read the files whole that may be read."""

    def enter(_number: int, path: str) -> None:
        guarded.enter("read", path, "download_files", {"file_path": path})

    return (
        yield from _each(
            guarded, FileDownloadResponse, "download_files", paths, enter, lambda _number, path: path
        )
    )


def _each(
    guarded: Guarded,
    kind: type[Response],
    method: str,
    paths: Sequence[str],
    enter: Callable[[int, str], None],
    item: Callable[[int, str], Any],
) -> Calls[list[Response]]:
    """Ask the backend about the paths that may be entered, all at once."""
    responses: dict[int, Response] = {}
    asked: dict[int, Any] = {}
    for number, path in enumerate(paths):
        try:
            own = file_path(path)
            enter(number, own)
        except ValueError:
            responses[number] = kind(path=path, error=INVALID_PATH)
        except Refused:
            responses[number] = kind(path=path, error=PERMISSION_DENIED)
        else:
            asked[number] = item(number, own)
    if asked:
        (answers,) = yield [Call(guarded.backend, method, (list(asked.values()),))]
        for at, number in enumerate(asked):
            path = paths[number]
            if answers is NotImplemented or at >= len(answers):
                responses[number] = kind(path=path, error=unsupported(method, path))
            else:
                responses[number] = replace(answers[at], path=path)
    return [responses[number] for number in range(len(paths))]


def _ask(
    guarded: Guarded,
    kind: type[R],
    method: str,
    path: str,
    args: tuple[Any, ...] = (),
    options: dict[str, Any] | None = None,
) -> Calls[R]:
    (answer,) = yield [Call(guarded.backend, method, (path, *args), options or {})]
    return result_of(kind, answer, method, path)
