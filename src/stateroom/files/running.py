"""What the graph that is running says of itself: its configuration, its store, who it is run for."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, TypeAlias

from langgraph.config import get_config, get_store
from langgraph.runtime import get_runtime
from langgraph.store.base import BaseStore

from stateroom.errors import InvalidNamespace, Misconfigured, OutsideGraph
from stateroom.model.namespace import check_namespace
from stateroom.model.text import show

__all__ = ["FILESYSTEM", "NamespaceSource", "config_of", "namespace_of", "store_of"]

NamespaceSource: TypeAlias = Sequence[str] | Callable[[Any], Sequence[str]] | None
"""A namespace, or what makes one of the runtime of the graph that is running (None: there is none)."""

FILESYSTEM: Final = "filesystem"
"""The last label of the namespace of an assistant's files."""

_WILDCARDS: Final = frozenset("*?[]{}")


def namespace_of(source: NamespaceSource, given: Any) -> tuple[str, ...]:
    """Return where files are, as asked or else ``(assistant_id, "filesystem")``.

    Without an assistant it is ``("filesystem",)``. Labels with ``* ? [ ] { }`` are refused, since a store
    may take them for patterns.
    """
    if callable(source):
        labels = _made(source)
    elif source is None:
        assistant = _assistant_id(given)
        labels = (FILESYSTEM,) if assistant is None else (assistant, FILESYSTEM)
    else:
        labels = source
    return _checked(labels)


def store_of(given: Any) -> BaseStore:
    """Return the store of the graph that is running, or of the runtime that a factory was given."""
    store = getattr(given, "store", None)
    if store is None:
        try:
            store = get_store()
        except (RuntimeError, KeyError):
            store = None
    if store is None:
        raise OutsideGraph(
            "store: there is none. Use StoreBackend inside a LangGraph graph execution, of a graph that was "
            "compiled with store=..., or pass one: StoreBackend(store=my_store)",
            field="store",
        )
    return store


def config_of(given: Any) -> Mapping[str, Any]:
    """Return the configuration of the graph that is running, {} outside of one.

    ``given`` is what a factory is called with: a configuration, or a runtime that has one.
    """
    if isinstance(given, Mapping):
        return given
    own = getattr(given, "config", None)
    if isinstance(own, Mapping):
        return own
    try:
        return get_config()
    except RuntimeError:
        return {}


def _assistant_id(given: Any) -> str | None:
    for runtime in (given, _runtime()):
        server = getattr(runtime, "server_info", None)
        if server is not None and server.assistant_id:
            return str(server.assistant_id)
    config = config_of(given)
    for part in ("configurable", "metadata"):
        if assistant := (config.get(part) or {}).get("assistant_id"):
            return str(assistant)
    return None


def _runtime() -> Any:
    try:
        return get_runtime()
    except (RuntimeError, KeyError):
        return None


def _made(source: Callable[[Any], Sequence[str]]) -> Sequence[str]:
    runtime = _runtime()
    try:
        return source(runtime)
    except AttributeError as error:
        if runtime is not None:
            raise
        raise OutsideGraph(
            "namespace: it reads the runtime, and here is none, outside a LangGraph graph execution; use the "
            "backend in a graph, or pass a namespace that needs no runtime",
            field="namespace",
        ) from error


def _checked(labels: Any) -> tuple[str, ...]:
    if isinstance(labels, str) or not isinstance(labels, Sequence):
        raise Misconfigured(
            f"namespace is {show(labels)}; pass a tuple of labels, as ('ana', 'filesystem')",
            field="namespace",
        )
    namespace = check_namespace(labels)
    if not namespace:
        raise InvalidNamespace("namespace must not be empty; name at least one label", field="namespace")
    for place, label in enumerate(namespace):
        if not _WILDCARDS.isdisjoint(label):
            raise InvalidNamespace(
                f"namespace[{place}] is {show(label)}, which has disallowed characters: leave * ? [ ] {{ }} "
                "out, since a store may take them for a pattern",
                field="namespace",
            )
    return namespace
