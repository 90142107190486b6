"""What assistants mean above storage: a graph's own and those that callers make of it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final
from uuid import UUID, uuid5

from stateroom.contract.assistants import AssistantChange, AssistantQuery, IfExists, NewAssistant
from stateroom.contract.storage import Storage
from stateroom.errors import Conflict, Denied, InvalidAssistant, InvalidInput, NotFound
from stateroom.ids import IdSource
from stateroom.model.assistant import Assistant
from stateroom.model.change import UNSET
from stateroom.model.named_id import check_named_id
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.text import show
from stateroom.service.listing import total_of
from stateroom.service.run_config import split_config
from stateroom.service.scope import Scope

__all__ = ["GRAPH_NAMESPACE", "UNNAMED", "AssistantService", "graph_assistant_id"]

GRAPH_NAMESPACE: Final = UUID("6ba7b821-9dad-11d1-80b4-00c04fd430c8")
"""The namespace of graphs' own assistants. By it they have the ids that LangGraph's documents show, so that
``agent`` is ``fe096781-5601-53d2-b2f6-0d3403f7e9ca`` on every server."""

UNNAMED: Final = "Untitled"
"""The name of an assistant whose maker gives it none."""

_SYSTEM: Final = {"created_by": "system"}


def graph_assistant_id(graph_id: str) -> str:
    """Return the id of a graph's own assistant."""
    return str(uuid5(GRAPH_NAMESPACE, graph_id))


class AssistantService:
    """Assistants as callers may make, see and change them; the methods block.

    Each graph has an assistant of its own, which is addressed by the graph's id too. Every scope sees and may
    run it; only those whose metadata it has may change it, and nobody deletes it.
    """

    def __init__(
        self,
        storage: Storage,
        graph_ids: Collection[str],
        ids: IdSource,
        *,
        descriptions: Mapping[str, str] | None = None,
    ) -> None:
        self._assistants = storage.assistants
        self._graph_ids = tuple(graph_ids)
        self._ids = ids
        self._descriptions = descriptions or {}
        self._own = {graph_assistant_id(graph_id): graph_id for graph_id in self._graph_ids}

    def make_graphs_own(self) -> None:
        """Make the assistants of graphs that have none yet, as a server does when it starts."""
        for assistant_id in self._own:
            self._graphs_own(assistant_id)

    def _graphs_own(self, assistant_id: str) -> Assistant:
        graph_id = self._own[assistant_id]
        new = NewAssistant(
            assistant_id,
            graph_id,
            name=graph_id,
            description=self._descriptions.get(graph_id),
            metadata=_SYSTEM,
        )
        return self._assistants.create(new, if_exists="do_nothing")

    # ---- finding one

    def get(self, assistant_id: str, scope: Scope) -> Assistant:
        """Return an assistant by its id or its graph's; raise NotFound."""
        assistant = self._found(assistant_id)
        if assistant is None or assistant.assistant_id not in self._own:
            scope.check(assistant.metadata if assistant else None, "assistant", assistant_id)
        assert assistant is not None
        return assistant

    def resolve(self, assistant_id: str, scope: Scope) -> Assistant:
        """Return the assistant that a run names, as ``get`` does.

        Raises NotFound for an id that could be an assistant's, InvalidAssistant for any other name.
        """
        try:
            return self.get(assistant_id, scope)
        except NotFound:
            if _is_uuid(assistant_id):
                raise
            raise InvalidAssistant(
                f"Invalid assistant: {assistant_id!r}. Must be either the id of an assistant, or one of the "
                f"registered graphs: {self._known}",
                field="assistant_id",
            ) from None

    def _found(self, assistant_id: str) -> Assistant | None:
        """Return an assistant, whoever may see it; that of a graph is made anew if it was lost."""
        if assistant_id in self._graph_ids:
            assistant_id = graph_assistant_id(assistant_id)
        assistant = self._assistants.get(assistant_id)
        if assistant is None and assistant_id in self._own:
            return self._graphs_own(assistant_id)
        return assistant

    def _to_change(self, assistant_id: str, scope: Scope) -> Assistant:
        """Return an assistant that the scope may change."""
        assistant = self._found(assistant_id)
        scope.check(assistant.metadata if assistant else None, "assistant", assistant_id)
        assert assistant is not None
        return assistant

    @property
    def _known(self) -> str:
        return ", ".join(sorted(self._graph_ids)) or "none"

    # ---- making and changing

    def create(self, new: NewAssistant, scope: Scope, *, if_exists: IfExists = "raise") -> Assistant:
        """Make an assistant, under a new id if ``new`` has an empty one; answer it.

        NotFound for a graph that does not exist. An id that somebody else's assistant has is taken, also with
        ``do_nothing``.
        """
        self._check_graph(new.graph_id)
        # For what it refuses; whoever makes an assistant means its config to be kept.
        split_config(new.config)
        assistant_id = check_named_id(new.assistant_id or self._ids(), "assistant_id")
        if assistant_id in self._graph_ids:
            raise _taken(assistant_id)
        new = new._replace(assistant_id=assistant_id, name=UNNAMED if new.name is None else new.name)
        while True:
            try:
                return self._assistants.create(new)
            except Conflict:
                found = self._assistants.get(assistant_id)
                if if_exists == "raise" or (found is not None and not scope.sees(found.metadata)):
                    raise _taken(assistant_id) from None
            # Unless it has been deleted since.
            if found is not None:
                return found

    def update(self, assistant_id: str, change: AssistantChange, scope: Scope) -> Assistant:
        """Make the next version of an assistant; answer it.

        Denied for metadata that would take it out of the scope.
        """
        before = self._to_change(assistant_id, scope)
        if change.graph_id is not UNSET:
            self._check_graph(change.graph_id)
            if change.graph_id != self._own.get(before.assistant_id, change.graph_id):
                raise InvalidInput(
                    f"graph_id is {show(change.graph_id)}, but this assistant is the own one of graph "
                    f"{before.graph_id!r}; make another assistant for that graph",
                    field="graph_id",
                )
        if change.config is not UNSET:
            split_config(change.config)
        if change.metadata is not UNSET and not scope.sees({**before.metadata, **change.metadata}):
            raise Denied("metadata: with it you could not see the assistant any more", field="metadata")
        return self._assistants.update(before.assistant_id, change)

    def activate(self, assistant_id: str, version: int, scope: Scope) -> Assistant:
        """Make a former version the one that counts; NotFound when there is none of that number."""
        before = self._to_change(assistant_id, scope)
        former = self._assistants.version(before.assistant_id, version)
        if former is None or not scope.sees(former.metadata):
            raise NotFound(f"assistant {assistant_id!r} has no version {version}", field="version")
        return self._assistants.activate(before.assistant_id, version)

    def delete(self, assistant_id: str, scope: Scope) -> None:
        """Remove an assistant with its versions and crons; its runs stay.

        Conflict for a graph's own, which would be back at once.
        """
        assistant = self.to_delete(assistant_id, scope)
        if not self._assistants.delete(assistant.assistant_id):
            scope.check(None, "assistant", assistant_id)

    def to_delete(self, assistant_id: str, scope: Scope) -> Assistant:
        """Return an assistant that ``delete`` would remove; raise what it would."""
        assistant = self._to_change(assistant_id, scope)
        if assistant.assistant_id in self._own:
            raise Conflict(
                f"assistant {assistant.assistant_id!r} is graph {assistant.graph_id!r}'s own; it goes "
                "when the graph is taken out of the server's configuration",
                field="assistant_id",
            )
        return assistant

    def _check_graph(self, graph_id: str) -> None:
        if graph_id not in self._graph_ids:
            raise NotFound(
                f"there is no graph {show(graph_id)}; the graphs are {self._known}", field="graph_id"
            )

    # ---- lists

    def search(
        self,
        query: AssistantQuery,
        scope: Scope,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> tuple[Page[Assistant], int | None]:
        """Return a page of the assistants that fit, and how many there are in all, None if they are many."""
        query = query._replace(enforced_metadata=scope.metadata)
        page = self._assistants.search(query, sort=sort, limit=limit, offset=offset, after=after)

        def count(at_most: int) -> int:
            return self._assistants.count(query, at_most=at_most)

        return page, total_of(page, count, offset=offset, after=after)

    def count(self, query: AssistantQuery, scope: Scope) -> int:
        """Return how many assistants fit."""
        return self._assistants.count(query._replace(enforced_metadata=scope.metadata))

    def versions(
        self,
        assistant_id: str,
        scope: Scope,
        *,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Assistant]:
        """Return versions of an assistant that contain ``metadata``, the newest first."""
        assistant = self.get(assistant_id, scope)
        return self._assistants.versions(
            assistant.assistant_id, metadata=metadata, limit=limit, offset=offset
        )


def _taken(assistant_id: str) -> Conflict:
    return Conflict(
        f"assistant {show(assistant_id)} exists already; pass another id, or if_exists='do_nothing'",
        field="assistant_id",
    )


def _is_uuid(text: str) -> bool:
    try:
        UUID(text)
    except ValueError:
        return False
    return True
