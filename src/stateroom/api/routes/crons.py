"""Crons over HTTP."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import Body
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import answer, nothing, page_headers
from stateroom.api.creating import may_run
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.wire.base import ThreadId, check_limit
from stateroom.api.wire.crons import SHOWN, CronBody, CronChanges, CronCount, CronSearch, cron_json
from stateroom.api.wire.runs import picked
from stateroom.clock import microseconds_to_datetime

if TYPE_CHECKING:
    from stateroom.api.access import Access
    from stateroom.api.parts import Parts

__all__ = ["router"]

router = Routes()


@router.post("/threads/{thread_id}/runs/crons")
async def create_cron_for_thread(
    thread_id: ThreadId, body: CronBody, parts: PartsDep, access: AccessDep
) -> Response:
    """Make a cron, whose runs are all on one thread."""
    return await _created(thread_id, body, parts, access)


@router.post("/runs/crons")
async def create_cron(body: CronBody, parts: PartsDep, access: AccessDep) -> Response:
    """Make a cron, whose runs each have a thread of their own."""
    return await _created(None, body, parts, access)


@router.post("/runs/crons/search")
async def search_crons(
    parts: PartsDep, access: AccessDep, body: Annotated[CronSearch | None, Body()] = None
) -> Response:
    """List crons, the newest first unless the client says otherwise."""
    body = body or CronSearch()
    value: dict[str, Any] = body.model_dump(include={"assistant_id", "thread_id", "limit", "offset"})
    scope = await access.allow("crons", "search", value)
    page, total = await parts.offload(
        parts.crons.search,
        body.query(),
        scope,
        sort=body.sort(),
        limit=check_limit(body.limit, parts.settings.limits),
        offset=body.offset,
        after=body.after,
    )
    now = microseconds_to_datetime(parts.storage.now())
    found = [{**cron_json(cron), "now": now} for cron in page.rows]
    headers = page_headers(
        total, offset=body.offset, count=len(found), more=page.next is not None, cursor=page.next
    )
    return answer([picked(each, body.select or SHOWN) for each in found], headers=headers)


@router.post("/runs/crons/count")
async def count_crons(
    parts: PartsDep, access: AccessDep, body: Annotated[CronCount | None, Body()] = None
) -> Response:
    """Count crons."""
    body = body or CronCount()
    value: dict[str, Any] = body.model_dump(include={"assistant_id", "thread_id"})
    scope = await access.allow("crons", "search", value)
    return answer(await parts.offload(parts.crons.count, body.query(), scope))


@router.get("/runs/crons/{cron_id}")
async def get_cron(cron_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Return a cron."""
    scope = await access.allow("crons", "read", {"cron_id": cron_id})
    return answer(cron_json(await parts.offload(parts.crons.get, cron_id, scope)))


@router.patch("/runs/crons/{cron_id}")
async def update_cron(cron_id: str, body: CronChanges, parts: PartsDep, access: AccessDep) -> Response:
    """Change a cron; what is not mentioned stays, and `end_time: null` clears the end."""
    value: dict[str, Any] = {
        "cron_id": cron_id,
        "payload": body.model_dump(exclude_unset=True),
        "schedule": body.schedule,
    }
    scope = await access.allow("crons", "update", value)
    return answer(cron_json(await parts.offload(parts.crons.update, cron_id, body.update(), scope)))


@router.delete("/runs/crons/{cron_id}", status_code=204)
async def delete_cron(cron_id: str, parts: PartsDep, access: AccessDep) -> Response:
    """Delete a cron; its runs stay."""
    scope = await access.allow("crons", "delete", {"cron_id": cron_id})
    await parts.offload(parts.crons.delete, cron_id, scope)
    return nothing()


async def _created(thread_id: str | None, body: CronBody, parts: Parts, access: Access) -> Response:
    await parts.begin()
    asked = body.request(thread_id)
    run, threads, assistants = await may_run(access, asked.run)
    value: dict[str, Any] = {
        "cron_id": None,
        "thread_id": thread_id,
        "user_id": None if access.principal is None else access.principal.identity,
        "schedule": asked.schedule,
        "end_time": asked.end_time,
        "metadata": dict(run.metadata),
        "payload": body.said(),
    }
    scope = await access.allow("crons", "create", value)
    cron = await parts.offload(
        parts.crons.create,
        replace(asked, run=replace(run, metadata=value.get("metadata") or {})),
        scope,
        threads=threads,
        assistants=assistants,
    )
    return answer(cron_json(cron))
