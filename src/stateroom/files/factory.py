"""Backends that are made anew for each operation, by a function of the graph that is running."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any

from langgraph.runtime import get_runtime

from stateroom.errors import Misconfigured, NotSupported
from stateroom.files.backend import Backend
from stateroom.files.pairs import OPERATIONS, PairedBackend
from stateroom.files.protocol import BackendProtocol
from stateroom.files.running import config_of
from stateroom.model.text import show

__all__ = ["BackendFactory", "FactoryBackend", "RunningConfig"]


class RunningConfig(dict[str, Any]):
    """What a factory is called with: the configuration of the graph that is running, {} outside of one.

    It also has the attributes of LangGraph's ``Runtime``, such as ``context``, ``store`` and ``server_info``,
    and itself as ``config``.
    """

    @property
    def config(self) -> RunningConfig:
        """This configuration, as LangGraph's ``ToolRuntime`` has it."""
        return self

    def __getattr__(self, name: str) -> Any:
        try:
            runtime = get_runtime()
        except (RuntimeError, KeyError):
            runtime = None
        return getattr(runtime, name)


BackendFactory = Callable[[Any], BackendProtocol]


class FactoryBackend(PairedBackend):
    """A backend for which ``factory`` is asked at each operation: ``lambda config: StoreBackend(config)``.

    So a backend may depend on who is served. ``factory`` is called with a ``RunningConfig``.
    """

    def __init__(self, factory: BackendFactory) -> None:
        if isinstance(factory, BackendProtocol) or not callable(factory):
            raise Misconfigured(
                f"factory is {show(factory)}; pass a function that returns a backend",
                field="factory",
            )
        self._factory = factory

    def made(self) -> Any:
        """Return the backend for the graph that is running."""
        backend = self._factory(RunningConfig(config_of(None)))
        if not isinstance(backend, BackendProtocol):
            raise Misconfigured(
                f"factory returned {show(backend)}; it must return a backend, such as StoreBackend(config)",
                field="factory",
            )
        return backend


def _delegating(name: str) -> Callable[..., Any]:
    @wraps(getattr(Backend, name))
    def delegate(self: FactoryBackend, *args: Any, **kwargs: Any) -> Any:
        method = getattr(self.made(), name, None)
        if method is None:
            raise NotSupported(f"the backend that the factory makes has no {name}")
        return method(*args, **kwargs)

    return delegate


for _name in OPERATIONS:
    setattr(FactoryBackend, _name, _delegating(_name))
    setattr(FactoryBackend, f"a{_name}", _delegating(f"a{_name}"))
