"""Crons as clients write and read them."""

from __future__ import annotations

from typing import Any, Final, Literal, get_args

from pydantic import Field

from stateroom.api.wire.base import Body, JsonObject, Limit, Offset, ThreadId
from stateroom.api.wire.runs import Names, RunPayload
from stateroom.clock import microseconds_to_datetime
from stateroom.contract.crons import CronQuery
from stateroom.model.cron import Cron
from stateroom.model.paging import NEWEST, Sort
from stateroom.service.crons import CronRequest, CronUpdate
from stateroom.service.run_requests import RunRequest

__all__ = ["SHOWN", "CronBody", "CronChanges", "CronCount", "CronSearch", "cron_json"]

CronField = Literal[
    "cron_id",
    "assistant_id",
    "thread_id",
    "on_run_completed",
    "end_time",
    "schedule",
    "timezone",
    "created_at",
    "updated_at",
    "payload",
    "user_id",
    "next_run_date",
    "metadata",
    "enabled",
    "error",
    "now",
]

SHOWN: Final = tuple(name for name in get_args(CronField) if name != "now")
"""What is shown of a cron unless a client selects."""

CronSort = Literal[
    "cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time"
]

_SORTS: Final = {"next_run_date": "next_run_at", "end_time": "end_at"}

Completion = Literal["delete", "keep"]


class CronBody(RunPayload):
    """A cron to be made; what its runs are made with, and when."""

    schedule: str
    timezone: str | None = None
    end_time: str | None = None
    enabled: bool | None = None
    on_run_completed: Completion | None = None

    def request(self, thread_id: str | None) -> CronRequest:
        """Return what the client asks for."""
        return CronRequest(
            run=RunRequest(**self.said(), thread_id=thread_id),
            schedule=self.schedule,
            timezone=self.timezone,
            end_time=self.end_time,
            enabled=self.enabled is not False,
            on_run_completed=self.on_run_completed,
        )


class CronChanges(Body):
    """What becomes of a cron. Null clears what may be missing: the end, the zone, the input, the context."""

    schedule: str | None = None
    timezone: str | None = None
    end_time: str | None = None
    enabled: bool | None = None
    on_run_completed: Completion | None = None
    metadata: JsonObject | None = None
    input: Any = None
    config: JsonObject | None = None
    context: JsonObject | None = None
    webhook: str | None = None
    interrupt_before: Names | None = None
    interrupt_after: Names | None = None
    stream_mode: str | list[str] | None = None
    stream_subgraphs: bool | None = None
    stream_resumable: bool | None = None
    durability: Literal["sync", "async", "exit"] | None = None

    def update(self) -> CronUpdate:
        """Return it in the terms of the service."""
        said: dict[str, Any] = {
            name: value
            for name in self.model_fields_set
            if (value := getattr(self, name)) is not None or name in _CLEARED
        }
        run: dict[str, Any] = {name: said[name] for name in _OF_THE_RUN if name in said}
        if "config" in said:
            run["config"] = said["config"] or {}
        return CronUpdate(
            run=run,
            **{name: said[name] for name in _OF_THE_CRON if name in said},
        )


_CLEARED: Final = frozenset(
    {"timezone", "end_time", "input", "config", "context", "interrupt_before", "interrupt_after"}
)
"""What null clears; of anything else it says nothing."""

_OF_THE_CRON: Final = ("schedule", "timezone", "end_time", "enabled", "on_run_completed", "metadata")
_OF_THE_RUN: Final = (
    *("input", "config", "context", "webhook", "interrupt_before", "interrupt_after"),
    *("stream_mode", "stream_subgraphs", "durability"),
)


class CronCount(Body):
    """Which crons are counted."""

    assistant_id: str | None = Field(default=None, min_length=1)
    thread_id: ThreadId | None = None
    enabled: bool | None = None
    metadata: JsonObject | None = None

    def query(self) -> CronQuery:
        """Return it in the terms of storage."""
        return CronQuery(
            self.assistant_id, self.thread_id, enabled=self.enabled, metadata=self.metadata or None
        )


class CronSearch(CronCount):
    """Which crons are listed, and how."""

    limit: Limit = 10
    offset: Offset = 0
    after: str | None = None
    sort_by: CronSort | None = None
    sort_order: Literal["asc", "desc"] | None = None
    select: list[CronField] | None = None

    def sort(self) -> Sort:
        """Return how they are sorted: the newest first if the client says nothing."""
        field = NEWEST.field if self.sort_by is None else _SORTS.get(self.sort_by, self.sort_by)
        return Sort(field, descending=self.sort_order != "asc")


def cron_json(cron: Cron) -> dict[str, Any]:
    """Return a cron as clients read it; nothing that is kept apart is in it."""
    found = {
        "cron_id": cron.cron_id,
        "assistant_id": cron.assistant_id,
        "thread_id": cron.thread_id,
        "on_run_completed": None if cron.thread_id else cron.on_run_completed,
        "end_time": _moment(cron.end_at),
        "schedule": cron.schedule,
        "timezone": cron.timezone,
        "created_at": _moment(cron.created_at),
        "updated_at": _moment(cron.updated_at),
        "payload": cron.payload,
        "user_id": cron.user_id,
        "next_run_date": _moment(cron.next_run_at),
        "metadata": cron.metadata,
        "enabled": cron.enabled,
    }
    return found if cron.error is None else {**found, "error": cron.error}


def _moment(microseconds: int | None) -> Any:
    return None if microseconds is None else microseconds_to_datetime(microseconds)
