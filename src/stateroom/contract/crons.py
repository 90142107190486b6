"""The crons contract: what a driver must do with runs that the clock makes.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
When a schedule is due next is worked out above: a driver keeps it, and compares.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple

from stateroom.contract.runs import NewRun
from stateroom.model.change import UNSET, Maybe
from stateroom.model.cron import Completion, Cron
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.run import Run

__all__ = ["CronChange", "CronQuery", "Crons", "NewCron"]


class NewCron(NamedTuple):
    """A cron to be made."""

    cron_id: str
    assistant_id: str
    schedule: str
    payload: Mapping[str, Any]
    next_run_at: int | None
    thread_id: str | None = None
    timezone: str | None = None
    enabled: bool = True
    metadata: Mapping[str, Any] = {}
    on_run_completed: Completion = Completion.DELETE
    user_id: str | None = None
    private: Mapping[str, Any] | None = None
    end_at: int | None = None


class CronChange(NamedTuple):
    """What becomes of a cron; what is not mentioned stays.

    ``metadata`` and ``private`` are merged key by key.
    """

    schedule: Maybe[str] = UNSET
    timezone: Maybe[str | None] = UNSET
    enabled: Maybe[bool] = UNSET
    payload: Maybe[Mapping[str, Any]] = UNSET
    metadata: Maybe[Mapping[str, Any]] = UNSET
    on_run_completed: Maybe[Completion] = UNSET
    next_run_at: Maybe[int | None] = UNSET
    end_at: Maybe[int | None] = UNSET
    private: Maybe[Mapping[str, Any]] = UNSET


class CronQuery(NamedTuple):
    """Which crons count: those that fit each condition that is not None, metadata as for threads."""

    assistant_id: str | None = None
    thread_id: str | None = None
    enabled: bool | None = None
    metadata: Mapping[str, Any] | None = None
    enforced_metadata: Mapping[str, Any] | None = None


class Crons(ABC):
    """Crons."""

    @abstractmethod
    def create(self, new: NewCron) -> Cron:
        """Make a cron; answer it.

        ``Conflict`` when the id is taken, ``NotFound`` when its assistant, or the thread that it names, does
        not exist.
        """

    @abstractmethod
    def get(self, cron_id: str) -> Cron | None:
        """Return a cron, or None."""

    @abstractmethod
    def update(self, cron_id: str, change: CronChange) -> Cron:
        """Change a cron; answer it. ``NotFound`` when it does not exist.

        ``updated_at`` is set, ``occurrence`` grows, and ``error`` is cleared.
        """

    @abstractmethod
    def delete(self, cron_id: str) -> bool:
        """Remove a cron; tell whether it was there. Its runs stay."""

    @abstractmethod
    def search(
        self,
        query: CronQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Cron]:
        """Return a page of the crons that fit, by one of ``CRON_SORTS``, paged as assistants are.

        Crons without a value to sort by come last, in either direction.
        """

    @abstractmethod
    def count(self, query: CronQuery, *, at_most: int | None = None) -> int:
        """Return how many crons fit, counting no further than ``at_most``."""

    @abstractmethod
    def due(self, *, limit: int = 100) -> list[Cron]:
        """Return enabled crons whose ``next_run_at`` has come, soonest first, with ``private``."""

    @abstractmethod
    def next_run_at(self) -> int | None:
        """Return when the next enabled cron is due, None while none is."""

    @abstractmethod
    def fire(
        self, cron_id: str, occurrence: int, *, next_run_at: int | None, run: NewRun | None
    ) -> Run | None:
        """Make the run of an occurrence and move on to the next, in one transaction; answer the run.

        Only if the cron is still enabled and at ``occurrence``; otherwise nothing happens and None is
        answered, so that of all who try one succeeds. Without ``run`` the cron moves on, and None is
        answered. ``error`` is cleared. What ``Runs.create`` raises undoes all of it.
        """

    @abstractmethod
    def fail(self, cron_id: str, occurrence: int, error: str, *, next_run_at: int | None) -> bool:
        """Note what went wrong with an occurrence and move on to the next; tell whether it was still that."""
