"""What pgvector's types and operators are called in one database, and how vectors are sent there."""

from __future__ import annotations

import re
from typing import Any, Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from stateroom.drivers.postgres.arrays import Sent
from stateroom.errors import LimitExceeded
from stateroom.search.index_config import DistanceType, VectorType

__all__ = [
    "HALFVEC_GREATEST",
    "MAX_COLUMN_DIMS",
    "Dialect",
    "encoded",
    "encoded_array",
    "parse_version",
    "quoted",
    "rounded",
]

MAX_COLUMN_DIMS: Final = 16_000
"""pgvector's columns hold vectors of so many numbers and no more."""

HALFVEC_GREATEST: Final = float(np.finfo(np.float16).max)

_NUMBERS: Final = {"vector": ">f4", "halfvec": ">f2"}
_DISTANCES: Final = {"cosine": "<=>", "l2": "<->", "inner_product": "<#>"}
_COSINE_STEPS: Final = "1e12::float8"
_OPCLASSES: Final = {"cosine": "cosine_ops", "l2": "l2_ops", "inner_product": "ip_ops"}


class Dialect(NamedTuple):
    """How statements spell pgvector's names: ``schema`` is the quoted one of the extension.

    ``oid`` is the number of the vector type.
    """

    schema: str
    vector_type: VectorType
    distance_type: DistanceType
    oid: int
    version: tuple[int, ...]

    @property
    def type(self) -> str:
        """The type of vectors."""
        return f"{self.schema}.{self.vector_type}"

    @property
    def opclass(self) -> str:
        """The class of operators of an HNSW index for the metric."""
        return f"{self.schema}.{self.vector_type}_{_OPCLASSES[self.distance_type]}"

    @property
    def distance(self) -> str:
        """How far ``v.embedding`` is from the parameter ``query``, in the form that an index answers."""
        operator = _DISTANCES[self.distance_type]
        return f"v.embedding operator({self.schema}.{operator}) %(query)s::{self.type}"

    def score(self, distance: str) -> str:
        """Return the score that a distance comes to."""
        if self.distance_type == "cosine":
            # Parallel vectors differ in the last bits, and would be no tie. Zero ones have no distance.
            return (
                f"coalesce(nullif(round((1 - ({distance})) * {_COSINE_STEPS}) / {_COSINE_STEPS}, 'NaN'), 0)"
            )
        return f"-({distance})"


def parse_version(text: str) -> tuple[int, ...]:
    """Return the numbers of an extension's version."""
    return tuple(int(number) for number in re.findall(r"\d+", text))


def quoted(name: str) -> str:
    """Return a name as a statement spells it."""
    return '"' + name.replace('"', '""') + '"'


def rounded(vectors: NDArray[Any], vector_type: VectorType) -> NDArray[Any]:
    """Return vectors as numbers of the column's type; raise ``LimitExceeded`` for what is too large."""
    with np.errstate(over="ignore"):
        numbers = vectors.astype(_NUMBERS[vector_type])
    if not np.isfinite(numbers).all():
        raise LimitExceeded(
            f"index.embed made a number beyond {HALFVEC_GREATEST:,.0f}, the greatest that index.vector_type "
            f"{vector_type!r} holds; use vector_type 'vector'",
            field="index.vector_type",
        )
    return numbers


def encoded(vector: NDArray[Any], vector_type: VectorType) -> Sent:
    """Return the parameter for one vector of shape ``(dims,)``."""
    return Sent(_header(len(vector)) + rounded(vector, vector_type).tobytes())


def encoded_array(numbers: NDArray[Any], oid: int) -> Sent:
    """Return the parameter for an array of vectors, one in each row of what ``rounded`` returned."""
    count, dims = numbers.shape
    width = 4 + dims * numbers.itemsize
    elements = np.empty((count, 4 + width), np.uint8)
    elements[:, :4] = np.array([width], ">i4").view(np.uint8)
    elements[:, 4:8] = np.frombuffer(_header(dims), np.uint8)
    elements[:, 8:] = np.ascontiguousarray(numbers).view(np.uint8).reshape(count, -1)
    # One dimension, no nulls, the type of elements, their number, and the first one's index.
    header = np.array([1, 0, oid, count, 1], ">u4").tobytes()
    return Sent(header + elements.tobytes())


def _header(dims: int) -> bytes:
    return np.array([dims, 0], ">i2").tobytes()
