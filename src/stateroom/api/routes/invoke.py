"""The simple door to a graph: its input is the body, its output is the answer."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import orjson
from fastapi import Body, Header
from pydantic import BeforeValidator
from starlette.requests import Request
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import nothing
from stateroom.api.creating import create_run
from stateroom.api.idempotency import KeyHeader, refuse_key
from stateroom.api.including import Routes
from stateroom.api.leaving import unless_left
from stateroom.api.parts import PartsDep
from stateroom.api.routes.making import abandon, streamed
from stateroom.api.waiting import run_output
from stateroom.api.wire.runs import RunBody
from stateroom.engine.news import Stopped
from stateroom.errors import NotFound, RunFailed, Unavailable
from stateroom.model.text import show
from stateroom.service.run_requests import RunRequest

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts
    from stateroom.model.run import Run

__all__ = ["router"]

router = Routes()


def _read(given: Any) -> Any:
    if isinstance(given, bytes):
        # So it comes to us without the header, which keeps pages of others from sending it unasked.
        raise ValueError("send it as JSON, with the header content-type: application/json")
    return given


GraphInput = Annotated[
    Any,
    Body(description="The graph's input", examples=[{"messages": [{"role": "user", "content": "Hello"}]}]),
    BeforeValidator(_read),
]

AcceptHeader = Annotated[
    str | None, Header(description="`text/event-stream` for the events, anything else for the output")
]


@router.post(
    "/invoke/{graph_id}",
    responses={200: {"content": {"application/json": {}, "text/event-stream": {}}}},
)
async def invoke(
    graph_id: str,
    body: GraphInput,
    request: Request,
    parts: PartsDep,
    access: AccessDep,
    accept: AcceptHeader = None,
    idempotency_key: KeyHeader = None,
) -> Response:
    """Run a graph on a thread of its own with the body as its input; answer its output, and no more.

    The run is stopped if the client leaves.
    """
    refuse_key(idempotency_key)
    if graph_id not in parts.graphs.ids:
        known = ", ".join(sorted(parts.graphs.ids))
        raise NotFound(f"there is no graph {show(graph_id)}; the graphs are {known}", field="graph_id")
    if "text/event-stream" in (accept or "").lower():
        wanted = RunBody(assistant_id=graph_id, input=body, on_disconnect="cancel")
        return await streamed(None, wanted, request, parts, access)
    return await _answered(graph_id, body, request, parts, access)


async def _answered(graph_id: str, given: Any, request: Request, parts: Parts, access: Access) -> Response:
    wanted = RunRequest(assistant_id=graph_id, input=given)
    run = await create_run(parts, access, wanted, headers=request.headers)
    try:
        output = await unless_left(request.receive, run_output(parts, run.run_id))
    except Stopped as error:
        raise Unavailable(
            f"the server stops, and the run goes on; GET /runs/{run.run_id}/join answers its output"
        ) from error
    if output is None:
        await abandon(parts, run.run_id)
        return nothing()
    _check(run, output)
    return Response(
        output, headers={"Content-Location": f"/runs/{run.run_id}"}, media_type="application/json"
    )


def _check(run: Run, output: bytes) -> None:
    """Raise RunFailed for the output of a run that has none."""
    # Looked for first, since an output may be long.
    if b'"__error__"' not in output:
        return
    found = orjson.loads(output)
    if isinstance(found, dict) and isinstance(error := found.get("__error__"), dict):
        raise RunFailed(f"run {run.run_id} failed with {error['error']}: {error['message']}")
