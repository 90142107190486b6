"""Small embedders whose vectors a reader can work out, for the tests of vector search."""

from __future__ import annotations

import re
from collections.abc import Sequence

__all__ = ["Coordinates", "numbers_of"]


def numbers_of(text: str, dims: int = 2) -> list[float]:
    """Return the first numbers in a text; a text with fewer gets ones for what it lacks."""
    found = [float(number) for number in re.findall(r"-?\d+(?:\.\d+)?", text)]
    return [*found, *[1.0] * dims][:dims]


class Coordinates:
    """An embedder that takes texts such as ``"3 4"`` at their word: the vector is (3, 4).

    ``documents`` and ``queries`` keep what it was asked for, call by call.
    """

    def __init__(self, dims: int = 2) -> None:
        self._dims = dims
        self.documents: list[list[str]] = []
        self.queries: list[str] = []

    def embed_documents(self, texts: Sequence[str]) -> list[list[float]]:
        """Return the vectors of texts to be found."""
        self.documents.append(list(texts))
        return [numbers_of(text, self._dims) for text in texts]

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a text to search for."""
        self.queries.append(text)
        return numbers_of(text, self._dims)
