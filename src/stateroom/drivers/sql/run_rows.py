"""How runs lie in their table, and the statements that read and change them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from stateroom.drivers.sql.dialect import Row
from stateroom.drivers.sql.documents import maybe_state, object_of
from stateroom.drivers.sql.queries import queries
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus

__all__ = ["SQL", "run_of"]

_PARTS: Final = {
    "{run}": (
        "run_id, thread_id, assistant_id, assistant_version, status, created_at, updated_at, available_at, "
        "started_at, ended_at, multitask, metadata, kwargs, attempt, fence, lease_owner, lease_until, "
        "cancel, cancel_reason, error"
    ),
    # Spelled so that no database looks for the ids among all runs of a status.
    "{status}": "(status || '')",
    # What is left of a thread that is being deleted is not to be seen. Spelled so that Postgres neither reads
    # all threads first, nor expects to find hardly any.
    "{there}": "(select 1 from stateroom.thread t where t.thread_id = r.thread_id) is not null",
    "{next_at}": (
        "case when (select 1 from stateroom.run r where r.thread_id = t.thread_id and r.status = 'running' "
        "limit 1) is null then (select r.available_at from stateroom.run r where r.thread_id = t.thread_id "
        "and r.status = 'pending' order by r.available_at, r.seq limit 1) end"
    ),
    "{expiry}": (
        "case when ttl_minutes is not null then :now + cast(round(ttl_minutes * 60000000) as bigint) end"
    ),
}


def _filled(sql: str) -> str:
    for mark, part in _PARTS.items():
        sql = sql.replace(mark, part)
    return sql


SQL: Final[Mapping[str, str]] = MappingProxyType(
    {name: _filled(sql) for name, sql in queries("runs").items()}
)
"""The statements of ``queries/runs.sql`` by their names."""


def run_of(row: Row, private: bytes | None = None) -> Run:
    """Return the run of a row of the columns ``{run}``; ``private`` only for who claimed it."""
    run_id, thread_id, assistant_id, version, status, created, updated, available, *rest = row
    started, ended, multitask, metadata, kwargs, attempt, fence, owner, until, cancel, reason, error = rest
    return Run(
        run_id=run_id,
        thread_id=thread_id,
        assistant_id=assistant_id,
        assistant_version=version,
        status=RunStatus(status),
        created_at=created,
        updated_at=updated,
        available_at=available,
        started_at=started,
        ended_at=ended,
        multitask=Multitask(multitask),
        metadata=object_of(metadata),
        kwargs=maybe_state(kwargs),
        private=maybe_state(private),
        attempt=attempt,
        fence=fence,
        lease_owner=owner,
        lease_until=until,
        cancel=None if cancel is None else CancelAction(cancel),
        cancel_reason=reason,
        error=maybe_state(error),
    )
