"""How the server is: alive, ready, which it is, and what it has done."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from importlib.metadata import version
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.answers import answer
from stateroom.api.including import Routes
from stateroom.api.metrics import CONTENT_TYPE
from stateroom.api.parts import PartsDep
from stateroom.contract.runs import RunQuery, Runs
from stateroom.errors import Unavailable
from stateroom.model.paging import COUNTED_MAX
from stateroom.model.run import RunStatus

__all__ = ["READY_SECONDS", "meta", "router"]

READY_SECONDS: Final = 5.0
"""How long the storage may take to answer before the server calls itself not ready."""

_FEATURES: Final = ("assistants", "threads", "runs", "crons", "store", "mcp", "a2a")

router = Routes()
meta = Routes()

_EXTRAS: Final = {"langsmith": False, "strict_resume": True, "stream_namespaces": True}
"""What clients look for beside the groups of routes: LangSmith's own services, and newer fields of runs."""

_OK: Final = {"ok": True}

_LANGGRAPH: Final = version("langgraph")


@router.get("/ok")
async def ok() -> Response:
    """Say that the process answers."""
    return answer(_OK)


@router.get("/ready", responses={503: {"description": "The storage does not answer"}})
async def ready(parts: PartsDep) -> Response:
    """Say that the storage answers too: it is read."""
    try:
        async with asyncio.timeout(READY_SECONDS):
            await parts.offload(parts.storage.runs.next_available_at)
    except TimeoutError as error:
        raise Unavailable(f"the storage did not answer within {READY_SECONDS:g} s") from error
    return answer(_OK)


@meta.get("/info")
async def info(parts: PartsDep) -> Response:
    """Say which server this is, and what it can do."""
    disabled = parts.settings.http.disabled
    flags = {name: name not in disabled for name in _FEATURES}
    return answer(
        {
            "version": parts.version,
            "langgraph_py_version": _LANGGRAPH,
            "context": "python",
            "flags": flags | _EXTRAS,
            "metadata": {"server": "stateroom", "storage": parts.settings.storage},
        }
    )


@meta.get("/metrics", responses={200: {"content": {"text/plain": {}}}})
async def metrics(request: Request, parts: PartsDep) -> Response:
    """Return what has been counted, in Prometheus' form."""
    runs = await parts.offload(_runs, parts.storage.runs)
    text = request.app.state.metrics.text(runs)
    return Response(text, media_type=CONTENT_TYPE)


def _runs(runs: Runs) -> Mapping[str, Any]:
    return {
        status.value: runs.count(RunQuery(statuses=[status]), at_most=COUNTED_MAX) for status in RunStatus
    }
