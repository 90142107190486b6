"""What a request for a run may say, and what a run is executed with that was asked for so."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple, TypeVar, get_args

from stateroom.errors import InvalidInput, LimitExceeded, NotSupported
from stateroom.model.cron import Completion
from stateroom.model.limits import AFTER_SECONDS_MAX
from stateroom.model.run import Multitask
from stateroom.model.run_kwargs import STREAM_MODES, Durability, RunKwargs
from stateroom.model.text import path_step, show
from stateroom.model.thread import ThreadStatus
from stateroom.service.run_config import split_config
from stateroom.service.run_requests import Names, RunRequest

__all__ = ["Admission", "admission_of", "choice", "kwargs_of"]

T = TypeVar("T")

_UNSTREAMED: Final = ("tools", "lifecycle")
"""Modes that clients know and no run streams; threads do."""


class Admission(NamedTuple):
    """What a request says of the thread and of the runs that are there; ``delay`` is in microseconds."""

    multitask: Multitask
    create_thread: bool
    delay: int
    statuses: frozenset[ThreadStatus] | None


def admission_of(request: RunRequest) -> Admission:
    """Return what a request says of the thread; raise InvalidInput or LimitExceeded."""
    return Admission(
        multitask=Multitask(choice(request.multitask_strategy, tuple(Multitask), "multitask_strategy")),
        create_thread=choice(request.if_not_exists, ("create", "reject"), "if_not_exists") == "create",
        delay=_delay(request.after_seconds),
        statuses=_statuses(request.if_thread_status),
    )


def kwargs_of(request: RunRequest) -> tuple[RunKwargs, dict[str, Any]]:
    """Return what a run is executed with, and the values of its configurable that may not be kept.

    Raises InvalidInput for what breaks a rule, and NotSupported for what no run does.
    """
    _check_supported(request)
    config, private = split_config(request.config)
    command = _command(request.command)
    if command is not None and request.input not in (None, {}):
        raise InvalidInput(
            "input and command are given; pass one, or the input as command.update", field="input"
        )
    kwargs = RunKwargs(
        input=None if command is not None else request.input,
        command=command,
        checkpoint=_checkpoint(request),
        config=config,
        stream_mode=_stream_modes(request.stream_mode),
        stream_subgraphs=request.stream_subgraphs,
        interrupt_before=_names(request.interrupt_before, "interrupt_before"),
        interrupt_after=_names(request.interrupt_after, "interrupt_after"),
        durability=_durability(request),
        strict_resume=request.strict_resume,
        temporary=request.thread_id is None,
        on_completion=_completion(request),
        protocol=request.protocol,
        tracer=_tracer(request.langsmith_tracer),
    )
    return kwargs, {**private, **request.private}


def choice(given: object, allowed: Sequence[str], field: str) -> str:
    """Return one of the allowed texts; raise InvalidInput for anything else."""
    if isinstance(given, str) and given in allowed:
        return str(given)
    raise InvalidInput(f"{field} is {show(given)}; use {' or '.join(map(str, allowed))}", field=field)


def _check_supported(request: RunRequest) -> None:
    if request.webhook:
        raise NotSupported("webhook is given, but this release delivers none; leave it out", field="webhook")
    if request.feedback_keys:
        raise NotSupported(
            "feedback_keys are given, but this server makes no links for feedback; leave them out",
            field="feedback_keys",
        )


def _delay(seconds: float | None) -> int:
    if seconds is None:
        return 0
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or not seconds >= 0:
        raise InvalidInput(
            f"after_seconds is {show(seconds)}; pass a number of seconds from 0", field="after_seconds"
        )
    if math.isinf(seconds) or seconds > AFTER_SECONDS_MAX:
        raise LimitExceeded(
            f"after_seconds is {show(seconds)}; at most {AFTER_SECONDS_MAX:,} are allowed",
            field="after_seconds",
        )
    return round(seconds * 1_000_000)


def _statuses(given: Sequence[str] | None) -> frozenset[ThreadStatus] | None:
    if given is None:
        return None
    if isinstance(given, str) or not given:
        raise InvalidInput(
            f"if_thread_status is {show(given)}; pass a list of at least one of {', '.join(ThreadStatus)}",
            field="if_thread_status",
        )
    return frozenset(ThreadStatus(choice(one, tuple(ThreadStatus), "if_thread_status")) for one in given)


def _stream_modes(given: str | Sequence[str]) -> tuple[str, ...]:
    modes = (given,) if isinstance(given, str) else tuple(dict.fromkeys(given))
    if not modes:
        raise InvalidInput("stream_mode is an empty list; name at least one mode", field="stream_mode")
    for mode in modes:
        if mode in _UNSTREAMED:
            raise NotSupported(
                f"stream_mode has {show(mode)}, which runs do not stream; use the thread's stream for it",
                field="stream_mode",
            )
        choice(mode, STREAM_MODES, "stream_mode")
    return modes


def _names(given: Names | None, field: str) -> Literal["*"] | tuple[str, ...] | None:
    if given is None or given == "*":
        return given
    if isinstance(given, str) or not all(isinstance(name, str) for name in given):
        raise InvalidInput(f"{field} is {show(given)}; pass a list of names of nodes, or '*'", field=field)
    return "*" if "*" in given else tuple(given) or None


def _durability(request: RunRequest) -> Durability:
    if request.checkpoint_during is None:
        found = "async" if request.durability is None else request.durability
    elif request.durability is None:
        found = "async" if request.checkpoint_during else "exit"
    else:
        raise InvalidInput(
            "durability and checkpoint_during are given; pass durability alone", field="checkpoint_during"
        )
    return choice(found, get_args(Durability), "durability")  # type: ignore[return-value]  # one of them


def _completion(request: RunRequest) -> Completion:
    if request.on_completion is None:
        return Completion.DELETE
    found = Completion(choice(request.on_completion, tuple(Completion), "on_completion"))
    if request.thread_id is not None and found is Completion.DELETE:
        raise InvalidInput(
            "on_completion is delete, but the thread was not made for this run; leave it out, and delete the "
            "thread yourself",
            field="on_completion",
        )
    return found


def _command(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if given is None:
        return None
    command = {key: value for key, value in given.items() if value is not None}
    for key, value in command.items():
        if key not in _COMMANDS:
            raise InvalidInput(
                f"command{path_step(key)} is not known; use {', '.join(_COMMANDS)}",
                field=f"command{path_step(key)}",
            )
        fits, wanted = _COMMANDS[key]
        if not fits(value):
            raise InvalidInput(f"command.{key} is {show(value)}; pass {wanted}", field=f"command.{key}")
    return command or None


def _is_update(value: Any) -> bool:
    return isinstance(value, Mapping) or (
        isinstance(value, list | tuple)
        and all(isinstance(one, list | tuple) and len(one) == 2 and isinstance(one[0], str) for one in value)
    )


def _is_goto(value: Any) -> bool:
    return all(map(_is_target, value)) if isinstance(value, list | tuple) else _is_target(value)


def _is_target(value: Any) -> bool:
    if isinstance(value, Mapping):
        return isinstance(value.get("node"), str) and set(value) <= {"node", "input"}
    return isinstance(value, str)


def _is_anything(value: Any) -> bool:
    return value is not None


_COMMANDS: Final[Mapping[str, tuple[Callable[[Any], bool], str]]] = {
    "resume": (_is_anything, "anything"),
    "update": (_is_update, "an object, or a list of pairs of a key and a value"),
    "goto": (_is_goto, "the name of a node, an object with node and input, or a list of these"),
}

_CHECKPOINT_KEYS: Final = ("checkpoint_id", "checkpoint_ns", "checkpoint_map")


def _checkpoint(request: RunRequest) -> dict[str, Any] | None:
    """Return the checkpoint to start from, however the caller names it; None: the latest."""
    given = request.checkpoint or {}
    for key in given:
        if key not in (*_CHECKPOINT_KEYS, "thread_id"):
            raise InvalidInput(
                f"checkpoint{path_step(key)} is not known; use {', '.join(_CHECKPOINT_KEYS)}",
                field=f"checkpoint{path_step(key)}",
            )
    if given.get("thread_id") not in (None, request.thread_id):
        raise InvalidInput(
            "checkpoint.thread_id is another thread than that of the run; copy that thread, or run on it",
            field="checkpoint.thread_id",
        )
    found = {key: given[key] for key in _CHECKPOINT_KEYS if given.get(key) is not None}
    by_id = request.checkpoint_id or _configured(request)
    if by_id is not None and found.setdefault("checkpoint_id", by_id) != by_id:
        raise InvalidInput(
            "checkpoint_id is another than checkpoint.checkpoint_id; pass one of them", field="checkpoint_id"
        )
    _check_checkpoint(found, request)
    return found if found.get("checkpoint_id") or found.get("checkpoint_ns") else None


def _configured(request: RunRequest) -> Any:
    """Return the checkpoint that the configurable names, where older clients put it."""
    return (request.config.get("configurable") or {}).get("checkpoint_id")


def _check_checkpoint(found: Mapping[str, Any], request: RunRequest) -> None:
    for key, value in found.items():
        kind = Mapping if key == "checkpoint_map" else str
        if not isinstance(value, kind):
            raise InvalidInput(
                f"checkpoint.{key} is {show(value)}; pass what a state of the thread says there",
                field=f"checkpoint.{key}",
            )
    if found.get("checkpoint_id") and request.thread_id is None:
        raise InvalidInput(
            "checkpoint_id is given, but a run without a thread has no checkpoints; pass the thread's id",
            field="checkpoint_id",
        )


def _tracer(given: Mapping[str, Any] | None) -> dict[str, Any] | None:
    for key, value in (given or {}).items():
        if key not in ("project_name", "example_id") or not isinstance(value, str | None):
            raise InvalidInput(
                f"langsmith_tracer{path_step(key)} is {show(value)}; pass texts, project_name and example_id",
                field=f"langsmith_tracer{path_step(key)}",
            )
    return {key: value for key, value in (given or {}).items() if value} or None
