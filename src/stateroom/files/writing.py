"""Changing files: whatever is written replaces what was read, or is worked out anew."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from stateroom.errors import Conflict, InvalidInput, InvalidPath, LimitExceeded, StateroomError
from stateroom.files.answers import Refused, answering, message
from stateroom.files.paths import ROOT, ancestors, directory_prefix, file_path, normal_path
from stateroom.files.protocol import DeleteResult, EditResult, FileUploadResponse, WriteResult
from stateroom.files.quota import check_quota, has_quota
from stateroom.files.reading import INVALID_PATH, content_at
from stateroom.files.steps import Steps
from stateroom.files.text import Edit, EditRefused, changed
from stateroom.files.volume import Stored, Volume
from stateroom.model.file import Content
from stateroom.model.limits import BATCH_OPERATIONS_MAX
from stateroom.model.text import flaw, show

__all__ = ["ATTEMPTS", "EditSpec", "delete", "edit", "edits_of", "upload", "write"]

EditSpec: TypeAlias = Edit | Mapping[str, Any] | Sequence[Any]
"""One replacement: its ``old_string``, its ``new_string``, and perhaps ``replace_all``."""

ATTEMPTS: Final = 100
"""How often a change is made anew because somebody else was faster, before it is given up."""

TOGETHER: Final = 1_000
"""Files that are uploaded in one batch."""


@answering(WriteResult)
def write(volume: Volume, path: str, content: str) -> Steps[WriteResult]:
    """Create a file, or replace what it holds; when it was created and how long it lives stay."""
    path = file_path(path)
    text = _text(content, "content")
    yield from _change(volume, path, lambda _: text)
    return WriteResult(path=path)


@answering(EditResult)
def edit(volume: Volume, path: str, edits: Iterable[EditSpec]) -> Steps[EditResult]:
    """Make replacements one after the other, all or none; each sees what those before it have made."""
    path, made, occurrences = file_path(path), edits_of(edits), 0

    def change(stored: Stored | None) -> Content:
        nonlocal occurrences
        if stored is None:
            raise Refused(f"File '{path}' not found")
        content = content_at(path, stored)
        if isinstance(content, bytes):
            raise Refused("Cannot edit binary files with text replacements.")
        content, occurrences = _edited(content, made)
        return content

    yield from _change(volume, path, change)
    return EditResult(path=path, occurrences=occurrences)


def edits_of(edits: Iterable[EditSpec]) -> list[Edit]:
    """Return replacements that are given as objects or tuples; raise InvalidInput naming what is wrong."""
    if isinstance(edits, str) or not isinstance(edits, Iterable):
        raise InvalidInput(f"edits is {show(edits)}; pass a list of replacements", field="edits")
    made = []
    for place, one in enumerate(edits):
        field = f"edits[{place}]"
        try:
            edit = Edit(**one) if isinstance(one, Mapping) else Edit(*one)
        except TypeError:
            raise InvalidInput(
                f"{field} is {show(one)}; pass old_string, new_string and perhaps replace_all", field=field
            ) from None
        _text(edit.old_string, f"{field}.old_string")
        _text(edit.new_string, f"{field}.new_string")
        made.append(edit)
    if not made:
        raise InvalidInput("edits is empty; pass at least one", field="edits")
    return made


@answering(DeleteResult)
def delete(volume: Volume, path: str) -> Steps[DeleteResult]:
    """Delete a file, or a directory with all that is in it."""
    path = normal_path(path, field="file_path")
    if path == ROOT:
        raise Refused("'/' is everything there is; name a file or a directory in it")
    below, size = directory_prefix(path), BATCH_OPERATIONS_MAX - 1
    own, page = yield [volume.get(path), volume.list(below, limit=size)]
    keys = [path] if own is not None else []
    if not keys and not page:
        raise Refused(f"File '{path}' not found")
    while keys or page:
        yield [volume.delete(key) for key in [*keys, *(entry.key for entry in page)]]
        if len(page) < size:
            break
        keys = []
        (page,) = yield [volume.list(below, limit=size)]
    return DeleteResult(path=path)


def upload(volume: Volume, files: Sequence[tuple[str, bytes]]) -> Steps[list[FileUploadResponse]]:
    """Store files, what is UTF-8 as text; each succeeds or fails on its own."""
    responses: list[FileUploadResponse] = []
    for start in range(0, len(files), TOGETHER):
        some = files[start : start + TOGETHER]
        if not (yield from _uploaded_together(volume, some)):
            for path, data in some:
                responses.append((yield from _uploaded(volume, path, data)))
        else:
            responses += [FileUploadResponse(path) for path, _ in some]
    return responses


def _change(volume: Volume, path: str, change: Callable[[Stored | None], Content]) -> Steps[None]:
    """Read a file, work out what it is to hold and write it; from the start, if it was written meanwhile."""
    for _ in range(ATTEMPTS):
        (stored,) = yield [volume.get(path)]
        content = change(stored)
        if stored is None:
            yield from _check_room(volume, [path])
        yield from check_quota(volume, path, stored, content)
        try:
            yield [volume.put(path, content, stored)]
        except Conflict:
            continue
        return
    raise Conflict(f"'{path}' kept being changed by others, and nothing was written: read it, and try again")


def _edited(text: str, edits: Sequence[Edit]) -> tuple[str, int]:
    occurrences = 0
    for number, one in enumerate(edits, 1):
        try:
            text, count = changed(text, one)
        except EditRefused as error:
            raise error if len(edits) == 1 else EditRefused(f"edit {number}: {error}") from None
        occurrences += count
    return text, occurrences


def _check_room(volume: Volume, paths: Sequence[str]) -> Steps[None]:
    """Raise Refused if a new file would lie in a file, or be called like a directory.

    The latter is not looked for where it would mean to read everything.
    """
    parents = sorted({parent for path in paths for parent in ancestors(path)})
    listed = paths if volume.lists_cheaply else ()
    asked = [volume.get(parent) for parent in parents]
    if not asked and not listed:
        return
    answers = yield [*asked, *(volume.list(directory_prefix(path), limit=1) for path in listed)]
    for parent, stored in zip(parents, answers, strict=False):
        if stored is not None:
            raise Refused(f"'{parent}' is a file, and so can hold no other")
    for path, below in zip(listed, answers[len(parents) :], strict=True):
        if below:
            raise Refused(f"'{path}' is a directory")


def _uploaded(volume: Volume, path: str, data: bytes) -> Steps[FileUploadResponse]:
    try:
        own, content = file_path(path), _content(data)
        yield from _change(volume, own, lambda _: content)
    except InvalidPath:
        return FileUploadResponse(path, error=INVALID_PATH)
    except Exception as error:
        return FileUploadResponse(path, error=message(error))
    return FileUploadResponse(path)


def _uploaded_together(volume: Volume, files: Sequence[tuple[str, bytes]]) -> Steps[bool]:
    """Upload all files in one batch, if nothing is to be said of any."""
    try:
        contents = {file_path(path): _content(data) for path, data in files}
    except (InvalidInput, LimitExceeded):
        return False
    parents = {parent for path in contents for parent in ancestors(path)}
    if len(contents) < 2 or has_quota(volume) or not parents.isdisjoint(contents):
        return False
    stored = dict(zip(contents, (yield [volume.get(path) for path in contents]), strict=True))
    try:
        yield from _check_room(volume, [path for path, seen in stored.items() if seen is None])
        yield [volume.put(path, content, stored[path]) for path, content in contents.items()]
    except (Refused, StateroomError) as error:
        message(error)
        return False
    return True


def _content(data: bytes) -> Content:
    """Return bytes as text if they are some that can be stored."""
    if not isinstance(data, bytes):
        raise InvalidInput(f"content is {show(data)}; pass bytes", field="content")
    try:
        text = data.decode()
    except UnicodeDecodeError:
        return data
    return data if flaw(text) else text


def _text(text: object, field: str) -> str:
    if not isinstance(text, str):
        raise InvalidInput(f"{field} is {show(text)}; pass a string", field=field)
    if fault := flaw(text):
        raise InvalidInput(f"{field} {fault}; remove it", field=field)
    return text
