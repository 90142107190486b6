"""What a model is told of the result of each file operation."""

from __future__ import annotations

import mimetypes
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any, Final

from langchain_core.tools import ToolException

from stateroom.files.protocol import (
    DeleteResult,
    EditResult,
    GlobResult,
    GrepMatch,
    GrepResult,
    LsResult,
    ReadResult,
    WriteResult,
)
from stateroom.files.searching import SearchResult
from stateroom.files.tools_arguments import OutputMode
from stateroom.model.file import BASE64

__all__ = [
    "CHARACTERS_MAX",
    "Blocks",
    "deleted",
    "edited",
    "found",
    "grepped",
    "listed",
    "many_edited",
    "read",
    "refused",
    "searched",
    "written",
]

CHARACTERS_MAX: Final = 80_000
"""Characters that a tool answers at most."""

NO_FILES: Final = "No files found"
NO_MATCHES: Final = "No matches found"

Arguments = Mapping[str, Any]
Blocks = list[dict[str, Any]]
"""Content blocks of LangChain, for what is no text."""


def refused(text: str) -> ToolException:
    """Return what to raise for a call that a model has to make in another way."""
    return ToolException(text if text.startswith("Error: ") else f"Error: {text}")


def listed(result: LsResult, _: Arguments) -> str:
    """Say what a directory holds, one path a line."""
    _check(result.error)
    return _lines(
        (entry["path"] for entry in result.entries or ()),
        none=NO_FILES,
        advice="list a directory further down, or find files with glob",
    )


def found(result: GlobResult, _: Arguments) -> str:
    """Say which files a pattern matches, one path a line."""
    _check(result.error)
    text = _lines(
        (entry["path"] for entry in result.matches or ()),
        none=NO_FILES,
        advice="use a narrower pattern or path",
    )
    return (
        f"{text}\n[not all files were looked at: use a narrower pattern or path]"
        if result.truncated
        else text
    )


def read(result: ReadResult, arguments: Arguments) -> str | Blocks:
    """Show lines of a file below a line that says which they are, or what is no text as a content block."""
    _check(result.error)
    path, data = arguments["file_path"], result.file_data
    if data is None:
        raise refused(f"'{path}' gave no data")
    content = data["content"]
    if data.get("encoding") == BASE64:
        return [_block(path, content)]
    if result.no_lines_requested:
        return "No lines were asked for: pass a limit of 1 or more."
    if not content:
        return f"'{path}' is empty."
    start, total = result.start_line, result.total_lines
    if start is None or result.end_line is None:
        # What comes whole has no window: it is blank, or its path says that nobody reads its lines.
        start, total = 1, content.count("\n") + (not content.endswith("\n"))
    return _window(content, start, result.end_line or total or start, total)


def written(result: WriteResult, arguments: Arguments) -> str:
    """Say which file was written."""
    _check(result.error)
    return f"Updated file {result.path or arguments['file_path']}"


def edited(result: EditResult, arguments: Arguments) -> str:
    """Say how often a text was replaced."""
    _check(result.error)
    path = result.path or arguments["file_path"]
    return f"Successfully replaced {result.occurrences} instance(s) of the string in '{path}'"


def many_edited(result: EditResult, arguments: Arguments) -> str:
    """Say how many edits were made, and how often texts were replaced by them."""
    _check(result.error)
    path, edits = result.path or arguments["file_path"], len(arguments["edits"])
    return f"Successfully made {edits} edit(s) in '{path}', which replaced {result.occurrences} instance(s)"


def deleted(result: DeleteResult, arguments: Arguments) -> str:
    """Say what was deleted."""
    _check(result.error)
    return f"Deleted {result.path or arguments['file_path']}"


def grepped(result: GrepResult, arguments: Arguments) -> str:
    """Say where a text is, as ``output_mode`` asks."""
    matches = result.matches or []
    if not matches:
        _check(result.error)
    lines = _matching(matches, arguments["output_mode"])
    text = _lines(lines, none=NO_MATCHES, advice="use a narrower pattern, path or glob")
    if result.error:
        return f"{text}\n[not all was looked at: {result.error}]"
    if result.truncated:
        return f"{text}\n[there are more: raise max_count, or use a narrower pattern, path or glob]"
    return text


def searched(result: SearchResult, _: Arguments) -> str:
    """Say which files fit a query, the best first, each with the line that fits best."""
    _check(result.error)
    return _lines(
        (f"{hit['path']}:{hit['line']}: {hit['text']}" for hit in result.matches or ()),
        none=NO_MATCHES,
        advice="use a smaller limit",
    )


def _check(error: str | None) -> None:
    if error:
        raise refused(error)


def _matching(matches: Sequence[GrepMatch], mode: OutputMode) -> Iterable[str]:
    if mode == "content":
        return (f"{match['path']}:{match['line']}: {match['text']}" for match in matches)
    counts = Counter(match["path"] for match in matches)
    return (f"{path}: {count}" for path, count in counts.items()) if mode == "count" else counts


def _lines(lines: Iterable[str], *, none: str, advice: str) -> str:
    """Return lines as one text, as many as fit."""
    every, room, shown = list(lines), CHARACTERS_MAX, 0
    for line in every:
        room -= len(line) + 1
        if room < 0:
            break
        shown += 1
    if not every:
        return none
    if shown == len(every):
        return "\n".join(every)
    if not shown:
        # Its beginning is better than nothing.
        return f"{every[0][:CHARACTERS_MAX]}\n[cut here, and {len(every) - 1:,} more are not shown: {advice}]"
    return "\n".join([*every[:shown], f"[{len(every) - shown:,} more are not shown: {advice}]"])


def _window(text: str, start: int, end: int, total: int | None) -> str:
    """Return lines of a file below a header that says which they are, and how to go on."""
    if len(text) > CHARACTERS_MAX:
        text = text[:CHARACTERS_MAX]
        whole = text.count("\n")
        if not whole:
            return (
                _header(
                    start, start, total, f"line {start} is longer than this and goes on; find parts with grep"
                )
                + text
            )
        text = text[: text.rindex("\n") + 1]
        end = start + whole - 1
    return _header(start, end, total) + text


def _header(start: int, end: int, total: int | None, note: str = "") -> str:
    parts = [f"lines {start}-{end}" + ("" if total is None else f" of {total}")]
    if note:
        parts.append(note)
    if total is None or end < total:
        parts.append(f"go on with offset={end}")
    return f"[{'; '.join(parts)}]\n"


def _block(path: str, encoded: str) -> dict[str, Any]:
    mime_type = mimetypes.guess_type("file" + PurePosixPath(path).suffix)[0] or "application/octet-stream"
    # Of sound and films LangGraph's ToolNode would make a text, the base64 and all; files it lets pass.
    kind = "image" if mime_type.startswith("image/") else "file"
    return {"type": kind, "base64": encoded, "mime_type": mime_type}
