"""What threads mean above storage: which may be made, seen, changed, copied and pruned, and by whom."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from stateroom.contract.assistants import IfExists
from stateroom.contract.runs import RunQuery
from stateroom.contract.storage import Storage
from stateroom.contract.threads import NewThread, ThreadChange, ThreadQuery
from stateroom.errors import Conflict, Denied, InvalidInput, NotFound, NotSupported
from stateroom.ids import IdSource
from stateroom.model.change import UNSET, Maybe
from stateroom.model.limits import check_limit
from stateroom.model.named_id import check_named_id
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.run import RunStatus
from stateroom.model.text import show
from stateroom.model.thread import Thread, ThreadStatus, ThreadTTL, TTLStrategy
from stateroom.model.thread_ttl import ThreadTTLSettings, parse_thread_ttl
from stateroom.service.elsewhere import Elsewhere, remove_thread
from stateroom.service.listing import total_of
from stateroom.service.scope import Scope

__all__ = ["PRUNED_MAX", "UNFINISHED_MINUTES", "Checkpoints", "ThreadService"]

PRUNED_MAX: Final = 1_000
"""Threads that one call prunes."""

UNFINISHED_MINUTES: Final = 60.0
"""After how long a thread goes that the server did not live to complete."""


class Checkpoints(Protocol):
    """What is asked of whatever keeps the checkpoints."""

    def prune(self, thread_ids: Sequence[str], *, strategy: str) -> None:
        """Free all but the latest."""


class ThreadService:
    """Threads as callers may make, see and change them; the methods block.

    ``checkpoints`` is the checkpointer, and ``elsewhere`` too if it is one of the application's own.
    """

    def __init__(
        self,
        storage: Storage,
        checkpoints: Checkpoints,
        ids: IdSource,
        *,
        ttl: ThreadTTLSettings | None = None,
        elsewhere: Elsewhere | None = None,
    ) -> None:
        self._threads = storage.threads
        self._runs = storage.runs
        self._checkpoints = checkpoints
        self._ids = ids
        self._ttl = ttl or ThreadTTLSettings()
        self._elsewhere = elsewhere

    @property
    def default_ttl(self) -> ThreadTTL | None:
        """The time to live of a thread whose maker says nothing of it."""
        return self._ttl.default

    def parse_ttl(self, ttl: object) -> ThreadTTL | None:
        """Return the time to live that a caller gives, in any of its forms; None pins the thread."""
        found = parse_thread_ttl(ttl, strategy=self._ttl.strategy)
        if found is not None:
            self._check_strategy(found.strategy)
        return found

    # ---- one thread

    def get(self, thread_id: str, scope: Scope) -> Thread:
        """Return a thread; NotFound also for somebody else's."""
        thread = self._threads.get(thread_id)
        scope.check(thread.metadata if thread else None, "thread", thread_id)
        assert thread is not None
        return thread

    def create(
        self,
        thread_id: str | None,
        scope: Scope,
        *,
        metadata: Mapping[str, Any] | None = None,
        ttl: Maybe[ThreadTTL | None] = UNSET,
        if_exists: IfExists = "raise",
    ) -> tuple[Thread, bool]:
        """Make a thread, None: under a new id; answer it, and whether it was made.

        With ``do_nothing`` the thread that has the id is answered as it is. Conflict otherwise, and whenever
        it is somebody else's, in the same words.
        """
        named = check_named_id(self._ids() if thread_id is None else thread_id, "thread_id")
        chosen = self._ttl.default if ttl is UNSET else ttl
        new = NewThread(named, metadata=metadata or {}, ttl=chosen)
        while True:
            try:
                return self._threads.create(new), True
            except Conflict:
                if if_exists == "raise":
                    raise
                found = self._threads.get(named)
                if found is not None and not scope.sees(found.metadata):
                    raise
            # Unless it has been deleted since.
            if found is not None:
                return found, False

    def update(
        self,
        thread_id: str,
        scope: Scope,
        *,
        metadata: Maybe[Mapping[str, Any]] = UNSET,
        ttl: Maybe[ThreadTTL | None] = UNSET,
    ) -> Thread:
        """Change a thread, its metadata by keys; answer it. Each change restarts the clock of its life.

        Denied for metadata that would take it out of the scope.
        """
        before = self.get(thread_id, scope)
        if metadata is not UNSET and not scope.sees({**before.metadata, **metadata}):
            raise Denied("metadata: with it you could not see the thread any more", field="metadata")
        return self._threads.update(thread_id, ThreadChange(metadata=metadata, ttl=ttl))

    def copy(self, original: Thread, new_id: str, *, metadata: Mapping[str, Any] | None = None) -> Thread:
        """Make a thread with the state and all the history of another, and the usual time to live.

        ``metadata`` change the copy's, key by key.
        """
        check_named_id(new_id, "thread_id")
        if self._elsewhere is None:
            copy = self._threads.copy(original.thread_id, new_id, ttl=self._ttl.default)
        else:
            copy = self._copy_elsewhere(self._elsewhere, original.thread_id, new_id)
        if metadata and {**copy.metadata, **metadata} != copy.metadata:
            return self._threads.update(new_id, ThreadChange(metadata=metadata))
        return copy

    def _copy_elsewhere(self, elsewhere: Elsewhere, thread_id: str, new_id: str) -> Thread:
        elsewhere.require("acopy_thread")
        # Until it is whole, it goes by itself if the server dies.
        self._threads.copy(thread_id, new_id, ttl=ThreadTTL(UNFINISHED_MINUTES))
        try:
            elsewhere.copy_thread(thread_id, new_id)
            return self._threads.update(new_id, ThreadChange(ttl=self._ttl.default))
        except BaseException:
            self.remove(new_id)
            raise

    def delete(self, thread_id: str, scope: Scope) -> None:
        """Remove a thread with everything that is known under its id; a run that executes is stopped.

        Called again after it was cut short, it does the rest.
        """
        thread = self._threads.get(thread_id)
        if thread is not None:
            scope.check(thread.metadata, "thread", thread_id)
        # Also when it is gone, of which nothing but the rest of a deletion can be left.
        gone = not self.remove(thread_id)
        if thread is None or gone:
            scope.check(None, "thread", thread_id)

    def remove(self, thread_id: str) -> bool:
        """Remove a thread as ``delete`` does, whoever's it is; tell whether it was there."""
        return remove_thread(self._threads, self._elsewhere, thread_id)

    def storage(self, thread_id: str, scope: Scope) -> Any:
        """Return what a thread's checkpoints take; NotSupported where the checkpointer cannot tell."""
        self.get(thread_id, scope)
        measure = getattr(self._checkpoints, "storage", None)
        if not callable(measure):
            raise NotSupported("the checkpointer cannot tell how much it keeps; use one of Stateroom's")
        return measure(thread_id)

    # ---- many threads

    def search(
        self,
        query: ThreadQuery,
        scope: Scope,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> tuple[Page[Thread], int | None]:
        """Return a page of the threads that fit, and how many there are in all, None if they are many."""
        query = query._replace(enforced_metadata=scope.metadata)
        page = self._threads.search(query, sort=sort, limit=limit, offset=offset, after=after)

        def count(at_most: int) -> int:
            return self._threads.count(query, at_most=at_most)

        return page, total_of(page, count, offset=offset, after=after)

    def count(self, query: ThreadQuery, scope: Scope) -> int:
        """Return how many threads fit."""
        return self._threads.count(query._replace(enforced_metadata=scope.metadata))

    def of_assistant(self, assistant_id: str, *, limit: int, after: str | None = None) -> Page[Thread]:
        """Return a page of the threads whose last run was one of an assistant, whoever's they are."""
        query = ThreadQuery(metadata={"assistant_id": assistant_id})
        return self._threads.search(query, limit=limit, after=after)

    def check_prune(self, thread_ids: Sequence[str], strategy: str) -> TTLStrategy:
        """Return the strategy; raise InvalidInput and LimitExceeded for what cannot be pruned at once."""
        if not thread_ids:
            raise InvalidInput("thread_ids is empty; name the threads to prune", field="thread_ids")
        check_limit(len(thread_ids), PRUNED_MAX, "ids", field="thread_ids")
        try:
            found = TTLStrategy(strategy)
        except ValueError:
            raise InvalidInput(
                f"strategy is {show(strategy)}; use {' or '.join(TTLStrategy)}", field="strategy"
            ) from None
        self._check_strategy(found)
        return found

    def _check_strategy(self, strategy: TTLStrategy) -> None:
        """Raise NotSupported for what the application's own checkpointer cannot do."""
        if self._elsewhere is not None and strategy is TTLStrategy.KEEP_LATEST:
            self._elsewhere.require("aprune")

    def prune(self, thread_id: str, strategy: TTLStrategy, scope: Scope) -> bool:
        """Remove a thread, or all of its past but the latest state; tell whether that was done.

        It is not for one that does not exist or is somebody else's, nor is the past removed of one whose
        runs execute or wait, which may need it.
        """
        try:
            self.get(thread_id, scope)
        except NotFound:
            return False
        if strategy is TTLStrategy.DELETE:
            return self.remove(thread_id)
        if self._is_active(thread_id):
            return False
        self._checkpoints.prune([thread_id], strategy=strategy.value)
        return True

    def _is_active(self, thread_id: str) -> bool:
        thread = self._threads.get(thread_id)
        if thread is None or thread.status is ThreadStatus.BUSY:
            return True
        waiting = RunQuery(thread_id=thread_id, statuses=(RunStatus.PENDING, RunStatus.RUNNING))
        return bool(self._runs.count(waiting, at_most=1))
