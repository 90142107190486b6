"""Backends that are made anew for each operation, by a function of the graph that is running."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from langgraph.runtime import get_runtime
from typing_extensions import override

from stateroom.errors import Misconfigured, NotSupported
from stateroom.files.backend import Backend
from stateroom.files.calls import lacks, takes
from stateroom.files.protocol import BackendProtocol
from stateroom.files.running import config_of
from stateroom.model.text import show

__all__ = ["BackendFactory", "FactoryBackend", "RunningConfig"]

R = TypeVar("R")


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


class FactoryBackend(Backend):
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

    @override
    def _perform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        method, known = self._method(name, name, options)
        return method(*args, **known)  # type: ignore[no-any-return]  # what the backend answers

    @override
    async def _aperform(self, kind: type[R], name: str, /, *args: Any, **options: Any) -> R:
        method, known = self._method(name, f"a{name}", options)
        return await method(*args, **known)  # type: ignore[no-any-return]

    def _method(self, name: str, form: str, options: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Return a method of the backend that the factory makes, and those of the options that it takes."""
        backend = self.made()
        if lacks(backend, form):
            raise NotSupported(f"the backend that the factory makes has no {form}")
        return getattr(backend, form), {
            option: value for option, value in options.items() if takes(backend, name, option)
        }
