"""A delivery: what a webhook is told of a run's end, until it has been told."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any

__all__ = ["Delivery", "DeliveryStatus", "NewDelivery"]


class DeliveryStatus(StrEnum):
    """Where a delivery is; a dead one failed too often, and keeps its payload to be tried again by hand."""

    PENDING = "pending"
    DELIVERING = "delivering"
    DELIVERED = "delivered"
    DEAD = "dead"


@dataclass(frozen=True, slots=True)
class NewDelivery:
    """What is to be delivered: ``payload``, a JSON object, to ``url``."""

    delivery_id: str
    url: str
    payload: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Delivery:
    """A delivery. Times are microseconds since 1970 UTC.

    ``payload`` is erased, None, once it has been delivered. ``due_at`` is when it is tried next, or until
    when whoever is delivering it must have said what came of it. ``attempts`` counts the tries.
    """

    delivery_id: str
    run_id: str
    thread_id: str
    url: str
    payload: dict[str, Any] | None
    status: DeliveryStatus
    attempts: int
    due_at: int
    error: str | None
    created_at: int
    updated_at: int
