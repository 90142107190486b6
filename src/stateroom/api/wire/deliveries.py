"""Deliveries as clients read them."""

from __future__ import annotations

from typing import Any

from stateroom.clock import microseconds_to_datetime
from stateroom.model.delivery import Delivery

__all__ = ["delivery_json"]


def delivery_json(delivery: Delivery) -> dict[str, Any]:
    """Return a delivery without its payload; ``replayable`` says whether that is still there."""
    return {
        "delivery_id": delivery.delivery_id,
        "run_id": delivery.run_id,
        "thread_id": delivery.thread_id,
        "url": delivery.url,
        "status": delivery.status,
        "attempts": delivery.attempts,
        "due_at": microseconds_to_datetime(delivery.due_at),
        "error": delivery.error,
        "created_at": microseconds_to_datetime(delivery.created_at),
        "updated_at": microseconds_to_datetime(delivery.updated_at),
        "replayable": delivery.payload is not None,
    }
