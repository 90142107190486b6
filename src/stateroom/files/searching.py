"""Ranking files by words or meaning."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple, NotRequired

from typing_extensions import TypedDict

from stateroom.errors import InvalidInput
from stateroom.files.answers import answering
from stateroom.files.paths import ROOT, directory_prefix, is_path, normal_path
from stateroom.files.steps import Steps
from stateroom.files.volume import Volume
from stateroom.model.file import content_of
from stateroom.model.text import show
from stateroom.stores.operations import Mode, SearchItems

__all__ = ["FileHit", "SearchResult", "search"]

PAGE: Final = 100
"""Files that a search asks for at once."""

SNIPPET_CHARACTERS: Final = 200
"""Characters of the line that is shown of a file."""


class FileHit(TypedDict):
    """One file that a search found: its path, its score, and the line of it that fits the query best."""

    path: str
    score: float
    line: int
    text: str
    modified_at: NotRequired[str]


@dataclass
class SearchResult:
    """The files that were found, the best first; or an error."""

    error: str | None = None
    matches: list[FileHit] | None = None


@answering(SearchResult)
def search(volume: Volume, query: str, path: str | None, limit: int, mode: Mode) -> Steps[SearchResult]:
    """Rank the files at or below a path, as the store ranks items; binary files are not found."""
    if not isinstance(query, str) or not query.strip():
        raise InvalidInput(f"query is {show(query)}; pass what to look for", field="query")
    root = normal_path(ROOT if path is None else path)
    below, offset = directory_prefix(root), 0
    found: list[FileHit] = []
    while len(found) < limit:
        asked = SearchItems(volume.namespace, query, None, PAGE, offset, refresh_ttl=False, mode=mode)
        (page,) = yield [asked]
        for item in page:
            inside = item.key == root or item.key.startswith(below)
            if inside and item.namespace == volume.namespace and is_path(item.key):
                found += _hit(item, query)
        if len(page) < PAGE:
            break
        offset += PAGE
    return SearchResult(matches=found[:limit])


def _hit(item: Any, query: str) -> list[FileHit]:
    try:
        content = content_of(item.value)
    except InvalidInput:
        return []
    if isinstance(content, bytes):
        return []
    line = _best_line(content, query)
    hit = FileHit(path=item.key, score=item.score, line=line.number, text=line.text[:SNIPPET_CHARACTERS])
    modified_at = item.value.get("modified_at")
    if isinstance(modified_at, str):
        hit["modified_at"] = modified_at
    return [hit]


class _Line(NamedTuple):
    number: int
    text: str


def _best_line(content: str, query: str) -> _Line:
    """Return the line with the most words of the query, or the first that is not blank."""
    words = set(query.casefold().split())

    def fit(line: _Line) -> tuple[int, bool]:
        return sum(word in line.text.casefold() for word in words), bool(line.text.strip())

    return max((_Line(number, text) for number, text in enumerate(content.split("\n"), 1)), key=fit)
