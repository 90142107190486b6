"""What goes into checkpoints' metadata, as JSON for every database, and what a filter on it matches."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, Final

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import CheckpointMetadata, get_checkpoint_metadata

from stateroom.errors import InvalidFilter, InvalidValue, StateroomError
from stateroom.model.metadata import contains
from stateroom.model.private_keys import is_private
from stateroom.model.text import path_step, show

__all__ = ["PRIVATE_KEYS_KEY", "fits", "metadata_bytes", "public_parts", "wanted_metadata"]

PRIVATE_KEYS_KEY: Final = "__stateroom_private"
"""The key of ``config["configurable"]`` that holds the names of further keys whose values go nowhere."""

_UNSAFE = re.compile("[\0\ud800-\udfff]")


def metadata_bytes(config: RunnableConfig, metadata: CheckpointMetadata) -> bytes:
    """Return a checkpoint's metadata as JSON: LangGraph's own, and what is plain and public of the config.

    NUL characters and lone surrogates are left out, numbers that are not finite become null. A key
    ``writes``, which old releases wrote, is left out if JSON cannot hold it; for any other value that JSON
    cannot hold InvalidValue is raised.
    """
    found = dict(get_checkpoint_metadata(public_parts(config), metadata))
    plain = {}
    for key, value in found.items():
        try:
            plain[_text(key)] = _plain(value, f"metadata{path_step(key)}")
        except InvalidValue:
            if key != "writes":
                raise
    return json.dumps(plain, ensure_ascii=False, allow_nan=False).encode()


def public_parts(config: RunnableConfig) -> RunnableConfig:
    """Return what of a config may be kept: its metadata and its configurable, without what is private."""
    hidden = (config.get("configurable") or {}).get(PRIVATE_KEYS_KEY) or ()
    return {
        "metadata": _public(config.get("metadata"), hidden),
        "configurable": _public(config.get("configurable"), hidden),
    }


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


def _public(part: Any, hidden: Collection[str]) -> dict[str, Any]:
    return {key: value for key, value in (part or {}).items() if not (is_private(key) or key in hidden)}


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
