"""The config that a graph is given for one attempt at a run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.metadata import version
from typing import Any, Final
from uuid import UUID

from langchain_core.runnables import RunnableConfig
from langchain_core.tracers.langchain import LangChainTracer
from typing_extensions import override

from stateroom.model.assistant import Assistant
from stateroom.model.private_keys import is_private
from stateroom.model.run import Run
from stateroom.model.run_kwargs import RunKwargs, RunPrivate
from stateroom.savers.attempts import ATTEMPT_KEY
from stateroom.savers.metadata import PRIVATE_KEYS_KEY

__all__ = ["AuthUser", "public_config", "run_config"]

CHECKPOINT_KEYS: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")
"""What of a config's configurable says from which checkpoint a run starts."""

_STRICT_RESUME: Final = "__pregel_strict_resume"
_LANGGRAPH: Final = version("langgraph")


class AuthUser(Mapping[str, Any]):
    """The authenticated caller as users' code meets him: ``identity`` and all else as attributes and keys.

    Its text shows the identity alone, since the rest may be a token.
    """

    def __init__(self, user: Mapping[str, Any]) -> None:
        usual: dict[str, Any] = {
            "is_authenticated": True,
            "display_name": user.get("identity"),
            "permissions": [],
        }
        self._user = {**usual, **user}

    @override
    def __getitem__(self, key: str) -> Any:
        return self._user[key]

    @override
    def __iter__(self) -> Iterator[str]:
        return iter(self._user)

    @override
    def __len__(self) -> int:
        return len(self._user)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_") or name not in self._user:
            raise AttributeError(f"the authenticated user has no {name!r}")
        return self._user[name]

    @override
    def __repr__(self) -> str:
        return f"AuthUser(identity={self._user.get('identity')!r})"


def run_config(
    run: Run, assistant: Assistant, kwargs: RunKwargs, private: RunPrivate, *, forks: bool
) -> RunnableConfig:
    """Return the config of an attempt: the assistant's, the run's over it, and what the server says.

    ``forks``: it starts from the checkpoint that the run names, and not from where its thread is.
    """
    found = _merged(assistant.config, kwargs.config)
    found["configurable"] = {
        **found["configurable"],
        **private.configurable,
        **_system(run, assistant, private),
        PRIVATE_KEYS_KEY: frozenset(private.configurable),
    }
    if kwargs.strict_resume:
        found["configurable"][_STRICT_RESUME] = True
    if forks:
        named = kwargs.checkpoint or {}
        found["configurable"].update({key: named[key] for key in CHECKPOINT_KEYS if named.get(key)})
    found["metadata"] = {**found["metadata"], **run.metadata, **_described(run, assistant)}
    found["run_id"] = UUID(run.run_id)
    if kwargs.tracer:
        found["callbacks"] = [_tracer(kwargs.tracer)]
    return found  # type: ignore[return-value]  # a TypedDict, whose keys these are


def public_config(run: Run, assistant: Assistant, kwargs: RunKwargs) -> dict[str, Any]:
    """Return what of the config may be shown with the thread; it is JSON."""
    found = _merged(assistant.config, kwargs.config)
    public = {key: value for key, value in found["configurable"].items() if not is_private(key)}
    found["configurable"] = {**public, **_named(run, assistant)}
    return {key: value for key, value in found.items() if value}


def _merged(below: Mapping[str, Any], above: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two configs as LangGraph does, and what is no key of a config into configurable."""
    found: dict[str, Any] = {"tags": [], "metadata": {}, "configurable": {}}
    for config in (below, above):
        for key, value in config.items():
            if value is None or key in ("callbacks", "run_id"):
                continue
            if key == "tags":
                found["tags"] = [*found["tags"], *(tag for tag in value if tag not in found["tags"])]
            elif key in ("metadata", "configurable"):
                found[key] = {**found[key], **value}
            elif key in ("recursion_limit", "max_concurrency", "run_name"):
                found[key] = value
            else:
                found["configurable"] = {**found["configurable"], key: value}
    return found


def _named(run: Run, assistant: Assistant) -> dict[str, Any]:
    return {
        "thread_id": run.thread_id,
        "run_id": run.run_id,
        "graph_id": assistant.graph_id,
        "assistant_id": run.assistant_id,
    }


def _system(run: Run, assistant: Assistant, private: RunPrivate) -> dict[str, Any]:
    """Return what only the server may say in configurable."""
    found = {**_named(run, assistant), ATTEMPT_KEY: run.lease}
    if private.user is not None:
        found["langgraph_auth_user"] = AuthUser(private.user)
        found["langgraph_auth_user_id"] = private.user.get("identity")
        found["langgraph_auth_permissions"] = list(private.user.get("permissions") or ())
    return found


def _described(run: Run, assistant: Assistant) -> dict[str, Any]:
    """Return what traces and streams say of a run."""
    found = {**_named(run, assistant), "run_attempt": run.attempt, "langgraph_version": _LANGGRAPH}
    if "created_by" in assistant.metadata:
        found["created_by"] = assistant.metadata["created_by"]
    return found


def _tracer(named: Mapping[str, Any]) -> LangChainTracer:
    return LangChainTracer(project_name=named.get("project_name"), example_id=named.get("example_id"))
