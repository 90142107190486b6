"""The assistants contract: what a driver must do with graphs' configurations and their versions.

The docstrings are the specification; ``stateroom.testing`` tests each of their sentences on every driver.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

from stateroom.model.assistant import Assistant
from stateroom.model.change import UNSET, Maybe
from stateroom.model.paging import NEWEST, Page, Sort

__all__ = ["AssistantChange", "AssistantQuery", "Assistants", "IfExists", "NewAssistant"]

IfExists = Literal["raise", "do_nothing"]


class NewAssistant(NamedTuple):
    """An assistant to be made; ``name`` None is the graph's id."""

    assistant_id: str
    graph_id: str
    name: str | None = None
    description: str | None = None
    config: Mapping[str, Any] = {}
    context: Mapping[str, Any] = {}
    metadata: Mapping[str, Any] = {}


class AssistantChange(NamedTuple):
    """What a new version has that the active has not: ``metadata`` is merged by key, the rest replaces."""

    graph_id: Maybe[str] = UNSET
    name: Maybe[str] = UNSET
    description: Maybe[str | None] = UNSET
    config: Maybe[Mapping[str, Any]] = UNSET
    context: Maybe[Mapping[str, Any]] = UNSET
    metadata: Maybe[Mapping[str, Any]] = UNSET


class AssistantQuery(NamedTuple):
    """Which assistants count: those that fit each condition that is not None.

    ``metadata`` and ``enforced_metadata`` are two conditions by JSON containment, both of which must hold.
    ``name_part`` is a part of the name, in whatever case.
    """

    graph_id: str | None = None
    name: str | None = None
    metadata: Mapping[str, Any] | None = None
    enforced_metadata: Mapping[str, Any] | None = None
    name_part: str | None = None


class Assistants(ABC):
    """Assistants, each with all of its versions, of which one is active."""

    @abstractmethod
    def create(self, new: NewAssistant, *, if_exists: IfExists = "raise") -> Assistant:
        """Make an assistant with version 1; answer it.

        When the id is taken, answer the assistant that is there, unchanged, with ``do_nothing``, and raise
        ``Conflict`` otherwise; of several who create one id at once, one makes it.
        """

    @abstractmethod
    def get(self, assistant_id: str) -> Assistant | None:
        """Return an assistant as its active version has it, or None."""

    @abstractmethod
    def update(self, assistant_id: str, change: AssistantChange) -> Assistant:
        """Make the next version of an assistant, and activate it; ``NotFound`` when it does not exist.

        Its number is one more than any that the assistant ever had, also after an older one was activated.
        What the change does not mention comes from the active version.
        """

    @abstractmethod
    def activate(self, assistant_id: str, version: int) -> Assistant:
        """Activate a version, which makes no new one; ``NotFound`` when either does not exist."""

    @abstractmethod
    def version(self, assistant_id: str, version: int) -> Assistant | None:
        """Return one version of an assistant, or None."""

    @abstractmethod
    def versions(
        self,
        assistant_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Assistant]:
        """Return the versions that contain ``metadata``, the newest first; none of an unknown assistant."""

    @abstractmethod
    def search(
        self,
        query: AssistantQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Assistant]:
        """Return a page of the assistants that fit, by one of ``ASSISTANT_SORTS``, ties by id.

        At most ``limit`` rows behind the cursor ``after``, a former page's ``next``, and after skipping
        ``offset``. A row that is there throughout is on exactly one of the pages that follow each other by
        their cursors, whatever comes and goes meanwhile.
        """

    @abstractmethod
    def count(self, query: AssistantQuery, *, at_most: int | None = None) -> int:
        """Return how many assistants fit, counting no further than ``at_most``."""

    @abstractmethod
    def delete(self, assistant_id: str) -> bool:
        """Remove an assistant with its versions and its crons; tell whether it was there. Its runs stay."""
