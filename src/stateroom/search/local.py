"""The local embedder: vectors from weights that a Python package carries, with no key and no network."""

from __future__ import annotations

import importlib.util
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

import numpy as np

from stateroom.errors import Misconfigured

if TYPE_CHECKING:
    from numpy.typing import NDArray
    from tokenizers import Tokenizer

__all__ = ["DIMS", "TEXT_LENGTH_MAX", "LocalEmbeddings"]

DIMS: Final = 256
"""Length of the local vectors."""

TEXT_LENGTH_MAX: Final = 100_000
"""Characters of a text that are embedded; the rest would hardly move the mean of so many words."""


class LocalEmbeddings:
    """Embeds texts with the weights that the ``wordllama`` package carries.

    It has the shape of LangChain's ``Embeddings``. Vectors have ``DIMS`` numbers and length 1, so
    that cosine and inner product agree. A text is the mean of its tokens: the order of words does not
    count. The weights (32 MB) are loaded with the first text, once per process. Methods may be called
    from any thread.

    Raises ``Misconfigured`` (field ``index.embed``) when ``wordllama`` is not installed.
    """

    dims = DIMS

    def __init__(self) -> None:
        self._folder = _folder()

    def embed_array(self, texts: Sequence[str]) -> NDArray[np.float32]:
        """Return the vectors of the texts, one a row: float32 of shape ``(len(texts), DIMS)``.

        An empty text gets the vector of a blank: one like any other, so that no back end meets a
        zero, which has no direction.
        """
        vectors = np.empty((len(texts), DIMS), dtype=np.float32)
        if texts:
            tokenizer, table = _model(self._folder)
            for start in range(0, len(texts), _BATCH):
                chunk = [text[:TEXT_LENGTH_MAX] or " " for text in texts[start : start + _BATCH]]
                for row, encoding in enumerate(tokenizer.encode_batch_fast(chunk, add_special_tokens=False)):
                    vectors[start + row] = _direction(np.asarray(encoding.ids), table)
        return vectors

    def embed_documents(self, texts: list[str]) -> list[list[float]]:
        """Return the vectors of the texts as lists of ``DIMS`` floats."""
        vectors: list[list[float]] = self.embed_array(texts).tolist()
        return vectors

    def embed_query(self, text: str) -> list[float]:
        """Return the vector of a query, made as that of a document is."""
        return self.embed_documents([text])[0]


_BATCH: Final = 256
_TOKENIZER: Final = "tokenizers/l2_supercat_tokenizer_config.json"
_WEIGHTS: Final = "weights/l2_supercat_256.safetensors"
_TENSOR: Final = "embedding.weight"

_loading = threading.Lock()
_loaded: dict[Path, tuple[Tokenizer, NDArray[np.float32]]] = {}


def _folder() -> Path:
    # The package is found but not imported: its files are all that is needed, and its import sets
    # up logging for the whole process and brings a downloader.
    spec = importlib.util.find_spec("wordllama")
    for folder in map(Path, spec.submodule_search_locations or () if spec else ()):
        if (folder / _TOKENIZER).is_file() and (folder / _WEIGHTS).is_file():
            return folder
    raise Misconfigured(
        'index.embed is "local", and the weights it needs are not installed. '
        'Run: pip install "stateroom[local]".',
        field="index.embed",
    )


def _model(folder: Path) -> tuple[Tokenizer, NDArray[np.float32]]:
    with _loading:
        if folder not in _loaded:
            from safetensors.numpy import load_file
            from tokenizers import Tokenizer

            table = load_file(folder / _WEIGHTS)[_TENSOR].astype(np.float32)
            tokenizer = Tokenizer.from_file(str(folder / _TOKENIZER))
            tokenizer.no_padding()
            tokenizer.no_truncation()
            _loaded[folder] = tokenizer, table
        return _loaded[folder]


def _direction(tokens: NDArray[np.int64], table: NDArray[np.float32]) -> NDArray[np.float32]:
    # Counting first bounds the memory of a long text by the vocabulary.
    distinct, counts = np.unique(tokens, return_counts=True)
    total = counts.astype(np.float32) @ table[distinct]
    return np.asarray(total / np.linalg.norm(total), dtype=np.float32)
