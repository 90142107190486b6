"""What runs mean above storage: who may make, see and stop which, and what they are made with."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, nullcontext
from typing import Any, Final, Literal, NamedTuple

from stateroom.contract.runs import Cancelled, NewRun, RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread
from stateroom.errors import InvalidInput, NotFound
from stateroom.ids import IdSource
from stateroom.model.assistant import Assistant
from stateroom.model.limits import RUN_BATCH_MAX, check_limit
from stateroom.model.paging import Page
from stateroom.model.run import CancelAction, Multitask, Run, RunStatus
from stateroom.model.run_kwargs import RunPrivate
from stateroom.model.thread import Thread, ThreadTTL
from stateroom.service.assistants import AssistantService
from stateroom.service.elsewhere import Elsewhere, rolling_back
from stateroom.service.listing import total_of
from stateroom.service.run_requests import RunRequest
from stateroom.service.run_rules import admission_of, choice, kwargs_of
from stateroom.service.scope import Principal, Scope

__all__ = ["CANCELLED_MAX", "ManyCancelled", "RunRequest", "RunService", "Selection", "user_of"]

CANCELLED_MAX: Final = 1000
"""Runs that one call stops at most; it says whether there are more."""

_SELECTED: Final[Mapping[str, frozenset[RunStatus]]] = {
    "pending": frozenset({RunStatus.PENDING}),
    "running": frozenset({RunStatus.RUNNING}),
    "all": frozenset({RunStatus.PENDING, RunStatus.RUNNING}),
}


class Selection(NamedTuple):
    """Which runs are to be stopped: those that fit each condition; an empty list of ids fits none."""

    thread_id: str | None = None
    run_ids: Collection[str] | None = None
    status: Literal["pending", "running", "all"] = "all"


class ManyCancelled(NamedTuple):
    """What became of a selection, and whether runs of it are left."""

    cancelled: list[Cancelled]
    truncated: bool


class RunService:
    """Runs as callers may make, see and stop them; the methods block.

    Whoever sees a thread sees its runs. What is not there and what is somebody else's are one and the same
    NotFound.
    """

    def __init__(
        self,
        storage: Storage,
        assistants: AssistantService,
        ids: IdSource,
        *,
        thread_ttl: ThreadTTL | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        """Make the service; ``thread_ttl`` is what threads get that are made for runs and stay.

        ``elsewhere`` is the application's own checkpointer.
        """
        self._storage = storage
        self._assistants = assistants
        self._ids = ids
        self._thread_ttl = thread_ttl
        self._elsewhere = elsewhere

    # ---- making

    def create(
        self,
        requests: Sequence[RunRequest],
        scope: Scope,
        *,
        assistants: Scope | None = None,
        headers: Mapping[str, str] | None = None,
    ) -> list[Run]:
        """Make runs, all or none; answer them in their order.

        ``scope`` is what the caller may do of threads, ``assistants`` of assistants, None: anything.
        ``headers`` are those of his that reach the graph. Raises what ``Runs.create`` raises; NotFound for a
        thread that is not there or not his; InvalidInput and NotSupported naming what a request says.
        """
        if not requests:
            raise InvalidInput("there is no run in the list; pass at least one", field="runs")
        check_limit(len(requests), RUN_BATCH_MAX, "runs", field="runs")
        of_assistants = assistants or Scope(scope.principal)
        found = [self._assistants.resolve(request.assistant_id, of_assistants) for request in requests]
        new = [
            self._new_run(request, assistant, scope, headers or {})
            for request, assistant in zip(requests, found, strict=True)
        ]
        with ExitStack() as stack:
            for each in new:
                if each.multitask is Multitask.ROLLBACK:
                    stack.enter_context(self._rolling_back(RunQuery(each.thread_id)))
            return self._storage.runs.create(new)

    def _new_run(
        self, request: RunRequest, assistant: Assistant, scope: Scope, headers: Mapping[str, str]
    ) -> NewRun:
        admission = admission_of(request)
        kwargs, private = kwargs_of(request)
        thread_id = request.thread_id or self._ids()
        new_thread, noted = self._thread_for(
            thread_id, request, assistant, scope, create=admission.create_thread
        )
        return NewRun(
            run_id=self._ids(),
            thread_id=thread_id,
            assistant_id=assistant.assistant_id,
            assistant_version=assistant.version,
            kwargs=kwargs.to_json(),
            private=RunPrivate(
                context={**assistant.context, **(request.context or {})},
                user=user_of(scope.principal),
                configurable={**headers, **private},
            ).to_json(),
            metadata=request.metadata,
            multitask=admission.multitask,
            delay=admission.delay,
            if_thread_status=admission.statuses,
            new_thread=new_thread,
            thread_metadata=noted,
        )

    def _thread_for(
        self, thread_id: str, request: RunRequest, assistant: Assistant, scope: Scope, *, create: bool
    ) -> tuple[NewThread | None, Mapping[str, str] | None]:
        """Return the thread to be made with a run, None for one that is there and that the caller sees.

        And what is to be noted on that if nothing was run on it yet: whose graph its state is read with. If
        another graph was, the state is that graph's until this run ends: who ends it notes it.
        """
        thread = None if request.thread_id is None else self._storage.threads.get(thread_id)
        if thread is None and (create or request.thread_id is None):
            metadata = {**request.metadata, **_marks(assistant)}
            if not scope.sees(metadata):
                metadata |= scope.metadata or {}
            new = NewThread(thread_id, metadata, ttl=self._thread_ttl)
            if scope.metadata is None or request.thread_id is None:
                return new, None
            # Whoever else makes a thread of this id at this moment, it is his or ours before the run is made.
            thread = self._storage.threads.create(new, if_exists="do_nothing")
        scope.check(_metadata(thread), "thread", thread_id)
        is_first = thread is not None and not thread.metadata.get("graph_id")
        return None, _marks(assistant) if is_first else None

    # ---- finding

    def get(self, run_id: str, scope: Scope, *, thread_id: str | None = None) -> Run:
        """Return a run; raise NotFound, also when it is not on the thread that is named."""
        run = self._storage.runs.get(run_id)
        if run is None or thread_id not in (None, run.thread_id):
            raise NotFound(f"there is no run {run_id!r}", field="run_id")
        if scope.metadata is not None:
            thread = self._storage.threads.get(run.thread_id)
            scope.check(_metadata(thread), "run", run_id)
        return run

    def search(
        self,
        thread_id: str,
        scope: Scope,
        *,
        status: RunStatus | None = None,
        limit: int = 100,
        offset: int = 0,
        after: str | None = None,
    ) -> tuple[Page[Run], int | None]:
        """Return a page of a thread's runs, the newest first, and how many these are, None for too many."""
        self._thread(thread_id, scope)
        query = RunQuery(thread_id, statuses=None if status is None else [status])
        page = self._storage.runs.search(query, limit=limit, offset=offset, after=after)

        def count(at_most: int) -> int:
            return self._storage.runs.count(query, at_most=at_most)

        return page, total_of(page, count, offset=offset, after=after)

    # ---- ending

    def delete(self, run_id: str, scope: Scope, *, thread_id: str) -> None:
        """Remove a run that does not execute; raise Conflict for one that does."""
        self.get(run_id, scope, thread_id=thread_id)
        if not self._storage.runs.delete(run_id):
            raise NotFound(f"there is no run {run_id!r}", field="run_id")

    def cancel(
        self,
        run_id: str,
        scope: Scope,
        *,
        thread_id: str | None = None,
        action: str = CancelAction.INTERRUPT,
        reason: str | None = None,
    ) -> Cancelled:
        """Stop a run; raise NotFound when it has ended already."""
        self.get(run_id, scope, thread_id=thread_id)
        done = self._cancel(RunQuery(run_ids=[run_id]), _action(action), reason)
        if not done:
            raise NotFound(f"No matching runs to cancel: run {run_id!r} has ended", field="run_id")
        return done[0]

    def cancel_many(
        self,
        selection: Selection,
        scope: Scope,
        *,
        action: str = CancelAction.INTERRUPT,
        reason: str | None = None,
    ) -> ManyCancelled:
        """Stop at most ``CANCELLED_MAX`` runs of a selection that the caller sees."""
        if selection.thread_id is not None:
            self._thread(selection.thread_id, scope)
        what = RunQuery(
            selection.thread_id,
            selection.run_ids,
            _SELECTED[choice(selection.status, tuple(_SELECTED), "status")],
        )
        if scope.metadata is not None and selection.thread_id is None:
            what = what._replace(run_ids=self._seen(what, scope))
        done = self._cancel(what, _action(action), reason)
        left = len(done) == CANCELLED_MAX and self._storage.runs.count(what, at_most=1) > 0
        return ManyCancelled(done, left)

    def _cancel(self, what: RunQuery, action: CancelAction, reason: str | None) -> list[Cancelled]:
        is_roll_back = action is CancelAction.ROLLBACK
        with self._rolling_back(what) if is_roll_back else nullcontext():
            return self._storage.runs.cancel(what, action, reason=reason, limit=CANCELLED_MAX)

    def _rolling_back(self, what: RunQuery) -> AbstractContextManager[None]:
        return rolling_back(self._storage.runs, self._elsewhere, what)

    def abandon(self, run_id: str, reason: str) -> None:
        """Stop a run that nobody waits for any more, if it goes on."""
        self._storage.runs.cancel(RunQuery(run_ids=[run_id]), CancelAction.INTERRUPT, reason=reason)

    def _seen(self, what: RunQuery, scope: Scope) -> list[str]:
        """Return the ids of the runs that fit and that the scope sees."""
        found: list[str] = []
        threads: dict[str, bool] = {}
        after: str | None = None
        while True:
            page = self._storage.runs.search(what, limit=CANCELLED_MAX, after=after)
            for run in page.rows:
                if run.thread_id not in threads:
                    thread = self._storage.threads.get(run.thread_id)
                    threads[run.thread_id] = thread is not None and scope.sees(thread.metadata)
                if threads[run.thread_id]:
                    found.append(run.run_id)
            after = page.next
            if after is None:
                return found

    def _thread(self, thread_id: str, scope: Scope) -> Thread:
        thread = self._storage.threads.get(thread_id)
        scope.check(_metadata(thread), "thread", thread_id)
        assert thread is not None
        return thread


def user_of(principal: Principal | None) -> dict[str, Any] | None:
    """Return a caller as a run's private part has him."""
    if principal is None:
        return None
    return {**principal.user, "identity": principal.identity, "permissions": list(principal.permissions)}


def _metadata(thread: Thread | None) -> Mapping[str, Any] | None:
    return None if thread is None else thread.metadata


def _marks(assistant: Assistant) -> dict[str, str]:
    return {"graph_id": assistant.graph_id, "assistant_id": assistant.assistant_id}


def _action(given: str) -> CancelAction:
    return CancelAction(choice(given, tuple(CancelAction), "action"))
