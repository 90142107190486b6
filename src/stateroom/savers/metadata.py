"""What goes into checkpoints' metadata, as JSON for every database, and what a filter on it matches."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_checkpoint_metadata

from stateroom.errors import InvalidFilter, InvalidValue, StateroomError
from stateroom.model.metadata import contains
from stateroom.model.text import path_step, show

__all__ = ["fits", "is_private", "metadata_bytes", "wanted_metadata"]

_PRIVATE_WORDS: Final = frozenset(
    {
        *("auth", "authorization", "apikey", "bearer", "cookie", "cookies", "credential", "credentials"),
        *("jwt", "passphrase", "passwd", "password", "secret", "secrets", "token"),
    }
)

_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")

_UNSAFE = re.compile("[\0\ud800-\udfff]")


def is_private(key: str) -> bool:
    """Tell whether a key of a config stays out of metadata: ``_any``, or one that names a credential.

    A credential is named by a word such as auth, token, secret, password, jwt, or by api key.
    """
    words = [word.lower() for word in _WORD.findall(key)]
    pairs = {first + second for first, second in pairwise(words)}
    return key.startswith("_") or not _PRIVATE_WORDS.isdisjoint({*words, *pairs})


def metadata_bytes(config: RunnableConfig, metadata: CheckpointMetadata) -> bytes:
    """Return a checkpoint's metadata as JSON: LangGraph's own, and what is plain and public of the config.

    NUL characters and lone surrogates are left out, numbers that are not finite become null. A key
    ``writes``, which old releases wrote, is left out if JSON cannot hold it; for any other value that JSON
    cannot hold InvalidValue is raised.
    """
    public = {key: _public(config.get(key)) for key in ("metadata", "configurable")}
    found = dict(get_checkpoint_metadata(public, metadata))  # type: ignore[arg-type]  # two keys of a config
    plain = {}
    for key, value in found.items():
        try:
            plain[_text(key)] = _plain(value, f"metadata{path_step(key)}")
        except InvalidValue:
            if key != "writes":
                raise
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()


def wanted_metadata(wanted: Mapping[str, Any] | None) -> dict[str, Any]:
    """Return a filter as plain JSON; raise InvalidFilter for what no metadata can hold."""
    try:
        return {_text(key): _plain(value, f"filter{path_step(key)}") for key, value in (wanted or {}).items()}
    except StateroomError as error:
        raise InvalidFilter(str(error), field=error.field) from error


def fits(metadata: Mapping[str, Any], wanted: Mapping[str, Any]) -> bool:
    """Tell whether metadata have what is wanted: equal values, objects contained, None also if missing."""
    return all(
        metadata.get(key) is None if value is None else contains(metadata, {key: value})
        for key, value in wanted.items()
    )


def _public(part: Any) -> dict[str, Any]:
    return {key: value for key, value in (part or {}).items() if not is_private(key)}


def _plain(value: Any, path: str) -> Any:
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, bool | int | None):
        return value
    if isinstance(value, float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(part, path + path_step(str(key))) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part, path + path_step(number)) for number, part in enumerate(value)]
    raise InvalidValue(f"{path} is {show(value)}, which JSON cannot hold; leave it out", field=path)


def _text(text: str) -> str:
    return _UNSAFE.sub("", text)
