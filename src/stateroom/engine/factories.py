"""Functions that make a graph for each use of it: what they may ask for, and how they are called."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import (
    AbstractAsyncContextManager,
    AbstractContextManager,
    AsyncExitStack,
    asynccontextmanager,
)
from dataclasses import dataclass, is_dataclass
from typing import Any, Final, Literal, TypeAlias, get_args, get_origin

from langchain_core.runnables import RunnableConfig
from langgraph.graph import StateGraph
from langgraph.pregel import Pregel
from langgraph.store.base import BaseStore
from langgraph_sdk import runtime as sdk
from pydantic import BaseModel

from stateroom.engine.run_config import AuthUser
from stateroom.errors import Misconfigured
from stateroom.model.text import show

__all__ = ["FORMS", "Access", "Call", "Factory", "compiled"]

FORMS: Final = (
    "a compiled graph, a StateGraph, or a function or an (async) context manager that gives one and takes"
    " nothing, config, runtime (a ServerRuntime) or both"
)
"""What may be served as a graph, for messages."""

Access: TypeAlias = Literal["threads.create_run", "threads.update", "threads.read", "assistants.read"]
"""Why a graph is opened: to execute it, to write a state, to read one, or to describe it."""

_Role = Literal["config", "runtime"]

_BY_NAME: Final[Mapping[str, _Role]] = {"config": "config", "runtime": "runtime"}

# What an annotation says that asks for one; as text where it cannot be evaluated.
_RUNTIMES: Final = (sdk.ServerRuntime, sdk._ExecutionRuntime, sdk._ReadRuntime)


@dataclass(frozen=True, slots=True)
class Call:
    """What a factory may be told of the use that its graph is made for.

    ``user`` is an object with an ``identity`` or a mapping, None without authentication. ``context`` is the
    run's, as the caller gave it.
    """

    access: Access
    config: RunnableConfig
    store: BaseStore
    user: Any = None
    context: Any = None


class Factory:
    """A function, class or callable object that gives a graph, a StateGraph, or a manager of either.

    Plain functions and managers are called where the graph is opened, on the loop that it will run on, and
    not on a thread: what they make may be for this loop. Raises ``Misconfigured`` if ``make`` needs what no
    server gives.
    """

    def __init__(self, make: Callable[..., Any], name: str, *, field: str) -> None:
        self._make, self._name, self._field = make, name, field
        if inspect.isgeneratorfunction(make) or inspect.isasyncgenfunction(make):
            raise Misconfigured(
                f"{name} is a generator; decorate it with contextlib.asynccontextmanager (or contextmanager)",
                field=field,
            )
        self._roles = dict(self._find_roles())

    @asynccontextmanager
    async def open(self, call: Call) -> AsyncIterator[Pregel[Any, Any, Any, Any]]:
        """Make a graph, and release in the end what was opened for it.

        What goes wrong meanwhile is always raised, even if a context manager swallows it: a run that failed
        must not look as if it had not.
        """
        failure: BaseException | None = None
        async with AsyncExitStack() as stack:
            graph = await self._made(call, stack)
            try:
                yield graph
            except BaseException as error:
                failure = error
                raise
        if failure is not None:
            raise failure

    async def _made(self, call: Call, stack: AsyncExitStack) -> Pregel[Any, Any, Any, Any]:
        args, options = self._arguments(call)
        found = self._make(*args, **options)
        if inspect.isawaitable(found):
            found = await found
        if isinstance(found, AbstractAsyncContextManager):
            found = await stack.enter_async_context(found)
        elif isinstance(found, AbstractContextManager):
            found = stack.enter_context(found)
        graph = compiled(found, self._name, field=self._field)
        if graph is None:
            raise Misconfigured(f"{self._name} gives {show(found)}; make it {FORMS}", field=self._field)
        return graph

    def _arguments(self, call: Call) -> tuple[list[Any], dict[str, Any]]:
        """Return what to call the function with."""
        args, options = [], {}
        for parameter, role in self._roles.items():
            value = _config(call) if role == "config" else _runtime(call, parameter.annotation)
            if parameter.kind is inspect.Parameter.POSITIONAL_ONLY:
                args.append(value)
            else:
                options[parameter.name] = value
        return args, options

    def _find_roles(self) -> Iterator[tuple[inspect.Parameter, _Role]]:
        """Tell what each parameter is for that a server fills."""
        unknown = []
        taken = set()
        for parameter in _parameters(self._make):
            role = _role(parameter)
            if role is not None and role not in taken:
                taken.add(role)
                yield parameter, role
            elif parameter.default is inspect.Parameter.empty:
                unknown.append(parameter)
        if len(unknown) == 1 and "config" not in taken:
            # Whatever its name: before there was a runtime, a factory took the config and nothing else.
            yield unknown.pop(), "config"
        if unknown:
            names = ", ".join(parameter.name for parameter in unknown)
            raise Misconfigured(
                f"{self._name} needs {names}; a factory takes nothing, config, runtime, or both",
                field=self._field,
            )


def compiled(found: object, name: str, *, field: str) -> Pregel[Any, Any, Any, Any] | None:
    """Return a graph, compiled if it is not yet; None for anything else."""
    if isinstance(found, Pregel):
        return found
    if not isinstance(found, StateGraph):
        return None
    try:
        return found.compile()
    except Exception as error:
        raise Misconfigured(
            f"{name} does not compile: {type(error).__name__}: {error}", field=field
        ) from error


def _parameters(make: Callable[..., Any]) -> list[inspect.Parameter]:
    """Return the parameters that can be filled, with their annotations evaluated if that is possible."""
    try:
        signature = inspect.signature(make, eval_str=True)
    except Exception:  # what only type checkers import is not there, and an annotation may raise anything
        try:
            signature = inspect.signature(make)
        except (TypeError, ValueError):
            # Some callables that are written in C do not say.
            return []
    variable = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return [parameter for parameter in signature.parameters.values() if parameter.kind not in variable]


def _role(parameter: inspect.Parameter) -> _Role | None:
    """Tell what a parameter is for, by its annotation, else by its name."""
    parts = _parts(parameter.annotation)
    if any(part in _RUNTIMES or (isinstance(part, str) and "ServerRuntime" in part) for part in parts):
        return "runtime"
    if any(part is RunnableConfig or (isinstance(part, str) and "RunnableConfig" in part) for part in parts):
        return "config"
    return _BY_NAME.get(parameter.name)


def _parts(annotation: Any) -> list[Any]:
    """Return an annotation and whatever it is made of, without their parameters."""
    inner = [part for argument in get_args(annotation) for part in _parts(argument)]
    return [get_origin(annotation) or annotation, *inner]


def _config(call: Call) -> RunnableConfig:
    """Return the config for a factory, which may change it."""
    return {**call.config, "configurable": dict(call.config.get("configurable", {}))}


def _runtime(call: Call, annotation: Any) -> object:
    """Return what ``ServerRuntime`` promises a factory."""
    raw = isinstance(call.user, Mapping) and not isinstance(call.user, AuthUser)
    user = AuthUser(call.user) if raw else call.user
    common: dict[str, Any] = {"access_context": call.access, "user": user, "store": call.store}
    if call.access != "threads.create_run":
        return sdk._ReadRuntime(**common)
    return sdk._ExecutionRuntime(**common, context=_context(call.context, annotation))


def _context(context: Any, annotation: Any) -> Any:
    """Return a run's context as the type that ``ServerRuntime[...]`` names, as LangGraph does for nodes."""
    for wanted in get_args(annotation):
        made = isinstance(wanted, type) and (issubclass(wanted, BaseModel) or is_dataclass(wanted))
        if made and isinstance(context, Mapping):
            return wanted(**context)
    return context
