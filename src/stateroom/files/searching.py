"""Ranking files by words or meaning."""

from __future__ import annotations

from collections.abc import Set
from dataclasses import dataclass
from typing import Any, Final, NotRequired

from typing_extensions import TypedDict

from stateroom.errors import InvalidInput
from stateroom.files.answers import answering
from stateroom.files.paths import ROOT, directory_prefix, is_path, normal_path
from stateroom.files.steps import Steps
from stateroom.files.volume import Volume
from stateroom.model.file import content_of
from stateroom.model.page import check_page
from stateroom.model.text import show
from stateroom.search.analysis import Analyzer
from stateroom.stores.operations import Mode, SearchItems

__all__ = ["FileHit", "SearchResult", "search"]

PAGE: Final = 100
"""Files that a search asks for at once."""

_ANALYZER: Final = Analyzer()

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
    limit, _ = check_page(limit, 0)
    root = normal_path(ROOT if path is None else path)
    below, offset = directory_prefix(root), 0
    found: list[tuple[Any, str]] = []
    while len(found) < limit:
        asked = SearchItems(volume.namespace, query, None, PAGE, offset, refresh_ttl=False, mode=mode)
        (page,) = yield [asked]
        for item in page:
            inside = item.key == root or item.key.startswith(below)
            text = _text_of(item) if inside and item.namespace == volume.namespace else None
            if text is not None:
                found.append((item, text))
        if len(page) < PAGE:
            break
        offset += PAGE
    terms = set(_ANALYZER.query_terms(query))
    return SearchResult(matches=[_hit(item, text, terms) for item, text in found[:limit]])


def _text_of(item: Any) -> str | None:
    """Return the text of a file; None for bytes, and for what is no file."""
    if not is_path(item.key):
        return None
    try:
        content = content_of(item.value)
    except InvalidInput:
        return None
    return content if isinstance(content, str) else None


def _hit(item: Any, text: str, terms: Set[str]) -> FileHit:
    number, line = _best_line(text, terms)
    hit = FileHit(path=item.key, score=item.score, line=number, text=line[:SNIPPET_CHARACTERS])
    modified_at = item.value.get("modified_at")
    if isinstance(modified_at, str):
        hit["modified_at"] = modified_at
    return hit


def _best_line(text: str, terms: Set[str]) -> tuple[int, str]:
    """Return the line with the most terms of the query, or the first that is not blank; and its number."""

    def fit(line: tuple[int, str]) -> tuple[int, bool]:
        return len(terms & set(_ANALYZER.terms(line[1]))), bool(line[1].strip())

    return max(enumerate(text.split("\n"), 1), key=fit)
