"""What a caller's ``config`` may hold, and which of it may be kept with a run."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Any, Final

from stateroom.errors import InvalidInput
from stateroom.model.private_keys import is_private
from stateroom.model.text import path_step, show

__all__ = ["CONFIG_KEYS", "chosen_headers", "is_servers", "split_config"]

CONFIG_KEYS: Final = ("tags", "metadata", "run_name", "max_concurrency", "recursion_limit", "configurable")
"""What a ``config`` may hold."""

_SERVERS: Final = frozenset(
    {
        *("thread_id", "run_id", "graph_id", "assistant_id"),
        *("checkpoint_id", "checkpoint_ns", "checkpoint_map"),
    }
)


def is_servers(key: str) -> bool:
    """Tell whether a key of a configurable is the server's to set: what a caller says there is dropped.

    ``RemoteGraph`` sends such keys along, so they are no mistake of the caller's.
    """
    return key in _SERVERS or key.startswith(("__", "langgraph_auth_"))


def split_config(config: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a config without what may not be kept, and the values of its configurable that may not.

    Those are the values of keys that name credentials or begin with ``_``. Raises InvalidInput.
    """
    for key, value in config.items():
        if key not in CONFIG_KEYS:
            raise InvalidInput(
                f"config{path_step(key)} is not known; use {', '.join(CONFIG_KEYS)}",
                field=f"config{path_step(key)}",
            )
        if value is not None:
            _check(key, value)
    configurable = config.get("configurable") or {}
    own = {key: value for key, value in configurable.items() if not is_servers(key)}
    public = {key: value for key, value in config.items() if value is not None and key != "configurable"}
    if kept := {key: value for key, value in own.items() if not is_private(key)}:
        public["configurable"] = kept
    return public, {key: value for key, value in own.items() if is_private(key)}


def chosen_headers(
    headers: Mapping[str, str], *, includes: tuple[str, ...], excludes: tuple[str, ...]
) -> dict[str, str]:
    """Return the headers, their names in lower case, that a pattern includes and none excludes."""
    lower = {name.lower(): value for name, value in headers.items()}
    return {name: value for name, value in lower.items() if _any(name, includes) and not _any(name, excludes)}


def _any(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, pattern.lower()) for pattern in patterns)


def _check(key: str, value: Any) -> None:
    fits, wanted = _SHAPES[key]
    if not fits(value):
        raise InvalidInput(f"config.{key} is {show(value)}; pass {wanted}", field=f"config.{key}")


def _is_object(value: Any) -> bool:
    return isinstance(value, Mapping)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _is_texts(value: Any) -> bool:
    return isinstance(value, list | tuple) and all(isinstance(one, str) for one in value)


_SHAPES: Final = {
    "tags": (_is_texts, "a list of texts"),
    "metadata": (_is_object, "an object"),
    "run_name": (lambda value: isinstance(value, str), "a text"),
    "max_concurrency": (_is_count, "a whole number from 1"),
    "recursion_limit": (_is_count, "a whole number of steps from 1"),
    "configurable": (_is_object, "an object"),
}
