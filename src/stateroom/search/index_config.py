"""The settings of an index: which parts of items are searched, and how."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, Literal, get_args

from stateroom.errors import InvalidIndex, Misconfigured
from stateroom.search.fields import WHOLE_VALUE, check_paths

__all__ = [
    "LOCAL",
    "MAX_DIMS",
    "MAX_HNSW_DIMS",
    "SOME_STORES",
    "DistanceType",
    "IndexSettings",
    "Mode",
    "VectorType",
    "check_index_keys",
    "check_known_dims",
    "known_dims",
    "parse_index_config",
]

DistanceType = Literal["cosine", "l2", "inner_product"]
VectorType = Literal["vector", "halfvec"]
Mode = Literal["auto", "text", "vector", "hybrid"]

LOCAL: Final = "local"
"""The ``embed`` setting that means the bundled embedder."""

SOME_STORES: Final = frozenset({"hnsw", "vector_type", "vector_cache_mb"})
"""Settings that only some stores have a use for."""

_SPELLED_ELSEWHERE: Final[Mapping[str, str]] = {
    "ann_index_config": (
        "write hnsw: True for its kind 'hnsw' (the default there) or nothing for 'flat', which is exact, and "
        "vector_type beside it; there is no ivfflat, and no m or ef_construction"
    ),
    "text_fields": "write fields",
}

MAX_DIMS: Final = 65_536
MAX_HNSW_DIMS: Final[Mapping[VectorType, int]] = {"vector": 2_000, "halfvec": 4_000}
"""pgvector builds HNSW indexes for so many dimensions and no more."""


@dataclass(frozen=True, slots=True)
class IndexSettings:
    """An index as configured; the defaults are those of a store without an ``index``: text search alone.

    ``dims`` and ``embed`` are both set or both None. ``min_score`` drops weaker hits of vector mode;
    ``vector_cache_mb`` bounds the memory, in MiB, of vectors held in process. ``index_config`` is what
    the caller passed, unchanged.
    """

    dims: int | None = None
    embed: Any = None
    fields: tuple[str, ...] = (WHOLE_VALUE,)
    distance_type: DistanceType = "cosine"
    hnsw: bool = False
    vector_type: VectorType = "vector"
    language: str = "english"
    text: bool = True
    mode: Mode = "auto"
    min_score: float | None = None
    vector_cache_mb: int = 512
    index_config: Mapping[str, Any] | None = field(default=None, compare=False, repr=False)

    @property
    def default_mode(self) -> Literal["text", "vector", "hybrid"] | None:
        """What a query means when the call names no mode; None if nothing can be searched by query."""
        if self.mode != "auto":
            return self.mode
        if self.embed is not None:
            return "vector"
        return "text" if self.text else None


def parse_index_config(
    config: Mapping[str, Any] | None, *, supports: frozenset[str] = frozenset()
) -> IndexSettings:
    """Check an ``index`` argument of a store and complete it with the defaults; None is text search alone.

    A setting that is None counts as absent. ``supports`` names those of ``SOME_STORES`` that mean
    something to the store. Raises ``Misconfigured`` (field ``index.<setting>``) for an
    unknown setting, a wrong value, and a setting that could have no effect.
    """
    if config is None:
        return IndexSettings()
    if not isinstance(config, Mapping):
        raise Misconfigured(
            f'index must be a mapping such as {{"embed": ..., "dims": ...}}, not {config!r}', field="index"
        )
    given = {name: value for name, value in config.items() if value is not None}
    for name in given:
        _check_name(name, supports)
    checked = {name: _CHECKS[name](f"index.{name}", value) for name, value in given.items()}
    settings = IndexSettings(**(_completed(checked) | {"index_config": config}))
    _check_dims(settings)
    _check_mode(settings)
    _check_effect(given, settings)
    return settings


def check_index_keys(index_keys: Sequence[str]) -> tuple[str, ...]:
    """Check the keys whose filters a store is asked to answer from an index; return them without repeats."""
    if isinstance(index_keys, str) or not isinstance(index_keys, Sequence):
        raise Misconfigured(
            f"index_keys must be a list of keys such as ['topic'], not {index_keys!r}", field="index_keys"
        )
    for position, key in enumerate(index_keys):
        if not isinstance(key, str):
            raise Misconfigured(
                f"index_keys[{position}] must be a string, not {key!r}", field=f"index_keys[{position}]"
            )
    return tuple(dict.fromkeys(index_keys))


def known_dims(embed: object) -> int | None:
    """Return how many numbers an embedder's vectors have, where that is known without calling it."""
    if embed == LOCAL:
        # It brings NumPy, which only those who have vectors are to wait for.
        from stateroom.search.local import DIMS

        return DIMS
    for name in ("dims", "dimensions"):
        dims = getattr(embed, name, None)
        if isinstance(dims, int) and not isinstance(dims, bool):
            return dims
    return None


def check_known_dims(embed: object, dims: int | None) -> None:
    """Raise ``Misconfigured`` if an embedder is known to make vectors of another size than ``dims``."""
    known = known_dims(embed)
    if known is not None and known != dims:
        raise Misconfigured(
            f"index.dims is {dims} but the embedder makes {known} numbers; set index.dims to {known}",
            field="index.dims",
        )


def _check_name(name: object, supports: frozenset[str]) -> None:
    label = f"index.{name}"
    if advice := _SPELLED_ELSEWHERE.get(str(name)):
        raise Misconfigured(f"{label} is another library's spelling: {advice}", field=label)
    if name not in _CHECKS:
        raise Misconfigured(
            f"{label} is not a setting; the settings are {', '.join(sorted(_CHECKS))}", field=label
        )
    if name in SOME_STORES and name not in supports:
        raise Misconfigured(f"{label} has no effect on this store; remove it", field=label)


def _completed(checked: dict[str, Any]) -> dict[str, Any]:
    """Add the defaults that depend on the embedder."""
    embed = checked.get("embed")
    if embed is None:
        return checked
    dims = known_dims(embed)
    defaults: dict[str, Any] = {} if dims is None else {"dims": dims}
    if embed == LOCAL and checked.get("text", True):
        defaults["mode"] = "hybrid"
    return defaults | checked


def _check_dims(settings: IndexSettings) -> None:
    dims, embed = settings.dims, settings.embed
    if embed is None and dims is not None:
        raise Misconfigured(
            "index.dims is set without index.embed, so nothing could make vectors; set both or none",
            field="index.embed",
        )
    if embed is not None and dims is None:
        raise Misconfigured(
            "index.dims is missing: set it to how many numbers the vectors of index.embed have",
            field="index.dims",
        )
    check_known_dims(embed, dims)
    if settings.hnsw and dims is not None and dims > MAX_HNSW_DIMS[settings.vector_type]:
        raise Misconfigured(
            f"index.hnsw allows {MAX_HNSW_DIMS[settings.vector_type]:,} dimensions for vector_type "
            f"{settings.vector_type!r} and index.dims is {dims:,}; "
            "use vector_type 'halfvec' (4,000), fewer dimensions, or hnsw false",
            field="index.hnsw",
        )


def _check_mode(settings: IndexSettings) -> None:
    mode = settings.mode
    if mode in ("vector", "hybrid") and settings.embed is None:
        raise Misconfigured(f"index.mode {mode!r} needs index.embed and index.dims", field="index.mode")
    if mode in ("text", "hybrid") and not settings.text:
        raise Misconfigured(f"index.mode {mode!r} contradicts index.text false", field="index.mode")


def _check_effect(given: Mapping[str, Any], settings: IndexSettings) -> None:
    """Refuse what only means something beside another setting that is not there."""
    if settings.embed is None:
        for name in ("distance_type", "min_score", *sorted(SOME_STORES)):
            if name in given:
                raise Misconfigured(
                    f"index.{name} is about vectors, and there are none without index.embed; remove it",
                    field=f"index.{name}",
                )
    if not settings.text and "language" in given:
        raise Misconfigured(
            "index.language is about text search, which index.text false turns off; remove one",
            field="index.language",
        )


def _dims(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= MAX_DIMS:
        raise Misconfigured(f"{name} must be an integer from 1 to {MAX_DIMS:,}, not {value!r}", field=name)
    return value


def _megabytes(name: str, value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise Misconfigured(f"{name} must be a number of MiB, 0 or more, not {value!r}", field=name)
    return value


def _finite(name: str, value: object) -> float:
    if not isinstance(value, (int, float)) or isinstance(value, bool) or not math.isfinite(value):
        raise Misconfigured(f"{name} must be a finite number, not {value!r}", field=name)
    return float(value)


def _embed(name: str, value: object) -> object:
    methods = ("embed_documents", "aembed_documents")
    if isinstance(value, type) or not (
        isinstance(value, str) or callable(value) or any(hasattr(value, method) for method in methods)
    ):
        raise Misconfigured(
            f"{name} must be a LangChain Embeddings instance, a function from texts to vectors, "
            f'"local", "provider:model" or "./file.py:name", not {value!r}',
            field=name,
        )
    return value


def _fields(name: str, value: object) -> tuple[str, ...]:
    try:
        paths = check_paths(value, name)
    except InvalidIndex as error:
        raise Misconfigured(str(error), field=error.field) from None
    if not paths:
        raise Misconfigured(f"{name} must name at least one path, or be left out", field=name)
    return paths


def _language(name: str, value: object) -> str:
    # Whether there is an analysis for it is known to the text side, which refuses it at start-up.
    if not isinstance(value, str) or not value:
        raise Misconfigured(f'{name} must be the name of a language, such as "english"', field=name)
    return value


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        raise Misconfigured(f"{name} must be true or false, not {value!r}", field=name)
    return value


def _one_of(choices: tuple[str, ...]) -> Callable[[str, object], str]:
    def check(name: str, value: object) -> str:
        if not isinstance(value, str) or value not in choices:
            raise Misconfigured(f"{name} must be one of {', '.join(choices)}, not {value!r}", field=name)
        return value

    return check


_CHECKS: Final[Mapping[str, Callable[[str, Any], Any]]] = {
    "dims": _dims,
    "embed": _embed,
    "fields": _fields,
    "distance_type": _one_of(get_args(DistanceType)),
    "hnsw": _flag,
    "vector_type": _one_of(get_args(VectorType)),
    "language": _language,
    "text": _flag,
    "mode": _one_of(get_args(Mode)),
    "min_score": _finite,
    "vector_cache_mb": _megabytes,
}
