"""Making runs: asking the rules, waking the workers, and handing the request on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from stateroom.errors import Denied
from stateroom.model.run import Run
from stateroom.service.run_config import chosen_headers
from stateroom.service.run_requests import RunRequest
from stateroom.service.scope import Scope

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts

__all__ = ["Permitted", "create_run", "create_runs", "make_runs", "may_run", "permit"]


@dataclass(frozen=True, slots=True)
class Permitted:
    """Requests as the rules left them, and what of threads and assistants they may touch."""

    requests: Sequence[RunRequest]
    threads: Scope
    assistants: Scope


async def create_run(parts: Parts, access: Access, request: RunRequest, *, headers: Mapping[str, str]) -> Run:
    """Make one run that the caller may make; ``headers`` are those of his request."""
    (run,) = await create_runs(parts, access, [request], headers=headers)
    return run


async def create_runs(
    parts: Parts, access: Access, requests: Sequence[RunRequest], *, headers: Mapping[str, str]
) -> list[Run]:
    """Make runs that the caller may make, all or none."""
    return await make_runs(parts, await permit(access, requests), headers=headers)


async def permit(access: Access, requests: Sequence[RunRequest]) -> Permitted:
    """Ask the rules about each run; return the requests as they left them. Raises Denied."""
    found = [await may_run(access, request) for request in requests]
    threads = {repr(scope.metadata): scope for _, scope, _ in found}
    assistants = {repr(scope.metadata): scope for _, _, scope in found}
    if max(len(threads), len(assistants)) > 1:
        raise Denied("the rules answer differently for the runs of this list; make them one by one")
    return Permitted(
        [request for request, _, _ in found],
        next(iter(threads.values()), Scope()),
        next(iter(assistants.values()), Scope()),
    )


async def may_run(access: Access, request: RunRequest) -> tuple[RunRequest, Scope, Scope]:
    """Ask the rules about a run; return the request as they left it, and what of threads and assistants."""
    value = _value(request)
    threads = await access.allow("threads", "create_run", value)
    assistants = await access.allow("assistants", "read", {"assistant_id": request.assistant_id})
    return _changed(request, value), threads, assistants


async def make_runs(parts: Parts, permitted: Permitted, *, headers: Mapping[str, str]) -> list[Run]:
    """Make runs that the rules allow, all or none."""
    await parts.begin()
    http = parts.settings.http
    return await parts.offload(
        parts.runs.create,
        permitted.requests,
        permitted.threads,
        assistants=permitted.assistants,
        headers=chosen_headers(
            headers, includes=http.configurable_includes, excludes=http.configurable_excludes
        ),
    )


_QUEUED = ("multitask_strategy", "if_not_exists", "after_seconds")
_EXECUTED = ("input", "command", "config", "context")


def _value(request: RunRequest) -> dict[str, Any]:
    """Return a request as rules are shown it, named as ``langgraph_sdk.Auth`` names it."""
    return {
        "thread_id": request.thread_id,
        "assistant_id": request.assistant_id,
        "run_id": None,
        "status": "pending",
        "metadata": dict(request.metadata),
        "prevent_insert_if_inflight": request.multitask_strategy == "reject",
        **{name: getattr(request, name) for name in _QUEUED},
        "kwargs": {name: getattr(request, name) for name in _EXECUTED},
    }


def _changed(request: RunRequest, value: Mapping[str, Any]) -> RunRequest:
    """Return a request with what the rules may change: whose run it is, how it queues, what it is given."""
    kwargs = dict(value.get("kwargs") or {})
    kwargs["config"] = kwargs.get("config") or {}
    return replace(
        request,
        metadata=value.get("metadata") or {},
        **{name: value[name] for name in _QUEUED if name in value},
        **{name: kwargs[name] for name in _EXECUTED if name in kwargs},
    )
