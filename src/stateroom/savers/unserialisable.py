"""Which part of a value cannot be serialised, so that an error can name it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

from langgraph.checkpoint.serde.base import SerializerProtocol

from stateroom.errors import InvalidValue
from stateroom.model.text import path_step, show

__all__ = ["refusal"]

DEPTH_MAX = 100
"""How deep the culprit is looked for; a value that holds itself has no bottom."""


def refusal(serde: SerializerProtocol, value: Any, channel: str, error: Exception) -> InvalidValue:
    """Return the error for a channel's value that ``serde`` refuses; its field is the path to the culprit."""
    path, culprit = _culprit(serde, value, channel)
    message = (
        f"channel {channel!r}: {path} is {show(culprit)} of type {type(culprit).__qualname__}, which cannot "
        f"be serialised ({error}); keep plainer values in the state, or pass the saver a serde that takes it"
    )
    return InvalidValue(message, field=path)


def _culprit(serde: SerializerProtocol, value: Any, path: str) -> tuple[str, Any]:
    for _ in range(DEPTH_MAX):
        bad = next(((step, part) for step, part in _parts(value) if not _serialises(serde, part)), None)
        if bad is None:
            break
        path, value = path + bad[0], bad[1]
    return path, value


def _serialises(serde: SerializerProtocol, value: Any) -> bool:
    try:
        serde.dumps_typed(value)
    except Exception:  # serialisers raise what they like
        return False
    return True


def _parts(value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the parts of a value, each with the step to it."""
    if isinstance(value, Mapping):
        for key, part in value.items():
            yield path_step(key if isinstance(key, str | int) else str(key)), part
    elif isinstance(value, list | tuple | set | frozenset):
        for number, part in enumerate(value):
            yield path_step(number), part
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        for field in dataclasses.fields(value):
            yield path_step(field.name), getattr(value, field.name, None)
    else:
        for name, part in vars(value).items() if hasattr(value, "__dict__") else ():
            yield path_step(name), part
