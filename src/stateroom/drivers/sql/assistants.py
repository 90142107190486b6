"""Assistants and their versions in SQL."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import count, islice
from typing import Any, Final

from typing_extensions import override

from stateroom.contract.assistants import (
    AssistantChange,
    AssistantQuery,
    Assistants,
    IfExists,
    NewAssistant,
)
from stateroom.drivers.sql.assistant_columns import changed_columns, merged_columns, new_columns
from stateroom.drivers.sql.dialect import Dialect, Row, Session
from stateroom.drivers.sql.documents import checked_id, checked_text, metadata_bytes, object_of
from stateroom.drivers.sql.queries import queries
from stateroom.drivers.sql.searching import (
    Conditions,
    Equal,
    Holds,
    Key,
    Listed,
    counted,
    found,
    holds_metadata,
)
from stateroom.drivers.sql.terms import Wanted, change_terms, metadata_terms
from stateroom.errors import Conflict, InvalidInput, NotFound
from stateroom.model.assistant import ASSISTANT_SORTS, Assistant
from stateroom.model.metadata import contains
from stateroom.model.page import check_page
from stateroom.model.paging import NEWEST, Page, Sort
from stateroom.model.text import show

__all__ = ["SqlAssistants"]

_SQL: Final = queries("assistants")

_TERMS: Final = "stateroom.assistant_term"

CHUNK: Final = 64
"""Versions that are read at once where they must be looked at in Python."""

VERSION_MAX: Final = 2**31 - 1
"""The largest number that a version can have in every database."""


class SqlAssistants(Assistants):
    """Assistants in one table, which says which version is active, and their versions in another."""

    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect

    @override
    def create(self, new: NewAssistant, *, if_exists: IfExists = "raise") -> Assistant:
        if if_exists not in ("raise", "do_nothing"):
            raise InvalidInput(
                f"if_exists is {show(if_exists)}; use 'raise' or 'do_nothing'", field="if_exists"
            )
        columns = new_columns(new)

        def work(session: Session) -> Assistant:
            while True:
                if rows := session.fetch(_SQL["insert"], columns):
                    _write_version(session, 1, {**columns, "created_at": rows[0][0]})
                    _change_terms(session, new.assistant_id, rows[0][0], b"{}", columns["metadata"])
                elif if_exists == "raise":
                    raise Conflict(
                        f"assistant {show(new.assistant_id)} exists already; pass another id, or "
                        "if_exists='do_nothing'",
                        field="assistant_id",
                    )
                # Whoever made the other may have removed it meanwhile.
                if assistant := _read(session, new.assistant_id):
                    return assistant

        return self._dialect.write(work)

    @override
    def get(self, assistant_id: str) -> Assistant | None:
        checked_id(assistant_id, "assistant_id")
        return self._dialect.read(lambda session: _read(session, assistant_id))

    @override
    def update(self, assistant_id: str, change: AssistantChange) -> Assistant:
        checked_id(assistant_id, "assistant_id")
        changed = changed_columns(change)

        def work(session: Session) -> Assistant:
            active, created_at = _lock(session, assistant_id)
            before = _columns(session, assistant_id, active)
            after = {"assistant_id": assistant_id, **merged_columns(before, changed)}
            ((latest, updated_at),) = session.fetch(_SQL["make_latest"], after)
            _write_version(session, latest, {**after, "created_at": updated_at})
            _change_terms(session, assistant_id, created_at, before["metadata"], after["metadata"])
            return _there(session, assistant_id)

        return self._dialect.write(work)

    @override
    def activate(self, assistant_id: str, version: int) -> Assistant:
        named = _named(assistant_id, version)

        def work(session: Session) -> Assistant:
            active, created_at = _lock(session, assistant_id)
            if not session.fetch(_SQL["version"], named):
                raise NotFound(
                    f"assistant {show(assistant_id)} has no version {show(version)}", field="version"
                )
            before = _columns(session, assistant_id, active)
            after = _columns(session, assistant_id, version)
            session.execute(_SQL["activate"], {**after, **named})
            _change_terms(session, assistant_id, created_at, before["metadata"], after["metadata"])
            return _there(session, assistant_id)

        return self._dialect.write(work, repeats=True)

    @override
    def version(self, assistant_id: str, version: int) -> Assistant | None:
        named = _named(assistant_id, version)
        rows = self._dialect.read(lambda session: session.fetch(_SQL["version"], named))
        return _assistant(rows[0]) if rows else None

    @override
    def versions(
        self,
        assistant_id: str,
        *,
        metadata: Mapping[str, Any] | None = None,
        limit: int = 10,
        offset: int = 0,
    ) -> list[Assistant]:
        checked_id(assistant_id, "assistant_id")
        limit, offset = check_page(limit, offset)
        if metadata:
            wanted = object_of(metadata_bytes(metadata))
            return self._dialect.read_together(
                lambda session: _containing(session, assistant_id, wanted, limit, offset)
            )
        return self._dialect.read(lambda session: _versions(session, assistant_id, limit, offset))

    @override
    def search(
        self,
        query: AssistantQuery,
        *,
        sort: Sort = NEWEST,
        limit: int = 10,
        offset: int = 0,
        after: str | None = None,
    ) -> Page[Assistant]:
        conditions = _conditions(query)
        return found(self._dialect, _LISTED, conditions, sort=sort, limit=limit, offset=offset, after=after)

    @override
    def count(self, query: AssistantQuery, *, at_most: int | None = None) -> int:
        return counted(self._dialect, _LISTED, _conditions(query), at_most=at_most)

    @override
    def delete(self, assistant_id: str) -> bool:
        named = {"assistant_id": checked_id(assistant_id, "assistant_id")}

        def work(session: Session) -> bool:
            # First: who makes a cron of it has waited, or is waited for, when its crons are looked up.
            if not session.execute(_SQL["delete"], named):
                return False
            crons = {"crons": [each for (each,) in session.fetch(_SQL["crons"], named)]}
            for statement in ("delete_cron_terms", "delete_crons"):
                session.execute(_SQL[statement], crons)
            for statement in ("delete_versions", "delete_terms"):
                session.execute(_SQL[statement], named)
            return True

        return self._dialect.write(work)


def _assistant(row: Row) -> Assistant:
    return Assistant(*row[:7], *map(object_of, row[7:]))


_LISTED: Final[Listed[Assistant]] = Listed(
    table="stateroom.assistant",
    id="assistant_id",
    terms=_TERMS,
    columns=(
        "r.assistant_id, v.graph_id, v.name, v.version, r.created_at, r.updated_at, "
        "v.description, v.config, v.context, v.metadata"
    ),
    joins=("join stateroom.assistant_version v on v.assistant_id = r.assistant_id and v.version = r.version"),
    keys={sort: Key(int if sort.endswith("_at") else str) for sort in ASSISTANT_SORTS},
    read=_assistant,
)


def _conditions(query: AssistantQuery) -> Conditions[Assistant]:
    equal = []
    if query.graph_id is not None:
        equal.append(Equal("graph_id", checked_id(query.graph_id, "graph_id"), leads=True))
    if query.name is not None:
        equal.append(Equal("name", checked_text(query.name, "name"), leads=True))
    holds = [
        *holds_metadata(query.metadata, "metadata", _metadata_of),
        *holds_metadata(query.enforced_metadata, "enforced_metadata", _metadata_of),
    ]
    if query.name_part is not None:
        holds.append(_has_name_part(checked_text(query.name_part, "name_part")))
    return Conditions(equal, holds)


def _has_name_part(part: str) -> Holds[Assistant]:
    folded = part.casefold()
    return Holds(Wanted(frozenset(), suffice=False), lambda assistant: folded in assistant.name.casefold())


def _metadata_of(assistant: Assistant) -> Mapping[str, Any]:
    return assistant.metadata


def _named(assistant_id: str, version: int) -> dict[str, Any]:
    # Versions count from 1.
    number = version if 0 < version <= VERSION_MAX else 0
    return {"assistant_id": checked_id(assistant_id, "assistant_id"), "version": number}


def _lock(session: Session, assistant_id: str) -> tuple[int, int]:
    """Keep others from changing an assistant; return its active version's number, and when it was made."""
    rows = session.fetch(_SQL["lock"], {"assistant_id": assistant_id})
    if not rows:
        raise NotFound(f"assistant {show(assistant_id)} does not exist", field="assistant_id")
    ((active, created_at),) = rows
    return active, created_at


def _columns(session: Session, assistant_id: str, version: int) -> dict[str, Any]:
    """Return the columns in which one version differs from others."""
    (row,) = session.fetch(_SQL["columns"], {"assistant_id": assistant_id, "version": version})
    names = ("graph_id", "name", "description", "config", "context", "metadata")
    return dict(zip(names, row, strict=True))


def _write_version(session: Session, version: int, columns: Mapping[str, Any]) -> None:
    session.execute(_SQL["insert_version"], {**columns, "version": version})


def _change_terms(session: Session, assistant_id: str, created_at: int, old: bytes, new: bytes) -> None:
    terms = (metadata_terms(object_of(raw)) for raw in (old, new))
    change_terms(session, _TERMS, assistant_id, created_at, *terms)


def _read(session: Session, assistant_id: str) -> Assistant | None:
    rows = session.fetch(_SQL["get"], {"assistant_id": assistant_id})
    return _assistant(rows[0]) if rows else None


def _there(session: Session, assistant_id: str) -> Assistant:
    assistant = _read(session, assistant_id)
    assert assistant is not None, "it is locked"
    return assistant


def _versions(session: Session, assistant_id: str, limit: int, offset: int) -> list[Assistant]:
    asked = {"assistant_id": assistant_id, "limit": limit, "offset": offset}
    return [_assistant(row) for row in session.fetch(_SQL["versions"], asked)]


def _containing(
    session: Session, assistant_id: str, wanted: Mapping[str, Any], limit: int, offset: int
) -> list[Assistant]:
    fitting = (each for each in _all(session, assistant_id) if contains(each.metadata, wanted))
    return list(islice(fitting, offset, offset + limit))


def _all(session: Session, assistant_id: str) -> Iterator[Assistant]:
    for offset in count(0, CHUNK):
        chunk = _versions(session, assistant_id, CHUNK, offset)
        yield from chunk
        if len(chunk) < CHUNK:
            return
