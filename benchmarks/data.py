"""Made-up memories: deterministic rows of which every answer is known, and clustered vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from langgraph.store.base import PutOp
from numpy.typing import NDArray

__all__ = ["HOME", "LARGE", "ORGS", "Rows", "Vectors", "row_of"]

ORGS = 100
"""Organisations; what is below one of them is 1 % of the rows."""

USER_ITEMS = 10
LARGE = ("large", "one")
HOME = ("home", "alice", "notes")
TOPICS = 20
SCORES = 10
RARE = 1_000
WORDS_LEAST, WORDS_MOST = 10, 18
VOCABULARY = 5_000
SPARE = 30_000

Namespace = tuple[str, ...]
Mask = NDArray[np.bool_]


class Rows:
    """Rows by number, in the order in which they are stored.

    The first ``home`` rows are in one namespace, the next ``n`` in namespaces of ten, a hundredth of
    them in each organisation, then ``large`` in one namespace. Rows beyond ``total`` are for puts.
    """

    def __init__(self, n: int, *, home: int = 0, large: int = 1_000) -> None:
        self.n, self.home = n, home
        self.total = home + n + large
        made = self.total + SPARE
        random = np.random.default_rng(20)
        self.topics = random.integers(0, TOPICS, made)
        self.scores = random.integers(0, SCORES, made)
        self.rares = random.integers(0, RARE, made)
        self.lengths = random.integers(WORDS_LEAST, WORDS_MOST + 1, made)
        # Word numbers follow Zipf's law, as words do: a few are everywhere, most are rare.
        words = (random.zipf(1.25, (made, WORDS_MOST)) - 1) % VOCABULARY
        words[np.arange(WORDS_MOST) >= self.lengths[:, None]] = -1
        self._words = words.astype(np.int16)
        self.vocabulary = _vocabulary(VOCABULARY)
        self.numbers = np.arange(self.total)

    def namespace(self, row: int) -> Namespace:
        """Return the namespace of a row."""
        if row < self.home:
            return HOME
        if row < self.home + self.n:
            user = (row - self.home) // USER_ITEMS
            return "mem", f"org{user % ORGS:02d}", f"user{user:06d}"
        return LARGE

    @staticmethod
    def key(row: int) -> str:
        """Return the key of a row."""
        return f"k{row:07d}"

    def text(self, row: int) -> str:
        """Return the text of a row; it begins with the number, by which its vector is found."""
        words = self._words[row, : self.lengths[row]].tolist()
        return f"{row} " + " ".join([self.vocabulary[word] for word in words])

    def value(self, row: int) -> dict[str, Any]:
        """Return the value of a row: about 260 bytes of JSON."""
        return {
            "text": self.text(row),
            "topic": f"topic{self.topics[row]:02d}",
            "score": int(self.scores[row]),
            "rare": f"r{self.rares[row]}",
            "lang": "en",
            "tags": ["chat", f"tag{row % 17}"],
            "meta": {"source": "benchmark", "turn": row, "pinned": False},
        }

    def puts(self, start: int, stop: int) -> Iterator[list[PutOp]]:
        """Yield the operations that store some rows, in batches of 500."""
        for first in range(start, stop, 500):
            rows = range(first, min(first + 500, stop))
            yield [PutOp(self.namespace(row), self.key(row), self.value(row)) for row in rows]

    def in_mem(self) -> Mask:
        """Tell which rows are in namespaces of ten."""
        mask: Mask = (self.numbers >= self.home) & (self.numbers < self.home + self.n)
        return mask

    def in_org(self, org: int) -> Mask:
        """Tell which rows belong to an organisation."""
        mask: Mask = self.in_mem() & ((self.numbers - self.home) // USER_ITEMS % ORGS == org)
        return mask

    def in_namespace_of(self, row: int) -> Mask:
        """Tell which rows share a namespace with a row."""
        if row < self.home:
            return self.numbers < self.home
        if row >= self.home + self.n:
            return self.numbers >= self.home + self.n
        users = (self.numbers - self.home) // USER_ITEMS
        mask: Mask = self.in_mem() & (users == (row - self.home) // USER_ITEMS)
        return mask

    def counts(self, words: Sequence[str], total: int) -> NDArray[np.int64]:
        """Return how often each of the first ``total`` rows says each of the words."""
        ids = [self.vocabulary.index(word) for word in words]
        return np.stack([(self._words[:total] == word).sum(axis=1) for word in ids], axis=1)

    def words_by_share(self, share: float, number: int) -> list[str]:
        """Return the words that are nearest to being in such a share of the rows."""
        sample = self._words[: min(self.total, 20_000)]
        shares = np.array([(sample == word).any(axis=1).mean() for word in range(1_000)])
        return [self.vocabulary[word] for word in np.argsort(abs(shares - share))[:number]]


class Vectors:
    """Unit vectors of rows and of queries, and the embedder that looks them up.

    They have few dimensions of meaning, clusters, and noise, as the embeddings of texts do: uniformly
    random vectors would all be about equally far from everything.
    """

    def __init__(self, rows: int, dims: int, queries: int = 64) -> None:
        random = np.random.default_rng(11)
        latent = min(32, dims)
        basis = random.standard_normal((latent, dims), dtype=np.float32) / np.sqrt(latent)
        centres = 0.7 * random.standard_normal((max(20, rows // 200), latent), dtype=np.float32)

        def make(number: int) -> NDArray[np.float32]:
            near = centres[random.integers(0, len(centres), number)]
            meaning = near + random.standard_normal((number, latent), dtype=np.float32)
            vectors = meaning @ basis.astype(np.float32)
            vectors += 0.25 * random.standard_normal((number, dims), dtype=np.float32)
            unit: NDArray[np.float32] = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
            return unit

        self.dims = dims
        self.rows, self.queries = make(rows), make(queries)

    def embed(self, texts: Sequence[str]) -> list[list[float]]:
        """Embed texts of rows, and queries ``q0`` to ``q63``."""
        return [self._vector(text.partition(" ")[0]).tolist() for text in texts]

    def _vector(self, word: str) -> NDArray[np.float32]:
        vector: NDArray[np.float32] = self.queries[int(word[1:])] if word[0] == "q" else self.rows[int(word)]
        return vector

    def nearest(self, query: int, rows: NDArray[np.int64], k: int) -> set[int]:
        """Return the ``k`` of the rows that are nearest to a query, by looking at each."""
        scores = self.rows[rows].astype(np.float64) @ self.queries[query].astype(np.float64)
        return set(rows[np.argsort(-scores)[:k]].tolist())


def row_of(key: str) -> int:
    """Return the row that a key belongs to."""
    return int(key[1:])


def _vocabulary(number: int) -> list[str]:
    """Make words of two to four syllables, with an ending that no stemmer takes off."""
    syllables = [consonant + vowel for consonant in "bcdfghjklmnprstvz" for vowel in "aeiou"]
    random = np.random.default_rng(3)
    words: dict[str, None] = {}
    while len(words) < number:
        chosen = random.choice(len(syllables), random.integers(2, 5))
        words["".join(syllables[place] for place in chosen) + "k"] = None
    return list(words)
