"""Reads what the environment says, and puts the layers of settings on top of each other."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final, NamedTuple

from stateroom.boot.langgraph_json import read_project
from stateroom.boot.sections import LIMITS, Layer, number
from stateroom.errors import Misconfigured
from stateroom.model.text import show
from stateroom.settings import HttpSettings, Limits, Settings

__all__ = [
    "PREFIX",
    "VARIABLES",
    "Configuration",
    "Variable",
    "configure",
    "read_environment",
    "settings_from",
]

PREFIX: Final = "STATEROOM_"


class Variable(NamedTuple):
    """A setting of the environment: its names, the first that is set counts, and the field that it sets."""

    names: tuple[str, ...]
    field: str
    read: Callable[[str, str], Any]


def _text(_: str, value: str) -> str:
    return value


def _flag(name: str, value: str) -> bool:
    words = {"true": True, "1": True, "yes": True, "false": False, "0": False, "no": False}
    if value.lower() not in words:
        raise Misconfigured(f"{name} is {show(value)}; write true or false", field=name)
    return words[value.lower()]


def _one_of(*choices: str) -> Callable[[str, str], str]:
    def read(name: str, value: str) -> str:
        if value not in choices:
            raise Misconfigured(f"{name} is {show(value)}; write one of {', '.join(choices)}", field=name)
        return value

    return read


def _number(kind: type[int] | type[float], low: float, high: float) -> Callable[[str, str], Any]:
    def read(name: str, value: str) -> Any:
        try:
            found: object = kind(value)
        except ValueError:
            found = value
        return number(found, kind, low, high, field=name)

    return read


def _limit(field: str, *names: str) -> Variable:
    return Variable(names, f"limits.{field}", _number(*LIMITS[field]))


_ADDRESS: Final = Variable(
    ("STATEROOM_POSTGRES_URI", "POSTGRES_URI", "DATABASE_URI", "DATABASE_URL"), "postgres_uri", _text
)

VARIABLES: Final = (
    Variable(("STATEROOM_STORAGE",), "storage", _one_of("memory", "sqlite", "postgres")),
    Variable(("STATEROOM_PATH",), "sqlite_path", _text),
    Variable(("STATEROOM_SYNCHRONOUS",), "synchronous", _one_of("NORMAL", "FULL")),
    _ADDRESS,
    Variable(("STATEROOM_SCHEMA",), "postgres_schema", _text),
    Variable(("STATEROOM_PREPARED_STATEMENTS",), "prepared_statements", _flag),
    Variable(("STATEROOM_HOST", "HOST"), "http.host", _text),
    Variable(("STATEROOM_PORT", "PORT"), "http.port", _number(int, 0, 65_535)),
    _limit("concurrency", "STATEROOM_CONCURRENCY", "N_JOBS_PER_WORKER"),
    _limit("lease", "STATEROOM_LEASE"),
    _limit("max_attempts", "STATEROOM_MAX_ATTEMPTS"),
    _limit("run_timeout", "STATEROOM_RUN_TIMEOUT"),
    _limit("shutdown_grace", "STATEROOM_SHUTDOWN_GRACE"),
    _limit("heartbeat", "STATEROOM_HEARTBEAT"),
    _limit("page_size", "STATEROOM_MAX_PAGE_SIZE"),
    _limit("body_bytes", "STATEROOM_MAX_BODY_BYTES"),
    _limit("frames_per_run", "STATEROOM_FRAMES_PER_RUN"),
    _limit("bytes_per_run", "STATEROOM_BYTES_PER_RUN"),
    _limit("retained_runs", "STATEROOM_RETAINED_RUNS"),
    _limit("idempotency_lifetime", "STATEROOM_IDEMPOTENCY_LIFETIME"),
)
"""All that the environment can say."""

_NOT_OURS: Final = frozenset({"STATEROOM_URL"})
"""What begins like a setting and is read by clients, beside what the tests read."""


@dataclass(frozen=True, slots=True)
class Configuration:
    """Settings as they are in force, and what there is to say about them.

    ``says_storage`` tells whether anybody has said where to keep things, rather than left it to the default.
    """

    settings: Settings
    warnings: tuple[str, ...]
    says_storage: bool


def configure(
    file: Path, said: Mapping[str, Any], environment: Mapping[str, str] | None = None, **usual: Any
) -> Configuration:
    """Return a project's settings: what is ``said`` on the command line, else by the environment, the file.

    ``usual`` are defaults of the command. The environment is the process's, which gets what the file's
    ``env`` says and it lacks. Raises Misconfigured.
    """
    project = read_project(file)
    if environment is None:
        for name, value in project.env.items():
            os.environ.setdefault(name, value)
    surrounding = {**project.env, **(os.environ if environment is None else environment)}
    ambient, warnings = read_environment(surrounding)
    if "storage" not in ambient and surrounding.get("STATEROOM_POSTGRES_URI"):
        # Nobody gives this server the address of a database that it is not to use.
        ambient["storage"] = "postgres"
    given = {name: value for name, value in said.items() if value is not None}
    settings = settings_from(usual, project.layer, ambient, given)
    if settings.storage == "postgres":
        _check_address(surrounding)
    says = any("storage" in layer for layer in (project.layer, ambient, given))
    return Configuration(settings, (*project.warnings, *warnings), says)


def _check_address(environment: Mapping[str, str]) -> None:
    """Raise Misconfigured, naming the variable, for an address that no driver could make sense of."""
    name = next((name for name in _ADDRESS.names if environment.get(name, "").strip()), None)
    if name is None:
        return
    try:
        from stateroom.drivers.postgres.conninfo import parse_uri
    except ModuleNotFoundError:
        # Whoever opens the database says what to install.
        return
    try:
        parse_uri(environment[name])
    except Misconfigured as error:
        raise Misconfigured(f"{name}: {error}", field=name) from None


def read_environment(environment: Mapping[str, str]) -> tuple[Layer, list[str]]:
    """Return what variables say, and a sentence for each that looks like ours and is not.

    An empty variable counts as absent. Raises Misconfigured, naming the variable, for a wrong value.
    """
    layer: Layer = {}
    for variable in VARIABLES:
        name = next((name for name in variable.names if environment.get(name, "").strip()), None)
        if name is not None:
            layer[variable.field] = variable.read(name, environment[name].strip())
    known = {name for variable in VARIABLES for name in variable.names} | _NOT_OURS
    strangers = sorted(
        name
        for name in environment
        if name.startswith(PREFIX) and name not in known and not name.startswith(f"{PREFIX}TEST_")
    )
    return layer, [f"the variable {name} is not known and has no effect" for name in strangers]


def settings_from(*layers: Mapping[str, Any]) -> Settings:
    """Put layers on top of each other, the last one uppermost."""
    merged: Layer = {}
    for layer in layers:
        merged |= layer
    parts: dict[str, dict[str, Any]] = {"limits": {}, "http": {}}
    whole: dict[str, Any] = {}
    for name, value in merged.items():
        part, dot, field = name.partition(".")
        if dot:
            parts[part][field] = value
        else:
            whole[name] = value
    return replace(Settings(), **whole, limits=Limits(**parts["limits"]), http=HttpSettings(**parts["http"]))
