"""Operations on named paths over mounted backends: each goes to the one backend that its path belongs to."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from stateroom.files.answers import answering
from stateroom.files.calls import Call, Calls, result_of, unsupported
from stateroom.files.composite_mounts import Mount, Mounts, is_missing
from stateroom.files.composite_results import outer_result, seen
from stateroom.files.paths import directory_prefix, file_path, normal_path
from stateroom.files.protocol import (
    DeleteResult,
    EditResult,
    FileDownloadResponse,
    FileInfo,
    FileUploadResponse,
    LsResult,
    ReadResult,
    WriteResult,
)
from stateroom.files.reading import INVALID_PATH

__all__ = ["delete", "download", "edit", "ls", "multi_edit", "read", "upload", "write"]

R = TypeVar("R")
Response = TypeVar("Response", FileUploadResponse, FileDownloadResponse)


@answering(LsResult)
def ls(mounts: Mounts, path: str) -> Calls[LsResult]:
    """List a directory of one backend, and the directories that lead to other backends."""
    directory = normal_path(path)
    mount = mounts.of(directory)
    inner = mount.inner(directory)
    asked = directory_prefix(inner) if path.endswith("/") else inner
    (answer,) = yield [Call(mount.backend, "ls", (asked,))]
    result = result_of(LsResult, answer, "ls", directory)
    leading = _leading(mounts, directory)
    if result.error and not (leading and is_missing(result.error, asked)):
        return outer_result(mount, result, inner)
    own = [
        entry
        for entry in seen(mounts, mount, result.entries)
        if not (entry.get("is_dir") and directory_prefix(entry["path"].rstrip("/")) in leading)
    ]
    roads = [FileInfo(path=road, is_dir=True, size=0, modified_at="") for road in leading]
    return LsResult(entries=sorted([*own, *roads], key=lambda entry: entry["path"]))


def _leading(mounts: Mounts, directory: str) -> set[str]:
    """Return the directories in one that are, or lead to, places where backends are mounted."""
    prefix = directory_prefix(directory)
    names = (mount.directory[len(prefix) :].partition("/")[0] for mount in mounts.below(directory))
    return {f"{prefix}{name}/" for name in names}


@answering(ReadResult)
def read(mounts: Mounts, path: str, offset: int, limit: int) -> Calls[ReadResult]:
    """Read a window of a file's lines."""
    options = {"offset": offset, "limit": limit}
    return (yield from _one(mounts, ReadResult, "read", file_path(path), (), options))


@answering(WriteResult)
def write(mounts: Mounts, path: str, content: str) -> Calls[WriteResult]:
    """Create a file, or replace what it holds."""
    own = file_path(path)
    mounts.check_file(own)
    return (yield from _one(mounts, WriteResult, "write", own, (content,)))


@answering(EditResult)
def edit(mounts: Mounts, path: str, old: str, new: str, replace_all: bool) -> Calls[EditResult]:
    """Replace a text in a file."""
    options = {"replace_all": replace_all}
    return (yield from _one(mounts, EditResult, "edit", file_path(path), (old, new), options, (old,)))


@answering(EditResult)
def multi_edit(mounts: Mounts, path: str, edits: Iterable[Any]) -> Calls[EditResult]:
    """Make several replacements in one file."""
    return (yield from _one(mounts, EditResult, "multi_edit", file_path(path), (edits,), {}, [str(edits)]))


@answering(DeleteResult)
def delete(mounts: Mounts, path: str) -> Calls[DeleteResult]:
    """Delete a file, or a directory of one backend with all that is in it."""
    own = normal_path(path, field="file_path")
    mounts.check_deletable(own)
    return (yield from _one(mounts, DeleteResult, "delete", own))


def _one(
    mounts: Mounts,
    kind: type[R],
    method: str,
    path: str,
    args: tuple[Any, ...] = (),
    options: dict[str, Any] | None = None,
    echoed: Sequence[str] = (),
) -> Calls[R]:
    """Ask the backend of a path."""
    mount = mounts.of(path)
    inner = mount.inner(path)
    (answer,) = yield [Call(mount.backend, method, (inner, *args), options or {})]
    return outer_result(mount, result_of(kind, answer, method, path), inner, *echoed)


def upload(mounts: Mounts, files: Sequence[tuple[str, bytes]]) -> Calls[list[FileUploadResponse]]:
    """Store files; each backend is asked once."""

    def place(path: str) -> str:
        own = file_path(path)
        mounts.check_file(own)
        return own

    def item(inner: str, number: int) -> tuple[str, bytes]:
        return inner, files[number][1]

    paths = [path for path, _ in files]
    return (yield from _spread(mounts, FileUploadResponse, "upload_files", paths, place, item))


def download(mounts: Mounts, paths: Sequence[str]) -> Calls[list[FileDownloadResponse]]:
    """Read files whole; each backend is asked once."""

    def item(inner: str, _number: int) -> str:
        return inner

    return (yield from _spread(mounts, FileDownloadResponse, "download_files", paths, file_path, item))


def _spread(
    mounts: Mounts,
    kind: type[Response],
    method: str,
    paths: Sequence[str],
    place: Callable[[str], str],
    item: Callable[[str, int], Any],
) -> Calls[list[Response]]:
    """Ask each backend about all paths that belong to it, and answer in the order of the paths."""
    responses: dict[int, Response] = {}
    asked: dict[Mount, list[tuple[int, str]]] = {}
    for number, path in enumerate(paths):
        try:
            own = place(path)
        except ValueError:
            responses[number] = kind(path=path, error=INVALID_PATH)
            continue
        mount = mounts.of(own)
        asked.setdefault(mount, []).append((number, mount.inner(own)))
    calls = [
        Call(mount.backend, method, ([item(inner, number) for number, inner in some],))
        for mount, some in asked.items()
    ]
    for (mount, some), answers in zip(asked.items(), (yield calls), strict=True):
        for at, (number, inner) in enumerate(some):
            responses[number] = _response(mount, kind, method, answers, at, paths[number], inner)
    return [responses[number] for number in range(len(paths))]


def _response(
    mount: Mount, kind: type[Response], method: str, answers: Any, at: int, path: str, inner: str
) -> Response:
    if answers is NotImplemented:
        return kind(path=path, error=unsupported(method, path))
    if at >= len(answers):
        return kind(path=path, error=f"Error: the backend of '{path}' gave no answer for it.")
    error = answers[at].error
    response: Response = replace(answers[at], path=path, error=error and mount.outer_text(error, inner))
    return response
