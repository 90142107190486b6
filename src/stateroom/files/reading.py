"""Reading files: a window of lines for an agent, or everything for a program."""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from stateroom.errors import InvalidInput
from stateroom.files.answers import Refused, answering
from stateroom.files.paths import file_path
from stateroom.files.protocol import FileData, FileDownloadResponse, ReadResult
from stateroom.files.steps import Steps
from stateroom.files.text import line_count, window_of
from stateroom.files.volume import Stored, Volume
from stateroom.model.file import BASE64, Content, content_of
from stateroom.model.text import show
from stateroom.stores.operations import GetItem

__all__ = ["content_at", "download", "is_binary_path", "read"]

FILE_NOT_FOUND: Final = "file_not_found"
INVALID_PATH: Final = "invalid_path"
"""Codes of the protocol for downloads and uploads."""

_BINARY_SUFFIXES: Final = frozenset(
    {
        *(".png", ".jpg", ".jpeg", ".gif", ".webp", ".heic", ".heif", ".bmp", ".tif", ".tiff", ".ico"),
        *(".mp4", ".mpeg", ".mpg", ".mov", ".avi", ".flv", ".webm", ".wmv", ".3gpp", ".mkv"),
        *(".wav", ".mp3", ".aiff", ".aac", ".ogg", ".flac", ".pdf", ".ppt", ".pptx"),
    }
)


def is_binary_path(path: str) -> bool:
    """Tell whether a path names an image, sound, film or document, of which nobody reads lines."""
    return PurePosixPath(path).suffix.lower() in _BINARY_SUFFIXES


def content_at(path: str, stored: Stored) -> Content:
    """Return what a file holds; raise Refused for an item that is none."""
    try:
        return content_of(stored.value)
    except InvalidInput as error:
        raise Refused(f"'{path}' is no file: {error}") from error


@answering(ReadResult)
def read(volume: Volume, path: str, offset: int, limit: int) -> Steps[ReadResult]:
    """Read a window of a file's lines; bytes, and what their paths say are bytes, come whole."""
    path = file_path(path)
    _check_number(offset, "offset")
    _check_number(limit, "limit")
    (stored,) = yield [GetItem(volume.namespace, path)]
    if stored is None:
        return ReadResult(error=f"File '{path}' not found")
    content = content_at(path, stored)
    if isinstance(content, bytes):
        encoded = base64.b64encode(content).decode()
        return ReadResult(file_data=_file_data(encoded, stored.value, BASE64))
    if is_binary_path(path) or not content.strip():
        return ReadResult(file_data=_file_data(content, stored.value))
    if limit <= 0:
        return ReadResult(file_data=_file_data("", stored.value), no_lines_requested=True)
    window = window_of(content, offset, limit)
    if window is None:
        return ReadResult(error=f"Line offset {offset} exceeds file length ({line_count(content)} lines)")
    return ReadResult(
        file_data=_file_data(window.text, stored.value),
        total_lines=window.total,
        start_line=window.start,
        end_line=window.end,
        next_offset=window.end if window.end < window.total else None,
    )


def download(volume: Volume, paths: Sequence[str]) -> Steps[list[FileDownloadResponse]]:
    """Read files whole, all from one snapshot."""
    normal = [_path_or_none(path) for path in paths]
    asked = [path for path in normal if path is not None]
    found = dict(zip(asked, (yield [GetItem(volume.namespace, path) for path in asked]), strict=True))
    return [
        FileDownloadResponse(path, error=INVALID_PATH) if own is None else _downloaded(path, found[own])
        for path, own in zip(paths, normal, strict=True)
    ]


def _downloaded(path: str, stored: Stored | None) -> FileDownloadResponse:
    if stored is None:
        return FileDownloadResponse(path, error=FILE_NOT_FOUND)
    try:
        content = content_at(path, stored)
    except Refused as error:
        return FileDownloadResponse(path, error=str(error))
    return FileDownloadResponse(path, content.encode() if isinstance(content, str) else content)


def _path_or_none(path: str) -> str | None:
    try:
        return file_path(path)
    except ValueError:
        return None


def _check_number(number: object, field: str) -> None:
    if not isinstance(number, int):
        raise InvalidInput(f"{field} is {show(number)}; pass a number of lines", field=field)


def _file_data(content: str, value: Mapping[str, Any], encoding: str = "utf-8") -> FileData:
    data = FileData(content=content, encoding=encoding)
    created_at, modified_at = value.get("created_at"), value.get("modified_at")
    if isinstance(created_at, str):
        data["created_at"] = created_at
    if isinstance(modified_at, str):
        data["modified_at"] = modified_at
    return data
