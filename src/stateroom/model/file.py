"""What a file is as a store keeps it: the forms of ``FileData`` in the wild, read alike.

===================================  ======================================  ==========================
form                                 ``content``                             beside it
===================================  ======================================  ==========================
lines (the documented one)           a list of strings, one a line           timestamps
text of Deep Agents for Python       a string                                ``encoding``: ``"utf-8"``
bytes of Deep Agents for Python      a string, base64                        ``encoding``: ``"base64"``
text of Deep Agents for JavaScript   a string                                ``mimeType``
bytes of Deep Agents for JavaScript  an object of bytes, ``{"0": 137, ...}``   ``mimeType``
===================================  ======================================  ==========================

Timestamps may be missing in each, and whatever else is there belongs to whoever wrote it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import Any, Final, NamedTuple, TypeAlias

from stateroom.errors import InvalidValue
from stateroom.model.json_values import decode_value
from stateroom.model.text import show

__all__ = ["BASE64", "PATH_START", "Content", "Stat", "content_of", "size_of", "stat_of"]

Content: TypeAlias = str | bytes
"""What a file holds: text, or bytes where it is binary."""

PATH_START: Final = "/"
"""What the keys of files begin with, and no other listing need be fast for."""

BASE64: Final = "base64"
"""The ``encoding`` of bytes."""


class Stat(NamedTuple):
    """What is known of a file without reading it: its bytes, as UTF-8, and the time that it says."""

    size: int
    modified_at: str | None


def content_of(value: Mapping[str, Any]) -> Content:
    """Return the text or the bytes of a file in any form; raise InvalidValue for what is no file."""
    content = value.get("content")
    if isinstance(content, str):
        return _bytes_of_base64(content) if value.get("encoding") == BASE64 else content
    # A file may have a hundred thousand lines.
    if isinstance(content, list) and (set(map(type, content)) <= {str} or _are_texts(content)):
        return "\n".join(content)
    if isinstance(content, dict):
        return _bytes_of_object(content)
    raise InvalidValue(
        f"content is {show(content)}; a file has a list of lines or a string there", field="content"
    )


def size_of(content: Content) -> int:
    """Return the number of bytes of a file that holds this."""
    return len(content.encode()) if isinstance(content, str) else len(content)


def stat_of(key: str, raw: bytes) -> Stat | None:
    """Return what to keep beside an item for listings; None for what is no file by its key or value."""
    if not key.startswith(PATH_START):
        return None
    value = decode_value(raw)
    try:
        size = size_of(content_of(value))
    except InvalidValue:
        return None
    modified_at = value.get("modified_at")
    return Stat(size, modified_at if isinstance(modified_at, str) else None)


def _are_texts(lines: list[Any]) -> bool:
    return all(isinstance(line, str) for line in lines)


def _bytes_of_base64(content: str) -> bytes:
    try:
        return base64.b64decode(content, validate=True)
    except ValueError as error:
        raise InvalidValue(f"content is not base64: {error}", field="content") from None


def _bytes_of_object(content: dict[str, Any]) -> bytes:
    """Return the bytes of an array of bytes that went through JavaScript's JSON."""
    numbers = content.get("data") if content.get("type") == "Buffer" else _in_order(content)
    if isinstance(numbers, list) and all(type(number) is int and 0 <= number < 256 for number in numbers):
        return bytes(numbers)
    raise InvalidValue(
        f"content is {show(content)}; a file has a list of lines or a string there", field="content"
    )


def _in_order(content: dict[str, Any]) -> list[Any] | None:
    try:
        return [content[str(place)] for place in range(len(content))]
    except KeyError:
        return None
