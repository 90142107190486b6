"""What webhooks were told, or were to be told, of runs' ends."""

from __future__ import annotations

from typing import Annotated, Literal

from fastapi import Query
from starlette.responses import Response

from stateroom.api.access import AccessDep
from stateroom.api.answers import answer
from stateroom.api.including import Routes
from stateroom.api.parts import PartsDep
from stateroom.api.wire.base import ThreadId, check_limit
from stateroom.api.wire.deliveries import delivery_json
from stateroom.errors import Conflict, NotFound

__all__ = ["router"]

router = Routes()

_HERE = "/threads/{thread_id}/runs/{run_id}/deliveries"


@router.get(_HERE)
async def list_deliveries(
    thread_id: ThreadId,
    run_id: str,
    parts: PartsDep,
    access: AccessDep,
    status: Literal["pending", "delivering", "delivered", "dead"] | None = None,
    limit: Annotated[int, Query(ge=0)] = 100,
    offset: Annotated[int, Query(ge=0)] = 0,
) -> Response:
    """List the deliveries of a run, the newest first."""
    check_limit(limit, parts.settings.limits)
    scope = await access.allow("threads", "read", {"thread_id": thread_id, "run_id": run_id})
    await parts.offload(parts.runs.get, run_id, scope, thread_id=thread_id)
    found = await parts.offload(parts.storage.deliveries.of_run, run_id)
    fitting = [each for each in found if status in (None, each.status)]
    return answer({"deliveries": [delivery_json(each) for each in fitting[offset : offset + limit]]})


@router.post(_HERE + "/{delivery_id}/replay")
async def replay_delivery(
    thread_id: ThreadId, run_id: str, delivery_id: str, parts: PartsDep, access: AccessDep
) -> Response:
    """Make a delivery due again, now; 409 once it was made, since its payload is gone then."""
    scope = await access.allow("threads", "update", {"thread_id": thread_id, "run_id": run_id})
    await parts.offload(parts.runs.get, run_id, scope, thread_id=thread_id)
    delivery = await parts.offload(parts.storage.deliveries.get, delivery_id)
    if delivery is None or delivery.run_id != run_id:
        raise NotFound(f"there is no delivery {delivery_id!r}", field="delivery_id")
    again = await parts.offload(parts.storage.deliveries.retry, delivery_id)
    if again is None:
        raise Conflict(f"delivery {delivery_id!r} was made, and its payload is gone", field="delivery_id")
    return answer(delivery_json(again))
