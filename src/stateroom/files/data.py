"""Making, changing and reading ``FileData``, the JSON object that a file is in a store or a state."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from stateroom.clock import Clock, microseconds_to_datetime, system_clock
from stateroom.errors import InvalidInput
from stateroom.model.file import BASE64, Content, content_of
from stateroom.model.text import show

__all__ = [
    "FILE_FORMATS",
    "FileFormat",
    "check_file_format",
    "create_file_data",
    "file_data_to_string",
    "file_value",
    "iso_time",
    "update_file_data",
]

FileFormat: TypeAlias = Literal["v1", "v2"]

FILE_FORMATS: Final = ("v1", "v2")
"""How text is written: as a list of lines, or as one string with its ``encoding``."""

_TEXT: Final = "utf-8"


def create_file_data(
    content: str,
    created_at: str | None = None,
    encoding: str = _TEXT,
    *,
    file_format: FileFormat = "v1",
    clock: Clock = system_clock,
) -> dict[str, Any]:
    """Return a new file: ``{"content": [lines], "created_at": ..., "modified_at": ...}``.

    ``created_at`` is ISO 8601, now if not given. ``encoding="base64"`` says that ``content`` is that, and
    such a file is written as a string whatever the format. ``file_format="v2"`` writes text as Deep
    Agents for Python does: one string, and its encoding.
    """
    check_file_format(file_format)
    if encoding not in (_TEXT, BASE64):
        raise InvalidInput(f"encoding is {show(encoding)}; use 'utf-8' or 'base64'", field="encoding")
    held = content_of({"content": content, "encoding": encoding})
    old = {} if created_at is None else {"created_at": created_at}
    return file_value(held, iso_time(clock()), file_format, old)


def update_file_data(
    file_data: Mapping[str, Any],
    content: str,
    *,
    file_format: FileFormat = "v1",
    clock: Clock = system_clock,
) -> dict[str, Any]:
    """Return a file with other text: its ``created_at`` and all fields that are not ours stay."""
    check_file_format(file_format)
    return file_value(content, iso_time(clock()), file_format, file_data)


def file_data_to_string(file_data: Mapping[str, Any]) -> str:
    """Return a file's text in whatever form, bytes as base64; raise InvalidValue for what is no file."""
    held = content_of(file_data)
    return held if isinstance(held, str) else base64.b64encode(held).decode()


def file_value(content: Content, now: str, file_format: FileFormat, old: Mapping[str, Any]) -> dict[str, Any]:
    """Return what to store for a file that holds ``content`` from ``now`` on, and replaces ``old``."""
    value = {name: part for name, part in old.items() if name not in ("content", "encoding", "modified_at")}
    if isinstance(content, bytes) or isinstance(old.get("content"), dict):
        # It says what the bytes were or are not any more.
        value.pop("mimeType", None)
    held: dict[str, Any]
    if isinstance(content, bytes):
        held = {"content": base64.b64encode(content).decode(), "encoding": BASE64}
    elif file_format == "v1":
        held = {"content": content.split("\n")}
    else:
        held = {"content": content, "encoding": _TEXT}
    created_at = value.pop("created_at", None)
    times = {"created_at": created_at if isinstance(created_at, str) else now, "modified_at": now}
    return held | times | value


def check_file_format(file_format: object) -> None:
    """Raise InvalidInput unless it is one of ``FILE_FORMATS``."""
    if file_format not in FILE_FORMATS:
        raise InvalidInput(f"file_format is {show(file_format)}; use 'v1' or 'v2'", field="file_format")


def iso_time(microseconds: int) -> str:
    """Return a clock reading as ISO 8601."""
    return microseconds_to_datetime(microseconds).isoformat()
