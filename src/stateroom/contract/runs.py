"""The runs contract: what a driver must do with runs, which are their own queue.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.

A pending run whose ``available_at`` has come is *due*; a due run and one that is executing are *active*.
The order of a thread's runs is that of ``available_at``, and of their creation where that is equal.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from stateroom.contract.threads import NewThread
from stateroom.model.change import UNSET, Maybe
from stateroom.model.delivery import NewDelivery
from stateroom.model.paging import Page
from stateroom.model.run import Attempt, CancelAction, Multitask, Run, RunStatus
from stateroom.model.thread import ThreadStatus

__all__ = ["Cancelled", "NewRun", "Renewal", "RunQuery", "Runs", "Settlement", "Woken"]


@dataclass(frozen=True, slots=True)
class NewRun:
    """A run to be made.

    ``delay`` is how many microseconds after now it is due. ``if_thread_status`` are the statuses that its
    thread may have, None: any. ``new_thread`` is the thread to be made if there is none of that id; None:
    the thread must exist. ``thread_metadata`` is merged into that of a thread that is there and has none of
    its keys. ``private`` is described with ``Run``.
    """

    run_id: str
    thread_id: str
    assistant_id: str
    assistant_version: int
    kwargs: Mapping[str, Any]
    private: Mapping[str, Any] | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    multitask: Multitask = Multitask.ENQUEUE
    delay: int = 0
    if_thread_status: Collection[ThreadStatus] | None = None
    new_thread: NewThread | None = None
    thread_metadata: Mapping[str, Any] | None = None


class Renewal(NamedTuple):
    """What a worker learns of its attempt: whether it still has the run, and what it is asked to do."""

    attempt: Attempt
    alive: bool
    cancel: CancelAction | None


@dataclass(frozen=True, slots=True)
class Settlement:
    """How an attempt ends.

    ``status`` is one of ``ENDED``. ``thread_status`` is what the thread is from now on; ``values``,
    ``interrupts`` and ``error`` go to the thread where they are given, ``run_error`` and ``cancel_reason``
    to the run. ``roll_back`` removes the run and what it left in checkpoints, so that the thread's are as
    they were when it was marked; ``delete_thread`` removes the thread with it. ``deliveries`` are made in
    the same transaction.
    """

    status: RunStatus
    thread_status: ThreadStatus
    values: Maybe[Any] = UNSET
    interrupts: Maybe[Mapping[str, Any]] = UNSET
    error: Maybe[Mapping[str, Any] | None] = UNSET
    config: Maybe[Mapping[str, Any]] = UNSET
    thread_metadata: Maybe[Mapping[str, Any]] = UNSET
    run_error: Mapping[str, Any] | None = None
    cancel_reason: str | None = None
    roll_back: bool = False
    delete_thread: bool = False
    deliveries: Sequence[NewDelivery] = ()


class RunQuery(NamedTuple):
    """Which runs count: those that fit each condition that is not None."""

    thread_id: str | None = None
    run_ids: Collection[str] | None = None
    statuses: Collection[RunStatus] | None = None


class Cancelled(NamedTuple):
    """What cancelling did to one run: it has ended at once, or its worker has been asked."""

    run_id: str
    thread_id: str
    ended: bool


Woken = Callable[[], None]
"""Called, from any thread and without arguments, when there may be something to do."""


class Runs(ABC):
    """Runs, and the queue that they are. At most one run of a thread is executing at any moment.

    Every change is one transaction, and depends on what the run is at that moment: a writer who comes too
    late changes nothing. A thread is busy exactly while one of its runs is executing.
    """

    @abstractmethod
    def create(self, new: Sequence[NewRun]) -> list[Run]:
        """Make runs, all or none; answer them in their order, all pending.

        ``NotFound`` when a thread does not exist and is not to be made. ``ThreadStatusMismatch`` when its
        status is none of ``if_thread_status``. What ``multitask`` says of the thread's active runs:
        ``reject`` raises ``ThreadBusy`` if there is one; ``enqueue`` leaves them; ``interrupt`` and
        ``rollback`` cancel them, as ``cancel`` does. Later runs of the call see the earlier ones.
        ``Conflict`` when a run's id is taken.
        """

    @abstractmethod
    def get(self, run_id: str) -> Run | None:
        """Return a run, or None."""

    @abstractmethod
    def search(
        self, query: RunQuery, *, limit: int = 100, offset: int = 0, after: str | None = None
    ) -> Page[Run]:
        """Return a page of the runs that fit, the newest first, paged as assistants are."""

    @abstractmethod
    def count(self, query: RunQuery, *, at_most: int | None = None) -> int:
        """Return how many runs fit, counting no further than ``at_most``."""

    @abstractmethod
    def delete(self, run_id: str) -> bool:
        """Remove a run that is not executing, with its frames; tell whether it was there.

        ``Conflict`` when it is executing: cancel it first. Its deliveries stay, its idempotency record goes.
        """

    @abstractmethod
    def claim(self, owner: str, *, lease: int, limit: int = 1) -> list[Run]:
        """Take at most ``limit`` runs to execute, for ``lease`` microseconds.

        Each is the first due run of a thread that executes none; those that are available longest come
        first. Each becomes running, with one attempt more, a fence that it never had, and no request to
        cancel; its thread becomes busy. Nobody else gets it while its lease lasts. How many runs wait, on how
        many threads, makes no difference to the work. A thread that somebody changes at that moment may be
        passed over: who gets fewer than he asked for looks at ``next_available_at``, and tries again at once
        if that is past.
        """

    @abstractmethod
    def renew(self, attempts: Sequence[Attempt], *, lease: int) -> list[Renewal]:
        """Prolong leases to ``lease`` microseconds from now; answer what became of each attempt."""

    @abstractmethod
    def is_current(self, attempt: Attempt) -> bool:
        """Tell whether the attempt still has its run: it is running, under this fence."""

    @abstractmethod
    def mark(self, attempt: Attempt, checkpoint_id: str | None = None) -> bool:
        """Note what a roll-back of the run returns to; tell whether it was noted.

        That is the thread's checkpoints as they are, with the pending writes of the one that the run starts
        from, ``checkpoint_id``, None: the latest. A run that was marked in a former attempt keeps that mark.
        ``Fenced`` as for ``settle``.
        """

    @abstractmethod
    def settle(self, attempt: Attempt, settlement: Settlement) -> Run:
        """End a run with everything that its end changes, in one transaction; answer it.

        ``Fenced`` when the attempt no longer has it; then nothing is changed. The thread's next run can be
        claimed at once. Its private part is erased.
        """

    @abstractmethod
    def release(self, attempt: Attempt) -> Run:
        """Hand a run back as pending, to be claimed at once, before others of its thread; answer it.

        ``Fenced`` as for ``settle``. The attempt does not count. The thread becomes idle, or interrupted if
        it has interrupts. A run that its worker was asked to cancel becomes interrupted instead.
        """

    @abstractmethod
    def cancel(
        self, query: RunQuery, action: CancelAction, *, reason: str | None = None, limit: int = 1000
    ) -> list[Cancelled]:
        """Stop at most ``limit`` of the pending and executing runs that fit, those first made in front.

        A pending run ends at once: it becomes interrupted, with the ``reason``, or with ``rollback`` it is
        removed. Of an executing one the worker is asked: it hears of it by ``renew`` and through
        ``subscribe``. ``rollback`` outdoes an earlier ``interrupt``, never the reverse. Ended runs are
        passed over.
        """

    @abstractmethod
    def reap(self, *, limit: int = 100, max_attempts: int = 0, everybody: bool = False) -> list[Run]:
        """Free runs whose lease has ended without a word; answer them.

        A run that has been asked to be cancelled becomes interrupted. Any other becomes pending again, in
        its old place, if it has had fewer than ``max_attempts`` attempts, and otherwise ends with the error
        ``abandoned``. Its thread is no longer busy: it is interrupted while it waits for an answer, in error
        when the run is, and otherwise idle. ``everybody`` frees every run that is executing, whatever its
        lease: no worker is alive.
        """

    @abstractmethod
    def next_available_at(self) -> int | None:
        """Return when the next run can be claimed, in the past or the future; None while nothing waits."""

    @abstractmethod
    def subscribe(self, woken: Woken) -> Callable[[], None]:
        """Have ``woken`` called whenever a run may be claimed or has been asked to be cancelled.

        Answer what ends that. Calls can be too many and, across processes, can be lost or late: look again
        now and then in any case.
        """
