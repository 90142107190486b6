"""What crons mean above storage: who may make, see and change which, and when they are due."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final

from stateroom.contract.crons import CronChange, CronQuery, NewCron
from stateroom.contract.storage import Storage
from stateroom.errors import Denied, InvalidInput, NotFound
from stateroom.ids import IdSource
from stateroom.model.change import UNSET, Maybe, given
from stateroom.model.cron import Completion, Cron
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.run import Multitask
from stateroom.service.assistants import AssistantService
from stateroom.service.elsewhere import Elsewhere
from stateroom.service.listing import total_of
from stateroom.service.run_requests import RunRequest
from stateroom.service.run_rules import admission_of, choice, kwargs_of
from stateroom.service.runs import user_of
from stateroom.service.schedules import check_schedule, next_occurrence, parse_moment
from stateroom.service.scope import EVERYTHING, Scope

__all__ = ["CronRequest", "CronService", "CronUpdate"]


@dataclass(frozen=True, slots=True, kw_only=True)
class CronRequest:
    """A cron to be made: the run that it makes again and again, and when.

    Without ``run.thread_id`` each run gets a thread of its own, of which ``on_run_completed`` decides. The
    metadata of ``run`` are the cron's too.
    """

    run: RunRequest
    schedule: str
    timezone: str | None = None
    end_time: str | None = None
    enabled: bool = True
    on_run_completed: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CronUpdate:
    """What becomes of a cron; what is not mentioned stays. ``run`` are fields of its ``RunRequest``.

    ``metadata`` are merged key by key, into those of the runs too.
    """

    schedule: Maybe[str] = UNSET
    timezone: Maybe[str | None] = UNSET
    end_time: Maybe[str | None] = UNSET
    enabled: Maybe[bool] = UNSET
    on_run_completed: Maybe[str] = UNSET
    metadata: Mapping[str, Any] = field(default_factory=dict)
    run: Mapping[str, Any] = field(default_factory=dict)


class CronService:
    """Crons as callers may make, see and change them; the methods block.

    What is not there and what is somebody else's are one and the same NotFound.
    """

    def __init__(
        self,
        storage: Storage,
        assistants: AssistantService,
        ids: IdSource,
        *,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Make the service; ``elsewhere`` is the application's own checkpointer."""
        self._storage = storage
        self._assistants = assistants
        self._ids = ids
        self._elsewhere = elsewhere

    def create(
        self,
        request: CronRequest,
        scope: Scope,
        *,
        threads: Scope = EVERYTHING,
        assistants: Scope = EVERYTHING,
    ) -> Cron:
        """Make a cron; answer it. ``threads`` and ``assistants`` are what the caller may run, and on what.

        Raises NotFound for what it names and the caller does not see; InvalidSchedule, InvalidInput and
        NotSupported naming what the request says.
        """
        run = self._checked_run(request.run, threads, assistants)
        check_schedule(request.schedule, request.timezone)
        end_at = None if request.end_time is None else parse_moment(request.end_time, "end_time")
        public, private = run.to_json()
        cron = NewCron(
            cron_id=self._ids(),
            assistant_id=run.assistant_id,
            schedule=request.schedule,
            payload=public,
            next_run_at=self._next(request.schedule, request.timezone, end_at, enabled=request.enabled),
            thread_id=run.thread_id,
            timezone=request.timezone,
            enabled=request.enabled,
            metadata=_stamped(run.metadata, scope),
            on_run_completed=_completion(request.on_run_completed, run.thread_id),
            user_id=None if scope.principal is None else scope.principal.identity,
            private=_private(private, user_of(scope.principal)),
            end_at=end_at,
        )
        return self._storage.crons.create(cron)

    def _checked_run(self, run: RunRequest, threads: Scope, assistants: Scope) -> RunRequest:
        """Return a request that a run could be made of, with the id of its assistant."""
        if run.thread_id is not None:
            thread = self._storage.threads.get(run.thread_id)
            threads.check(None if thread is None else thread.metadata, "thread", run.thread_id)
        _check_run(run, self._elsewhere)
        return replace(run, assistant_id=self._assistants.resolve(run.assistant_id, assistants).assistant_id)

    def _next(self, schedule: str, timezone: str | None, end_at: int | None, *, enabled: bool) -> int | None:
        """Return when a cron is due next, None for never again."""
        if not enabled:
            return None
        return next_occurrence(schedule, timezone, after=self._storage.now(), until=end_at)

    # ---- finding

    def get(self, cron_id: str, scope: Scope) -> Cron:
        """Return a cron; raise NotFound."""
        cron = self._storage.crons.get(cron_id)
        scope.check(None if cron is None else cron.metadata, "cron", cron_id)
        assert cron is not None
        return cron

    def search(
        self,
        query: CronQuery,
        scope: Scope,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> tuple[Page[Cron], int | None]:
        """Return a page of the crons that fit and that the scope sees, and how many these are.

        None for the number stands for too many to count. An assistant may be named by its graph.
        """
        query = self._scoped(query, scope)
        page = self._storage.crons.search(query, sort=sort, limit=limit, offset=offset, after=after)

        def count(at_most: int) -> int:
            return self._storage.crons.count(query, at_most=at_most)

        return page, total_of(page, count, offset=offset, after=after)

    def count(self, query: CronQuery, scope: Scope) -> int:
        """Return how many crons fit that the scope sees."""
        return self._storage.crons.count(self._scoped(query, scope))

    def _scoped(self, query: CronQuery, scope: Scope) -> CronQuery:
        assistant_id = query.assistant_id
        if assistant_id is not None:
            assistant_id = self._addressed(assistant_id)
        return query._replace(assistant_id=assistant_id, enforced_metadata=scope.metadata)

    def _addressed(self, assistant_id: str) -> str:
        """Return the id of an assistant that may be named by its graph; of none, what was given."""
        try:
            return self._assistants.get(assistant_id, EVERYTHING).assistant_id
        except NotFound:
            return assistant_id

    # ---- changing

    def update(self, cron_id: str, update: CronUpdate, scope: Scope) -> Cron:
        """Change a cron; answer it. When it is due next is worked out anew.

        The run that it makes is changed field by field; ``config`` and ``context`` are replaced whole. Raises
        as ``create`` does; nothing has been changed then.
        """
        before = self.get(cron_id, scope)
        if not scope.sees({**before.metadata, **update.metadata}):
            raise Denied("the metadata would make the cron somebody else's", field="metadata")
        schedule = given(update.schedule, before.schedule)
        timezone = given(update.timezone, before.timezone)
        check_schedule(schedule, timezone)
        end_at = before.end_at
        if update.end_time is not UNSET:
            end_at = None if update.end_time is None else parse_moment(update.end_time, "end_time")
        enabled = given(update.enabled, before.enabled)
        payload, private = _changed_run(before, update, self._elsewhere)
        completion: Maybe[Completion] = UNSET
        if update.on_run_completed is not UNSET:
            completion = _completion(update.on_run_completed, before.thread_id)
        change = CronChange(
            schedule=schedule,
            timezone=timezone,
            enabled=enabled,
            payload=payload,
            metadata=update.metadata,
            on_run_completed=completion,
            next_run_at=self._next(schedule, timezone, end_at, enabled=enabled),
            end_at=end_at,
            private=private,
        )
        return self._storage.crons.update(cron_id, change)

    def delete(self, cron_id: str, scope: Scope) -> None:
        """Remove a cron; its runs stay. Raises NotFound."""
        self.get(cron_id, scope)
        if not self._storage.crons.delete(cron_id):
            raise NotFound(f"there is no cron {cron_id!r}", field="cron_id")


_APART: Final[Mapping[str, str]] = {"context": "context", "config": "configurable"}
"""Which fields of a run have a part that is kept apart, under which key."""


def _changed_run(
    before: Cron, update: CronUpdate, elsewhere: Elsewhere | None
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return what a cron's runs are made with after an update, and what changes of what is kept apart."""
    kept = RunRequest.from_json(before.payload)
    run = replace(kept, metadata={**kept.metadata, **update.metadata}, **update.run)
    _check_run(run, elsewhere)
    public, private = run.to_json()
    return public, {key: private.get(key, {}) for name, key in _APART.items() if name in update.run}


def _check_run(run: RunRequest, elsewhere: Elsewhere | None) -> None:
    """Refuse what could not be run, now rather than at each of its times."""
    admission = admission_of(run)
    if elsewhere is not None and admission.multitask is Multitask.ROLLBACK:
        elsewhere.require("adelete_for_runs")
    if admission.create_thread:
        raise InvalidInput(
            "if_not_exists is create, but a cron's thread must be there; make it first", field="if_not_exists"
        )
    kwargs_of(run)


def _completion(given: str | None, thread_id: str | None) -> Completion:
    """Return what becomes of the threads of a cron's runs; one that is the cron's own stays."""
    usual = Completion.DELETE if thread_id is None else Completion.KEEP
    found = usual if given is None else Completion(choice(given, tuple(Completion), "on_run_completed"))
    if thread_id is not None and found is Completion.DELETE:
        raise InvalidInput(
            "on_run_completed is delete, but the cron runs on a thread that stays; leave it out",
            field="on_run_completed",
        )
    return found


def _stamped(metadata: Mapping[str, Any], scope: Scope) -> dict[str, Any]:
    """Return metadata of something that whoever makes it sees."""
    return dict(metadata) if scope.sees(metadata) else {**metadata, **(scope.metadata or {})}


def _private(found: Mapping[str, Any], user: Mapping[str, Any] | None) -> dict[str, Any] | None:
    return {**found, **({} if user is None else {"user": user})} or None
